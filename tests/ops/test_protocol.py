"""What a step promises its ops, and that a backend can multiply for each request by an adapter of its own."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

from cutaway.errors import ParameterError, UnsupportedError
from cutaway.ops.backend import Backend
from cutaway.ops.native.backend import NativeBackend
from cutaway.ops.protocol import F32, Forward, Norm, Step, Weight
from cutaway.ops.reference_backend import ReferenceBackend
from tiny import floats, load_rows, matrix, step


def two_requests(adapters: Any) -> Step:
    """Tokens 0 to 2 of one request, 3 and 4 of another."""
    request_of, table = np.array([0, 0, 0, 1, 1], np.int32), np.array([[0], [1]], np.int32)
    positions = np.array([0, 1, 2, 0, 1], np.int32)
    return dataclasses.replace(
        step(5), request_of=request_of, positions=positions, page_tables=(table,), adapters=adapters
    )


@dataclasses.dataclass(slots=True)
class Adapted(ReferenceBackend):
    """weight @ x + up @ (down @ x), with the factors of each token's own request."""

    factors: dict[int, tuple[F32, F32]] = dataclasses.field(default_factory=dict)

    def project(self, step: Step, x: F32, norm: Norm | None, weights: Sequence[Weight]) -> tuple[F32, ...]:
        assert step.adapters is not None
        outputs = ReferenceBackend.project(self, step, x, norm, weights)
        for token, adapter in enumerate(step.adapters[step.request_of]):
            if adapter:
                down, up = self.factors[int(adapter)]
                for y in outputs:
                    y[token] += up @ (down @ x[token])
        return outputs


def test_each_request_is_multiplied_by_its_own_adapter() -> None:
    x, weight = floats(5, 64), matrix("F32", 7, 64)
    ops = Adapted(factors={2: (floats(3, 64, seed=1), floats(7, 3, seed=2))})

    def outputs(adapters: list[int]) -> F32:
        s = two_requests(np.array(adapters, np.int32))
        return ops.project(s, load_rows(ops, x)(ops, s), None, [ops.weight(weight)])[0]

    plain, first, second = outputs([0, 0]), outputs([2, 0]), outputs([0, 2])
    down, up = ops.factors[2]
    delta = (x @ down.T) @ up.T
    np.testing.assert_array_equal(first[3:], plain[3:])
    np.testing.assert_array_equal(second[:3], plain[:3])
    np.testing.assert_allclose(first[:3] - plain[:3], delta[:3], atol=1e-4)
    np.testing.assert_allclose(second[3:] - plain[3:], delta[3:], atol=1e-4)


@pytest.mark.parametrize("adapters", [[0], [0, 0, 0], [[0, 0]], [0, -1], [0.0, 1.0]])
def test_adapters_of_another_shape_or_type_are_refused(adapters: Any) -> None:
    kind = np.float32 if isinstance(adapters[-1], float) else np.int32
    with pytest.raises(ParameterError, match=r"int32 \[2\]"):
        two_requests(np.array(adapters, kind))
    with pytest.raises(ParameterError):
        two_requests(np.zeros(2, np.int64))


@pytest.mark.parametrize("make", [lambda: NativeBackend(threads=1), ReferenceBackend])
def test_no_backend_ignores_an_adapter(make: Any) -> None:
    ops: Backend = make()
    embed = load_rows(ops, floats(5, 64))
    norm, head = Norm("rms", np.ones(64, np.float32), None, 1e-5), ops.weight(matrix("F32", 7, 64))
    forward: Forward = lambda o, s: o.logits(s, embed(o, s), norm, head, 1.0, None)  # noqa: E731
    step_function: Any = ops.record(forward)
    run = lambda s: step_function(s).values  # noqa: E731
    without = run(two_requests(None)).copy()
    np.testing.assert_array_equal(run(two_requests(np.zeros(2, np.int32))), without)
    with pytest.raises(UnsupportedError, match="adapters"):
        run(two_requests(np.array([0, 1], np.int32)))
