"""GGUF: what is written is read; what is damaged is refused with the field and the offset, quickly."""

from __future__ import annotations

import re
import struct
import time
from pathlib import Path
from typing import Any

import gguf
import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from cutaway.errors import FormatError, UnsupportedError
from cutaway.formats import gguf as reader
from cutaway.formats import open_model

Writer = Any
SCALAR_RANGES = {
    0: st.integers(0, 255), 1: st.integers(-128, 127), 2: st.integers(0, 65535), 3: st.integers(-32768, 32767),
    4: st.integers(0, 2**32 - 1), 5: st.integers(-(2**31), 2**31 - 1), 6: st.floats(width=32, allow_nan=False),
    7: st.booleans(), 10: st.integers(0, 2**64 - 1), 11: st.integers(-(2**63), 2**63 - 1),
    12: st.floats(allow_nan=False),
}  # fmt: skip
TEXTS = st.text(st.characters(exclude_categories=["Cs"]), max_size=20)


def arrays(kind: int) -> st.SearchStrategy[Any]:
    items = TEXTS if kind == 8 else SCALAR_RANGES[kind]
    return st.tuples(st.just(9), st.tuples(st.just(kind), st.lists(items, max_size=6)))


VALUES = st.one_of(
    [st.tuples(st.just(kind), items) for kind, items in SCALAR_RANGES.items()]
    + [st.tuples(st.just(8), TEXTS)]
    + [arrays(kind) for kind in (*SCALAR_RANGES, 8)]
)
KEYS = st.dictionaries(TEXTS.filter(lambda name: not name.startswith(("general.", "split."))), VALUES, max_size=6)


@pytest.fixture(scope="session")
def sample(gguf_writer: Writer) -> bytes:
    """A little of everything, in about 800 bytes."""
    return gguf_writer.file(
        [
            ("general.architecture", 8, "llama"),
            ("general.alignment", 4, 32),
            ("flag", 7, True),
            ("float", 6, 0.5),
            ("tokens", 9, (8, ["a", "", "é" * 3, "long" * 20, "x\0y"])),
            ("scores", 9, (6, [0.5, -1.0])),
            ("flags", 9, (7, [True, False])),
            ("nested", 9, (9, [(4, [1, 2]), (8, ["b"])])),
        ],
        [
            ("matrix", (32, 2), 2, bytes(range(36))),
            ("vector", (3,), 0, struct.pack("<3f", 1, 2, 3)),
            ("scalar", (), 0, struct.pack("<f", 4)),
        ],
    )


def test_sample(sample: bytes, tmp_path: Path) -> None:
    path = tmp_path / "a.gguf"
    path.write_bytes(sample)
    with open_model(str(path)) as model:
        assert (model.path, model.files, model.format, model.config) == (path, (path,), "gguf", None)
        assert model.metadata["tokens"] == ["a", "", "ééé", "long" * 20, "x\0y"]
        assert model.metadata["flag"] is True
        assert model.metadata["flags"].tolist() == [True, False]
        assert model.metadata["scores"].dtype == np.float32
        assert [list(inner) for inner in model.metadata["nested"]] == [[1, 2], ["b"]]
        assert {name: (t.type, t.shape) for name, t in model.tensors.items()} == {
            "matrix": ("Q4_0", (2, 32)), "vector": ("F32", (3,)), "scalar": ("F32", ()),
        }  # fmt: skip
        vector = model.tensors["vector"]
        assert vector.raw.view("<f4").tolist() == [1, 2, 3]
        assert not vector.raw.flags.owndata
        assert not vector.raw.flags.writeable
        model.drop(vector)
        assert vector.raw.view("<f4").tolist() == [1, 2, 3]
        assert sample[vector.offset :][:12] == vector.raw.tobytes()
    assert not model.tensors
    assert vector.raw.view("<f4").tolist() == [1, 2, 3]


@pytest.mark.parametrize("version", [2, 3])
@given(keys=KEYS, data=st.data())
@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])
def test_what_is_written_is_read(
    gguf_writer: Writer, scratch: Path, version: int, keys: dict[str, Any], data: st.DataObject
) -> None:
    shapes = data.draw(st.lists(st.lists(st.integers(1, 4), max_size=4), max_size=5))
    alignment = data.draw(st.sampled_from([8, 32, 64]))
    tensors = [(f"t{i}", tuple(shape), 24, bytes(int(np.prod(shape)))) for i, shape in enumerate(shapes)]
    entries = [(name, *value) for name, value in keys.items()] + [("general.alignment", 4, alignment)]
    path = scratch / f"round{version}.gguf"
    path.write_bytes(gguf_writer.file(entries, tensors, alignment=alignment, version=version))
    with open_model(path) as model:
        assert list(model.metadata) == [name for name, *_ in entries]
        for name, (kind, value) in keys.items():
            found = model.metadata[name]
            if kind == 9:
                assert list(found) == value[1]
            else:
                assert found == value
        for (name, extents, _, content), tensor in zip(tensors, model.tensors.values(), strict=True):
            assert (tensor.name, tensor.type, tensor.shape) == (name, "I8", extents[::-1])
            assert tensor.raw.tobytes() == content
            assert tensor.offset % alignment == 0


def test_files_of_the_packages_own_writer(tmp_path: Path) -> None:
    path = tmp_path / "a.gguf"
    matrix = np.arange(12, dtype=np.float32).reshape(3, 4)
    writer = gguf.GGUFWriter(path, "llama")
    writer.add_array("tokenizer.ggml.tokens", ["<s>", "▁hello", "世界"])
    writer.add_float32("llama.rope.freq_base", 10000.0)
    writer.add_tensor("weight", matrix)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    with open_model(path) as model:
        assert model.metadata["tokenizer.ggml.tokens"] == ["<s>", "▁hello", "世界"]
        assert model.metadata["llama.rope.freq_base"] == 10000.0
        assert model.tensors["weight"].shape == (3, 4)
        assert model.tensors["weight"].raw.view("<f4").tolist() == matrix.reshape(-1).tolist()


def test_every_truncation_is_refused(sample: bytes, survives: Any) -> None:
    for length in range(len(sample)):
        assert not survives(sample[:length], "cut.gguf"), length
    assert survives(sample, "cut.gguf")


@given(at=st.lists(st.tuples(st.integers(0, 10_000), st.integers(0, 255)), min_size=1, max_size=3))
@settings(max_examples=500, deadline=10_000)
def test_flipped_bytes_read_or_are_refused(sample: bytes, survives: Any, at: list[tuple[int, int]]) -> None:
    damaged = bytearray(sample)
    for where, value in at:
        damaged[where % len(sample)] = value
    survives(bytes(damaged), "flip.gguf")


def test_every_byte_set_to_its_extremes_reads_or_is_refused(sample: bytes, survives: Any) -> None:
    for where in range(len(sample)):
        for value in (0, 1, 0x7F, 0x80, 0xFF):
            survives(sample[:where] + bytes([value]) + sample[where + 1 :], "set.gguf")


def hostile(w: Writer) -> dict[str, tuple[bytes, str]]:
    """Name -> (file, what the message must say)."""
    huge = struct.pack("<Q", 2**63)

    def record(extents: tuple[int, ...] = (4,), kind: int = 0, offset: int = 0, data: int = 32) -> bytes:
        return w.join([], [w.record("t", extents, kind, offset)], bytes(data))

    def two(first: tuple[str, int], second: tuple[str, int]) -> bytes:
        return w.join([], [w.record(name, (16,), 0, offset) for name, offset in (first, second)], bytes(256))

    array = w.string("a") + struct.pack("<I", 9)
    strings = array + struct.pack("<I", 8)
    return {
        "magic": (b"GGML" + bytes(60), "magic at byte 0"),
        "keys": (b"GGUF" + struct.pack("<IQQ", 3, 0, 2**62), "key count at byte 16"),
        "tensors": (b"GGUF" + struct.pack("<IQQ", 3, 2**62, 0), "tensor count at byte 8"),
        "key length": (w.join([huge + b"a" * 20], []), r"key 0 of 1 \(length\) at byte 24"),
        "key past end": (w.join([struct.pack("<Q", 999) + b"a" * 20], []), "key 0 of 1 at byte 32: needs 999"),
        "key not utf-8": (w.join([w.key(b"a\xff", 4, 1)], []), "key 0 of 1 at byte 33: not UTF-8"),
        "key twice": (w.join([w.key("a", 4, 1), w.key("a", 4, 2)], []), "key 1 of 2 at byte 41: 'a' appears twice"),
        "value type": (w.join([w.string("a") + struct.pack("<I", 13)], []), r"a \(value type\) at byte 33: 13 is not"),
        "value not utf-8": (w.join([w.key("a", 8, b"\xc3")], []), "a at byte 45: not UTF-8"),
        "value length": (w.join([w.string("a") + struct.pack("<IQ", 8, 2**40)], []), r"a \(length\) at byte 37"),
        "boolean": (w.join([w.string("a") + struct.pack("<IB", 7, 2)], []), "a at byte 37: a boolean"),
        "booleans": (w.join([array + struct.pack("<IQ3B", 7, 3, 0, 1, 2)], []), "a at byte 49: a boolean"),
        "numbers": (w.join([array + struct.pack("<IQ", 10, 2**61 + 1)], []), r"a \(length\) at byte 41"),
        "more numbers": (w.join([array + struct.pack("<IQ", 4, 1000)], []), "a at byte 49: needs 4000 bytes"),
        "strings": (w.join([strings + huge], []), r"a \(length\) at byte 41"),
        "string length": (w.join([strings + struct.pack("<Q", 1) + huge], []), r"a\[0\] at byte 49: a string of 9223"),
        "second string": (
            w.join([strings + struct.pack("<Q", 2) + w.string("b") + huge], []), r"a\[1\] at byte 58: a string of 9223",
        ),
        "element type": (w.join([array + struct.pack("<IQ", 77, 1)], []), r"a \(element type\) at byte 37: 77"),
        "nested": (w.join([array + struct.pack("<IQ", 9, 1) * 200], []), "nested deeper than 4"),
        "nested many": (w.join([array + struct.pack("<IQ", 9, 2**40)], [], bytes(64)), r"a \(length\) at byte 41"),
        "alignment zero": (w.file([("general.alignment", 4, 0)], []), "general.alignment at byte 24: 0"),
        "alignment odd": (w.file([("general.alignment", 4, 24)], []), "general.alignment at byte 24: 24"),
        "alignment text": (w.file([("general.alignment", 8, "32")], []), "general.alignment at byte 24: 32"),
        "alignment huge": (
            w.join([w.key("general.alignment", 4, 2**31)], [w.record("t", (4,), 0, 0)], bytes(64)), "'t'.*would end at",
        ),
        "dimensions": (record((1, 1, 1, 1, 1)), r"tensor 't' \(dimensions\) at byte 33: 5, at most 4"),
        "dimensions many": (
            w.join([], [w.string("t") + struct.pack("<I", 2**32 - 1)], bytes(64)), r"'t' \(dimensions\) at byte 33",
        ),
        "zero extent": (record((4, 0)), r"tensor 't' \(extents\) at byte 37: \[4, 0\] holds a zero"),
        "overflow": (record((2**32, 2**32, 2**32, 2**32)), "would end at byte"),
        "overflow to zero": (record((2**62, 4)), "would end at byte"),
        "not whole blocks": (record((33,), 2), "a row of 33 elements is not a whole number of Q4_0 blocks"),
        "rows not whole blocks": (record((16, 2), 2), "a row of 16 elements"),
        "offset unaligned": (record(offset=4), r"'t' \(offset\) at byte 24: 4 is not a multiple of 32"),
        "offset outside": (record(offset=64), r"'t' \(offset\) at byte 24: its data would end at byte 144"),
        "offset wraps": (record(offset=2**64 - 32), r"'t' \(offset\) at byte 24: its data would end"),
        "data short": (record((9,)), "would end at byte 100, the file has 96"),
        "overlap": (two(("t", 0), ("u", 32)), r"tensor 'u' \(offset\) at byte 57: its data at 32 overlaps tensor 't'"),
        "overlap wholly": (two(("t", 32), ("u", 32)), "overlaps tensor 't'"),
        "name twice": (two(("t", 0), ("t", 64)), "tensor 't' at byte 57: this name appears twice"),
    }  # fmt: skip


def test_hostile_files_are_refused_by_field_and_offset(gguf_writer: Writer, tmp_path: Path) -> None:
    path = tmp_path / "bad.gguf"
    for name, (content, message) in hostile(gguf_writer).items():
        path.write_bytes(content)
        with pytest.raises(FormatError) as caught:
            open_model(path)
        assert re.search(message, caught.value.message), name
        assert re.match(r"bad\.gguf: .* at byte \d+: ", caught.value.message), name


@pytest.mark.parametrize("kind", [5000, 36, 9, 4, 43])
def test_unknown_types_are_refused_by_number(gguf_writer: Writer, tmp_path: Path, kind: int) -> None:
    path = tmp_path / "bad.gguf"
    path.write_bytes(gguf_writer.join([], [gguf_writer.record("t", (256,), kind, 0)], bytes(1024)))
    with pytest.raises(UnsupportedError, match=rf"tensor 't' \(type\) at byte 45: type number {kind}"):
        open_model(path)


@pytest.mark.parametrize(("version", "message"), [(1, "version 1 "), (4, "version 4 "), (3 << 24, "big-endian")])
def test_other_versions_are_refused(tmp_path: Path, version: int, message: str) -> None:
    path = tmp_path / "bad.gguf"
    path.write_bytes(b"GGUF" + struct.pack("<IQQ", version, 0, 0))
    with pytest.raises(UnsupportedError, match=message):
        open_model(path)


def test_a_string_that_is_not_utf8_is_refused_when_it_is_read(gguf_writer: Writer, tmp_path: Path) -> None:
    path = tmp_path / "bad.gguf"
    path.write_bytes(gguf_writer.file([("a", 9, (8, [b"ok", b"\xe4\xb8", b"ok"]))], []))
    with open_model(path) as model, pytest.raises(FormatError, match=r"bad\.gguf: a\[1\] at byte 67: not UTF-8"):
        list(model.metadata["a"])


def test_limits_hold_before_memory_is_taken(
    gguf_writer: Writer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "big.gguf"
    path.write_bytes(gguf_writer.file([("a", 9, (8, ["x"] * 20)), ("b", 9, (4, [1] * 50)), ("c", 8, "y" * 99)], []))
    for limit, value, message in (
        ("MAX_STRINGS", 19, r"a \(length\).*20 strings"),
        ("MAX_ARRAY_BYTES", 179, "a at byte.*180 bytes of strings"),
        ("MAX_ARRAY_BYTES", 199, r"b \(length\).*50 numbers"),
        ("MAX_KEYS", 2, "key count"),
    ):
        with monkeypatch.context() as patch:
            patch.setattr(reader, limit, value)
            with pytest.raises(FormatError, match=message):
                open_model(path)


def test_a_file_of_nothing_but_empty_strings_takes_no_age(tmp_path: Path, gguf_writer: Writer) -> None:
    count = 1 << 20
    head = gguf_writer.string("a") + struct.pack("<IIQ", 9, 8, count)
    path = tmp_path / "empty.gguf"
    path.write_bytes(gguf_writer.join([head + bytes(8 * count)], []))
    begin = time.perf_counter()
    with open_model(path) as model:
        assert model.metadata["a"] == [""] * count
    assert time.perf_counter() - begin < 5
