"""Prints a hash of what each op of the rounding reference gives, for test_processors: run in processes of its own."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from cutaway.ops.protocol import F32, Attention, Experts, KVGroup, KVLayout, KVType, Norm, Rope, Step
from cutaway.ops.reference import ACTIVATIONS
from cutaway.ops.reference_backend import ReferenceBackend
from tiny import floats, load_rows, matrix, step

TOKENS, HIDDEN = 21, 256
KINDS: tuple[tuple[KVType, KVType], ...] = (("f32", "f32"), ("bf16", "bf16"), ("int8", "fp8"))


def outputs(ops: ReferenceBackend, s: Step) -> Iterator[tuple[str, F32]]:
    """Every op that has a sum or a function in it."""
    x = load_rows(ops, floats(TOKENS, HIDDEN))(ops, s)
    weight, bias = 1 + floats(HIDDEN, seed=3, scale=0.2), floats(HIDDEN, seed=4)
    norms = {"rms": Norm("rms", weight, bias, 1e-5), "layer": Norm("layer", weight, bias, 1e-5)}
    make: Callable[..., Any] = lambda type, rows, inputs, seed=0: ops.weight(matrix(type, rows, inputs, seed))  # noqa: E731
    for kind, norm in norms.items():
        yield f"normalize {kind}", ops.normalize(s, x, norm)
        yield f"logits {kind}", ops.logits(s, x, norm, make("Q6_K", 133, HIDDEN), 0.2, 30.0)
    for type in ("Q4_K", "Q8_0", "Q5_1", "F16", "F32"):
        yield f"project {type}", ops.project(s, x, norms["rms"], [make(type, 96, HIDDEN)])[0]
        yield f"project_add {type}", ops.project_add(s, x, x, make(type, HIDDEN, HIDDEN), norms["rms"], 0.3)
    for activation in ACTIVATIONS:
        gate, up = make("Q8_0", 96, HIDDEN), make("Q4_1", 96, HIDDEN)
        yield f"feed {activation}", ops.feed(s, x, norms["rms"], gate, up, activation)
    experts = Experts(
        make("F32", 6, HIDDEN, 9), *([make("Q8_0", *shape, i) for i in range(6)]
        for shape in ((32, HIDDEN), (32, HIDDEN), (HIDDEN, 32))), used=3, renormalize=True, scale=1.5,
        shared_gate=make("Q8_0", 96, HIDDEN, 7), shared_up=make("Q8_0", 96, HIDDEN, 8),
        shared_down=make("Q8_0", HIDDEN, 96, 9), shared_router=make("F32", 1, HIDDEN, 10),
    )  # fmt: skip
    yield "mix_experts", ops.mix_experts(s, x, norms["rms"], experts, "silu")
    for kinds in KINDS:
        yield f"attend {kinds}", attended(ops, s, kinds)


def attended(ops: ReferenceBackend, s: Step, kinds: tuple[KVType, KVType]) -> F32:
    attention = Attention(4, 2, 32, 32**-0.5, 17, 50.0, floats(4, scale=0.1))
    pages = ops.open_cache(KVLayout(2, 32, 16, *kinds, (KVGroup((0,), None, 8),)))[0]
    rope = Rope(floats(64, 16), floats(64, 16, seed=1))
    q, k, v = (floats(TOKENS, heads * 32, seed=heads + i) for i, heads in enumerate((4, 2, 2)))
    head_norm = Norm("rms", 1 + floats(32, scale=0.1), None, 1e-6)
    return ops.attend(s, ops.rotate_store(s, q, k, v, pages, attention, rope, head_norm, head_norm), pages, attention)


def main() -> None:
    ops = ReferenceBackend(quantize_activations=True)
    for name, values in outputs(ops, step(TOKENS)):
        print(name, hashlib.sha256(np.ascontiguousarray(values, "<f4").tobytes()).hexdigest()[:16])


if __name__ == "__main__":
    main()
