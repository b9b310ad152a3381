"""Every op of the CPU backend against the reference that rounds as it does, on every instruction set."""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Callable
from functools import partial

import numpy as np
import pytest

from cutaway.errors import ParameterError, UnsupportedError
from cutaway.ops.backend import Backend
from cutaway.ops.native.backend import NativeBackend
from cutaway.ops.protocol import F32, Attention, Experts, Hidden, KVGroup, KVLayout, Norm, Ops, Rope, Step
from cutaway.ops.reference_backend import ReferenceBackend
from tiny import SETS, floats, load_rows, matrix, step

WIDTH = 96
Built = Callable[[Backend, Ops, Step], Hidden]
"""A forward pass that packs its weights on the way."""


@pytest.fixture(scope="module", params=SETS)
def native(request: pytest.FixtureRequest) -> NativeBackend:
    return NativeBackend(threads=1, instruction_set=request.param)


@pytest.fixture(scope="module")
def reference() -> ReferenceBackend:
    return ReferenceBackend(quantize_activations=True)


def drive(native: NativeBackend, forward: Built, s: Step) -> F32:
    return native.drive(partial(forward, native), s)


def agree(native: NativeBackend, reference: ReferenceBackend, forward: Built, s: Step, tolerance: float = 1e-5) -> None:
    """Outputs within `tolerance` of the largest."""
    got, want = drive(native, forward, s), np.asarray(forward(reference, reference, s))
    assert got.shape == want.shape
    assert np.abs(got - want).max() <= tolerance * np.abs(want).max()


def norm(kind: str, width: int, bias: bool = False) -> Norm:
    return Norm(kind, 1 + floats(width, seed=3, scale=0.2), floats(width, seed=4) if bias else None, 1e-5)  # type: ignore[arg-type]


@pytest.mark.parametrize(("kind", "bias"), [("rms", False), ("layer", True), ("layer", False)])
@pytest.mark.parametrize("width", [7, 16, 50, 96])
def test_normalize(native: NativeBackend, reference: ReferenceBackend, kind: str, bias: bool, width: int) -> None:
    x = 3 + floats(5, width)
    agree(native, reference, lambda b, o, s: o.normalize(s, load_rows(b, x)(o, s), norm(kind, width, bias)), step(5))


def test_embed_and_positions(native: NativeBackend, reference: ReferenceBackend) -> None:
    table, positions = matrix("Q6_K", 20, 256), floats(40, 256)
    forward = lambda b, o, s: o.add_positions(s, o.embed(s, b.table(table), 16.5), positions)  # noqa: E731
    agree(native, reference, forward, step(9, start=3), 1e-7)


@pytest.mark.parametrize("tokens", [1, 2, 3, 9])
@pytest.mark.parametrize("threads", [1, 2, 3])
def test_project_with_norm_biases_and_mixed_types(reference: ReferenceBackend, tokens: int, threads: int) -> None:
    native = NativeBackend(threads=threads)
    x, weights = floats(tokens, 256), [matrix("Q5_0", 33, 256), matrix("F16", 17, 256), matrix("Q6_K", 48, 256)]
    for i in range(3):

        def forward(b: Backend, o: Ops, s: Step, i: int = i) -> F32:
            packed = [b.weight(w, floats(w.rows, seed=1)) for w in weights]
            return o.project(s, load_rows(b, x)(o, s), norm("rms", 256), packed)[i]  # type: ignore[no-any-return]

        agree(native, reference, forward, step(tokens))


@pytest.mark.parametrize("post", [None, "rms", "layer"])
@pytest.mark.parametrize("tokens", [1, 6])
def test_project_add(native: NativeBackend, reference: ReferenceBackend, post: str | None, tokens: int) -> None:
    x, a, w = floats(tokens, 40), floats(tokens, 64, seed=2), matrix("Q8_0", 40, 64)
    after = None if post is None else norm(post, 40)

    def forward(b: Backend, o: Ops, s: Step) -> F32:
        return o.project_add(s, load_rows(b, x)(o, s), load_rows(b, a)(o, s), b.weight(w, floats(40)), after, 0.22)  # type: ignore[no-any-return]

    agree(native, reference, forward, step(tokens))


@pytest.mark.parametrize("activation", ["silu", "gelu", "gelu_tanh", "relu"])
@pytest.mark.parametrize("gated", [True, False])
def test_feed(native: NativeBackend, reference: ReferenceBackend, activation: str, gated: bool) -> None:
    x = floats(5, 64, scale=3)

    def forward(b: Backend, o: Ops, s: Step) -> F32:
        up, gate = (
            b.weight(matrix("Q4_0", 50, 64, 1), floats(50)),
            b.weight(matrix("Q4_1", 50, 64, 2), floats(50, seed=9)),
        )
        return o.feed(s, load_rows(b, x)(o, s), norm("rms", 64), gate if gated else None, up, activation)  # type: ignore[no-any-return,arg-type]

    agree(native, reference, forward, step(5))


@pytest.mark.parametrize("softcap", [None, 30.0])
def test_logits_of_some_rows(native: NativeBackend, reference: ReferenceBackend, softcap: float | None) -> None:
    x = floats(7, 64)

    def forward(b: Backend, o: Ops, s: Step) -> F32:
        return o.logits(s, load_rows(b, x)(o, s), norm("rms", 64), b.weight(matrix("Q8_0", 101, 64)), 0.25, softcap)  # type: ignore[no-any-return]

    agree(native, reference, forward, step(7, rows=[0, 3, 6]))


def test_no_rows_no_logits(native: NativeBackend) -> None:
    head = native.weight(matrix("Q8_0", 9, 64))

    def forward(b: Backend, o: Ops, s: Step) -> F32:
        return o.logits(s, load_rows(b, floats(2, 64))(o, s), norm("rms", 64), head, 1.0, None)  # type: ignore[no-any-return]

    assert drive(native, forward, step(2, rows=[])).shape == (0, 9)


@dataclasses.dataclass
class AttentionCase:
    heads: int = 4
    kv_heads: int = 2
    head_dim: int = 32
    window: int | None = None
    softcap: float | None = None
    slopes: bool = False
    rope: str | None = "half"
    rotary: int = 32
    norms: str | None = None
    key_type: str = "f32"
    value_type: str = "f32"
    page_size: int = 16

    def forward(self, q: F32, k: F32, v: F32, cache: dict[str, list]) -> Built:  # type: ignore[type-arg]
        d, context = self.head_dim, 800
        layout = KVLayout(
            self.kv_heads,
            d,
            self.page_size,
            self.key_type,
            self.value_type,
            (KVGroup((0,), self.window, 800 // self.page_size),),
        )  # type: ignore[arg-type]
        slopes = np.linspace(0.5, 0.01, self.heads).astype(np.float32) if self.slopes else None
        attention = Attention(self.heads, self.kv_heads, d, d**-0.5, self.window, self.softcap, slopes)
        angles = np.outer(np.arange(context), 100.0 ** -np.linspace(0, 1, self.rotary // 2)).astype(np.float32)
        rope = None if self.rope is None else Rope(np.cos(angles), np.sin(angles), self.rope)  # type: ignore[arg-type]
        width = {None: 0, "head": d, "row": self.heads * d}[self.norms]
        q_norm = norm("rms", width) if width else None
        k_norm = norm("rms", d if self.norms == "head" else self.kv_heads * d) if width else None

        def run(b: Backend, o: Ops, s: Step) -> F32:
            pages = cache.setdefault(b.name, b.open_cache(layout))[0]
            at = slice(int(s.positions[0]), int(s.positions[-1]) + 1)
            parts = [load_rows(b, np.ascontiguousarray(x[at]))(o, s) for x in (q, k, v)]
            turned = o.rotate_store(s, *parts, pages, attention, rope, q_norm, k_norm)
            return o.attend(s, turned, pages, attention)  # type: ignore[no-any-return]

        return run


SHAPES = [
    AttentionCase(),
    AttentionCase(heads=7, kv_heads=1, head_dim=16, rotary=8),
    AttentionCase(heads=3, kv_heads=3, head_dim=20, rotary=20, rope="interleaved", page_size=32),
    AttentionCase(heads=14, kv_heads=2, head_dim=64, rotary=64),
    AttentionCase(heads=5, kv_heads=5, head_dim=96, rotary=96, window=70),
    AttentionCase(heads=20, kv_heads=1, head_dim=128, rotary=128, page_size=48),
    AttentionCase(window=5),
    AttentionCase(window=300, page_size=32),
    AttentionCase(softcap=5.0, norms="head"),
    AttentionCase(slopes=True, rope=None),
    AttentionCase(norms="row"),
]
CASES = [
    *SHAPES,
    *(dataclasses.replace(case, key_type="bf16", value_type="bf16") for case in SHAPES),
    *(
        AttentionCase(key_type=k, value_type=v, head_dim=48, rotary=48)
        for k, v in itertools.product(["bf16", "int8", "fp8"], repeat=2)
    ),
]


@pytest.mark.parametrize("case", CASES, ids=str)
def test_attention_over_chunks(reference: ReferenceBackend, case: AttentionCase) -> None:
    """Chunks of 300, 1, 2, 40, 258 tokens: segments, odd page fills, windows, split and unsplit segments."""
    tokens = 601
    q, k, v = (
        floats(tokens, h * case.head_dim, seed=i) for i, h in enumerate((case.heads, case.kv_heads, case.kv_heads))
    )
    for name, threads in itertools.product([SETS[0], SETS[-1]], [1, 2]):
        forward = case.forward(q, k, v, {})
        native = NativeBackend(threads=threads, instruction_set=name, max_rows=512)
        start = 0
        for size in (300, 1, 2, 40, 258):
            s = step(size, start=start, pages=800 // case.page_size, page_size=case.page_size)
            agree(native, reference, forward, s, 2e-5)
            start += size


def test_recycled_pages_are_never_seen(native: NativeBackend) -> None:
    """A page that held NaN, then another request's tokens: the answer is that of fresh pages."""
    case = AttentionCase(head_dim=16, rotary=16)
    q, k, v = (floats(40, h * 16, seed=i) for i, h in enumerate((4, 2, 2)))
    clean = drive(native, case.forward(q, k, v, {}), step(21, pages=50))
    dirty = case.forward(np.full_like(q, np.nan), np.full_like(k, np.nan), np.full_like(v, np.nan), cache := {})
    drive(native, dirty, step(40, pages=50))
    again = drive(native, case.forward(q, k, v, cache), step(21, pages=50))
    assert np.array_equal(clean, again)


def test_a_nan_spreads_to_its_own_request_only(native: NativeBackend) -> None:
    q, k, v = (floats(12, h * 16, seed=i) for i, h in enumerate((4, 2, 2)))
    k[3, 5] = np.nan
    table = np.array([[0, -1], [1, -1]], np.int32)
    s = Step(
        np.arange(12, dtype=np.int32),
        np.array([*range(6), *range(6)], np.int32),
        np.repeat(np.arange(2, dtype=np.int32), 6),
        (table,),
        np.arange(12, dtype=np.int32),
    )
    embed = [load_rows(native, x) for x in (q, k, v)]
    attention = Attention(4, 2, 16, 0.25)
    pages = native.open_cache(KVLayout(2, 16, 16, "f32", "f32", (KVGroup((0,), None, 2),)))[0]

    def run(o: Ops, st: Step) -> F32:
        turned = o.rotate_store(st, *(e(o, st) for e in embed), pages, attention, None, None, None)
        return o.attend(st, turned, pages, attention)  # type: ignore[no-any-return]

    out = native.drive(run, s)
    assert np.isfinite(out[:3]).all()
    assert np.isnan(out[3:6]).any(axis=1).all()
    assert np.isfinite(out[6:]).all()


@pytest.mark.parametrize("type", ["Q8_0", "F32"])
@pytest.mark.parametrize("shared", [None, "plain", "gated"])
@pytest.mark.parametrize("tokens", [1, 2, 21])
def test_experts(reference: ReferenceBackend, type: str, shared: str | None, tokens: int) -> None:
    x = floats(tokens, 64)

    def forward(b: Backend, o: Ops, s: Step) -> F32:
        make = lambda rows, inputs, seed: b.weight(matrix(type, rows, inputs, seed))  # noqa: E731
        experts = Experts(
            b.weight(matrix("F32", 6, 64, 99)),
            [make(32, 64, i) for i in range(6)],
            [make(32, 64, 10 + i) for i in range(6)],
            [make(64, 32, 20 + i) for i in range(6)],
            used=3, renormalize=shared is None, scale=1.5,
            shared_gate=make(96, 64, 31) if shared else None, shared_up=make(96, 64, 32) if shared else None,
            shared_down=make(64, 96, 33) if shared else None,
            shared_router=b.weight(matrix("F32", 1, 64, 34)) if shared == "gated" else None,
        )  # fmt: skip
        return o.mix_experts(s, load_rows(b, x)(o, s), norm("rms", 64), experts, "silu")  # type: ignore[no-any-return]

    for name, threads in itertools.product([SETS[0], SETS[-1]], [1, 2]):
        agree(NativeBackend(threads=threads, instruction_set=name), reference, forward, step(tokens))


def test_what_the_kernels_trust_is_checked(native: NativeBackend) -> None:
    attention, good = Attention(4, 2, 16, 0.25), step(4, pages=3)
    rope = Rope(floats(40, 8), floats(40, 8))
    embed = [load_rows(native, floats(4, h * 16, seed=i)) for i, h in enumerate((4, 2, 2))]
    pages = native.open_cache(KVLayout(2, 16, 16, "bf16", "bf16", (KVGroup((0,), None, 3),)))[0]

    def forward(b: Backend, o: Ops, s: Step) -> F32:
        q, k, v = (e(o, s) for e in embed)
        return o.attend(s, o.rotate_store(s, q, k, v, pages, attention, rope, None, None), pages, attention)  # type: ignore[no-any-return]

    i32 = lambda *x: np.array(x, np.int32)  # noqa: E731
    bad = {
        "outside the vocabulary": {"tokens": i32(0, 1, 2, 4)},
        "outside the context": {"positions": i32(-1, 0, 1, 2)},
        "do not follow": {"positions": i32(0, 1, 2, 2)},
        "ascending": {"request_of": i32(1, 0, 0, 0)},
        "outside the step": {"rows": i32(4)},
        "too small": {"page_tables": (np.zeros((1, 0), np.int32),)},
        "no page": {"page_tables": (np.full((1, 3), -1, np.int32),)},
        "outside the pool": {"page_tables": (np.full((1, 3), 50, np.int32),)},
    }
    recorded = native.record(partial(forward, native))  # every index is known at once, before any kernel runs
    recorded(good)
    for message, change in bad.items():
        with pytest.raises(ValueError, match=message):
            recorded(dataclasses.replace(good, **change))
    with pytest.raises(ValueError, match="does not fit"):
        recorded(step(600))


def test_bad_settings_are_named() -> None:
    with pytest.raises(ParameterError, match="threads"):
        NativeBackend(threads=0)
    ops = NativeBackend(threads=1)
    with pytest.raises(UnsupportedError, match="head_dim 15"):
        ops.open_cache(KVLayout(1, 15, 16, "bf16", "bf16", ()))
    with pytest.raises(ParameterError, match="page_size"):
        ops.open_cache(KVLayout(1, 16, 20, "bf16", "bf16", ()))
