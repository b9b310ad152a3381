"""Checks of time: this machine's clock, another one's, and the processor's clock under load."""

from __future__ import annotations

import contextlib
import re
import time
from collections.abc import Iterator
from email.utils import parsedate_to_datetime
from pathlib import Path
from statistics import median

import numpy as np

import cutaway
from cutaway.errors import CutawayError
from cutaway.xray.doctor.diagnosis import Diagnosis
from cutaway.xray.doctor.subject import Subject
from cutaway.xray.server_client import target

SKEW = 2.0
"""Seconds of difference that are a warning, beyond the resolution of a Date header and the time of the request."""
SLOW = 0.7
"""A clock under load below this share of the highest is a warning."""


def behind(subject: Subject) -> Iterator[Diagnosis]:
    """Whether this machine's clock can be right."""
    made = Path(cutaway.__file__).stat().st_mtime
    if time.time() < made - SKEW:
        yield Diagnosis(
            "error", "clock_behind", "this machine's clock is behind", f"its time is before this build's, by "
            f"{made - time.time():.0f} s", "the clock was never set, or was set back",
            "set it (timedatectl set-ntp true): certificates, logs and dates in prompts are wrong meanwhile",
        )  # fmt: skip


def skew(subject: Subject) -> Iterator[Diagnosis]:
    """Whether the server's machine has the same time, by the Date header of its reply."""
    if subject.url is None:
        return
    before = time.time()
    try:
        text = target(subject.url).date(seconds=2.0)
    except CutawayError:
        return  # the check of the server names it
    after = time.time()
    try:
        there = parsedate_to_datetime(text or "").timestamp()
    except ValueError:
        yield Diagnosis("unknown", "skew_unknown", "whether the clocks agree is not known", "the reply has no Date")
        return
    off = max(there - after, before - (there + 1), 0.0)  # the header has whole seconds, cut off
    if off > SKEW:
        ahead = "ahead of" if there > after else "behind"
        yield Diagnosis(
            "warning", "clock_skew", "the server's clock differs from this machine's",
            f"Date: {text}: {off:.0f} s {ahead} the clock here", "one of both is not synchronized",
            "timedatectl on both; set-ntp true on the one that is wrong",
        )  # fmt: skip


def frequency(subject: Subject) -> Iterator[Diagnosis]:
    """With `measure`: the processor's clock while it computes, beside its highest."""
    if not subject.measure:
        return
    highest = _highest(subject.root)
    seen = _under_load(subject.root)
    if highest is None or not seen:
        yield Diagnosis("unknown", "frequency_unknown", "the processor's clock under load is not known",
                        "the kernel does not show it, as in most virtual machines")  # fmt: skip
    elif median(seen) < SLOW * highest:
        yield Diagnosis(
            "warning", "frequency_low", "the processor runs below its clock under load",
            f"{median(seen):.0f} of {highest:.0f} MHz", "heat, a limit of power, or a governor that saves energy",
            "cpupower frequency-set -g performance; cooling; the limits in the firmware",
        )  # fmt: skip


def _highest(root: Path) -> float | None:
    with contextlib.suppress(OSError, ValueError):
        return float((root / "sys/devices/system/cpu/cpu0/cpufreq/cpuinfo_max_freq").read_text()) / 1000
    return None


def _under_load(root: Path, seconds: float = 0.5) -> list[float]:
    """MHz of the fastest core, a few times while one computes."""
    found, end = [], time.monotonic() + seconds
    block = np.ones((256, 256), np.float32)
    while time.monotonic() < end:
        for _ in range(20):
            block @ block
        with contextlib.suppress(OSError):
            text = (root / "proc/cpuinfo").read_text(errors="replace")
            found += [max(map(float, each))] if (each := re.findall(r"^cpu MHz\s*: ([\d.]+)", text, re.M)) else []
    return found
