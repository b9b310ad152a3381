"""The naive engine: no cache, no batch, no thread. The real one must equal it, bit for bit.

For every token the whole of prompt and answer is computed anew in a single step, over pages laid out in order.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from cutaway.ops.protocol import F32, KVLayout, Step
from cutaway.sampling import Sampler, SamplingParams, StopChecker, StopReason


def whole_step(tokens: Sequence[int], layout: KVLayout, rows: int = 1) -> Step:
    """All tokens of one request in one step; page i of the table is page i. Logits of the last `rows`."""
    count = len(tokens)
    table = np.arange(-(-count // layout.page_size), dtype=np.int32)[None, :]
    assert all(group.pages >= table.size for group in layout.groups), "the oracle's layout must hold the whole context"
    return Step(
        tokens=np.array(tokens, np.int32),
        positions=np.arange(count, dtype=np.int32),
        request_of=np.zeros(count, np.int32),
        page_tables=tuple(table for _ in layout.groups),
        rows=np.arange(count - rows, count, dtype=np.int32),
    )


@dataclass(frozen=True)
class Answer:
    tokens: tuple[int, ...]
    text: str
    stop: StopReason


class Oracle:
    """step_function: a step to logits; layout: pages enough for the whole context in every group, windows too."""

    def __init__(
        self, step_function: Callable[[Step], Any], layout: KVLayout, tokenizer: Any, *, context: int
    ) -> None:
        self.step_function = step_function
        self.layout = layout
        self.tokenizer = tokenizer
        self.context = context

    def logits(self, tokens: Sequence[int], rows: int = 1) -> F32:
        """float32 [rows, vocab] after the last `rows` tokens."""
        return self.step_function(whole_step(tokens, self.layout, rows)).values.copy()

    def answer(self, prompt: Sequence[int], params: SamplingParams, *, seed: int, choice: int = 0) -> Answer:
        """What the engine must answer."""
        ends = self.tokenizer.end_ids
        sampler = Sampler(params, seed=seed, choice=choice, prompt=prompt, end_ids=ends, tokenizer=self.tokenizer)
        room = self.context - len(prompt)
        stops = StopChecker(params, ends, self.tokenizer.detokenizer(after=prompt), room=room)
        tokens, text = list(prompt), ""
        while True:
            token = sampler.choose(self.logits(tokens)[0]).token
            tokens.append(token)
            piece, stop = stops.push(token)
            text += piece
            if stop is not None:
                return Answer(tuple(tokens[len(prompt) :]), text + stops.finish(), stop)
