"""How much memory this process may still take."""

from __future__ import annotations

import contextlib
import re
from pathlib import Path


def available_memory(root: Path = Path("/")) -> int | None:
    """Bytes: what the kernel calls available, or what the control group leaves if that is less. None: not to be known.

    Source: proc(5) MemAvailable; cgroup v2 memory.max and memory.current. root: where /proc and /sys are mounted.
    """
    known = [v for v in (_kernel(root), _control_group(root)) if v is not None]
    return min(known) if known else None


def _kernel(root: Path) -> int | None:
    with contextlib.suppress(OSError):
        found = re.search(r"^MemAvailable:\s*(\d+) kB", (root / "proc/meminfo").read_text(), re.MULTILINE)
        return int(found[1]) * 1024 if found else None
    return None


def _control_group(root: Path) -> int | None:
    folder = root / "sys/fs/cgroup"
    with contextlib.suppress(OSError, ValueError):  # ValueError: the limit is the word "max"
        limit = int((folder / "memory.max").read_text())
        # Pages of mapped files that nobody writes to are given back under pressure, so they are not in the way.
        stat = dict(line.split() for line in (folder / "memory.stat").read_text().splitlines())
        return max(0, limit - int((folder / "memory.current").read_text()) + int(stat.get("inactive_file", 0)))
    return None
