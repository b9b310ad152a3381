"""Answers of a model that is made up of random logits."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from cutaway.sampling import Sampler, SamplingParams
from cutaway.sampling.constraints.compile import compile_constraint
from sampling.small_tokenizer import small_tokenizer


def accepts(kind: str, source: object, text: str) -> bool:
    """Whether the constraint lets the text be the whole output, byte by byte."""
    tokenizer = small_tokenizer()
    matcher = compile_constraint(kind, source, tokenizer).matcher()  # type: ignore[arg-type]
    row = np.zeros(tokenizer.vocab_size, np.float32)
    for token in (tokenizer.vocabulary.ids[c] for c in byte_spelling(text)):
        row[:] = 0
        matcher.restrict(row)
        if row[token] < 0:
            return False
        matcher.accept(token)
    row[:] = 0
    matcher.restrict(row)
    return bool(row[min(tokenizer.end_ids)] == 0)


def byte_spelling(text: str) -> str:
    from cutaway.text.tokenizer.vocabulary import byte_alphabet

    alphabet = byte_alphabet()
    return "".join(alphabet[byte] for byte in text.encode())


def answer(
    params: SamplingParams, *, seed: int = 0, most: int = 400, lift: Mapping[int, float] | None = None
) -> str | None:
    """What comes out under random logits; None if it has not ended after `most` tokens. lift: added to tokens'."""
    tokenizer = small_tokenizer()
    rng = np.random.default_rng(seed)
    sampler = Sampler(params, seed=seed, end_ids=tokenizer.end_ids, tokenizer=tokenizer)
    bias = np.zeros(tokenizer.vocab_size + 3, np.float32)  # some models have more rows than tokens
    for token, value in (lift or {}).items():
        bias[token] += value
    chosen: list[int] = []
    for _ in range(most):
        row = (rng.standard_normal(len(bias)) * 3).astype(np.float32) + bias
        token = sampler.choose(row).token
        if token in tokenizer.end_ids:
            detokenizer = tokenizer.detokenizer(shown=params.visible_tokens)
            return "".join(map(detokenizer.push, chosen)) + detokenizer.flush()
        chosen.append(token)
    return None


def closers(by: float = 4.0) -> dict[int, float]:
    """A liking for what ends things."""
    ids = small_tokenizer().vocabulary.ids
    return {**{ids[c]: by for c in '"}],:0'}, **dict.fromkeys(small_tokenizer().end_ids, 3 * by)}
