"""SentencePiece's model file (``tokenizer.model``): the fields that decide how text is encoded.

Source: sentencepiece_model.proto of the SentencePiece project, and the description of protobuf's wire format. A message
is a row of fields, each a varint ``number << 3 | wire type`` and a value: a varint (0), 8 bytes (1), a length and as
many bytes (2), or 4 bytes (5). Every length is checked before use.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from cutaway.errors import TokenizerError
from cutaway.text.tokenizer.vocabulary import BYTE, NORMAL

MAX_FILE = 1 << 26
MAX_PIECES = 1 << 21
UNIGRAM, BPE = 1, 2

_VARINT, _EIGHT, _BYTES, _FOUR = 0, 1, 2, 5
_FIXED = {_EIGHT: 8, _FOUR: 4}
# Names of the fields that are read: (number, wire type).
_PIECE, _SCORE, _TYPE = (1, _BYTES), (2, _FOUR), (3, _VARINT)
_MODEL_TYPE, _SUFFIX, _FALLBACK = (3, _VARINT), (24, _VARINT), (35, _VARINT)
_ROLES = {"unk": ((40, _VARINT), 0), "bos": ((41, _VARINT), 1), "eos": ((42, _VARINT), 2), "pad": ((43, _VARINT), -1)}
_CHARSMAP, _PREFIX, _EXTRA, _ESCAPE = (2, _BYTES), (3, _VARINT), (4, _VARINT), (5, _VARINT)

Key = tuple[int, int]
Value = int | bytes


class SentencePieceModel(NamedTuple):
    """The contents of a model file.

    Attributes:
        pieces, scores, types: by id; types are numbered as in GGUF.
        kind: `BPE`, `UNIGRAM` or another number.
        roles: ids of "unk", "bos", "eos" and "pad" that are valid piece ids.
        whitespace_suffix: white space belongs to the word before it.
        charsmap, denormalizes: characters are mapped before encoding, and after decoding.
    """

    pieces: list[str]
    scores: list[float]
    types: list[int]
    kind: int
    roles: dict[str, int]
    byte_fallback: bool
    whitespace_suffix: bool
    add_prefix: bool
    remove_extra_blanks: bool
    escape_blanks: bool
    charsmap: bool
    denormalizes: bool


def read_model(path: Path) -> SentencePieceModel:
    """Read a file. Raises TokenizerError if it is unreadable, too large, or not a SentencePiece model."""
    try:
        size = path.stat().st_size
        if size > MAX_FILE:
            raise TokenizerError(f"{path} has {size} bytes, limit {MAX_FILE}")
        content = path.read_bytes()
    except OSError as error:
        raise TokenizerError(f"cannot read {path}: {error}") from error
    return parse_model(content, path.name)


def parse_model(content: bytes, name: str) -> SentencePieceModel:
    """Read the contents of a file. name: for errors. Raises TokenizerError if they are not a SentencePiece model."""
    try:
        return _parse(content)
    except _WireError as error:
        raise TokenizerError(
            f"{name} is not a SentencePiece model: {error}",
            hint="convert the tokenizer to a tokenizer.json if it is of another kind",
        ) from error


class _WireError(ValueError):
    """The bytes do not follow the format."""


def _parse(content: bytes) -> SentencePieceModel:
    pieces: list[str] = []
    scores: list[float] = []
    types: list[int] = []
    trainer: dict[Key, Value] = {}
    normalizer: dict[Key, Value] = {}
    denormalizer: dict[Key, Value] = {}
    specs = {(2, _BYTES): trainer, (3, _BYTES): normalizer, (5, _BYTES): denormalizer}
    for key, value in _fields(content):
        if key == (1, _BYTES):
            if len(pieces) == MAX_PIECES:
                raise _WireError(f"more than {MAX_PIECES} pieces")
            piece, score, type = _piece(_bytes(value), len(pieces))
            pieces.append(piece)
            scores.append(score)
            types.append(type)
        elif key in specs:
            specs[key].update(_fields(_bytes(value)))
    if not pieces:
        raise _WireError("it holds no pieces")
    roles = {name: _signed(trainer.get(key, default)) for name, (key, default) in _ROLES.items()}
    return SentencePieceModel(
        pieces=pieces,
        scores=scores,
        types=types,
        kind=_signed(trainer.get(_MODEL_TYPE, UNIGRAM)),
        roles={name: id for name, id in roles.items() if 0 <= id < len(pieces)},
        byte_fallback=bool(trainer.get(_FALLBACK, False)),
        whitespace_suffix=bool(trainer.get(_SUFFIX, False)),
        add_prefix=bool(normalizer.get(_PREFIX, True)),
        remove_extra_blanks=bool(normalizer.get(_EXTRA, True)),
        escape_blanks=bool(normalizer.get(_ESCAPE, True)),
        charsmap=bool(normalizer.get(_CHARSMAP)),
        denormalizes=bool(denormalizer.get(_CHARSMAP)),
    )


def _piece(content: bytes, id: int) -> tuple[str, float, int]:
    fields = dict(_fields(content))
    try:
        text = _bytes(fields.get(_PIECE, b"")).decode()
    except UnicodeDecodeError as error:
        raise _WireError(f"piece {id} is not UTF-8") from error
    (score,) = struct.unpack("<f", _bytes(fields.get(_SCORE, bytes(4))))
    if not math.isfinite(score):
        raise _WireError(f"the score of piece {id} is {score}")
    type = _signed(fields.get(_TYPE, NORMAL))
    if not text or not NORMAL <= type <= BYTE:
        raise _WireError(f"piece {id} is {text!r} of type {type}")
    return text, score, type


def _fields(content: bytes) -> Iterator[tuple[Key, Value]]:
    """The fields of a message: ((number, wire type), a number or bytes)."""
    at, end = 0, len(content)
    while at < end:
        tag, at = _varint(content, at)
        number, wire = tag >> 3, tag & 7
        if not 1 <= number < 1 << 29:
            raise _WireError(f"field number {number} before byte {at}")
        if wire == _VARINT:
            value, at = _varint(content, at)
            yield (number, wire), value
            continue
        if wire == _BYTES:
            size, at = _varint(content, at)
        elif wire in _FIXED:
            size = _FIXED[wire]
        else:
            raise _WireError(f"wire type {wire} of field {number} before byte {at}")
        if size > end - at:
            raise _WireError(f"field {number} at byte {at} needs {size} bytes, {end - at} are left")
        yield (number, wire), content[at : at + size]
        at += size


def _varint(content: bytes, at: int) -> tuple[int, int]:
    """A number of at most 64 bits, and where it ends."""
    value = 0
    for shift in range(0, 70, 7):
        if at >= len(content):
            raise _WireError(f"a number is cut off at byte {at}")
        byte = content[at]
        at += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value & 0xFFFF_FFFF_FFFF_FFFF, at
    raise _WireError(f"a number of more than 10 bytes before byte {at}")


def _signed(value: Value) -> int:
    """An int32 as protobuf reads it: the low 32 bits, in two's complement."""
    low = int(value) & 0xFFFF_FFFF
    return low - (1 << 32) if low >> 31 else low


def _bytes(value: Value) -> bytes:
    assert isinstance(value, bytes)  # by the wire type
    return value
