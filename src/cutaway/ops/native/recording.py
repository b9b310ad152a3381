"""The operations of the CPU backend: each adds itself to a program (csrc/runtime), which runs as a whole or one by one.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from time import perf_counter
from typing import Any

import numpy as np

from cutaway.native import _native
from cutaway.ops.native.packing import PackedWeight
from cutaway.ops.protocol import F32, Activation, Attention, Experts, Norm, Rope, Step, Weight
from cutaway.ops.rows import HostRows

ACTIVATION_NUMBERS: dict[str, int] = {"silu": 0, "gelu": 1, "gelu_tanh": 2, "relu": 3}

Observer = Callable[[str, list[F32]], None]
"""Called after each op of a driven step with its name and its outputs, float32 [tokens or rows, width]."""


class Value:
    """A buffer of a program. When it has no more references, a later operation reuses it."""

    __slots__ = ("buffer", "program")

    def __init__(self, program: Any, buffer: int) -> None:
        self.program = program
        self.buffer = buffer

    def __del__(self) -> None:
        self.program.release(self.buffer)


class Recording:
    """A program while a forward pass fills it. driven: a step that each operation computes as it is added, or None;
    observe is then called after each operation."""

    def __init__(self, program: Any, driven: Step | None = None, observe: Observer | None = None) -> None:
        self.program = program
        program.stepwise = driven is not None
        self._driven = driven
        self._observe = observe
        self._shared: dict[int, tuple[object, Any]] = {}  # norms and ropes that several layers share, by identity

    def embed(self, step: Step, table: Any, scale: float) -> Value:
        return self._one(self.program.embed(table, scale))

    def add_positions(self, step: Step, x: Value, table: F32) -> Value:
        return self._one(self.program.add_positions(x.buffer, np.ascontiguousarray(table, np.float32)))

    def normalize(self, step: Step, x: Value, norm: Norm) -> Value:
        return self._one(self.program.normalize(x.buffer, self._norm(norm)))

    def project(self, step: Step, x: Value, norm: Norm | None, weights: Sequence[Weight]) -> tuple[Value, ...]:
        return self._outputs(self.program.project(x.buffer, self._norm(norm), [_packed(w) for w in weights]))

    def rotate_store(
        self, step: Step, q: Value, k: Value, v: Value, kv: Any, attention: Attention,
        rope: Rope | None, q_norm: Norm | None, k_norm: Norm | None,
    ) -> Value:  # fmt: skip
        self._ran(
            self.program.rotate_store(
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
        return q  # rotated in place

    def attend(self, step: Step, q: Value, kv: Any, attention: Attention) -> Value:
        return self._one(self.program.attend(q.buffer, kv, self._attention(attention)))

    def project_add(self, step: Step, x: Value, a: Value, weight: Weight, norm: Norm | None, scale: float) -> Value:
        return self._one(
            self.program.project_add(x.buffer, a.buffer, _packed(weight), self._norm(norm), scale)
        )

    def feed(
        self, step: Step, x: Value, norm: Norm | None, gate: Weight | None, up: Weight, activation: Activation
    ) -> Value:
        packed_gate = None if gate is None else _packed(gate)
        return self._one(
            self.program.feed(
                x.buffer, self._norm(norm), packed_gate, _packed(up), ACTIVATION_NUMBERS[activation]
            )
        )

    def mix_experts(self, step: Step, x: Value, norm: Norm | None, experts: Experts, activation: Activation) -> Value:
        return self._one(
            self.program.mix_experts(
                x.buffer, self._norm(norm), self._experts(experts), ACTIVATION_NUMBERS[activation]
            )
        )

    def logits(self, step: Step, x: Value, norm: Norm, head: Weight, scale: float, softcap: float | None) -> Value:
        return self._one(
            self.program.logits(x.buffer, self._norm(norm), _packed(head), scale, softcap or 0.0)
        )

    def _outputs(self, op: int) -> tuple[Value, ...]:
        self._ran(op)
        return tuple(Value(self.program, b) for b in self.program.outputs(op))

    def _one(self, op: int) -> Value:
        return self._outputs(op)[0]

    def _ran(self, op: int) -> None:
        if self._driven is None:
            return
        run_ops(self.program, self._driven, op, op + 1)
        if self._observe is not None:
            name = self.program.name(op)
            rows = len(self._driven.rows if name == "logits" else self._driven.tokens)
            self._observe(name, [np.array(self.program.view(b, rows)) for b in self.program.outputs(op)])

    # --- parameters, converted once per object ----------------------------------------------------------------------
    def _once(self, key: object, make: Callable[[], Any]) -> Any:
        if id(key) not in self._shared:
            self._shared[id(key)] = (key, make())  # the key is kept, so that its id stays unique
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


Watcher = Callable[[Step, list[float]], None]
"""Takes a step that was run op by op, and the clock (`perf_counter`) before its first op and after each."""


class RecordedStep:
    """A whole forward pass as one call: a step to its rows of logits, valid until the next call.

    watcher: while it is set, steps are run op by op, with the same bits, and it receives the times. Any thread may set
    it; it takes effect with the next step.
    """

    def __init__(self, recording: Recording, logits: Value, team: Any) -> None:
        self.program = recording.program
        self._logits = logits
        self._team = team
        self._ops = len(recording.program)
        self.watcher: Watcher | None = None
        self.program.reserve()  # the maximum of any step, so that memory does not depend on the steps that came

    def __call__(self, step: Step) -> HostRows:
        if (watcher := self.watcher) is None:
            run_ops(self.program, step, 0, self._ops)
        else:
            watcher(step, self._one_by_one(step))
        return HostRows(self.program.view(self._logits.buffer, len(step.rows)), self._team)

    def _one_by_one(self, step: Step) -> list[float]:
        marks = [perf_counter()]
        for op in range(self._ops):
            run_ops(self.program, step, op, op + 1)
            marks.append(perf_counter())
        return marks


def run_ops(program: Any, step: Step, begin: int, end: int) -> None:
    """Compute a part of a program. Raises ValueError if a step does not fit it."""
    step = step.without_adapters()
    program.run(step.tokens, step.positions, step.request_of, list(step.page_tables), step.rows, begin, end)


def _packed(weight: Weight) -> Any:
    assert isinstance(weight, PackedWeight)
    return weight.packed


def _flat(values: F32 | None) -> F32 | None:
    return None if values is None else np.ascontiguousarray(values, np.float32).reshape(-1)
