"""A tokenizer from the metadata of a GGUF file."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cutaway.errors import TokenizerError, UnsupportedError
from cutaway.text.tokenizer.encoder import Encoder
from cutaway.text.tokenizer.end_tokens import end_ids
from cutaway.text.tokenizer.pretokenizers import PreTokenizer, pre_tokenizer
from cutaway.text.tokenizer.special_tokens import Marker, Markers
from cutaway.text.tokenizer.string_index import PackedStrings, is_byte_level, is_packed
from cutaway.text.tokenizer.tokenizer import SpecialIds, Tokenizer
from cutaway.text.tokenizer.vocabulary import (
    BYTE_OF,
    CONTROL,
    NORMAL,
    SPACE,
    UNUSED,
    USER,
    Vocabulary,
    as_types,
    byte_alphabet,
    is_structural,
)
from cutaway.text.tokenizer.word_merges import WordMerges

_PREFIX = "tokenizer.ggml."
_NO_TOKEN = (-1, 0xFFFF_FFFF)  # what converters write for a role without a token
# Architectures whose control tokens absorb the white space after them, except these (according to Phi-3's
# tokenizer.json).
_SWALLOWS_BLANKS = frozenset({"phi3"})
_KEEPS_BLANKS = frozenset({"<unk>", "<s>", "<|endoftext|>"})
# Architectures whose pieces are ranked by their place in the file, because the scores are not informative.
_RANK_BY_PLACE = frozenset({"gemma", "gemma2", "gemma3", "gemma3n"})


def tokenizer_from_gguf(path: Path, metadata: Mapping[str, Any]) -> Tokenizer:
    """The tokenizer that a GGUF file describes.

    Args:
        path: the file; costly results are cached beside it.
        metadata: its key-values; string arrays as lists of str, number arrays as NumPy arrays.

    Raises:
        TokenizerError: the vocabulary is missing or contradicts itself.
        UnsupportedError: the kind of vocabulary or pre-tokenizer is not known.
    """
    model = metadata.get(_PREFIX + "model")
    if model not in {"gpt2", "llama", "gemma4"}:
        raise UnsupportedError(
            f"unsupported tokenizer model {model!r} (tokenizer.ggml.model)",
            hint="supported: gpt2 (byte-level BPE), llama and gemma4 (SentencePiece)",
            code="tokenizer_unsupported",
        )
    tokens = _strings(metadata, "tokens")
    if tokens is None:
        raise TokenizerError("the file has no vocabulary: tokenizer.ggml.tokens is missing")
    if not (model == "gpt2" and is_packed(tokens) and is_byte_level(tokens)):
        tokens = list(tokens)
    types = as_types(metadata.get(_PREFIX + "token_type"), len(tokens))
    vocabulary = Vocabulary(tokens, types, "byte_level" if model == "gpt2" else "sentencepiece")
    if model == "gpt2":
        return _byte_level(metadata, vocabulary)
    return _sentencepiece(path, metadata, vocabulary)


def _byte_level(metadata: Mapping[str, Any], vocabulary: Vocabulary) -> Tokenizer:
    kind = pre_tokenizer(metadata.get(_PREFIX + "pre"))
    merges = _strings(metadata, "merges")
    if merges is None:
        raise TokenizerError("a byte-level vocabulary without merges: tokenizer.ggml.merges is missing")
    quick = None
    if is_packed(merges) and is_packed(vocabulary.tokens) and not _whole_texts(vocabulary):
        quick = WordMerges(vocabulary, merges, kind).ids
    encoder = Encoder(lambda: _build_byte_level(vocabulary, list(merges), kind), quick=quick)
    return Tokenizer(vocabulary, encoder, _markers(vocabulary), _special_ids(metadata, vocabulary, kind.add_bos))


def _build_byte_level(vocabulary: Vocabulary, merges: list[str], kind: PreTokenizer) -> tuple[Any, Any, Any]:
    from tokenizers import Tokenizer as Library
    from tokenizers import models, normalizers

    pairs = _split(merges)
    try:
        model = models.BPE(vocab=_byte_level_ids(vocabulary), merges=pairs, ignore_merges=kind.ignore_merges)
    except Exception as error:  # the library raises its bare Exception
        raise TokenizerError(f"tokenizer.ggml.merges does not fit tokenizer.ggml.tokens: {error}") from error
    library = Library(model)
    if kind.nfc:
        library.normalizer = normalizers.NFC()
    library.pre_tokenizer = kind.build()
    library.add_tokens(_text_tokens(vocabulary))
    return library, library, library


def _byte_level_ids(vocabulary: Vocabulary) -> dict[str, int]:
    """Ids by byte-level spelling; words that some converters left as plain text are converted."""
    ids = dict(vocabulary.ids)
    for id in vocabulary.of_type(UNUSED):
        ids.pop(vocabulary.tokens[id], None)
    if set("".join(ids)) <= BYTE_OF.keys():
        return ids
    alphabet = byte_alphabet()
    for id in vocabulary.of_type(NORMAL):
        spelling = vocabulary.tokens[id]
        if not set(spelling) <= BYTE_OF.keys():
            del ids[spelling]
            ids.setdefault("".join([alphabet[byte] for byte in spelling.encode()]), id)
    return ids


def _sentencepiece(path: Path, metadata: Mapping[str, Any], vocabulary: Vocabulary) -> Tokenizer:
    architecture = metadata.get("general.architecture")
    gemma = metadata[_PREFIX + "model"] == "gemma4"
    prefix = bool(metadata.get(_PREFIX + "add_space_prefix", not gemma))
    if gemma or architecture in _RANK_BY_PLACE:
        scores: Any = -np.arange(len(vocabulary), dtype=np.float64)
    else:
        scores = metadata.get(_PREFIX + "scores")
    merges = _strings(metadata, "merges")
    if merges is None and (scores is None or len(scores) != len(vocabulary)):
        raise TokenizerError(
            "a SentencePiece vocabulary needs a score for each token (tokenizer.ggml.scores) or merges"
        )
    special = _special_ids(metadata, vocabulary, not gemma)

    def build() -> tuple[Any, Any, Any]:
        spellings = respelled(vocabulary)
        if merges is None:
            pairs = merge_pairs(path, vocabulary, spellings, np.asarray(scores, np.float64))
        else:
            pairs = _split(list(merges))
        return _build_sentencepiece(vocabulary, spellings, pairs, special.unk)

    markers = _markers(vocabulary, rstrip=prefix and architecture in _SWALLOWS_BLANKS)
    encoder = Encoder(build, prefix=" " * prefix)  # at the start and after each control token, like llama.cpp
    return Tokenizer(vocabulary, encoder, markers, special, strip_space=prefix)


def respelled(vocabulary: Vocabulary) -> list[str]:
    """Spellings as the merges see text: tokens of white space are spelled with spaces, which reach the merges as
    U+2581."""
    return [
        SPACE * len(spelling) if " " in spelling and not spelling.strip(" ") else spelling
        for spelling in vocabulary.tokens
    ]


def merge_pairs(
    path: Path, vocabulary: Vocabulary, spellings: list[str], scores: NDArray[np.float64]
) -> list[tuple[str, str]]:
    """The merges of a vocabulary with scores, in order of rank; cached beside the file at `path`."""
    from cutaway.text.tokenizer import merge_cache, sentencepiece

    key = merge_cache.content_key("\n".join(spellings).encode(), vocabulary.types.tobytes(), scores.tobytes())
    merges = merge_cache.read(path, key)
    if merges is None or (merges.size and not 0 <= merges.min() <= merges.max() < len(spellings)):
        merges = sentencepiece.find_merges(vocabulary, spellings, scores)
        merge_cache.write(path, key, merges)
    spell = spellings.__getitem__
    return list(zip(map(spell, merges[:, 0].tolist()), map(spell, merges[:, 1].tolist()), strict=True))


def _build_sentencepiece(
    vocabulary: Vocabulary, spellings: list[str], pairs: list[Any], unk: int | None
) -> tuple[Any, Any, Any]:
    from tokenizers import Tokenizer as Library
    from tokenizers import models, normalizers

    ids = dict(zip(spellings, range(len(spellings)), strict=True))
    unknown = vocabulary.tokens[unk] if unk is not None else None
    try:
        model = models.BPE(vocab=ids, merges=pairs, byte_fallback=True, fuse_unk=True, unk_token=unknown)
    except Exception as error:  # the library raises its bare Exception
        raise TokenizerError(f"the file's merges do not fit tokenizer.ggml.tokens: {error}") from error

    library = Library(model)
    library.normalizer = normalizers.Replace(" ", SPACE)
    library.add_tokens(_text_tokens(vocabulary))
    return library, library, library


def _text_tokens(vocabulary: Vocabulary) -> list[Any]:
    """User-defined tokens that are text and are always matched as a whole. Runs of spaces are left to the merges."""
    from tokenizers import AddedToken

    return [AddedToken(text, normalized=False, special=False) for text in _whole_texts(vocabulary)]


def _whole_texts(vocabulary: Vocabulary) -> list[str]:
    texts = [vocabulary.tokens[id] for id in vocabulary.of_type(USER)]
    if vocabulary.scheme == "sentencepiece":
        texts = [text for text in texts if text.strip(" ")]
    return [text for text in texts if text and not is_structural(text)]


def _markers(vocabulary: Vocabulary, *, rstrip: bool = False) -> Markers:
    """Control tokens, and user-defined ones that are not text. `rstrip`: white space after a control token belongs to
    it."""
    tokens = vocabulary.tokens
    found = vocabulary.of_type(CONTROL) + [id for id in vocabulary.of_type(USER) if is_structural(tokens[id])]
    return Markers({tokens[id]: Marker(id, rstrip=rstrip and tokens[id] not in _KEEPS_BLANKS) for id in found})


def _special_ids(metadata: Mapping[str, Any], vocabulary: Vocabulary, add_bos: bool) -> SpecialIds:
    def role(name: str) -> int | None:
        id = metadata.get(f"{_PREFIX}{name}_token_id")
        return None if id is None or int(id) in _NO_TOKEN else vocabulary.check(int(id))

    bos, eos = role("bos"), role("eos")
    fill = {short: role(f"fim_{short}") for short in ("pre", "suf", "mid", "pad", "rep", "sep")}
    for short, older in (("pre", "prefix"), ("suf", "suffix"), ("mid", "middle")):
        fill[short] = fill[short] if fill[short] is not None else role(older)
    return SpecialIds(
        bos=bos,
        eos=eos,
        unk=role("unknown"),
        pad=role("padding"),
        add_bos=bool(metadata.get(_PREFIX + "add_bos_token", add_bos)),
        add_eos=bool(metadata.get(_PREFIX + "add_eos_token", False)),
        ends=end_ids(vocabulary, (eos, role("eot"), role("eom"))),
        fill={short: id for short, id in fill.items() if id is not None},
    )


def _strings(metadata: Mapping[str, Any], name: str) -> list[str] | PackedStrings | None:
    values = metadata.get(_PREFIX + name)
    if values is None:
        return None
    if not (isinstance(values, list) or is_packed(values)):
        raise TokenizerError(f"{_PREFIX}{name} must be an array of strings")
    return values


def _split(merges: list[str]) -> list[tuple[str, str]]:
    """Merges, each as its two parts with a space between them."""
    parts = " ".join(merges).split(" ")
    if len(parts) != 2 * len(merges):
        raise TokenizerError("tokenizer.ggml.merges: every merge must be two parts with one space between")
    return list(zip(parts[::2], parts[1::2], strict=True))
