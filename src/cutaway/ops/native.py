"""The CPU backend: the decoder is run once to record it, then a step is one call into C++ (csrc/runtime).

Recording and driving use the same C++ ops. A recorded step runs them all in one call, with the GIL released; the
Python-driven path (`drive`) adds and runs one op at a time, so that every value between them can be looked at.
Weight layouts, rounding and the order of every sum: csrc/kernels/layout.h, tile.h, attention.h.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from cutaway.errors import ParameterError, UnsupportedError
from cutaway.native import _native
from cutaway.ops.cores import choose_threads
from cutaway.ops.packing import TYPE_NUMBERS, PackedWeight, pack, pack_codes, packed_bytes
from cutaway.ops.protocol import (
    F32,
    Activation,
    Attention,
    Experts,
    Forward,
    KVLayout,
    Matrix,
    Norm,
    Rope,
    Step,
    Weight,
)  # fmt: skip
from cutaway.ops.siblings import siblings_gain

KV_NUMBERS = {"f32": 0, "bf16": 1, "int8": 2, "fp8": 3}
ACTIVATION_NUMBERS: dict[str, int] = {"silu": 0, "gelu": 1, "gelu_tanh": 2, "relu": 3}

__all__ = ["NativeOps", "Observer", "packed_bytes"]

Observer = Callable[[str, list[F32]], None]
"""Called after each op of a driven step with its name and its outputs, float32 [tokens or rows, width]."""


class Value:
    """A buffer of a program. When nobody holds it any more, a later op takes the buffer over."""

    __slots__ = ("buffer", "program")

    def __init__(self, program: Any, buffer: int) -> None:
        self.program = program
        self.buffer = buffer

    def __del__(self) -> None:
        self.program.release(self.buffer)


class NativeOps:
    """The backend.

    threads: how many work on a step at most (default: see cores.py). adapts: fewer do while other programs
    want the cores (bits never depend on it). max_tokens, max_rows: the largest step.
    instruction_set: "avx512", "avxvnni", "avx2" or "plain"; default: $CUTAWAY_ISA, else the best that the machine has.
    """

    name = "native"

    def __init__(
        self,
        *,
        threads: int | None = None,
        adapts: bool = True,
        max_tokens: int = 512,
        max_rows: int = 64,
        instruction_set: str | None = None,
    ) -> None:
        asked = os.environ.get("CUTAWAY_ISA", "") if instruction_set is None else instruction_set
        try:
            self.instruction_set: str = _native.instruction_set(asked)
        except ValueError as error:
            raise ParameterError(
                f"instruction set {asked!r}: {error}", hint="unset CUTAWAY_ISA to use the best there is"
            ) from None
        if threads is not None and threads < 1:
            raise ParameterError(f"threads = {threads} (at least 1)")
        self.threads = choose_threads(gain=siblings_gain).count if threads is None else threads
        self.max_tokens, self.max_rows = max_tokens, max_rows
        self.team = _native.Team(self.threads, adapts)
        self._shared: dict[int, tuple[object, Any]] = {}  # norms and ropes that several layers share, by identity
        self._target: _Recording | None = None

    # --- load -------------------------------------------------------------------------------------------------------
    def weight(self, matrix: Matrix, bias: F32 | None = None) -> Weight:
        return pack(self.team, matrix, bias)

    def table(self, matrix: Matrix) -> Any:
        if matrix.type in TYPE_NUMBERS and matrix.raw.flags.c_contiguous:
            return _native.table(TYPE_NUMBERS[matrix.type], matrix.raw.reshape(-1), matrix.rows, matrix.inputs)
        return _native.table_of(pack_codes(self.team, matrix, None))

    def open_cache(self, layout: KVLayout) -> list[Any]:
        if layout.head_dim % 2:
            raise UnsupportedError(f"head_dim {layout.head_dim} is odd: the CPU backend stores keys in pairs")
        if layout.page_size % 16:
            raise ParameterError(f"page_size = {layout.page_size} (a multiple of 16)")
        layers: dict[int, Any] = {}
        for index, group in enumerate(layout.groups):
            pool = _native.PagePool(
                index, group.pages, len(group.layers), layout.kv_heads, layout.head_dim, layout.page_size,
                KV_NUMBERS[layout.key_type], KV_NUMBERS[layout.value_type],
            )  # fmt: skip
            layers |= {layer: _native.Pages(pool, place) for place, layer in enumerate(group.layers)}
        return [layers[i] for i in range(len(layers))]

    # --- step -------------------------------------------------------------------------------------------------------
    def embed(self, step: Step, table: Any, scale: float) -> Value:
        return self._one(self._recording.program.embed(table, scale))

    def add_positions(self, step: Step, x: Value, table: F32) -> Value:
        return self._one(self._recording.program.add_positions(x.buffer, np.ascontiguousarray(table, np.float32)))

    def normalize(self, step: Step, x: Value, norm: Norm) -> Value:
        return self._one(self._recording.program.normalize(x.buffer, self._norm(norm)))

    def project(self, step: Step, x: Value, norm: Norm | None, weights: Sequence[Weight]) -> tuple[Value, ...]:
        return self._outputs(self._recording.program.project(x.buffer, self._norm(norm), [_packed(w) for w in weights]))

    def rotate_store(
        self, step: Step, q: Value, k: Value, v: Value, kv: Any, attention: Attention,
        rope: Rope | None, q_norm: Norm | None, k_norm: Norm | None,
    ) -> Value:  # fmt: skip
        self._recording.ran(
            self._recording.program.rotate_store(
                q.buffer,
                k.buffer,
                v.buffer,
                kv,
                self._attention(attention),
                self._rope(rope),
                self._norm(q_norm),
                self._norm(k_norm),
            )
        )
        return q  # turned in place

    def attend(self, step: Step, q: Value, kv: Any, attention: Attention) -> Value:
        return self._one(self._recording.program.attend(q.buffer, kv, self._attention(attention)))

    def project_add(self, step: Step, x: Value, a: Value, weight: Weight, norm: Norm | None, scale: float) -> Value:
        return self._one(
            self._recording.program.project_add(x.buffer, a.buffer, _packed(weight), self._norm(norm), scale)
        )

    def feed(
        self, step: Step, x: Value, norm: Norm | None, gate: Weight | None, up: Weight, activation: Activation
    ) -> Value:
        packed_gate = None if gate is None else _packed(gate)
        return self._one(
            self._recording.program.feed(
                x.buffer, self._norm(norm), packed_gate, _packed(up), ACTIVATION_NUMBERS[activation]
            )
        )

    def mix_experts(self, step: Step, x: Value, norm: Norm | None, experts: Experts, activation: Activation) -> Value:
        return self._one(
            self._recording.program.mix_experts(
                x.buffer, self._norm(norm), self._experts(experts), ACTIVATION_NUMBERS[activation]
            )
        )

    def logits(self, step: Step, x: Value, norm: Norm, head: Weight, scale: float, softcap: float | None) -> Value:
        return self._one(
            self._recording.program.logits(x.buffer, self._norm(norm), _packed(head), scale, softcap or 0.0)
        )

    # --- whole steps ------------------------------------------------------------------------------------------------
    def record(self, forward: Forward) -> Callable[[Step], F32]:
        recording = _Recording(self._program(), None, None)
        out = self._into(recording, forward, _NO_STEP)
        program, buffer, count = recording.program, out.buffer, len(recording.program)
        self.program = program

        def run(step: Step) -> F32:
            _run(program, step, 0, count)
            logits: F32 = program.view(buffer, len(step.rows))
            return logits

        run.keep = out  # type: ignore[attr-defined]
        return run

    def drive(self, forward: Forward, step: Step, observe: Observer | None = None) -> F32:
        """One step, op by op from Python, for looking in: slower, same bits. Returns logits, float32 [rows, vocab]."""
        recording = _Recording(self._program(), step, observe)
        out = self._into(recording, forward, step)
        return np.array(recording.program.view(out.buffer, len(step.rows)))

    def _program(self) -> Any:
        return _native.Program(self.team, self.instruction_set, self.max_tokens, self.max_rows)

    def _into(self, recording: _Recording, forward: Forward, step: Step) -> Value:
        self._target = recording
        try:
            out: Value = forward(self, step)
            return out
        finally:
            self._target = None

    @property
    def _recording(self) -> _Recording:
        assert self._target is not None, "ops run inside record() or drive()"
        return self._target

    def _outputs(self, op: int) -> tuple[Value, ...]:
        recording = self._recording
        recording.ran(op)
        return tuple(Value(recording.program, b) for b in recording.program.outputs(op))

    def _one(self, op: int) -> Value:
        return self._outputs(op)[0]

    # --- parameters, converted once per object ----------------------------------------------------------------------
    def _once(self, key: object, make: Callable[[], Any]) -> Any:
        if id(key) not in self._shared:
            self._shared[id(key)] = (key, make())  # the key is kept, so that its id stays its own
        return self._shared[id(key)][1]

    def _norm(self, norm: Norm | None) -> Any:
        if norm is None:
            return None
        return self._once(
            norm,
            lambda: _native.Norm(
                norm.kind == "layer", norm.eps, np.ascontiguousarray(norm.weight, np.float32), _flat(norm.bias)
            ),
        )

    def _rope(self, rope: Rope | None) -> Any:
        if rope is None:
            return self._once(None, _native.Rope)
        cos, sin = (np.ascontiguousarray(x, np.float32) for x in (rope.cos, rope.sin))
        return self._once(rope, lambda: _native.Rope(cos, sin, rope.style == "interleaved"))

    def _attention(self, a: Attention) -> Any:
        return self._once(a, lambda: _native.Attention(
            a.heads, a.kv_heads, a.head_dim, a.window or 0, a.scale, a.softcap or 0.0, _flat(a.slopes)
        ))  # fmt: skip

    def _experts(self, e: Experts) -> Any:
        def make() -> Any:
            out = _native.ExpertWeights()
            out.router, out.used, out.renormalize, out.scale = _packed(e.router), e.used, e.renormalize, e.scale
            out.gate, out.up, out.down = ([_packed(w) for w in ws] for ws in (e.gate, e.up, e.down))
            for part in ("shared_gate", "shared_up", "shared_down", "shared_router"):
                if getattr(e, part) is not None:
                    setattr(out, part, _packed(getattr(e, part)))
            return out

        return self._once(e, make)


class _Recording:
    """A program while the decoder fills it; with a step, each op runs as it is added."""

    def __init__(self, program: Any, step: Step | None, observe: Observer | None) -> None:
        self.program = program
        program.stepwise = step is not None
        self.step = step
        self.observe = observe

    def ran(self, op: int) -> None:
        if self.step is None:
            return
        _run(self.program, self.step, op, op + 1)
        if self.observe is not None:
            name = self.program.name(op)
            rows = len(self.step.rows if name == "logits" else self.step.tokens)
            self.observe(name, [np.array(self.program.view(b, rows)) for b in self.program.outputs(op)])


def _run(program: Any, step: Step, begin: int, end: int) -> None:
    step = step.without_adapters()
    program.run(step.tokens, step.positions, step.request_of, list(step.page_tables), step.rows, begin, end)


def _packed(weight: Weight) -> Any:
    assert isinstance(weight, PackedWeight)
    return weight.packed


def _flat(values: F32 | None) -> F32 | None:
    return None if values is None else np.ascontiguousarray(values, np.float32).reshape(-1)


_NOTHING = np.zeros(0, np.int32)
_NO_STEP = Step(_NOTHING, _NOTHING, _NOTHING, (), _NOTHING)
