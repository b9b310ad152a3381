"""Checks of this machine: what of it this process may use, and what else uses it. Source: proc(5), cgroup v2."""

from __future__ import annotations

import contextlib
import os
import re
from collections.abc import Iterator
from pathlib import Path

from cutaway.ops.thread_count import cpu_quota
from cutaway.xray.doctor.diagnosis import Diagnosis
from cutaway.xray.doctor.subject import Subject

PAUSED = 0.05
"""The share of a control group's periods in which it was paused that is a warning."""
BUSY = 0.25
"""The share of the last ten seconds in which some task waited for a core that is a warning."""


def processor_quota(subject: Subject) -> Iterator[Diagnosis]:
    """Whether the control group pauses its processes."""
    figures = _control_group_figures(subject.root, "cpu.stat")
    quota = cpu_quota(subject.root)
    if quota is None or not (periods := figures.get("nr_periods", 0)):
        return
    paused = figures.get("nr_throttled", 0) / periods
    if paused >= PAUSED:
        yield Diagnosis(
            "warning", "quota_pauses", "the control group pauses this process while it computes",
            f"cpu.stat: paused in {paused:.0%} of {periods} periods; the quota is {quota:g} cores",
            "all threads stand still until the next period when together they have used the quota",
            "raise the quota (docker --cpus, Kubernetes limits.cpu), or use fewer --threads",
        )  # fmt: skip


def affinity(subject: Subject) -> Iterator[Diagnosis]:
    """Whether this process may use fewer cores than there are."""
    mine, all_cores = len(os.sched_getaffinity(0)), _cores(subject.root)
    if all_cores is None:
        yield Diagnosis("unknown", "cores_unknown", "the number of cores is not known", "/proc/cpuinfo lists none")
    elif mine < all_cores:
        yield Diagnosis(
            "note", "affinity", "this process may use only a part of the cores",
            f"{mine} of {all_cores} cores are in its affinity mask",
            "taskset, a cpuset or a batch system set the mask", "widen the mask if the other cores are meant for it",
        )  # fmt: skip


def memory_kills(subject: Subject) -> Iterator[Diagnosis]:
    """Whether the kernel has killed processes for want of memory."""
    kills = _control_group_figures(subject.root, "memory.events").get("oom_kill", 0)
    if kills:
        yield Diagnosis(
            "warning", "memory_kills", "the kernel has killed processes of this control group for want of memory",
            f"memory.events: oom_kill {kills}",
            "together they needed more than the group's limit (memory.max)",
            "raise the limit, or take a smaller model or --context; cutaway plan MODEL shows what it needs",
        )  # fmt: skip


def other_load(subject: Subject) -> Iterator[Diagnosis]:
    """Whether tasks wait for cores."""
    found = _pressure(subject.root)
    if found is None:
        yield Diagnosis(
            "unknown", "load_unknown", "how busy the cores are is not known",
            "the kernel does not report pressure (/proc/pressure/cpu)",
        )  # fmt: skip
    elif found >= BUSY:
        yield Diagnosis(
            "warning", "other_load", "other work uses the cores",
            f"/proc/pressure/cpu: in {found:.0%} of the last 10 s some task waited for a core",
            "each step ends with its slowest thread, so that answers lose more than their share",
            "stop the other work, or use fewer --threads than there are cores",
        )  # fmt: skip


def _pressure(root: Path) -> float | None:
    with contextlib.suppress(OSError):
        found = re.search(r"^some avg10=([\d.]+)", (root / "proc/pressure/cpu").read_text(), re.MULTILINE)
        return float(found[1]) / 100 if found else None
    return None


def _cores(root: Path) -> int | None:
    with contextlib.suppress(OSError):
        text = (root / "proc/cpuinfo").read_text(errors="replace")
        return len(re.findall(r"^processor\s*:", text, re.MULTILINE)) or None
    return None


def _control_group_figures(root: Path, name: str) -> dict[str, int]:
    """A file of names and numbers in this process's own control group, as a container sees it."""
    with contextlib.suppress(OSError, ValueError):
        pairs = (line.split() for line in (root / "sys/fs/cgroup" / name).read_text().splitlines())
        return {pair[0]: int(pair[1]) for pair in pairs if len(pair) == 2}
    return {}
