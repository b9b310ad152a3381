"""The reference backend against transformers on the three real models: the truth that every other number refers to."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from cutaway.formats import open_model
from cutaway.model import Decoder, kv_groups, kv_layout, load_decoder, read_spec
from cutaway.ops.protocol import Step
from cutaway.ops.reference_backend import ReferenceBackend
from golden import kl

pytestmark = pytest.mark.models

# Both sides round to float32 in different orders over up to 30 layers. Reached: 9e-5 in logits of up to 44, KL 1e-10.
LOGIT_TOLERANCE = 5e-4
KL_TOLERANCE = 1e-9
CONTEXT, PAGE = 768, 64


@pytest.fixture(scope="module", params=["smollm2", "qwen", "gemma"])
def model(request: pytest.FixtureRequest) -> Iterator[tuple[str, Decoder]]:
    path: Path = request.getfixturevalue(f"{request.param}_path")
    with open_model(path) as file:
        spec = read_spec(file)
        decoder = load_decoder(file, spec, ReferenceBackend(), context=CONTEXT)
        pages = CONTEXT // PAGE
        decoder.open_cache(kv_layout(spec, pages=(pages,) * len(kv_groups(spec)), page_size=PAGE))
        yield request.param, decoder


def step(decoder: Decoder, tokens: Any, start: int, rows: int) -> Step:
    """Tokens of one request from position `start`; logits of the last `rows` of them."""
    count = len(tokens)
    table = np.arange(CONTEXT // PAGE, dtype=np.int32)[None]
    return Step(
        tokens=np.array(tokens, np.int32),
        positions=np.arange(start, start + count, dtype=np.int32),
        request_of=np.zeros(count, np.int32),
        page_tables=(table,) * len(kv_groups(decoder.spec)),
        rows=np.arange(count - rows, count, dtype=np.int32),
    )


def compare(golden: Any, logits: Any) -> None:
    top = np.take_along_axis(logits, golden.top_ids, -1)
    assert np.abs(top - golden.top_logits).max() < LOGIT_TOLERANCE
    assert np.abs(kl.divergence(golden, logits)).max() < KL_TOLERANCE
    assert kl.top1_agreement(golden, logits) == 1.0


def test_logits(model: tuple[str, Decoder]) -> None:
    name, decoder = model
    golden = kl.load_golden(name).text
    count = len(golden.ids)
    compare(golden, decoder.step_function()(step(decoder, golden.ids, 0, count)).values)


def test_logits_beyond_the_window(model: tuple[str, Decoder]) -> None:
    name, decoder = model
    golden = kl.load_golden(name).long
    if golden is None:
        assert all(window is None for window in decoder.spec.windows)
        return
    rows = len(golden.tail)
    assert len(golden.ids) - rows > 512
    compare(golden, decoder.step_function()(step(decoder, golden.ids, 0, rows)).values)


def test_greedy_tokens(model: tuple[str, Decoder]) -> None:
    """64 tokens one at a time after a prefill: exactly the tokens of transformers."""
    name, decoder = model
    golden = kl.load_golden(name)
    run: Callable[[Step], Any] = decoder.step_function()
    tokens, start, got = golden.prompt.tolist(), 0, []
    for _ in range(64):
        best = int(run(step(decoder, tokens, start, 1)).row(0).argmax())
        start += len(tokens)
        tokens = [best]
        got.append(best)
    assert got == golden.greedy.tolist()
