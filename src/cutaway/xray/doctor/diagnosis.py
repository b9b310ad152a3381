"""What a check finds: a fact with its evidence, its cause and its remedy."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Severity = Literal["error", "warning", "note", "unknown"]
"""error: it does not work. warning: it works badly, or other than expected. note: worth knowing. unknown: the check
cannot know; never a guess."""


@dataclass(frozen=True, slots=True)
class Diagnosis:
    """code: stable. what: one sentence. evidence: what was seen, with figures. cause, remedy: "" where there is
    none."""

    severity: Severity
    code: str
    what: str
    evidence: str
    cause: str = ""
    remedy: str = ""
