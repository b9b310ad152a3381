"""The same request gives the same bits: alone or in company, in any chunks, with any threads, recorded or driven."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest

from cutaway.ops.native.backend import NativeBackend
from cutaway.ops.protocol import F32, Experts, Norm, Step
from tiny import ALIKE, SETS, TinyModel, floats, load_rows, matrix, step

TOKENS = np.random.default_rng(7).integers(0, 133, 330).astype(np.int32)


def bits(x: F32) -> np.ndarray:
    return np.array(x).view(np.uint32)


class Runner:
    """Feeds requests chunk by chunk; every request has pages of its own, in an order of its own."""

    def __init__(self, *, threads: int, instruction_set: str, **model: object) -> None:
        self.ops = NativeBackend(threads=threads, instruction_set=instruction_set, max_rows=512)
        self.model = TinyModel(self.ops, **model)  # type: ignore[arg-type]
        self.recorded = self.ops.record(self.model.forward)
        self.held: dict[
            tuple[int | None, int], dict[int, int]
        ] = {}  # per window and request: page of the table -> page

    def run(self, s: Step) -> F32:
        return self.recorded(s).values

    def step(self, parts: list[tuple[np.ndarray, int, int]], rows: list[int] | None = None) -> Step:
        """parts: (tokens, start, seed of the page order) per request."""
        pages, requests = self.model.pages, len(parts)
        total = pages * 3
        tables = []
        for window in dict.fromkeys(self.model.windows):
            table = np.full((requests, pages), -1, np.int32)
            for r, (tokens, start, _) in enumerate(parts):
                size = self.model.page_size
                last = (start + len(tokens) - 1) // size
                first = 0 if window is None else max(0, start - window + 1) // size
                order = self.held.setdefault((window, parts[r][2]), {})
                taken = {p for (w, _), o in self.held.items() if w == window for p in o.values()}
                free = (p for p in np.random.default_rng(parts[r][2]).permutation(total).tolist() if p not in taken)
                for page in range(first, last + 1):
                    order[page] = order[page] if page in order else next(free)
                    table[r, page] = order[page]
                for page in [p for p in order if p < first]:
                    del order[page]  # given back: it left the window
            tables.append(table)
        n = [len(p[0]) for p in parts]
        tokens = np.concatenate([p[0] for p in parts]).astype(np.int32)
        positions = np.concatenate([np.arange(p[1], p[1] + len(p[0])) for p in parts]).astype(np.int32)
        wanted = list(range(len(tokens))) if rows is None else rows
        return Step(
            tokens,
            positions,
            np.repeat(np.arange(requests), n).astype(np.int32),
            tuple(tables),
            np.array(wanted, np.int32),
        )

    def last_row(self, chunk: int, tokens: np.ndarray = TOKENS) -> np.ndarray:
        for start in range(0, len(tokens), chunk):
            part = tokens[start : start + chunk]
            out = self.run(self.step([(part, start, 1)], [len(part) - 1]))
        return bits(out[0])


@pytest.mark.parametrize("name", SETS)
@pytest.mark.parametrize(("key_type", "value_type"), [("bf16", "bf16"), ("f32", "int8"), ("fp8", "fp8")])
def test_chunks_threads_and_page_sizes(name: str, key_type: str, value_type: str) -> None:
    kv = {"key_type": key_type, "value_type": value_type}
    want = Runner(threads=1, instruction_set=name, **kv).last_row(330)
    for threads, chunk, page_size in [(1, 7, 16), (2, 330, 16), (2, 1, 16), (3, 64, 32), (2, 7, 48), (1, 33, 16)]:
        got = Runner(threads=threads, instruction_set=name, page_size=page_size, pages=384 // page_size, **kv).last_row(
            chunk
        )
        assert np.array_equal(got, want), (threads, chunk, page_size)


# All remainders of tiles of up to 16 tokens, the edges of the window (37), of pages (16) and of segments (256).
LENGTHS = [*range(1, 18), 31, 33, 36, 37, 38, 255, 256, 257]


@pytest.mark.parametrize("name", SETS)
def test_every_remainder_and_window_edge(name: str) -> None:
    """One token at a time, and all at once; plain C++, which is slow, without the long ones."""
    lengths = [length for length in LENGTHS if length < 64 or name != "plain"]
    by_one = Runner(threads=1, instruction_set=name)
    want = {n + 1: bits(by_one.run(by_one.step([(TOKENS[n : n + 1], n, 1)]))[0]) for n in range(lengths[-1])}
    for length in lengths:
        got = Runner(threads=2, instruction_set=name).last_row(length, TOKENS[:length])
        assert np.array_equal(got, want[length]), length


@pytest.mark.parametrize("name", SETS)
@pytest.mark.parametrize("type", ["Q4_K", "Q8_0"])
def test_experts_whatever_their_company(name: str, type: str) -> None:
    """How many of a step's tokens an expert gets decides its tiles, and no bit."""
    x = floats(43, 256)
    rows = []
    for threads in (1, 2):
        ops = NativeBackend(threads=threads, instruction_set=name)
        make = lambda r, c, seed, ops=ops: ops.weight(matrix(type, r, c, seed))  # noqa: E731
        experts = Experts(
            ops.weight(matrix("F32", 4, 256, 99)),
            *([make(256, 256, 10 * part + i) for i in range(4)] for part in range(3)), used=2, renormalize=True,
        )  # fmt: skip
        embed, norm = load_rows(ops, x), Norm("rms", np.ones(256, np.float32), None, 1e-5)
        for chunk in (1, 7, 16, 43):
            parts = [np.arange(start, min(start + chunk, 43), dtype=np.int32) for start in range(0, 43, chunk)]
            steps = [dataclasses.replace(step(len(part)), tokens=part) for part in parts]
            forward = lambda o, s: o.mix_experts(s, embed(o, s), norm, experts, "silu")  # noqa: B023, E731
            rows.append(bits(np.concatenate([ops.drive(forward, s) for s in steps])))
    assert all(np.array_equal(row, rows[0]) for row in rows)


@pytest.mark.parametrize("name", SETS)
@pytest.mark.parametrize("threads", [1, 2])
def test_alone_or_among_nine(name: str, threads: int) -> None:
    """A decode step and a prefill chunk, each beside eight others of different lengths and phases."""
    alone = Runner(threads=1, instruction_set=name, pages=40)
    alone.run(alone.step([(TOKENS[:50], 0, 1)]))
    prefill = bits(alone.run(alone.step([(TOKENS[50:70], 50, 1)])))
    decode = bits(alone.run(alone.step([(TOKENS[70:71], 70, 1)])))

    crowd = Runner(threads=threads, instruction_set=name, pages=40)
    lengths = [1, 17, 30, 4, 9, 2, 12, 7]
    others = [(TOKENS[100 + i : 100 + i + n], 0, 10 + i) for i, n in enumerate(lengths)]
    crowd.run(crowd.step([(TOKENS[:50], 0, 1)]))
    together = crowd.step([*others[:4], (TOKENS[50:70], 50, 1), *others[4:]], [52 + i for i in range(20)])
    assert np.array_equal(bits(crowd.run(together)), prefill)
    more = [(TOKENS[200 + i : 200 + i + 1 + i % 3], lengths[i], 10 + i) for i in range(8)]
    at = sum(len(p[0]) for p in more[:4])
    together = crowd.step([*more[:4], (TOKENS[70:71], 70, 1), *more[4:]], [at])
    assert np.array_equal(bits(crowd.run(together)), decode)


@pytest.mark.parametrize("name", SETS)
@pytest.mark.parametrize("threads", [1, 2])
def test_recorded_equals_driven(name: str, threads: int) -> None:
    runner = Runner(threads=threads, instruction_set=name)
    seen: list[str] = []
    for start, end in [(0, 40), (40, 41), (41, 75)]:
        s = runner.step([(TOKENS[start:end], start, 1)])
        recorded = bits(runner.run(s))
        driven = bits(runner.ops.drive(runner.model.forward, s, lambda op, values: seen.append(op)))
        assert np.array_equal(recorded, driven)
    layer = ["project", "rotate_store", "attend", "project_add", "feed", "project_add"]
    assert seen == ["embed", *layer * 3, "logits"] * 3


def test_all_instruction_sets_agree_on_a_whole_step() -> None:
    """Everything is one IEEE operation per lane, so even whole steps are equal across instruction sets."""
    rows = {name: Runner(threads=2, instruction_set=name).last_row(64) for name in ALIKE}
    assert all(np.array_equal(row, rows["plain"]) for row in rows.values())


def test_the_matrix_unit_too_where_nothing_is_bf16() -> None:
    model = {"key_type": "f32", "value_type": "f32", "float_type": "F16"}
    rows = {name: Runner(threads=2, instruction_set=name, **model).last_row(64) for name in SETS}
    assert all(np.array_equal(row, rows["plain"]) for row in rows.values())
