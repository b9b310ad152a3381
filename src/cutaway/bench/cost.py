"""Bytes and operations of a step by operation: the minimum that must be read and computed, whatever the kernels do.

They are counted by a backend that computes nothing: the decoder runs over it as over any other, so the list always
agrees with the model.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from cutaway.bench.limits import ARITHMETICS, Arithmetic, Limits
from cutaway.model import Decoder
from cutaway.ops.protocol import Attention, Experts, KVLayout, Norm, Rope, Step, Weight

FLOATS: dict[str, Arithmetic] = {"BF16": "bf16", "F16": "f32", "F32": "f32", "F64": "f32"}


@dataclass(frozen=True, slots=True)
class Cost:
    """Of one op. bytes: of packed weights, keys and values; rows of activations stay in a cache and are not counted.
    operations: a multiply-add is two. label: the op and the shapes and types of its weights."""

    op: str
    label: str
    bytes: float
    operations: dict[Arithmetic, float]

    def seconds_reading(self, limits: Limits) -> float:
        return self.bytes / limits.bandwidth

    def seconds_computing(self, limits: Limits) -> float:
        return sum(count / limits.rate(kind) for kind, count in self.operations.items() if count)

    def floor(self, limits: Limits) -> float:
        """The minimum seconds on the machine."""
        return max(self.seconds_reading(limits), self.seconds_computing(limits))

    def binds(self, limits: Limits) -> str:
        """The limit that gives the floor: "memory" or "arithmetic"."""
        return "memory" if self.seconds_reading(limits) >= self.seconds_computing(limits) else "arithmetic"


def total(costs: Sequence[Cost], label: str = "step") -> Cost:
    """All costs as one, in which reading and computing can overlap."""
    return Cost(
        label, label, sum(c.bytes for c in costs), {k: sum(c.operations.get(k, 0) for c in costs) for k in ARITHMETICS}
    )


def step_costs(decoder: Decoder, layout: KVLayout, step: Step) -> list[Cost]:
    """One cost per recorded op, in order."""
    counting = CountingOps(layout, len(step.tokens), len(step.rows))
    decoder.forward(counting, step)
    return counting.costs


@dataclass(slots=True)
class CountingOps:
    """The step operations of the protocol, only counted. Values are None."""

    layout: KVLayout
    tokens: int
    rows: int
    costs: list[Cost] = field(default_factory=list)

    def embed(self, step: Step, table: object, scale: float) -> None:
        self._add("embed", "embed")

    def add_positions(self, step: Step, x: None, table: object) -> None:
        self._add("add_positions", "add_positions")

    def normalize(self, step: Step, x: None, norm: Norm) -> None:
        self._add("normalize", "normalize")

    def project(self, step: Step, x: None, norm: Norm | None, weights: Sequence[Weight]) -> tuple[None, ...]:
        self._product("project", weights, self.tokens)
        return (None,) * len(weights)

    def rotate_store(
        self, step: Step, q: None, k: None, v: None, kv: object, attention: Attention, rope: Rope | None,
        q_norm: Norm | None, k_norm: Norm | None,
    ) -> None:  # fmt: skip
        self._add("rotate_store", "rotate_store", self.tokens * self.layout.token_bytes())

    def attend(self, step: Step, q: None, kv: object, attention: Attention) -> None:
        reach = attention.window or len(step.page_tables[0][0]) * self.layout.page_size
        seen = [min(int(p) + 1, reach) for p in step.positions]
        first = {
            int(r): max(0, int(p) + 1 - reach)
            for r, p in reversed(list(zip(step.request_of, step.positions, strict=True)))
        }
        last = {int(r): int(p) + 1 for r, p in zip(step.request_of, step.positions, strict=True)}
        read = sum(last[r] - first[r] for r in last) * self.layout.token_bytes()
        operations = 4 * attention.heads * attention.head_dim * sum(seen)
        kind: Arithmetic = "f32" if self.layout.key_type == "f32" else "bf16"
        self._add(
            "attend",
            f"attend {attention.heads}/{attention.kv_heads} heads x {attention.head_dim}",
            read,
            {kind: operations},
        )

    def project_add(self, step: Step, x: None, a: None, weight: Weight, norm: Norm | None, scale: float) -> None:
        self._product("project_add", [weight], self.tokens)

    def feed(self, step: Step, x: None, norm: Norm | None, gate: Weight | None, up: Weight, activation: str) -> None:
        self._product("feed", [up] if gate is None else [gate, up], self.tokens)

    def mix_experts(self, step: Step, x: None, norm: Norm | None, experts: Experts, activation: str) -> None:
        count = len(experts.up)
        # The router decides how many experts are read: this is the expectation for tokens that choose independently.
        touched = count * (1 - (1 - experts.used / count) ** self.tokens)
        one = [weights[0] for weights in (experts.gate, experts.up, experts.down) if weights]
        shared = [w for w in (experts.shared_gate, experts.shared_up, experts.shared_down, experts.shared_router) if w]
        always = [experts.router, *shared]
        operations = _sum(_operations(one, self.tokens * experts.used), _operations(always, self.tokens))
        read = touched * sum(w.nbytes for w in one) + sum(w.nbytes for w in always)
        self._add("mix_experts", f"mix_experts {experts.used} of {count}, {_shapes(one)}", read, operations)

    def logits(self, step: Step, x: None, norm: Norm, head: Weight, scale: float, softcap: float | None) -> None:
        if self.rows:
            self._product("logits", [head], self.rows)
        else:
            self._add("logits", "logits")

    def _product(self, op: str, weights: Sequence[Weight], tokens: int) -> None:
        self._add(op, f"{op} {_shapes(weights)}", sum(w.nbytes for w in weights), _operations(weights, tokens))

    def _add(self, op: str, label: str, bytes: float = 0, operations: dict[Arithmetic, float] | None = None) -> None:
        self.costs.append(Cost(op, label, bytes, operations or {}))


def _operations(weights: Sequence[Weight], tokens: int) -> dict[Arithmetic, float]:
    made: dict[Arithmetic, float] = {}
    for w in weights:
        kind = FLOATS.get(w.type, "int8")
        made[kind] = made.get(kind, 0) + 2.0 * w.rows * w.inputs * tokens
    return made


def _sum(a: dict[Arithmetic, float], b: dict[Arithmetic, float]) -> dict[Arithmetic, float]:
    return {kind: a.get(kind, 0) + b.get(kind, 0) for kind in a.keys() | b.keys()}


def _shapes(weights: Sequence[Weight]) -> str:
    """[rows x inputs] and types: "896+128+128 x 896 Q5_0+Q5_0+Q8_0", equal types once."""
    types = [w.type for w in weights]
    rows = "+".join(str(w.rows) for w in weights)
    return f"{rows} x {weights[0].inputs} {'+'.join(types) if len(set(types)) > 1 else types[0]}"
