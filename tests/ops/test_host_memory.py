"""How much memory a process may take, from files as the kernel writes them."""

from __future__ import annotations

from pathlib import Path

from cutaway.ops.host_memory import available_memory


def test_available_memory(tmp_path: Path) -> None:
    assert available_memory(tmp_path) is None
    (tmp_path / "proc").mkdir()
    (tmp_path / "proc/meminfo").write_text("MemTotal: 9 kB\nMemAvailable:   2000 kB\n")
    assert available_memory(tmp_path) == 2_048_000
    group = tmp_path / "sys/fs/cgroup"
    group.mkdir(parents=True)
    (group / "memory.max").write_text("max\n")
    (group / "memory.current").write_text("700000\n")
    (group / "memory.stat").write_text("anon 5\ninactive_file 200000\n")
    assert available_memory(tmp_path) == 2_048_000
    (group / "memory.max").write_text("1000000\n")
    assert available_memory(tmp_path) == 500_000
