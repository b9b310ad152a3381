"""Safetensors: one file, shards, and headers that lie."""

from __future__ import annotations

import json
import re
import struct
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cutaway.errors import FormatError, ModelNotFoundError, UnsupportedError
from cutaway.formats import BLOCKS, dequantize, open_model
from cutaway.formats import safetensors as reader

Writer = Any
FOUR = struct.pack("<4f", 1, 2, 3, 4)


@pytest.fixture(scope="session")
def sample(safetensors_writer: Writer) -> bytes:
    tensors = {
        "matrix": ("F32", [2, 2], FOUR),
        "half": ("BF16", [3], bytes(6)),
        "empty": ("F16", [0, 4], b""),
        "scalar": ("I64", [], struct.pack("<q", 7)),
    }
    content: bytes = safetensors_writer(tensors, __metadata__={"format": "pt"})
    return content


def test_sample(sample: bytes, tmp_path: Path) -> None:
    path = tmp_path / "model.safetensors"
    path.write_bytes(sample)
    (tmp_path / "config.json").write_text('{"model_type": "llama", "limit": Infinity}')
    for opened in (path, tmp_path):
        with open_model(opened) as model:
            assert (model.path, model.files, model.format, model.metadata) == (path, (path,), "safetensors", {})
            assert model.config is not None
            assert model.config["model_type"] == "llama"
            assert {name: (t.type, t.shape) for name, t in model.tensors.items()} == {
                "matrix": ("F32", (2, 2)), "half": ("BF16", (3,)), "empty": ("F16", (0, 4)), "scalar": ("I64", ()),
            }  # fmt: skip
            matrix = model.tensors["matrix"]
            assert dequantize(matrix.type, matrix.raw, matrix.shape).tolist() == [[1, 2], [3, 4]]
            for tensor in model.tensors.values():
                model.drop(tensor)


EXTENTS = st.lists(st.integers(0, 3), max_size=4)
SHAPES = st.lists(st.tuples(st.sampled_from(sorted(reader.DTYPES)), EXTENTS), max_size=5)


@given(shapes=SHAPES)
@settings(max_examples=80, deadline=None)
def test_what_is_written_is_read(
    safetensors_writer: Writer, scratch: Path, shapes: list[tuple[str, list[int]]]
) -> None:
    rng = np.random.default_rng(0)
    tensors = {
        f"t{i}": (dtype, shape, rng.integers(0, 2, int(np.prod(shape)) * BLOCKS[dtype][1], dtype=np.uint8).tobytes())
        for i, (dtype, shape) in enumerate(shapes)
    }
    path = scratch / "round.safetensors"
    path.write_bytes(safetensors_writer(tensors))
    with open_model(path) as model:
        assert {n: (t.type, list(t.shape), t.raw.tobytes()) for n, t in model.tensors.items()} == tensors


def test_every_truncation_is_refused(sample: bytes, survives: Any) -> None:
    for length in range(len(sample)):
        assert not survives(sample[:length], "cut.safetensors"), length
    assert not survives(sample + b"\0", "cut.safetensors")
    assert survives(sample, "cut.safetensors")


@given(at=st.lists(st.tuples(st.integers(0, 10_000), st.integers(0, 255)), min_size=1, max_size=3))
@settings(max_examples=500, deadline=10_000)
def test_flipped_bytes_read_or_are_refused(sample: bytes, survives: Any, at: list[tuple[int, int]]) -> None:
    damaged = bytearray(sample)
    for where, value in at:
        damaged[where % len(sample)] = value
    survives(bytes(damaged), "flip.safetensors")


def entry(dtype: Any = "F32", shape: Any = (4,), offsets: Any = (0, 16)) -> dict[str, Any]:
    return {"dtype": dtype, "shape": shape, "data_offsets": offsets}


HEADERS: dict[str, tuple[Any, str]] = {
    "not an object": (b"[1]", "header at byte 8: does not begin with"),
    "not json": (b'{"a": ', "header at byte 8: not JSON"),
    "not utf-8": (b'{"\xff": 1}', "header at byte 8: not JSON"),
    "deep": (b'{"a":' + b"[" * 200_000, "header at byte 8: not JSON"),
    "digits": (b'{"a":' + b"9" * 10_000 + b"}", "header at byte 8: not JSON"),
    "name twice": (b'{"a":{"dtype":"F32","shape":[4],"data_offsets":[0,16]},"a":{}}', "'a' appears twice"),
    "field twice": (b'{"a":{"dtype":"F32","dtype":"F32"}}', "'dtype' appears twice"),
    "nan": (b'{"a":NaN}', "NaN is not JSON"),
    "notes": ({"__metadata__": {"a": 1}}, "__metadata__ is not a map"),
    "entry": ({"a": 5}, "'a': needs exactly dtype, shape and data_offsets"),
    "entry lacks": ({"a": {"dtype": "F32", "shape": [4]}}, "'a': needs exactly"),
    "dtype": ({"a": entry(dtype=7)}, "'a': dtype is not text"),
    "shape text": ({"a": entry(shape="4")}, "'a': shape is not a list of sizes"),
    "shape negative": ({"a": entry(shape=[-4])}, "'a': shape is not"),
    "shape float": ({"a": entry(shape=[4.0])}, "'a': shape is not"),
    "shape bool": ({"a": entry(shape=[True], offsets=[0, 4])}, "'a': shape is not"),
    "shape long": ({"a": entry(shape=[1] * 65)}, "'a': shape is not"),
    "shape overflow": ({"a": entry(shape=[2**62, 2**62])}, "'a': data_offsets.*its shape needs"),
    "shape of C53": ({"a": entry(shape=[1000, 1000])}, r"\[0, 16\] span 16 bytes, its shape needs 4000000"),
    "offsets one": ({"a": entry(offsets=[0])}, "'a': data_offsets is not a pair"),
    "offsets reversed": ({"a": entry(offsets=[16, 0])}, r"'a': data_offsets \[16, 0\] span -16"),
    "offsets outside": ({"a": entry(offsets=[16, 32])}, "'a': its data would end at byte"),
    "gap": ({"a": entry(shape=[2], offsets=[8, 16])}, "'a': its data at byte .* leaves 8 bytes before it unused"),
    "overlap": ({"a": entry(), "b": entry(shape=[2], offsets=[8, 16])}, "'b': its data at byte .* overlaps another"),
    "same place": ({"a": entry(), "b": entry()}, "'b': its data at byte .* overlaps another"),
    "unused end": ({"a": entry(shape=[2], offsets=[0, 8])}, "data at byte .*: 8 bytes belong to no tensor"),
}  # fmt: skip


@pytest.mark.parametrize("name", sorted(HEADERS))
def test_hostile_headers(safetensors_wrapper: Writer, tmp_path: Path, name: str) -> None:
    header, message = HEADERS[name]
    path = tmp_path / "bad.safetensors"
    path.write_bytes(safetensors_wrapper(header if isinstance(header, bytes) else json.dumps(header).encode(), FOUR))
    with pytest.raises(FormatError, match=message) as caught:
        open_model(path)
    assert caught.value.message.startswith("bad.safetensors: ")


@pytest.mark.parametrize("length", [2**40, 2**63, 2**64 - 1, 100_000_001, 3, 57])
def test_a_header_length_that_lies(tmp_path: Path, length: int) -> None:
    path = tmp_path / "bad.safetensors"
    path.write_bytes(struct.pack("<Q", length) + b"{}" + bytes(46))
    with pytest.raises(FormatError, match="header"):
        open_model(path)


def test_a_header_of_nothing_but_lists_is_refused_before_it_is_parsed(
    safetensors_wrapper: Writer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reader, "_MAX_NESTS", 10)
    path = tmp_path / "bad.safetensors"
    path.write_bytes(safetensors_wrapper(b'{"a":[' + b"[]," * 11 + b"1]}"))
    with pytest.raises(FormatError, match="more than 10 lists and objects"):
        open_model(path)


def test_an_unknown_dtype_is_refused_by_name(safetensors_wrapper: Writer, tmp_path: Path) -> None:
    path = tmp_path / "bad.safetensors"
    path.write_bytes(safetensors_wrapper(json.dumps({"a": entry(dtype="F4")}).encode(), FOUR))
    with pytest.raises(UnsupportedError, match="tensor 'a': dtype 'F4'"):
        open_model(path)


SHARDS = ("model-00001-of-00002.safetensors", "model-00002-of-00002.safetensors")


def write_shards(writer: Writer, folder: Path, **weights: str) -> Path:
    """Two shards: a and c, b and c. The index says by default a: 1, b: 2, c: 2."""
    tensors = {name: ("F32", [1], struct.pack("<f", value)) for name, value in (("a", 1), ("b", 2))}
    for shard, name, value in zip(SHARDS, "ab", (10, 20), strict=True):
        own = {name: tensors[name], "c": ("F32", [1], struct.pack("<f", value))}
        (folder / shard).write_bytes(writer(own))
    index = folder / "model.safetensors.index.json"
    weight_map = {"a": SHARDS[0], "b": SHARDS[1], "c": SHARDS[1]} | weights
    index.write_text(json.dumps({"metadata": {"total_size": 12}, "weight_map": weight_map}))
    return index


@pytest.mark.parametrize("opened", ["", "model.safetensors.index.json", *SHARDS])
def test_shards_open_from_anywhere(safetensors_writer: Writer, tmp_path: Path, opened: str) -> None:
    index = write_shards(safetensors_writer, tmp_path)
    with open_model(tmp_path / opened) as model:
        assert model.path == index
        assert model.files == tuple(tmp_path / shard for shard in SHARDS)
        values = {name: dequantize(t.type, t.raw, t.shape).item() for name, t in model.tensors.items()}
        assert values == {"a": 1, "b": 2, "c": 20}


def test_a_missing_shard_is_named(safetensors_writer: Writer, tmp_path: Path) -> None:
    index = write_shards(safetensors_writer, tmp_path)
    (tmp_path / SHARDS[1]).unlink()
    with pytest.raises(ModelNotFoundError, match=rf"shard {re.escape(SHARDS[1])}, which"):
        open_model(index)


def test_a_shard_without_its_index_is_refused(safetensors_writer: Writer, tmp_path: Path) -> None:
    write_shards(safetensors_writer, tmp_path).unlink()
    with pytest.raises(ModelNotFoundError, match=r"one shard of a model, and its index .* is missing"):
        open_model(tmp_path / SHARDS[0])


def test_a_tensor_that_its_shard_lacks_is_named(safetensors_writer: Writer, tmp_path: Path) -> None:
    index = write_shards(safetensors_writer, tmp_path, d=SHARDS[0])
    with pytest.raises(FormatError, match=f"weight_map: tensor 'd' is not in {SHARDS[0]}"):
        open_model(index)
    index = write_shards(safetensors_writer, tmp_path, a=SHARDS[1])
    with pytest.raises(FormatError, match=f"weight_map: tensor 'a' is not in {SHARDS[1]}"):
        open_model(index)


@pytest.mark.parametrize(
    "shard", ["../o.safetensors", "/o.safetensors", "a/o.safetensors", "..", "", "a\0.safetensors", "o.json", 7, None]
)
def test_an_index_cannot_lead_out_of_its_directory(safetensors_writer: Writer, tmp_path: Path, shard: Any) -> None:
    index = write_shards(safetensors_writer, tmp_path, a=shard)
    with pytest.raises(FormatError, match=r"weight_map: tensor 'a': .* is not the name of a shard"):
        open_model(index)


@pytest.mark.parametrize("content", [b"", b"[]", b"{}", b'{"weight_map": {}}', b'{"weight_map": 3}', b"\xff"])
def test_an_index_that_is_none(tmp_path: Path, content: bytes) -> None:
    index = tmp_path / "model.safetensors.index.json"
    index.write_bytes(content)
    with pytest.raises(FormatError, match=r"^model\.safetensors\.index\.json"):
        open_model(index)


def test_a_broken_config_is_refused(sample: bytes, tmp_path: Path) -> None:
    (tmp_path / "model.safetensors").write_bytes(sample)
    (tmp_path / "config.json").write_text("{")
    with pytest.raises(FormatError, match=r"config\.json at byte 0: not JSON"):
        open_model(tmp_path)


def test_tied_and_untied_heads_are_seen_as_they_are(safetensors_writer: Writer, tmp_path: Path) -> None:
    """C54, the file's side: a redundant head is a tensor like another, an absent one is not invented."""
    embedding = {"model.embed_tokens.weight": ("F32", [2, 2], FOUR)}
    (tmp_path / "config.json").write_text('{"tie_word_embeddings": true}')
    path = tmp_path / "model.safetensors"
    for tensors in (embedding, embedding | {"lm_head.weight": ("F32", [2, 2], FOUR)}):
        path.write_bytes(safetensors_writer(tensors))
        assert set(open_model(path).tensors) == set(tensors)
