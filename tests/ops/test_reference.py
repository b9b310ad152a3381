"""The reference backend from the definitions: written out as loops over single numbers, in float64."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

from cutaway.formats import BLOCKS, dequantize
from cutaway.ops.protocol import Attention, Experts, KVGroup, KVLayout, KVType, Matrix, Norm, Rope, Step
from cutaway.ops.reference import capped, expert_shares, normalize, rotate, softmax
from cutaway.ops.reference_backend import ReferenceBackend
from cutaway.ops.rounding import ROUND, round_groups

HEADS, KV_HEADS, HEAD_DIM, PAGE = 4, 2, 6, 3
RNG = np.random.default_rng


def floats(*shape: int, seed: int = 0) -> Any:
    return RNG([seed, *shape]).normal(size=shape).astype(np.float32)


def weight(ops: ReferenceBackend, values: Any, bias: Any = None) -> Any:
    values = np.ascontiguousarray(values, np.float32)
    return ops.weight(Matrix("F32", values.reshape(-1).view(np.uint8), *values.shape), bias)


def quantized(type: str, rows: int, inputs: int) -> Matrix:
    elements, size = BLOCKS[type]
    raw = RNG(3).integers(0, 50, rows * inputs // elements * size, dtype=np.uint8)
    return Matrix(type, raw, rows, inputs)


def layout(pages: int, types: tuple[KVType, KVType] = ("f32", "f32"), window: int | None = None) -> KVLayout:
    return KVLayout(KV_HEADS, HEAD_DIM, PAGE, *types, (KVGroup((0,), window, pages),))


def step(positions: list[int], requests: list[int] | None = None, tables: Any = None) -> Step:
    count = len(positions)
    table = np.arange(8, dtype=np.int32)[None] if tables is None else np.array(tables, np.int32)
    return Step(
        tokens=np.arange(count, dtype=np.int32),
        positions=np.array(positions, np.int32),
        request_of=np.array(requests or [0] * count, np.int32),
        page_tables=(table,),
        rows=np.arange(count, dtype=np.int32),
    )


def naive_attention(q: Any, k: Any, v: Any, a: Attention) -> Any:
    """One request from position 0: q [tokens, heads, head_dim], k and v [tokens, kv_heads, head_dim]."""
    out = np.zeros(q.shape)
    for token in range(len(q)):
        for head in range(a.heads):
            group = head // (a.heads // a.kv_heads)
            seen = [t for t in range(token + 1) if a.window is None or token - t < a.window]
            scores = []
            for t in seen:
                score = float(np.dot(q[token, head].astype(np.float64), k[t, group])) * a.scale
                score = score if a.softcap is None else a.softcap * math.tanh(score / a.softcap)
                scores.append(score + (0.0 if a.slopes is None else float(a.slopes[head]) * (t - token)))
            weights = np.exp(np.array(scores) - max(scores))
            out[token, head] = (weights[:, None] * v[seen, group]).sum(0) / weights.sum()
    return out.reshape(len(q), -1)


ATTENTIONS = {
    "full": Attention(HEADS, KV_HEADS, HEAD_DIM, 0.4),
    "window": Attention(HEADS, KV_HEADS, HEAD_DIM, 0.4, window=4),
    "window of one": Attention(HEADS, KV_HEADS, HEAD_DIM, 0.4, window=1),
    "softcap": Attention(HEADS, KV_HEADS, HEAD_DIM, 3.0, softcap=1.5),
    "slopes": Attention(HEADS, KV_HEADS, HEAD_DIM, 0.4, slopes=np.array([0.5, 0.25, 0.1, 0.01], np.float32)),
}


@pytest.mark.parametrize("name", ATTENTIONS)
@pytest.mark.parametrize("chunks", [[11], [4, 1, 6], [1] * 11])
def test_attention_through_pages(name: str, chunks: list[int]) -> None:
    attention, count = ATTENTIONS[name], 11
    q, k, v = floats(count, 24), floats(count, 12, seed=1), floats(count, 12, seed=2)
    ops, got, start = ReferenceBackend(), [], 0
    kv = ops.open_cache(layout(8))[0]
    for size in chunks:
        s = step(list(range(start, start + size)), tables=[[5, 2, 7, 0]])
        part = slice(start, start + size)
        turned = ops.rotate_store(s, q[part], k[part], v[part], kv, attention, None, None, None)
        got.append(ops.attend(s, turned, kv, attention))
        start += size
    shape = (count, KV_HEADS, HEAD_DIM)
    expected = naive_attention(q.reshape(count, HEADS, HEAD_DIM), k.reshape(shape), v.reshape(shape), attention)
    np.testing.assert_allclose(np.concatenate(got), expected, rtol=0, atol=2e-6)


def test_requests_of_a_batch_do_not_see_each_other() -> None:
    ops, attention = ReferenceBackend(), ATTENTIONS["full"]
    q, k, v = floats(7, 24), floats(7, 12, seed=1), floats(7, 12, seed=2)
    together = ops.open_cache(layout(8))[0]
    s = step([0, 1, 2, 3, 0, 1, 2], [0, 0, 0, 0, 1, 1, 1], [[3, 1], [0, 6]])
    both = ops.attend(s, ops.rotate_store(s, q, k, v, together, attention, None, None, None), together, attention)
    for part, positions in ((slice(0, 4), [0, 1, 2, 3]), (slice(4, 7), [0, 1, 2])):
        alone = ops.open_cache(layout(8))[0]
        s = step(positions)
        turned = ops.rotate_store(s, q[part], k[part], v[part], alone, attention, None, None, None)
        np.testing.assert_array_equal(ops.attend(s, turned, alone, attention), both[part])


def test_a_window_needs_no_page_that_left_it() -> None:
    ops, attention = ReferenceBackend(), ATTENTIONS["window"]
    kv = ops.open_cache(layout(8, window=4))[0]
    q, k, v = floats(8, 24), floats(8, 12, seed=1), floats(8, 12, seed=2)
    s = step(list(range(8)), tables=[[4, 5, 6]])
    expected = ops.attend(s, ops.rotate_store(s, q, k, v, kv, attention, None, None, None), kv, attention)
    s = step([7], tables=[[-1, 5, 6]])  # sees 4 to 7, all beyond the first page
    np.testing.assert_array_equal(ops.attend(s, q[7:], kv, attention)[0], expected[7])
    with pytest.raises(AssertionError):
        ops.attend(step([7], tables=[[4, -1, 6]]), q[7:], kv, attention)


def test_a_nan_is_seen_by_those_who_see_it_and_by_nobody_else() -> None:
    ops, attention = ReferenceBackend(), ATTENTIONS["full"]
    kv = ops.open_cache(layout(8))[0]
    q, k, v = floats(6, 24), floats(6, 12, seed=1), floats(6, 12, seed=2)
    k[3, 0] = np.nan
    s = step(list(range(6)))
    out = ops.attend(s, ops.rotate_store(s, q, k, v, kv, attention, None, None, None), kv, attention)
    assert np.isfinite(out[:3]).all()
    assert np.isnan(out[3:, : 2 * HEAD_DIM]).all()  # the two heads that share the bad key
    assert np.isfinite(out[3:, 2 * HEAD_DIM :]).all()


@pytest.mark.parametrize("types", [("bf16", "int8"), ("int8", "fp8"), ("fp8", "bf16"), ("f32", "f32")])
def test_the_cache_rounds_only_when_asked(types: tuple[KVType, KVType]) -> None:
    k, v = floats(5, 12, seed=1), floats(5, 12, seed=2)
    rows = (5, KV_HEADS, HEAD_DIM)
    for ops, kinds in ((ReferenceBackend(), ("f32", "f32")), (ReferenceBackend(quantize_cache=True), types)):
        kv = ops.open_cache(layout(8, types))[0]
        ops.rotate_store(step(list(range(5))), floats(5, 24), k, v, kv, ATTENTIONS["full"], None, None, None)
        stored = (kv.keys.reshape(-1, KV_HEADS, HEAD_DIM)[:5], kv.values.reshape(-1, KV_HEADS, HEAD_DIM)[:5])
        np.testing.assert_array_equal(stored[0], ROUND[kinds[0]](k.reshape(rows)))
        np.testing.assert_array_equal(stored[1], ROUND[kinds[1]](v.reshape(rows)))


def test_rms_and_layer_norm() -> None:
    x, w, b = floats(3, 10) * 5 + 2, floats(10, seed=1), floats(10, seed=2)
    wide = x.astype(np.float64)
    rms = wide / np.sqrt((wide**2).mean(-1, keepdims=True) + 0.1) * w
    np.testing.assert_allclose(normalize(x, Norm("rms", w, None, 0.1)), rms, rtol=1e-5, atol=1e-6)
    layer = (wide - wide.mean(-1, keepdims=True)) / np.sqrt(wide.var(-1, keepdims=True) + 0.1) * w + b
    np.testing.assert_allclose(normalize(x, Norm("layer", w, b, 0.1)), layer, rtol=1e-4, atol=1e-5)
    assert normalize(x, None) is x


def test_rotation_styles_pair_different_inputs() -> None:
    angles = floats(9, 2)
    half, interleaved = (Rope(np.cos(angles), np.sin(angles), style) for style in ("half", "interleaved"))
    x, positions = floats(3, 2, 6), np.array([4, 0, 8], np.int32)
    y = rotate(x, half, positions)
    for token, position in enumerate(positions):
        c, s = np.cos(angles[position]), np.sin(angles[position])
        np.testing.assert_allclose(y[token, :, :2], x[token, :, :2] * c - x[token, :, 2:4] * s, atol=1e-6)
        np.testing.assert_allclose(y[token, :, 2:4], x[token, :, 2:4] * c + x[token, :, :2] * s, atol=1e-6)
    np.testing.assert_array_equal(y[..., 4:], x[..., 4:])  # beyond the rotary width nothing turns
    order = [0, 2, 1, 3, 4, 5]  # the same pairs in the other style
    np.testing.assert_allclose(rotate(x[..., order], interleaved, positions)[..., order], y, atol=1e-6)


@pytest.mark.parametrize("width", [HEAD_DIM, HEADS * HEAD_DIM])
def test_query_norm_per_head_or_over_the_row(width: int) -> None:
    ops, attention = ReferenceBackend(), Attention(HEADS, HEADS, HEAD_DIM, 1.0)
    kv = ops.open_cache(KVLayout(HEADS, HEAD_DIM, PAGE, "f32", "f32", (KVGroup((0,), None, 2),)))[0]
    q = floats(2, 24)
    norm = Norm("rms", floats(width, seed=4), None, 1e-6)
    got = ops.rotate_store(step([0, 1]), q, q, q, kv, attention, None, norm, norm)
    np.testing.assert_allclose(got, normalize(q.reshape(-1, width), norm).reshape(2, 24), rtol=1e-6)
    np.testing.assert_array_equal(kv.keys.reshape(-1, HEADS * HEAD_DIM)[:2], got)


def test_products_norms_and_residuals() -> None:
    ops = ReferenceBackend()
    x, a, w, b = floats(3, 8), floats(3, 5, seed=1), floats(8, 5, seed=2), floats(8, seed=3)
    norm, s = Norm("rms", floats(8, seed=4), None, 1e-6), step([0, 1, 2])
    got = ops.project_add(s, x, a, weight(ops, w, b), None, 0.5)
    np.testing.assert_allclose(got, x + 0.5 * (a @ w.T + b), atol=1e-5)
    expected = x + normalize(a @ w.T + b, norm)
    np.testing.assert_allclose(ops.project_add(s, x, a, weight(ops, w, b), norm, 1.0), expected, atol=1e-5)
    (y,) = ops.project(s, x, norm, [weight(ops, floats(4, 8, seed=5))])
    np.testing.assert_allclose(y, normalize(x, norm) @ floats(4, 8, seed=5).T, atol=1e-5)


ACTIVATIONS = {
    "silu": lambda v: v / (1 + math.exp(-v)) if v > -700 else 0.0,
    "gelu": lambda v: 0.5 * v * (1 + math.erf(v / math.sqrt(2))),
    "gelu_tanh": lambda v: 0.5 * v * (1 + math.tanh(math.sqrt(2 / math.pi) * (v + 0.044715 * v**3))),
    "relu": lambda v: max(v, 0.0),
}


@pytest.mark.parametrize("activation", ACTIVATIONS)
def test_feed_forward(activation: Any) -> None:
    ops = ReferenceBackend()
    x = np.array([[-800.0, -3.0, -0.1, 0.0, 0.1, 3.0, 800.0]], np.float32)
    act = np.array([[ACTIVATIONS[activation](v) for v in x[0].astype(float)]])
    unit = weight(ops, np.eye(7))
    np.testing.assert_allclose(ops.feed(step([0]), x, None, None, unit, activation), act, rtol=1e-5, atol=1e-7)
    np.testing.assert_allclose(
        ops.feed(step([0]), x, None, unit, weight(ops, 2 * np.eye(7)), activation), act * 2 * x, rtol=1e-5, atol=1e-7
    )


def experts_of(ops: ReferenceBackend, count: int, used: int, *, renormalize: bool, **shared: Any) -> Experts:
    gate, up, down = (
        [weight(ops, floats(*shape, seed=10 * part + expert)) for expert in range(count)]
        for part, shape in enumerate([(6, 8), (6, 8), (8, 6)])
    )
    return Experts(weight(ops, floats(count, 8, seed=99)), gate, up, down, used, renormalize, **shared)


@pytest.mark.parametrize("renormalize", [True, False])
@pytest.mark.parametrize("shared", [True, False])
def test_mixture_of_experts(renormalize: bool, shared: bool) -> None:
    ops = ReferenceBackend()
    extra = {}
    if shared:
        parts = {
            "shared_gate": floats(5, 8, seed=1),
            "shared_up": floats(5, 8, seed=2),
            "shared_down": floats(8, 5, seed=3),
        }
        extra = {name: weight(ops, value) for name, value in {**parts, "shared_router": floats(1, 8, seed=4)}.items()}
    experts = experts_of(ops, 5, 2, renormalize=renormalize, scale=1.5, **extra)
    x = floats(4, 8)
    got = ops.mix_experts(step([0, 1, 2, 3]), x, None, experts, "silu")

    def expert(n: Any, gate: Any, up: Any, down: Any) -> Any:
        h = gate.values @ n
        return down.values @ (h / (1 + np.exp(-h)) * (up.values @ n))

    for token, n in enumerate(x.astype(np.float64)):
        logits = experts.router.values @ n  # type: ignore[attr-defined]
        p = np.exp(logits - logits.max()) / np.exp(logits - logits.max()).sum()
        taken = sorted(np.argsort(-p, kind="stable")[:2])
        total = p[taken].sum() if renormalize else 1.0
        expected = n + sum(
            1.5 * p[e] / total * expert(n, experts.gate[e], experts.up[e], experts.down[e]) for e in taken
        )
        if shared:
            gate = 1 / (1 + math.exp(-float(experts.shared_router.values[0] @ n)))  # type: ignore[union-attr]
            expected = expected + gate * expert(n, experts.shared_gate, experts.shared_up, experts.shared_down)
        np.testing.assert_allclose(got[token], expected, rtol=1e-4, atol=1e-5)


def test_equal_router_probabilities_go_to_the_lower_expert() -> None:
    ops = ReferenceBackend()
    shares = expert_shares(np.zeros((1, 4), np.float32), experts_of(ops, 4, 2, renormalize=True))
    assert shares.tolist() == [[0.5, 0.5, 0.0, 0.0]]


@pytest.mark.parametrize("type", ["F32", "BF16", "Q8_0", "Q5_0", "Q4_K", "Q6_K"])
def test_activations_are_rounded_for_quantized_weights_only(type: str) -> None:
    matrix, x = quantized(type, 4, 256), floats(3, 256)
    values = dequantize(type, matrix.raw, (4, 256)).astype(np.float64)
    rounds = type not in ("F32", "BF16")
    for ops in (ReferenceBackend(), ReferenceBackend(quantize_activations=True)):
        seen = round_groups(x, 32) if rounds and ops.quantize_activations else x
        expected = seen.astype(np.float64) @ values.T
        (got,) = ops.project(step([0, 1, 2]), x, None, [ops.weight(matrix)])
        np.testing.assert_allclose(got, expected, rtol=1e-5, atol=1e-5 * np.abs(expected).max())


def test_embedding_rows_and_position_rows() -> None:
    ops, matrix = ReferenceBackend(), quantized("Q8_0", 12, 64)
    values = dequantize("Q8_0", matrix.raw, (12, 64))
    s = step([3, 4, 5])
    x = ops.embed(s, ops.table(matrix), 2.5)
    np.testing.assert_array_equal(x, values[:3] * np.float32(2.5))
    table = floats(8, 64)
    np.testing.assert_array_equal(ops.add_positions(s, x, table), x + table[3:6])


def test_logits_of_the_wanted_rows_only() -> None:
    ops, norm = ReferenceBackend(), Norm("rms", np.ones(8, np.float32), None, 1e-6)
    x, head = floats(4, 8), floats(11, 8, seed=1)
    s = step([0, 1, 2, 3])
    wanted = Step(s.tokens, s.positions, s.request_of, s.page_tables, np.array([1, 3], np.int32))
    expected = 2.0 * np.tanh(0.5 * (normalize(x, norm) @ head.T) / 2.0)
    got = ops.record(lambda o, st: o.logits(st, x, norm, weight(ops, head), 0.5, 2.0))(wanted).values
    np.testing.assert_allclose(got, expected[[1, 3]], rtol=1e-5, atol=1e-6)
    assert got.dtype == np.float32


def test_softmax_and_cap_at_the_extremes() -> None:
    assert softmax(np.array([[1e30, 0.0]], np.float32)).tolist() == [[1.0, 0.0]]
    assert np.isnan(softmax(np.array([[np.nan, 0.0]], np.float32))).all()
    assert capped(np.array([1e30], np.float32), 30.0).tolist() == [30.0]
