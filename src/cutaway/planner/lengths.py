"""Lengths of real requests, and what they cost as contiguous blocks of the whole context against pages."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from cutaway.errors import ParameterError
from cutaway.planner.memory import PAGE_SIZE

MOST_LINES = 1_000_000


@dataclass(frozen=True, slots=True)
class Lengths:
    """Tokens of each request, prompt and answer together. skipped: lines of the file that hold none."""

    totals: tuple[int, ...]
    skipped: int

    @property
    def mean(self) -> float:
        return sum(self.totals) / len(self.totals)

    def quantile(self, share: float) -> int:
        ordered = sorted(self.totals)
        return ordered[min(len(ordered) - 1, int(share * len(ordered)))]


def read_lengths(path: Path) -> Lengths:
    """From the server's log (JSON lines with `tokens_in` and `tokens_out`); a folder of records, one record, or what
    `cutaway requests --json` prints (`prompt_tokens` and `tokens`); or a plain list: a line has one number, or those of
    prompt and answer. Other lines are skipped and counted. Raises ParameterError where none is found."""
    try:
        files = sorted(path.glob("*.json"))[:MOST_LINES] if path.is_dir() else [path]
        lines = [line for file in files for line in _lines(file)][:MOST_LINES]
    except OSError as error:
        raise ParameterError(f"lengths: {path} cannot be read: {error.strerror or error}") from None
    found = [total for line in lines if line and not line.startswith("#") for total in _totals(line)]
    totals = tuple(total for total in found if total)
    if not totals:
        raise ParameterError(
            f"lengths: {path} names no request",
            hint="a line is a number, two numbers, or JSON of our log; or give a folder of records",
        )
    return Lengths(totals, len(found) - len(totals))


def _lines(file: Path) -> list[str]:
    with file.open(encoding="utf-8", errors="replace") as stream:
        return [line.strip() for line, _ in zip(stream, range(MOST_LINES), strict=False)]


def _totals(line: str) -> list[int | None]:
    """Of each request that a line names; None where it names none."""
    if not line.startswith("{"):
        words = line.replace(",", " ").split()
        return [_sum([int(w) if w.isascii() and w.isdigit() and len(w) < 10 else None for w in words])]
    try:
        entry = json.loads(line)
    except (ValueError, RecursionError):
        return [None]
    listed = entry.get("requests")
    return [_of_entry(one) for one in listed] if isinstance(listed, list) and listed else [_of_entry(entry)]


def _of_entry(entry: Any) -> int | None:
    if not isinstance(entry, dict):
        return None
    if "prompt_tokens" in entry:
        return _sum([entry["prompt_tokens"], entry.get("tokens")])
    return _sum([entry.get("tokens_in"), entry.get("tokens_out")])


def _sum(parts: Sequence[Any]) -> int | None:
    if len(parts) not in (1, 2) or not all(isinstance(p, int) and not isinstance(p, bool) and p >= 0 for p in parts):
        return None
    return sum(p for p in parts if p is not None) or None


@dataclass(frozen=True, slots=True)
class Packing:
    """One way to lay requests out. held: bytes of a mean request; wasted: those of them that never hold a token;
    requests: how many mean requests fit the budget at once."""

    held: int
    wasted: int
    requests: int


@dataclass(frozen=True, slots=True)
class Comparison:
    """contiguous: each request reserves its whole context; paged: pages as tokens come. longer: requests that exceed
    the context, which either way would be refused or cut; they count as if they filled it."""

    requests: int
    mean: float
    median: int
    ninth: int
    longer: int
    contiguous: Packing
    paged: Packing


def compare(lengths: Lengths, *, context: int, token_bytes: int, budget: int) -> Comparison:
    """budget: bytes for keys and values. token_bytes: of one token in all layers; windows are not used up, so that for
    models with windows both numbers of requests are at least these."""
    kept = [min(n, context) for n in lengths.totals]
    used = sum(kept) * token_bytes / len(kept)
    pages = sum(-(-n // PAGE_SIZE) * PAGE_SIZE for n in kept) * token_bytes / len(kept)
    return Comparison(
        requests=len(kept),
        mean=sum(kept) / len(kept),
        median=lengths.quantile(0.5),
        ninth=lengths.quantile(0.9),
        longer=sum(n > context for n in lengths.totals),
        contiguous=_packing(context * token_bytes, used, budget),
        paged=_packing(pages, used, budget),
    )


def _packing(held: float, used: float, budget: int) -> Packing:
    return Packing(round(held), round(held - used), int(max(budget, 0) // held) if held else 0)
