"""Greedy tokens and a hash of every row of logits, of every tiny model over every type of keys and values."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from typing import Any

import numpy as np

from cutaway.model import Decoder, kv_layout, load_decoder, read_spec
from cutaway.ops.native.backend import NativeBackend
from cutaway.ops.protocol import KVType, Step
from fences.tiny_models import CASES, Case, tiny_model
from fences.tiny_weights import bits

KV_TYPES: tuple[tuple[KVType, KVType], ...] = (
    ("f32", "f32"), ("bf16", "bf16"), ("int8", "fp8"), ("fp8", "int8"), ("bf16", "int8"),
)  # fmt: skip
PAGE_SIZE = 16
DECODED = 6
FIRST_CHUNK = 5
LAST_ROWS = 24  # of a prompt, whose logits are recorded

Rows = dict[str, dict[str, str]]


def record_logits(instruction_set: str, names: Iterable[str] = CASES) -> Rows:
    """By model and by types of keys and values: the tokens chosen, then the hash of each row."""
    found: Rows = {}
    for name in names:
        case = CASES[name]
        with tiny_model(case) as file:
            spec, ops = read_spec(file), NativeBackend(threads=1, max_tokens=256, instruction_set=instruction_set)
            decoder = load_decoder(file, spec, ops, context=case.prompt + DECODED)
            kinds = [pair for pair in KV_TYPES if promised(case, pair, instruction_set)]
            found[name] = {",".join(pair): _run(decoder, case, pair) for pair in kinds}
    return found


def promised(case: Case, types: tuple[str, str], instruction_set: str) -> bool:
    """Whether the bits are those of the other instruction sets: a matrix unit adds bf16 in an order of its own."""
    return instruction_set != "amx" or (types == ("f32", "f32") and not case.has_bf16)


def _run(decoder: Decoder, case: Case, types: tuple[KVType, KVType]) -> str:
    pages = -(-(case.prompt + DECODED) // PAGE_SIZE) + 2
    groups = len(set(decoder.spec.windows))
    layout = kv_layout(
        decoder.spec, pages=(pages,) * groups, page_size=PAGE_SIZE, key_type=types[0], value_type=types[1]
    )
    decoder.open_cache(layout)
    step_function: Any = decoder.step_function()
    tables = (np.arange(pages, dtype=np.int32)[::-1].reshape(1, -1).copy(),) * groups
    prompt = (bits("prompt", case.prompt) % np.uint64(case.sizes.vocab)).astype(np.int32)
    chosen, hashes, start = [], [], 0

    def step(tokens: Any) -> int:
        nonlocal start
        count = len(tokens)
        places = np.arange(start, start + count, dtype=np.int32)
        rows = np.arange(count, dtype=np.int32)[-LAST_ROWS:]
        logits = step_function(Step(np.array(tokens, np.int32), places, np.zeros(count, np.int32), tables, rows)).values
        hashes.extend(hash_row(row) for row in logits)
        start += count
        return int(np.argmax(logits[-1]))

    step(prompt[:FIRST_CHUNK])
    for begin in range(FIRST_CHUNK, case.prompt, 256):
        token = step(prompt[begin : begin + 256])
    for _ in range(DECODED):
        chosen.append(token)
        token = step([token])
    return " ".join([*map(str, chosen), *hashes])


def hash_row(row: Any) -> str:
    """64 bits of the row's bytes."""
    return hashlib.blake2b(np.ascontiguousarray(row, "<f4").tobytes(), digest_size=8).hexdigest()
