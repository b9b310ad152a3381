"""The stages against transformers' logits processors: the same scores, the same tokens kept."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from cutaway.sampling import SamplingParams
from cutaway.sampling.stages.find import edits, truncations
from cutaway.sampling.stages.history import History
from cutaway.sampling.stages.truncation import candidates

pytestmark = pytest.mark.oracle

IDS = [5, 9, 5, 31, 7, 9, 5]


def rows() -> list[NDArray[np.float32]]:
    return [
        (np.random.default_rng(seed).standard_normal(400) * scale).astype(np.float32)
        for seed, scale in enumerate((0.3, 1, 3, 6))
    ]


def theirs(processor: Any, row: NDArray[np.float32]) -> NDArray[np.float32]:
    import torch

    scores = processor(torch.tensor([IDS]), torch.tensor(row)[None].clone())
    return np.asarray(scores[0].numpy())


def ours(row: NDArray[np.float32], **options: Any) -> NDArray[np.float32]:
    params = SamplingParams(**options)
    history = History(IDS[:3], ngram=params.no_repeat_ngram)
    for token in IDS[3:]:
        history.add(token)
    edited = row.copy()
    for _, edit in edits(params, end_ids=frozenset(), tokenizer=None):
        edit(edited, history)
    return edited


def kept(row: NDArray[np.float32], **options: Any) -> list[int]:
    these = candidates(row, float(row.max()), 1.0, len(row))
    for _, stage in truncations(SamplingParams(**options), len(row)):
        these = stage(these)
    return sorted(these.ids.tolist())


@pytest.mark.parametrize("penalty", [1.3, 0.8])
def test_repetition_penalty(penalty: float) -> None:
    from transformers import RepetitionPenaltyLogitsProcessor

    for row in rows():
        expected = theirs(RepetitionPenaltyLogitsProcessor(penalty), row)
        np.testing.assert_allclose(ours(row, repetition_penalty=penalty), expected, rtol=1e-6)


@pytest.mark.parametrize("ngram", [1, 2, 3])
def test_no_repeat_ngram(ngram: int) -> None:
    from transformers import NoRepeatNGramLogitsProcessor

    for row in rows():
        assert (ours(row, no_repeat_ngram=ngram) == theirs(NoRepeatNGramLogitsProcessor(ngram), row)).all()


def test_bad_words() -> None:
    from transformers import NoBadWordsLogitsProcessor

    words = [[3], [9, 5, 8], [5, 6], [31, 4]]
    for row in rows():
        assert (ours(row, bad_words=words) == theirs(NoBadWordsLogitsProcessor(words), row)).all()


@pytest.mark.parametrize("share", [0.1, 0.5, 0.9, 0.99])
def test_truncations(share: float) -> None:
    from transformers import (
        MinPLogitsWarper,
        TopKLogitsWarper,
        TopPLogitsWarper,
        TypicalLogitsWarper,
    )

    for row in rows():
        pairs: list[tuple[dict[str, Any], Any]] = [
            ({"top_k": int(share * 100)}, TopKLogitsWarper(int(share * 100))),
            ({"top_p": share}, TopPLogitsWarper(share)),
            ({"min_p": share}, MinPLogitsWarper(share)),
            ({"typical_p": share}, TypicalLogitsWarper(share)),
        ]
        for options, warper in pairs:
            expected = np.flatnonzero(np.isfinite(theirs(warper, row))).tolist()
            assert kept(row, **options) == expected, options
