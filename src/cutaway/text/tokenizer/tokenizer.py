"""Text to token ids and back."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from itertools import pairwise
from types import MappingProxyType
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from cutaway.errors import TokenizerError
from cutaway.text.lost_text import warn_of_loss
from cutaway.text.tokenizer.detokenizer import Detokenizer
from cutaway.text.tokenizer.encoder import Encoder, Place, Span, not_text
from cutaway.text.tokenizer.special_tokens import Markers
from cutaway.text.tokenizer.vocabulary import CONTROL, UNUSED, Vocabulary, byte_alphabet

_IN_UTF8 = frozenset({*range(0xC0), *range(0xC2, 0xF5)})


class Segment(NamedTuple):
    """A run of text. Markers are read as control tokens only in a `special` one."""

    text: str
    special: bool


class Piece(NamedTuple):
    """One token of a text: characters [start, end) of the original text, which several tokens may share."""

    id: int
    piece: str
    bytes: bytes
    start: int
    end: int
    kind: str


class SpecialIds(NamedTuple):
    """Ids with a role.

    Attributes:
        ends: every id that ends a turn or a text.
        fill: markers of fill-in-the-middle that a file names: "pre", "suf", "mid", "pad", "rep", "sep".
        add_bos, add_eos: whether `encode(add_special=True)` adds them.
    """

    bos: int | None = None
    eos: int | None = None
    unk: int | None = None
    pad: int | None = None
    add_bos: bool = False
    add_eos: bool = False
    ends: frozenset[int] = frozenset()
    fill: Mapping[str, int] = MappingProxyType({})


class Tokenizer:
    """One model's tokenizer.

    Markers (control tokens, and user-defined ones such as ``<tool_call>``) are found by `markers` and never by the
    encoder, so that the caller decides in which text they count.

    Args:
        vocabulary: the tokens.
        encoder: encodes plain text.
        markers: the texts that are markers where markers count.
        special: ids with a role.
        strip_space: decoding a whole text drops its first space (SentencePiece's prefix).
    """

    def __init__(
        self,
        vocabulary: Vocabulary,
        encoder: Encoder,
        markers: Markers,
        special: SpecialIds,
        *,
        strip_space: bool = False,
    ) -> None:
        self.vocabulary = vocabulary
        self.markers = markers
        self.special = special
        self.vocab_size = len(vocabulary)
        self.bos_id = special.bos
        self.eos_id = special.eos
        self.unk_id = special.unk
        self.pad_id = special.pad
        self.add_bos = special.add_bos and special.bos is not None
        self.add_eos = special.add_eos and special.eos is not None
        self.end_ids = special.ends
        self.warnings: list[str] = []
        self._encoder = encoder
        self._strip_space = strip_space
        self._added: dict[int, bytes] = {}

    @property
    def encoder(self) -> Encoder:
        """What encodes plain text: its words and its merges."""
        return self._encoder

    def prepare(self) -> None:
        """Build the encoder now instead of with the first text; may run in another thread while weights are loaded."""
        self._encoder.prepare()

    def encode(self, text: str, *, add_special: bool = True, parse_special: bool = False) -> list[int]:
        """Ids of a text.

        Args:
            add_special: add the beginning-of-sequence token (and the end token) if the model uses one; never a second
                one.
            parse_special: read markers in the text as control tokens; otherwise they are plain text.

        Raises:
            TokenizerError: not text (half a surrogate pair, not a string).
        """
        return self.encode_segments([Segment(text, parse_special)], add_special=add_special)

    def encode_part(self, text: str, *, parse_special: bool = False) -> list[int]:
        """Ids of a text that follows other text: without a prefix space and without special tokens.

        Raises:
            TokenizerError: not text.
        """
        return self._segment_ids([Segment(text, parse_special)], Place.INSIDE)

    def encode_segments(self, segments: Iterable[Segment], *, add_special: bool = False) -> list[int]:
        """Ids of a rendered template. The template writes its own beginning token, so by default none is added."""
        ids = self._segment_ids(segments, Place.START)
        if not add_special:
            return ids
        lead, tail = self._missing(ids)
        return [*lead, *ids, *tail]

    def _segment_ids(self, segments: Iterable[Segment], place: Place) -> list[int]:
        ids: list[int] = []
        for text, marker, there in self._parts(segments, place):
            ids.extend(self._text_ids(text, there) if marker is None else (marker,))
        return ids

    def decode(self, ids: Sequence[int], *, skip_special: bool = False) -> str:
        """The whole text of these ids; bytes that are not UTF-8 become U+FFFD.

        Args:
            skip_special: omit the names of control tokens.
        """
        read = self.token_bytes if skip_special else self.vocabulary.spelled_bytes
        text = b"".join([read(int(token)) for token in ids]).decode("utf-8", "replace")
        return text.removeprefix(" ") if self._strip_space else text

    def detokenizer(
        self, *, skip_special: bool = True, shown: Collection[int] = (), after: Sequence[int] | None = ()
    ) -> Detokenizer:
        """A detokenizer for one stream of tokens.

        Args:
            shown: control tokens whose names are part of the text all the same.
            after: the tokens that the stream continues. A whole text begins only after tokens without text; its first
                space is the prefix and is dropped. None: keep the space in any case.
        """
        strip = self._strip_space and after is not None and not any(map(self.token_bytes, after))
        if skip_special and shown:
            ids = frozenset(shown)
            return Detokenizer(lambda id: self._shown_bytes(id, ids), strip_space=strip)
        return Detokenizer(self.token_bytes if skip_special else self.vocabulary.spelled_bytes, strip_space=strip)

    def _shown_bytes(self, id: int, shown: frozenset[int]) -> bytes:
        return self.vocabulary.spelled_bytes(id) if id in shown else self.token_bytes(id)

    def token_bytes(self, id: int) -> bytes:
        """The bytes that the token adds to the text; none for a control token or an unused entry."""
        added = self._added.get(id)
        if added is None:
            silent = self.vocabulary.kind(id) in ("control", "unknown")
            added = self._added[id] = b"" if silent else self.vocabulary.spelled_bytes(id)
        return added

    def kind(self, id: int) -> str:
        """One of "normal", "control", "user", "byte", "unknown", "unused"."""
        return self.vocabulary.kind(id)

    def piece(self, id: int) -> str:
        """The vocabulary's spelling; "" for an entry that only pads it."""
        return "" if self.vocabulary.kind(id) == "unused" else self.vocabulary.tokens[id]

    def unused_ids(self, rows: int) -> NDArray[np.int64]:
        """The ids below `rows` that are neither text nor a marker: padding entries, and ids beyond the tokens."""
        beyond = np.arange(len(self.vocabulary), max(rows, len(self.vocabulary)))
        return np.concatenate([np.flatnonzero(self.vocabulary.types[:rows] == UNUSED), beyond])

    def pieces(self, text: str, *, add_special: bool = False, parse_special: bool = False) -> list[Piece]:
        """The text token by token, with the characters of each. Ids are those of `encode`."""
        return self.segment_pieces([Segment(text, parse_special)], add_special=add_special)

    def segment_pieces(self, segments: Iterable[Segment], *, add_special: bool = False) -> list[Piece]:
        """The same for a rendered template. Ids are those of `encode_segments`; characters count through all
        segments."""
        spans: list[Span] = []
        offset = 0
        for part, marker, place in self._parts(segments, Place.START):
            if marker is None:
                spans.extend(Span(i, s + offset, e + offset) for i, s, e in self._text_spans(part, place))
            else:
                spans.append(Span(marker, offset, offset + len(part)))
            offset += len(part)
        if add_special:
            lead, tail = self._missing([span.id for span in spans])
            spans = [*(Span(i, 0, 0) for i in lead), *spans, *(Span(i, offset, offset) for i in tail)]
        read = self.vocabulary.spelled_bytes
        return [Piece(i, self.piece(i), read(i), start, end, self.kind(i)) for i, start, end in spans]

    def _missing(self, ids: Sequence[int]) -> tuple[list[int], list[int]]:
        """The tokens to add before and after `ids`: those that the model uses and that are not present."""
        bos, eos = self.special.bos, self.special.eos
        lead = [bos] if self.add_bos and bos is not None and list(ids[:1]) != [bos] else []
        tail = [eos] if self.add_eos and eos is not None and list(ids[-1:]) != [eos] else []
        return lead, tail

    def _parts(self, segments: Iterable[Segment], place: Place) -> Iterator[tuple[str, int | None, Place]]:
        """The segments, split at their markers: (text, the marker's id or None, its place); the first at `place`."""
        for segment in segments:
            end = 0
            if not isinstance(segment.text, str):
                raise not_text(segment.text)
            for match in self.markers.find(segment.text) if segment.special else ():
                if match.start > end:
                    yield segment.text[end : match.start], None, place
                yield segment.text[match.start : match.end], match.id, place
                place, end = Place.MARKER, match.end
            if rest := segment.text[end:]:
                yield rest, None, place
                place = Place.INSIDE

    def _text_ids(self, text: str, place: Place) -> list[int]:
        ids = self._encoder.ids(text, place)
        self._warn_of_loss(text, ids)
        if self._control_ids.isdisjoint(ids):
            return ids
        return [span.id for span in self._broken_spans(text, place)]

    def _text_spans(self, text: str, place: Place) -> list[Span]:
        spans = self._encoder.spans(text, place)
        if not self._control_ids.isdisjoint(span.id for span in spans):
            spans = self._broken_spans(text, place)
        return _covering(spans, len(text))

    def _broken_spans(self, text: str, place: Place) -> list[Span]:
        """For vocabularies whose merges lead to a control token: encode in parts, split inside every look-alike."""
        spans: list[Span] = []
        cuts = [0, *(start + 1 for start in self.markers.lookalikes(text)), len(text)]
        for start, end in pairwise(cuts):
            part = self._encoder.spans(text[start:end], place if start == 0 else Place.INSIDE)
            spans.extend(Span(i, s + start, e + start) for i, s, e in part)
        if not self._control_ids.isdisjoint(span.id for span in spans):
            raise TokenizerError("this tokenizer reads a control token out of plain text that does not name it")
        return spans

    def _warn_of_loss(self, text: str, ids: Sequence[int]) -> None:
        """Warn if the vocabulary cannot express a byte of the text (SmolLM2's lacks eight) and therefore drops it."""
        lost = sum(map(text.encode().count, self._unwritable)) if self._unwritable else 0
        if self.special.unk is not None:
            lost += ids.count(self.special.unk)
        if lost:
            what = f"{lost} bytes or characters of the text have no token in this vocabulary and are lost"
            warn_of_loss(what, stacklevel=4)

    @cached_property
    def _unwritable(self) -> list[int]:
        """The bytes of UTF-8 for which a byte-level vocabulary has no token."""
        if self.vocabulary.scheme != "byte_level":
            return []
        find = self.vocabulary.find
        return [byte for byte, spelling in enumerate(byte_alphabet()) if byte in _IN_UTF8 and find(spelling) is None]

    @cached_property
    def _control_ids(self) -> frozenset[int]:
        return frozenset(self.vocabulary.of_type(CONTROL)) - {self.special.unk}


def _covering(spans: list[Span], length: int) -> list[Span]:
    """Assign every character to a token: one that a normalizer removed belongs to the tokens before it."""
    covering: list[Span] = []
    start = limit = length
    for span in reversed(spans):
        if span.start < start:
            start, limit = span.start, start
        covering.append(span._replace(end=max(span.end, limit)))
    return covering[::-1]
