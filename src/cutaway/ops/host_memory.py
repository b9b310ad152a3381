"""The memory that this process may still use."""

from __future__ import annotations

import contextlib
import re
from pathlib import Path


def available_memory(root: Path = Path("/")) -> int | None:
    """Bytes: the kernel's available memory, or the rest of the control group's limit if that is less. None: not known.

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
        # Clean pages of mapped files are given back under memory pressure, so they do not count.
        stat = dict(line.split() for line in (folder / "memory.stat").read_text().splitlines())
        return max(0, limit - int((folder / "memory.current").read_text()) + int(stat.get("inactive_file", 0)))
    return None
