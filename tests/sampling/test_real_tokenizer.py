"""Stops and bad words over a real vocabulary."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from cutaway.formats import open_model
from cutaway.sampling import Sampler, SamplingParams, StopChecker, StopReason
from cutaway.text import Tokenizer, load_tokenizer

pytestmark = pytest.mark.models


@pytest.fixture(scope="module")
def tokenizer(smollm2_path: Path) -> Tokenizer:
    with open_model(smollm2_path) as file:
        return load_tokenizer(smollm2_path, file.metadata)


def shown(tokenizer: Tokenizer, ids: list[int], params: SamplingParams) -> tuple[str, StopReason | None]:
    checker = StopChecker(params, tokenizer.end_ids, tokenizer.detokenizer())
    text = ""
    for token in ids:
        more, reason = checker.push(token)
        text += more
        if reason is not None:
            return text, reason
    return text + checker.finish(), None


def test_a_stop_over_several_tokens(tokenizer: Tokenizer) -> None:
    ids = tokenizer.encode("ABCDEFGHIJKLM", add_special=False)
    text, reason = shown(tokenizer, ids, SamplingParams(stop=["DEFGHIJ"]))
    assert text == "ABC"
    assert reason is not None and (reason.kind, reason.matched) == ("stop_string", "DEFGHIJ")


def test_a_character_over_several_tokens_is_whole_or_flushed_once(tokenizer: Tokenizer) -> None:
    emoji = [10813, 242, 218]
    whole = tokenizer.decode(emoji)
    assert shown(tokenizer, emoji, SamplingParams(stop=[whole + "!"])) == (whole, None)
    assert shown(tokenizer, emoji, SamplingParams(stop=[whole.strip()]))[0].strip() == ""
    cut, reason = shown(tokenizer, emoji, SamplingParams(max_tokens=2))
    assert cut.endswith("\ufffd") and cut.count("\ufffd") == 1
    assert reason == StopReason("length", None, 1)


def test_the_models_end_token(tokenizer: Tokenizer) -> None:
    ids = tokenizer.encode("hello", add_special=False)
    assert shown(tokenizer, [*ids, 2, *ids], SamplingParams()) == ("hello", StopReason("end_token", 2, len(ids)))


def test_bad_words(tokenizer: Tokenizer) -> None:
    """The banned text does not come out, though the logits ask for it, with or without a space before it."""
    for text in ("hello", " hello", " antidisestablishmentarianism"):
        wanted = tokenizer.encode(text, add_special=False)
        params = SamplingParams(temperature=0, bad_words=[text.strip()])
        sampler = Sampler(params, seed=0, tokenizer=tokenizer)
        for token in wanted:
            row = np.zeros(49152, np.float32)
            row[token] = 9
            sampler.choose(row)
        assert list(sampler.generated) != wanted
        assert list(sampler.generated[:-1]) == wanted[:-1]
