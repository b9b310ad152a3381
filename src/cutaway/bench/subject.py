"""The subject of a measurement: a loaded decoder as a recorded step, its pages, and steps for it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from cutaway.errors import MemoryShortError
from cutaway.formats import ModelFile
from cutaway.model import Decoder, ModelSpec, kv_groups, kv_layout, load_decoder, read_spec
from cutaway.ops.backend import Backend
from cutaway.ops.native.backend import NativeBackend
from cutaway.ops.native.recording import RecordedStep
from cutaway.ops.protocol import I32, KVLayout, KVType, Step
from cutaway.planner import PAGE_SIZE, outline_model, readable_bytes


@dataclass(frozen=True, slots=True)
class Settings:
    """How a model is loaded for measuring. context: tokens a stream may have; streams: how many, each in its pages."""

    context: int
    streams: int = 1
    threads: int | None = None
    adapts: bool = True  # fewer threads while other programs need the cores
    key_type: KVType = "bf16"
    value_type: KVType = "bf16"
    instruction_set: str | None = None


@dataclass(frozen=True, slots=True)
class Subject:
    """A decoder ready to run. program: the recorded ops, which can be run one by one. tables: int32 [streams, width]
    per KV group, every stream in pages of its own."""

    name: str
    spec: ModelSpec
    backend: NativeBackend
    decoder: Decoder
    layout: KVLayout
    settings: Settings
    run: RecordedStep
    program: Any
    tables: tuple[I32, ...]

    @classmethod
    def load(cls, name: str, file: ModelFile, settings: Settings, *, held: int = 0) -> Subject:
        """Pack a model's weights and record its step. held: bytes of weights that lie in memory already, unpacked.

        Raises MemoryShortError with the numbers, FormatError, UnsupportedError, ParameterError.
        """
        spec = read_spec(file)
        isa = settings.instruction_set
        backend = NativeBackend(
            threads=settings.threads, adapts=settings.adapts, instruction_set=isa
        )  # fmt: skip
        width = -(-settings.context // PAGE_SIZE)
        pages = tuple(width * settings.streams for _ in kv_groups(spec))
        layout = kv_layout(
            spec, pages=pages, page_size=PAGE_SIZE, key_type=settings.key_type, value_type=settings.value_type
        )
        _check_memory(file, spec, settings, layout, held, backend)
        decoder = load_decoder(file, spec, backend, context=settings.context)
        decoder.open_cache(layout)
        run = backend.record(decoder.forward)
        table = np.arange(width * settings.streams, dtype=np.int32).reshape(settings.streams, width)
        subject = cls(name, spec, backend, decoder, layout, settings, run, run.program, (table,) * len(pages))
        subject.fill()
        return subject

    # --- steps --------------------------------------------------------------------------------------------------------
    def prompt(self, tokens: int, *, stream: int = 0) -> list[Step]:
        """A whole prompt in chunks of at most one step; logits of its last token only."""
        return [
            self._step(np.arange(a, b), np.full(b - a, stream), [b - a - 1] if b == tokens else [])
            for a, b in self._chunks(tokens)
        ]

    def decoding(self, position: int, streams: int) -> Step:
        """One token of each stream, at that position; logits of all."""
        return self._step(np.full(streams, position), np.arange(streams), list(range(streams)))

    def run_op(self, step: Step, op: int) -> None:
        """One op of the recorded step."""
        self.program.run(step.tokens, step.positions, step.request_of, list(step.page_tables), step.rows, op, op + 1)

    def fill(self) -> None:
        """Write every page once. Memory that was never written does not exist, and reading it would cost nothing."""
        first = self.prompt(min(self.backend.limits.tokens, self.settings.context))[0]
        self.run(first)
        storing = [i for i in range(len(self.program)) if self.program.name(i) == "rotate_store"]
        for stream in range(self.settings.streams):
            for step in self.prompt(self.settings.context, stream=stream):
                for op in storing:
                    self.run_op(step, op)

    def _chunks(self, tokens: int) -> Iterator[tuple[int, int]]:
        most = self.backend.limits.tokens
        return ((a, min(a + most, tokens)) for a in range(0, tokens, most))

    def _step(self, positions: Any, streams: Any, rows: list[int]) -> Step:
        tokens = np.random.default_rng(len(positions)).integers(0, self.spec.vocab, len(positions))
        return Step(
            tokens.astype(np.int32), positions.astype(np.int32), streams.astype(np.int32), self.tables,
            np.array(rows, np.int32),
        )  # fmt: skip


def _check_memory(
    file: ModelFile, spec: ModelSpec, settings: Settings, layout: KVLayout, held: int, backend: Backend
) -> None:
    plan = outline_model(file, spec, backend).memory(context=settings.context)
    needed, available = plan.weight_bytes + layout.total_bytes() + plan.positions + plan.scratch, backend.free_memory()
    if available is not None and needed > available:
        weights, kv = readable_bytes(plan.weight_bytes), readable_bytes(layout.total_bytes())
        beside = f", beside {readable_bytes(held)} of random blocks" if held else ""
        raise MemoryShortError(
            f"measuring needs {readable_bytes(needed)} ({weights} for weights, {kv} for keys and values{beside}), "
            f"and {readable_bytes(available)} are available",
            hint="choose a smaller model, fewer streams or a smaller context",
        )
