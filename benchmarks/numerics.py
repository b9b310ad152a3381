"""Prints the tables of docs/numerics.md: how far rounding moves the next-token distribution of three real models.

    PYTHONPATH=tests python benchmarks/numerics.py FOLDER [native] [kv] [weights] [rotation]

FOLDER holds smollm2.gguf, qwen.gguf and gemma.gguf. `native` and `kv` measure the CPU backend, some minutes together;
`weights` and `rotation` switch single roundings of the NumPy reference on, ten minutes each, 3 GB of memory.
Every figure is the mean Kullback-Leibler divergence in nats over all positions of tests/golden/mixed_text.txt, and the
share of positions whose best token is the same, against float32 logits of transformers (tests/golden/make_golden.py).
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import product
from pathlib import Path

import numpy as np

from cutaway.formats import open_model
from cutaway.model import Decoder, load_decoder, read_spec
from cutaway.ops.backend import Backend
from cutaway.ops.native.backend import NativeBackend
from cutaway.ops.protocol import F32, KVType, Norm, Rope, Step, Weight
from cutaway.ops.reference import FLOAT_TYPES, ReferenceWeight
from cutaway.ops.reference_backend import ReferenceBackend
from golden import kl
from golden.teacher_forced import distance, logits_in_chunks

MODELS = ("smollm2", "qwen", "gemma")
PAIRS: list[tuple[KVType, KVType]] = [("f32", "f32"), *product(("bf16", "int8", "fp8"), repeat=2)]  # type: ignore[list-item]


@contextmanager
def loaded(folder: Path, model: str, ops: Backend) -> Iterator[Decoder]:
    """The decoder of a model over a backend."""
    with open_model(folder / f"{model}.gguf") as file:
        yield load_decoder(file, read_spec(file), ops, context=1024)


def row(*cells: object) -> None:
    """One line of a Markdown table."""
    print("|", " | ".join(f"{c:.5f}" if isinstance(c, float) else str(c) for c in cells), "|", flush=True)


def head(title: str, *columns: str) -> None:
    print(f"\n{title}\n")
    row(*columns)
    row(*["---"] * len(columns))


def percent(share: float) -> str:
    return f"{100 * share:.1f} %"


# --- the CPU backend ------------------------------------------------------------------------------------------------
def native(folder: Path) -> None:
    ops = NativeBackend()
    head(f"Native ({ops.instruction_set}), bf16 keys and values", "model", "positions", "mean KL", "median", "top-1")
    for model in MODELS:
        golden = kl.load_golden(model)
        with loaded(folder, model, NativeBackend()) as decoder:
            for name, part in (("", golden.text), (", after 608 tokens", golden.long)):
                if part is not None:
                    got = distance(part, logits_in_chunks(decoder, part.ids, part.first))
                    row(model + name, len(got.kl), got.mean, float(np.median(got.kl)), percent(got.top1))


def kv(folder: Path) -> None:
    """Against the golden logits, and against the same backend with float32 keys and values."""
    head("Types of keys and values, native", "model", "keys", "values", "mean KL", "top-1", "mean KL to f32")
    for model in MODELS:
        golden = kl.load_golden(model).text
        with loaded(folder, model, NativeBackend()) as decoder:
            exact = packed(logits_in_chunks(decoder, golden.ids, key_type="f32", value_type="f32"), golden)
            for key, value in PAIRS:
                own: list[F32] = []
                chunks = logits_in_chunks(decoder, golden.ids, key_type=key, value_type=value)
                truth = distance(golden, copied(chunks, own))
                row(model, key, value, truth.mean, percent(truth.top1), distance(exact, iter(own)).mean)


def copied(chunks: Iterator[F32], to: list[F32]) -> Iterator[F32]:
    for chunk in chunks:
        to.append(chunk.copy())
        yield to[-1]


def packed(chunks: Iterator[F32], golden: kl.GoldenLogits) -> kl.GoldenLogits:
    """Logits in the form of golden ones."""
    parts = [kl.unpack(kl.pack("", golden.ids, chunk)) for chunk in chunks]
    return kl.GoldenLogits(
        golden.ids,
        golden.first,
        *(np.concatenate([getattr(p, f) for p in parts]) for f in ("top_ids", "top_logits", "tail")),
    )


# --- single roundings, in the reference ----------------------------------------------------------------------------
@dataclass(slots=True)
class PartlyRounding(ReferenceBackend):
    """types: weight types whose products take int8 activations. turned: keys and queries through a Hadamard matrix
    over head_dim before keys are stored; the scores are the same, the outliers of keys are spread."""

    types: frozenset[str] = frozenset()
    turned: bool = False

    def multiply(self, x: F32, weight: Weight) -> F32:
        self.quantize_activations = weight.type in self.types
        return ReferenceBackend.multiply(self, x, weight)

    def _heads(self, step: Step, x: F32, heads: int, head_dim: int, rope: Rope | None, norm: Norm | None) -> F32:
        y = ReferenceBackend._heads(self, step, x, heads, head_dim, rope, norm)
        return y @ hadamard(head_dim) if self.turned else y


def hadamard(n: int) -> F32:
    """Sylvester's, orthonormal. n: a power of two."""
    h = np.ones((1, 1), np.float32)
    while len(h) < n:
        h = np.block([[h, h], [h, -h]])
    assert len(h) == n
    return h / np.float32(np.sqrt(n))


def weights(folder: Path) -> None:
    """What int8 activations cost, by the type of the weights that they are multiplied with. Everything else float32."""
    head("int8 activations by weight type, reference", "model", "weight type", "million weights", "mean KL", "top-1")
    for model in MODELS:
        golden, ops = kl.load_golden(model).text, PartlyRounding(quantize_cache=False)
        with loaded(folder, model, ops) as decoder:
            counts = weight_counts(decoder)
            for types in [*([t] for t in sorted(counts)), sorted(counts)]:
                ops.types = frozenset(types)
                got = distance(golden, logits_in_chunks(decoder, golden.ids))
                name = types[0] if len(types) == 1 else "all"
                row(model, name, round(sum(counts[t] for t in types) / 1e6), got.mean, percent(got.top1))


def weight_counts(decoder: Decoder) -> dict[str, int]:
    """Weights in products, by type; only quantized ones."""
    counts: dict[str, int] = {}
    each = [
        w
        for layer in decoder.layers
        for w in (*layer.qkv, layer.output, layer.feed.gate, layer.feed.up, layer.feed.down)
    ]  # type: ignore[union-attr]
    for weight in [*each, decoder.head]:
        if isinstance(weight, ReferenceWeight) and weight.type not in FLOAT_TYPES:
            counts[weight.type] = counts.get(weight.type, 0) + weight.rows * weight.inputs
    return counts


def rotation(folder: Path) -> None:
    """Keys rounded alone (values float32, activations float32): as they are, and turned by a Hadamard matrix first."""
    kinds: list[tuple[KVType, bool]] = [("bf16", False), ("int8", False), ("int8", True), ("fp8", False), ("fp8", True)]
    head("Rounded keys alone, reference", "model", *(f"{k}{', turned' * t}" for k, t in kinds))
    for model in MODELS:
        golden, ops = kl.load_golden(model).text, PartlyRounding(quantize_cache=True)
        with loaded(folder, model, ops) as decoder:
            cells = []
            for key, ops.turned in kinds:
                cells.append(
                    distance(golden, logits_in_chunks(decoder, golden.ids, key_type=key, value_type="f32")).mean
                )
            row(model, *cells)


SECTIONS = {"native": native, "kv": kv, "weights": weights, "rotation": rotation}


def main(arguments: Sequence[str]) -> None:
    """Print the sections named, or all."""
    for section in arguments[1:] or SECTIONS:
        SECTIONS[section](Path(arguments[0]))


if __name__ == "__main__":
    main(sys.argv[1:])
