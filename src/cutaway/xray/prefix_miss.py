"""Why a prompt was not found in the prefix cache to its end: where, in words on both sides, what it cost, what helps.

Compared are only prompts of the same caller. Causes:

    changed              an earlier prompt went on otherwise from here on
    template_rerendered  the difference lies in an earlier answer: it came back as other tokens than were generated
    evicted              the pages were taken for something else
    partial_page         the same tokens go on here, but not to the end of a page, and pages are shared whole
    other_adapter        the same tokens were computed with another adapter
    off                  the request wants every position computed (prompt_logprobs)
    new                  nothing earlier begins like this
    unknown              an earlier prompt goes on alike, and why its pages are not there is not known
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Literal

from cutaway.planner import PAGE_SIZE
from cutaway.xray.record import RequestRecord
from cutaway.xray.same_start import same_start

Cause = Literal[
    "changed", "template_rerendered", "evicted", "partial_page", "other_adapter", "off", "new", "unknown"
]  # fmt: skip
SHOWN = 12
"""Tokens of each side that are shown, the first differing one included."""
BEFORE = 6
"""Tokens before them, which both sides share."""

_AVOID: dict[str, str] = {
    "changed": "put what changes behind what stays the same",
    "template_rerendered": "send earlier answers back as they were generated, reasoning included",
    "evicted": "more pages (contexts), fewer requests between, or a shorter prefix",
    "partial_page": "nothing: fewer tokens than a page",
    "other_adapter": "ask the same adapter: keys and values depend on it",
    "off": "leave out prompt_logprobs",
    "new": "",
    "unknown": "",
}


@dataclass(frozen=True, slots=True)
class Earlier:
    """What an earlier answer of the same caller left. tokens: of its prompt and answer; prompt: how many are of the
    prompt."""

    tokens: Sequence[int]
    prompt: int
    adapter: str | None = None


@dataclass(frozen=True, slots=True)
class Miss:
    """at: index of the first token that was not found. before: the text that both share; here, there: the texts from
    `at` on, of this prompt and of the earlier one; there: None where nothing is known to have stood there. lost: tokens
    computed that an earlier prompt had alike, had they stood in the cache; price_ms: about what computing them took;
    None: unknown."""

    at: int
    cause: Cause
    before: str
    here: str
    there: str | None
    cached: int
    prompt: int
    lost: int | None
    price_ms: float | None
    avoid: str

    def json(self) -> dict[str, Any]:
        return asdict(self)


def explain_miss(
    prompt: Sequence[int], cached: int, broke_by: str | None, earlier: Iterable[Earlier],
    decode: Callable[[Sequence[int]], str], *, page_size: int, prefill_ms: float | None,
    adapter: str | None = None, off: bool = False,
) -> Miss | None:
    """None if all was found that can be: the last token is always computed.

    cached, broke_by, prefill_ms: of the request, as the engine noted them.
    """
    if cached >= len(prompt) - 1:
        return None
    near, common = _nearest(prompt, earlier)
    at = min(max(common, cached), len(prompt) - 1)
    cause = _cause(at, cached, broke_by, near, page_size, adapter, off)
    there = None if near is None or at >= len(near.tokens) or cause == "new" else near.tokens[at : at + SHOWN]
    lost = _lost(prompt, cached, near, at, cause)
    each = None if prefill_ms is None else prefill_ms / (len(prompt) - cached)
    return Miss(
        at, cause, decode(prompt[max(0, at - BEFORE) : at]), decode(prompt[at : at + SHOWN]),
        None if there is None else decode(there), cached, len(prompt), lost,
        None if lost is None or each is None else round(lost * each, 1), _AVOID[cause],
    )  # fmt: skip


def miss_of(
    record: RequestRecord, earlier: Iterable[RequestRecord], decode: Callable[[Sequence[int]], str],
    shared: bool = False,
) -> Miss | None:  # fmt: skip
    """The same from records. record: with its ids (level "contents"). earlier: of the same caller and model, the latest
    first; those without ids are passed over. shared: between callers, so that what the engine noted may be of others.
    """
    assert record.prompt_ids is not None
    known = (
        Earlier((*one.prompt_ids, *(one.token_ids or ())), len(one.prompt_ids), one.system.adapter)
        for one in earlier
        if one.prompt_ids is not None
    )
    return explain_miss(
        record.prompt_ids, record.figures.cached, None if shared else record.figures.broke_by, known, decode,
        page_size=PAGE_SIZE,
        prefill_ms=record.figures.prefill_ms, adapter=record.system.adapter,
        off=record.parameters.prompt_logprobs is not None,
    )  # fmt: skip


def _nearest(prompt: Sequence[int], earlier: Iterable[Earlier]) -> tuple[Earlier | None, int]:
    """The one that begins most like the prompt (the first given of equals), and how many tokens they share."""
    best, most = None, 0
    for one in earlier:
        common = same_start(prompt, one.tokens)
        if common > most:
            best, most = one, common
    return best, most


def _cause(
    at: int, cached: int, broke_by: str | None, near: Earlier | None, page_size: int, adapter: str | None, off: bool
) -> Cause:
    if off:
        return "off"
    if near is None:
        return {"prompt_changed": "changed", "evicted": "evicted"}.get(broke_by or "", "new")  # type: ignore[return-value]
    if near.adapter != adapter:
        return "other_adapter"
    if at - cached >= page_size or (broke_by == "evicted" and at > cached):
        return "evicted" if broke_by == "evicted" else "unknown"
    if at < len(near.tokens):
        return "changed" if at < near.prompt else "template_rerendered"
    return "partial_page" if at > cached else "new"


def _lost(prompt: Sequence[int], cached: int, near: Earlier | None, at: int, cause: Cause) -> int | None:
    """Tokens that need not have been computed: those up to the difference, and behind it those that are alike from the
    end on."""
    if cause in ("new", "off") or near is None:
        return 0 if cause == "new" else None
    if cause not in ("changed", "template_rerendered"):
        return at - cached
    rest, other = prompt[at:], near.tokens[at : near.prompt] if cause == "changed" else near.tokens[at:]
    return at - cached + same_start(tuple(reversed(rest)), tuple(reversed(other)))
