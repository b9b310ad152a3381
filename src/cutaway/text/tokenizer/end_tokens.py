"""Finds the tokens that end a turn or a text."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from cutaway.text.tokenizer.vocabulary import NORMAL, Vocabulary

# The end of a turn, a message or a text in well-known families.
_NAMES = (
    "<|im_end|>",
    "<|eot_id|>",
    "<|eom_id|>",
    "<|end|>",
    "<end_of_turn>",
    "<turn|>",
    "<|endoftext|>",
    "<|end_of_text|>",
    "<EOT>",
    "_<EOT>",
    "[EOT]",
    "<\uff5cend\u2581of\u2581sentence\uff5c>",
    "<end_of_utterance>",
    "<|END_OF_TURN_TOKEN|>",
    "<|user_end|>",
    "<|return|>",
    "<|call|>",
)


def end_ids(vocabulary: Vocabulary, named: Iterable[int | None]) -> frozenset[int]:
    """All ids that end a turn or a text.

    Args:
        named: ids to which the file itself gives that role.
    """
    ids = {id for id in named if id is not None}
    special = {vocabulary.tokens[id]: id for id in np.flatnonzero(vocabulary.types != NORMAL).tolist()}
    ids.update(special[name] for name in _NAMES if name in special)
    # In gpt-oss's format "<|end|>" ends a message inside a turn; "<|return|>" and "<|call|>" end the turn.
    if {"<|return|>", "<|call|>", "<|end|>"} <= special.keys():
        ids.discard(special["<|end|>"])
    return frozenset(ids)
