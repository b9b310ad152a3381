"""The account of a prompt as JSON: the record behind `cutaway prompt --json` and its route."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any

from cutaway.xray.prompt_account import PromptAccount, PromptToken
from cutaway.xray.prompt_diff import PromptDifference
from cutaway.xray.prompt_findings import Finding

EXCERPT = 80
"""Characters of each side that a difference shows."""


def account_json(account: PromptAccount, findings: Sequence[Finding], warnings: Sequence[str] = ()) -> dict[str, Any]:
    """bytes of tokens are hexadecimal; all indexes count from 0, characters and tokens both."""
    return {
        "model": account.model, "context": account.context, "token_count": len(account.tokens),
        "characters": len(account.text), "bytes": len(account.text.encode("utf-8", "surrogatepass")),
        "text": account.text,
        "spans": [asdict(span) for span in account.spans],
        "tokens": [token_json(token) for token in account.tokens],
        "shares": [asdict(share) for share in account.shares],
        "findings": [asdict(finding) for finding in findings],
        "warnings": list(warnings),
    }  # fmt: skip


def token_json(token: PromptToken) -> dict[str, Any]:
    """One token of an account."""
    return {**asdict(token), "bytes": token.bytes.hex()}


def difference_json(difference: PromptDifference) -> dict[str, Any]:
    """text and token: null where nothing differs. ours, theirs of the text: from the difference on, cut."""
    text, token = difference.text, difference.token
    found: Mapping[str, Any] | None = None
    if token is not None:
        ours, theirs = (None if side is None else token_json(side) for side in (token.ours, token.theirs))
        found = {"index": token.index, "character": token.character, "ours": ours, "theirs": theirs}
    return {
        "ours": difference.ours, "theirs": difference.theirs, "same_vocabulary": difference.same_vocabulary,
        "token_counts": list(difference.counts),
        "text": None if text is None else {
            "character": text.character, "byte": text.byte,
            "ours": text.ours[:EXCERPT], "theirs": text.theirs[:EXCERPT],
        },
        "token": found,
    }  # fmt: skip
