"""Two accounts of the same prompt beside each other: the first character, byte and token that differ."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from cutaway.xray.prompt_account import PromptAccount, PromptToken
from cutaway.xray.same_start import same_start


@dataclass(frozen=True, slots=True)
class TextDifference:
    """character, byte: the index of the first that differs, from 0, in the rendered text as UTF-8. ours, theirs: what
    each has from that character on; "": the text ends there."""

    character: int
    byte: int
    ours: str
    theirs: str


@dataclass(frozen=True, slots=True)
class TokenDifference:
    """index: of the first token that differs. ours, theirs: the tokens; None: there is none any more. character: of
    our text, at which ours begins."""

    index: int
    character: int
    ours: PromptToken | None
    theirs: PromptToken | None


@dataclass(frozen=True, slots=True)
class PromptDifference:
    """text, token: None where nothing differs. A token's bytes are compared, not its id, where the vocabularies are two
    (same_vocabulary is False). counts: tokens of ours and of theirs."""

    ours: str
    theirs: str
    same_vocabulary: bool
    text: TextDifference | None
    token: TokenDifference | None
    counts: tuple[int, int]


def prompt_difference(ours: PromptAccount, theirs: PromptAccount, *, same_vocabulary: bool) -> PromptDifference:
    """The first differences. same_vocabulary: whether equal ids mean equal tokens."""
    counts = len(ours.tokens), len(theirs.tokens)
    text, token = _text(ours.text, theirs.text), _token(ours.tokens, theirs.tokens, same_vocabulary)
    return PromptDifference(ours.model, theirs.model, same_vocabulary, text, token, counts)


def _text(ours: str, theirs: str) -> TextDifference | None:
    if ours == theirs:
        return None
    start = same_start(ours, theirs)
    if ours[start : start + 1] and theirs[start : start + 1]:
        a, b = ours[start].encode("utf-8", "surrogatepass"), theirs[start].encode("utf-8", "surrogatepass")
        inside = same_start(a, b)  # two characters may begin with the same bytes
    else:
        inside = 0
    byte = len(ours[:start].encode("utf-8", "surrogatepass")) + inside
    return TextDifference(start, byte, ours[start:], theirs[start:])


def _token(
    ours: Sequence[PromptToken], theirs: Sequence[PromptToken], same_vocabulary: bool
) -> TokenDifference | None:
    for index in range(max(len(ours), len(theirs))):
        a = ours[index] if index < len(ours) else None
        b = theirs[index] if index < len(theirs) else None
        if a is None or b is None or _named(a, same_vocabulary) != _named(b, same_vocabulary):
            start = a.start if a is not None else ours[-1].end if ours else 0
            return TokenDifference(index, start, a, b)
    return None


def _named(token: PromptToken, same_vocabulary: bool) -> object:
    return token.id if same_vocabulary else (token.bytes, token.kind == "control")
