"""Chooses the default number of threads: the part of the machine that this process may use, and why."""

from __future__ import annotations

import contextlib
import math
import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

SLOW = 0.8  # a core whose speed is below this share of the fastest one is slow
SIBLINGS_GAIN = 1.05  # the gain that the second thread of each core must have


@dataclass(frozen=True, slots=True)
class Threads:
    """count: the maximum number in a step. why: the reason. surplus: threads that were requested beyond it."""

    count: int
    why: str
    surplus: int = 0

    @property
    def warnings(self) -> list[str]:
        return [f"threads: {self.why}, so {self.count} work"] if self.surplus else []


def choose_threads(
    asked: int | None = None,
    *,
    root: Path = Path("/"),
    allowed: frozenset[int] | None = None,
    gain: Callable[[int, int], float] | None = None,
) -> Threads:
    """The requested number, but no more than there are cores to run them; or one for each core that is worth using.

    allowed: cores of the affinity mask (default: this process's). gain(few, many): measures how much faster many
    threads are than few; called only if cores have siblings. root: where /proc and /sys are mounted.
    """
    mine = allowed or frozenset(os.sched_getaffinity(0))
    quota = cpu_quota(root)
    most = len(mine) if quota is None else min(len(mine), _whole(quota))
    if asked is not None:
        if asked <= most:
            return Threads(asked, "as requested")
        return Threads(most, f"{asked} were requested, {_limit(mine, quota)}", asked - most)
    fast = _fast(root, mine)
    physical = len({_siblings(root, core) & fast for core in fast})
    count, why = physical, f"{physical} cores"
    if len(fast) < len(mine):
        why += f" (the slow ones among {len(mine)} left out)"
    if quota is not None and _whole(quota) < count:
        return Threads(_whole(quota), _limit(mine, quota))
    if physical < len(fast) and (quota is None or quota >= len(fast)):
        faster = gain(physical, len(fast)) if gain else 1.0
        if faster >= SIBLINGS_GAIN:
            return Threads(len(fast), f"{why}, two threads each: measured {faster - 1:.0%} faster")
        why += ", one thread each"
    return Threads(count, why)


def cpu_quota(root: Path = Path("/")) -> float | None:
    """Cores that the control groups allow this process on average: the least of those on its path. None: no limit.

    Source: cgroup v2 cpu.max ("quota period" or "max period"); v1 cpu.cfs_quota_us (-1: none) and cpu.cfs_period_us.
    """
    return min((share for folder in _groups(root) if (share := _share(folder)) is not None), default=None)


def _whole(quota: float) -> int:
    return max(1, math.ceil(quota - 0.1))  # slightly more than whole cores does not add a thread


def _limit(mine: frozenset[int], quota: float | None) -> str:
    if quota is not None and _whole(quota) < len(mine):
        return f"the control group allows {quota:g} of {len(mine)} cores"
    return f"{len(mine)} cores may be used"


def _groups(root: Path) -> Iterator[Path]:
    """The folders from this process's control group up to the root of each hierarchy that may limit it."""
    mounts = root / "sys/fs/cgroup"
    with contextlib.suppress(OSError):
        for line in (root / "proc/self/cgroup").read_text().splitlines():
            _, controllers, path = line.split(":", 2)
            if not controllers:
                bases = [mounts, mounts / "unified"]
            elif "cpu" in controllers.split(","):
                bases = [mounts / controllers, mounts / "cpu", mounts / "cpu,cpuacct"]
            else:
                continue
            parts = [part for part in path.split("/") if part not in ("", ".", "..")]
            for base in bases:
                for end in range(len(parts), -1, -1):  # a container may see the host's path: then only its root exists
                    yield base.joinpath(*parts[:end])


def _share(folder: Path) -> float | None:
    with contextlib.suppress(OSError, ValueError):
        quota, period = (folder / "cpu.max").read_text().split()
        return None if quota == "max" else float(quota) / float(period)
    with contextlib.suppress(OSError, ValueError):
        limit = float((folder / "cpu.cfs_quota_us").read_text())
        return None if limit <= 0 else limit / float((folder / "cpu.cfs_period_us").read_text())
    return None


def _siblings(root: Path, core: int) -> frozenset[int]:
    topology = root / f"sys/devices/system/cpu/cpu{core}/topology"
    for name in ("core_cpus_list", "thread_siblings_list"):
        with contextlib.suppress(OSError, ValueError):
            return _listed((topology / name).read_text()) | {core}
    return frozenset({core})


def _fast(root: Path, mine: frozenset[int]) -> frozenset[int]:
    """The cores that are not slow compared with others. Source: Intel's hybrid kinds; otherwise a capacity or the
    highest clock."""
    with contextlib.suppress(OSError, ValueError):
        kind = _listed((root / "sys/devices/cpu_core/cpus").read_text())
        if kind & mine and _listed((root / "sys/devices/cpu_atom/cpus").read_text()):
            return kind & mine
    for name in ("cpu_capacity", "cpufreq/cpuinfo_max_freq"):
        with contextlib.suppress(OSError, ValueError):
            speed = {n: float((root / f"sys/devices/system/cpu/cpu{n}/{name}").read_text()) for n in mine}
            return frozenset(n for n in mine if speed[n] >= SLOW * max(speed.values()))
    return mine


def _listed(text: str) -> frozenset[int]:
    """The kernel's lists: "0-3,8"."""
    ranges = (part.split("-") for part in text.strip().split(",") if part)
    return frozenset(n for part in ranges for n in range(int(part[0]), int(part[-1]) + 1))
