"""Checks of a tokenizer against its model: sizes, roles of ids, and whether text comes back."""

from __future__ import annotations

import unicodedata
import warnings
from collections.abc import Iterator

from cutaway.errors import CutawayError
from cutaway.model import cautions
from cutaway.planner import DEFAULT_CONTEXT
from cutaway.text import Tokenizer
from cutaway.xray.doctor.diagnosis import Diagnosis
from cutaway.xray.doctor.subject import Subject

HOSTILE = (
    "one\0two", "cafe\u0301 caf\u00e9", "\U0001f469\u200d\U0001f469\u200d\U0001f467", "\u05e9\u05dc\u05d5\u05dd",
    "价格：３，０００。", "a\r\n\t  b\u00a0c", "\ufffd\ufeff\u2028", "\U000e0041\ue000",
)  # fmt: skip
"""What tokenizers lose: NUL, combining accents, joined emoji, Hebrew, wide digits, blanks, private use."""


def vocabulary(subject: Subject) -> Iterator[Diagnosis]:
    """Whether it can be built, and belongs to this model. A vocabulary that is padded to more rows is sound."""
    model = subject.opened
    if model is None or model.file is None:
        return
    if model.tokenizer is None:
        error = model.errors["tokenizer"]
        yield Diagnosis(
            "error", "tokenizer_invalid", "the tokenizer cannot be used with this model", str(error),
            "its files are missing, damaged, or of another model", "use the tokenizer of the model's publisher",
        )  # fmt: skip
        return
    if model.spec is None:
        return
    context = min(DEFAULT_CONTEXT, model.spec.context)
    for caution in cautions(model.spec, model.tokenizer, context, None):
        yield Diagnosis("warning", "model_caution", "the files define less than the model needs, or more than is used",
                        caution, "the conversion left it out", "use the files of the model's publisher")  # fmt: skip


def special_ids(subject: Subject) -> Iterator[Diagnosis]:
    """Whether the ids that begin and end a text are control tokens."""
    if subject.opened is None or (tokenizer := subject.opened.tokenizer) is None:
        return
    for role, id in (("begins", tokenizer.bos_id), ("ends", tokenizer.eos_id)):
        if id is None:
            continue
        if not 0 <= id < len(tokenizer.vocabulary.tokens):
            evidence = f"id {id} of {len(tokenizer.vocabulary.tokens)} tokens"
        elif tokenizer.kind(id) in ("normal", "byte"):
            evidence = f"id {id} is {tokenizer.piece(id)!r}, ordinary text"
        else:
            continue
        yield Diagnosis("warning", "special_id_is_text", f"the token that {role} a text is none", evidence,
                        "an id of another vocabulary",
                        "correct bos_token_id and eos_token_id in the model's files")  # fmt: skip


def round_trip(subject: Subject) -> Iterator[Diagnosis]:
    """Whether hostile text comes back, as it was or in the normal form that the tokenizer uses."""
    if subject.opened is None or (tokenizer := subject.opened.tokenizer) is None:
        return
    lost = [text for text in HOSTILE if not _comes_back(text, tokenizer)]
    if lost:
        yield Diagnosis(
            "note", "text_lost", "some text does not reach the model as it is",
            f"{len(lost)} of {len(HOSTILE)} hostile texts come back otherwise, such as {lost[0]!a}",
            "the vocabulary has no bytes for these characters, or a normalization changes them",
            "keep such characters out of prompts",
        )  # fmt: skip
    forged = [id for id in _special(tokenizer) if id in _plain_ids(tokenizer.piece(id), tokenizer)]
    if forged:
        yield Diagnosis(
            "error", "marker_forged", "a marker in ordinary text becomes a control token",
            f"{tokenizer.piece(forged[0])!r} is read as id {forged[0]}", "a user's text could end its turn",
            "report it: it is a bug",
        )  # fmt: skip


def _comes_back(text: str, tokenizer: Tokenizer) -> bool:
    with warnings.catch_warnings(action="ignore"):
        back = tokenizer.decode(_plain_ids(text, tokenizer))
    return back in (text, *(unicodedata.normalize(form, text) for form in ("NFC", "NFKC", "NFD", "NFKD")))


def _plain_ids(text: str, tokenizer: Tokenizer) -> list[int]:
    try:
        with warnings.catch_warnings(action="ignore"):
            return tokenizer.encode(text, add_special=False)
    except CutawayError:
        return []


def _special(tokenizer: Tokenizer) -> list[int]:
    ids = {tokenizer.bos_id, tokenizer.eos_id, *tokenizer.end_ids}
    return sorted(id for id in ids if id is not None and tokenizer.kind(id) == "control" and tokenizer.piece(id))
