"""Hostile model files: each is read, or refused with an error of its own."""

from __future__ import annotations

import struct
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cutaway.errors import CutawayError, TokenizerError
from cutaway.text import load_tokenizer
from cutaway.text.tokenizer import sentencepiece_model
from cutaway.text.tokenizer.sentencepiece_model import BPE, parse_model


def varint(value: int) -> bytes:
    value &= (1 << 64) - 1
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes([*out, value])


def field(number: int, value: int | float | bytes) -> bytes:
    if isinstance(value, bytes):
        return varint(number << 3 | 2) + varint(len(value)) + value
    if isinstance(value, float):
        return varint(number << 3 | 5) + struct.pack("<f", value)
    return varint(number << 3) + varint(value)


def piece(text: str, score: float = 0.0, type: int = 1) -> bytes:
    return field(1, field(1, text.encode()) + field(2, score) + field(3, type))


PIECES = [piece("<unk>", 0.0, 2), piece("<s>", 0.0, 3), piece("</s>", 0.0, 3)]
PIECES += [piece(text, -float(n)) for n, text in enumerate(("\u2581a", "ab", "a", "b", "\u2581"))]
TRAINER = field(2, field(3, BPE) + field(43, -1) + field(99, b"unknown fields are skipped"))
NORMAL = field(3, field(4, 0))
WHOLE = b"".join(PIECES) + TRAINER + NORMAL + varint(200 << 3 | 1) + bytes(8)


def load(folder: Path, content: bytes) -> list[int]:
    (folder / "tokenizer.model").write_bytes(content)
    return load_tokenizer(folder, {}).encode("ab a")


def test_a_file_made_by_hand(tmp_path: Path) -> None:
    model = parse_model(WHOLE, "m")
    assert (len(model.pieces), model.kind, model.roles) == (8, BPE, {"unk": 0, "bos": 1, "eos": 2})
    assert model.scores[4] == -1.0
    assert (model.add_prefix, model.remove_extra_blanks, model.escape_blanks) == (True, False, True)
    assert load(tmp_path, WHOLE) == [1, 3, 6, 3]
    # Parts of one message may come apart, and the last value of a field counts.
    assert load(tmp_path, field(2, field(3, 1)) + b"".join(PIECES) + TRAINER + NORMAL) == [1, 3, 6, 3]


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "no pieces"),
        (TRAINER, "no pieces"),
        (WHOLE[:-1], "needs 8 bytes, 7 are left"),
        (WHOLE + b"\x80", "cut off"),
        (WHOLE + b"\x80" * 11, "more than 10 bytes"),
        (WHOLE + b"\x00", "field number 0"),
        (WHOLE + b"\x0b", "wire type 3"),
        (WHOLE + b"\x0a\xff\xff\xff\xff\xff\xff\xff\xff\x7f", "needs 9223372036854775807 bytes"),
        (WHOLE + piece("x", float("nan")), "score of piece 8 is nan"),
        (WHOLE + piece("x", float("-inf")), "score of piece 8 is -inf"),
        (WHOLE + piece("x", 0.0, 7), "of type 7"),
        (WHOLE + piece("x", 0.0, -1), "of type -1"),
        (WHOLE + piece(""), "piece 8 is ''"),
        (WHOLE + piece("a"), "'a' twice"),
        (WHOLE + field(1, field(1, b"\xff")), "not UTF-8"),
        (b"IQ== 0\nIg== 1\nIw== 2\n", "not a SentencePiece model"),
    ],
)
def test_damage_is_named(tmp_path: Path, content: bytes, message: str) -> None:
    with pytest.raises(TokenizerError, match=message):
        load(tmp_path, content)


def test_sizes_are_limited(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sentencepiece_model, "MAX_PIECES", 7)
    with pytest.raises(TokenizerError, match="more than 7 pieces"):
        parse_model(WHOLE, "m")
    monkeypatch.setattr(sentencepiece_model, "MAX_FILE", len(WHOLE) - 1)
    with pytest.raises(TokenizerError, match=f"limit {len(WHOLE) - 1}"):
        load(tmp_path, WHOLE)


@given(st.data())
def test_any_bytes_are_read_or_refused(tmp_path_factory: pytest.TempPathFactory, data: st.DataObject) -> None:
    content = bytearray(WHOLE)
    for _ in range(data.draw(st.integers(1, 4))):
        place = data.draw(st.integers(0, len(content) - 1))
        content[place : place + data.draw(st.integers(0, 3))] = data.draw(st.binary(max_size=3))
    folder = tmp_path_factory.mktemp("m")
    try:
        ids = load(folder, bytes(content[: data.draw(st.sampled_from([len(content), place + 1]))]))
    except CutawayError as error:
        assert "tokenizer.model" in str(error)
    else:
        assert all(isinstance(id, int) for id in ids)
