"""Small quantized matrices and decoders made of random blocks, for tests of backends."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence

import numpy as np

from cutaway.formats import BLOCKS, dequantize
from cutaway.native import _native
from cutaway.ops.backend import Backend
from cutaway.ops.native.backend import NativeBackend
from cutaway.ops.protocol import (
    F32,
    Activation,
    Attention,
    Hidden,
    KVGroup,
    KVLayout,
    Matrix,
    Norm,
    Ops,
    Rope,
    Step,
    Weight,
)  # fmt: skip


def runs(name: str) -> bool:
    """Whether this machine has the instruction set."""
    try:
        return bool(_native.instruction_set(name) == name)
    except ValueError:
        return False


SETS = [name for name in ("plain", "avx2", "avxvnni", "avx512", "amx") if runs(name)]
# The same bits in everything; the matrix unit adds floats in its own order.
ALIKE = [name for name in SETS if name != "amx"]
FLOATS = {"F32": np.float32, "F16": np.float16}


def matrix(type: str, rows: int, inputs: int, seed: int = 0) -> Matrix:
    """Random blocks of a type whose values are neither huge nor all tiny (scales of every size in between)."""
    rng = np.random.default_rng([seed, rows, inputs])
    if type in FLOATS:
        raw = rng.normal(0, 0.1, (rows, inputs)).astype(FLOATS[type]).view(np.uint8).reshape(-1)
    elif type == "BF16":
        bits = rng.normal(0, 0.1, (rows, inputs)).astype(np.float32).view(np.uint32) >> 16
        raw = bits.astype(np.uint16).view(np.uint8).reshape(-1)
    else:
        raw = sane_blocks(type, rows * inputs // BLOCKS[type][0], rng).reshape(-1)
    return Matrix(type, raw, rows, inputs)


def sane_blocks(type: str, count: int, rng: np.random.Generator) -> np.ndarray:
    """Random bytes, kept where a block's largest value lies between 1e-3 and 4."""
    elements, size = BLOCKS[type]
    pool = np.zeros((0, size), np.uint8)
    while len(pool) < min(count, 400):
        raw = rng.integers(0, 256, (4000, size), dtype=np.uint8)
        with np.errstate(all="ignore"):
            top = np.abs(dequantize(type, raw.reshape(-1), (len(raw), elements))).max(1)
        pool = np.concatenate([pool, raw[(top > 1e-3) & (top < 4)]])
    return pool[rng.integers(0, len(pool), count)]


def values(m: Matrix) -> F32:
    return dequantize(m.type, m.raw, (m.rows, m.inputs))


def floats(*shape: int, seed: int = 0, scale: float = 1.0) -> F32:
    return np.random.default_rng([seed, *shape]).normal(0, scale, shape).astype(np.float32)


def step(
    tokens: int,
    *,
    start: int = 0,
    pages: int = 8,
    page_size: int = 16,
    groups: int = 1,
    rows: Sequence[int] | None = None,
) -> Step:
    """One request's tokens 0, 1, 2, ... from position `start`, its pages in reverse order."""
    table = np.arange(pages, dtype=np.int32)[::-1].reshape(1, -1).copy()
    wanted = range(tokens) if rows is None else rows
    return Step(
        np.arange(tokens, dtype=np.int32), np.arange(start, start + tokens, dtype=np.int32), np.zeros(tokens, np.int32),
        (table,) * groups, np.array(wanted, np.int32),
    )  # fmt: skip


def load_rows(ops: Backend, x: F32) -> Callable[[Ops, Step], Hidden]:
    """A way into a step for given activations: token t is row t of x."""
    table = ops.table(Matrix("F32", x.view(np.uint8).reshape(-1), *x.shape))
    return lambda o, s: o.embed(s, table, 1.0)


def product(ops: NativeBackend, weight: Weight, x: F32) -> F32:
    """weight @ x: float32 [tokens, rows]."""
    embed = load_rows(ops, x)
    return ops.drive(lambda o, s: o.project(s, embed(o, s), None, [weight])[0], step(len(x)))


@dataclasses.dataclass
class TinyModel:
    """Three layers of different types and windows; made for one backend."""

    ops: Backend
    vocab: int = 133
    hidden: int = 256
    page_size: int = 16
    pages: int = 24
    key_type: str = "bf16"
    value_type: str = "bf16"
    windows: tuple[int | None, ...] = (None, 37, None)
    activation: Activation = "silu"
    float_type: str = "BF16"

    def __post_init__(self) -> None:
        hidden, heads, kv_heads, head_dim, context = self.hidden, 6, 2, 32, self.page_size * self.pages
        types = [("Q4_K", "Q6_K", "Q8_0"), ("Q5_0", "Q4_1", "Q5_K"), ("Q4_0", "Q5_1", self.float_type)]
        self.table = self.ops.table(matrix("Q8_0", self.vocab, hidden, 1))
        angles = np.outer(np.arange(context), 10000.0 ** (-np.arange(head_dim // 2) / (head_dim // 2)))
        self.rope = Rope(np.cos(angles).astype(np.float32), np.sin(angles).astype(np.float32))
        self.layers = []

        def make(layer: int, type: str, rows: int, inputs: int, seed: int) -> Weight:
            bias = floats(rows, seed=seed, scale=0.1)
            return self.ops.weight(matrix(type, rows, inputs, 100 * layer + seed), bias)

        for i, ((a, b, c), window) in enumerate(zip(types, self.windows, strict=True)):
            self.layers.append(
                {
                    "attention": Attention(heads, kv_heads, head_dim, head_dim**-0.5, window),
                    "norm": Norm("rms", 1 + floats(hidden, seed=i, scale=0.1), None, 1e-5),
                    "qkv": [
                        make(i, a, heads * head_dim, hidden, 1),
                        make(i, b, kv_heads * head_dim, hidden, 2),
                        make(i, c, kv_heads * head_dim, hidden, 3),
                    ],
                    "output": make(i, "Q8_0", hidden, heads * head_dim, 4),
                    "gate": make(i, a, 288, hidden, 5),
                    "up": make(i, b, 288, hidden, 6),
                    "down": make(i, "Q5_0", hidden, 288, 7),
                }
            )
        self.head = self.ops.weight(matrix("Q6_K", self.vocab, hidden, 9))
        distinct = list(dict.fromkeys(self.windows))
        groups = tuple(
            KVGroup(tuple(i for i, w in enumerate(self.windows) if w == window), window, self.pages * 3)
            for window in distinct
        )
        self.layout = KVLayout(kv_heads, head_dim, self.page_size, self.key_type, self.value_type, groups)  # type: ignore[arg-type]
        self.cache = self.ops.open_cache(self.layout)

    def forward(self, ops: Ops, s: Step) -> Hidden:
        x = ops.embed(s, self.table, 1.0)
        for layer, kv in zip(self.layers, self.cache, strict=True):
            q, k, v = ops.project(s, x, layer["norm"], layer["qkv"])
            q = ops.rotate_store(s, q, k, v, kv, layer["attention"], self.rope, None, None)
            x = ops.project_add(s, x, ops.attend(s, q, kv, layer["attention"]), layer["output"], None, 0.3)
            h = ops.feed(s, x, layer["norm"], layer["gate"], layer["up"], self.activation)
            x = ops.project_add(s, x, h, layer["down"], None, 0.3)
        return ops.logits(s, x, self.layers[0]["norm"], self.head, 1.0, None)
