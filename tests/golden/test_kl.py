"""The KL helper itself, and that the golden files are what they say."""

from __future__ import annotations

import numpy as np
import pytest

from golden import kl


def test_divergence_of_the_same_logits_is_zero() -> None:
    logits = np.random.default_rng(0).normal(0, 3, (5, 1000)).astype(np.float32)
    golden = kl.unpack(kl.pack("", range(5), logits))
    assert np.abs(kl.divergence(golden, logits)).max() < 1e-6
    assert kl.top1_agreement(golden, logits) == 1.0


def test_divergence_counts_the_tail_as_one_outcome() -> None:
    rng = np.random.default_rng(1)
    p, q = (rng.normal(0, 2, (4, 700)).astype(np.float32) for _ in range(2))
    golden = kl.unpack(kl.pack("", range(4), p))
    for row in range(4):
        a = np.exp(p[row].astype(np.float64)) / np.exp(p[row].astype(np.float64)).sum()
        b = np.exp(q[row].astype(np.float64)) / np.exp(q[row].astype(np.float64)).sum()
        top = np.argsort(-p[row], kind="stable")[:256]
        tail_a, tail_b = (np.delete(x, top).sum() for x in (a, b))
        expected = (a[top] * np.log(a[top] / b[top])).sum() + tail_a * np.log(tail_a / tail_b)
        assert kl.divergence(golden, q)[row] == pytest.approx(expected, abs=1e-5)
        assert 0 < expected <= (a * np.log(a / b)).sum()


@pytest.mark.parametrize(("model", "tokens"), [("smollm2", 521), ("qwen", 394), ("gemma", 411)])
def test_golden_files(model: str, tokens: int) -> None:
    golden = kl.load_golden(model)
    text = golden.text
    assert text.ids.shape == text.tail.shape == (tokens,)
    assert text.top_ids.shape == text.top_logits.shape == (tokens, 256)
    assert (np.diff(text.top_logits, axis=-1) <= 0).all()
    assert golden.greedy.shape == (64,)
    assert (kl.FOLDER / f"{model}.npz").stat().st_size < 1_500_000
