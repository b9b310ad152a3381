"""A tokenizer from SentencePiece's tokenizer.model, for a folder without tokenizer.json.

The ids are those of the SentencePiece library; tokenizer_config.json and added_tokens.json add tokens and define the
beginning of a text.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from cutaway.errors import TokenizerError, UnsupportedError
from cutaway.text.tokenizer.encoder import Encoder
from cutaway.text.tokenizer.end_tokens import end_ids
from cutaway.text.tokenizer.folder_files import ROLES, named_ends, read_if_there, role_text
from cutaway.text.tokenizer.from_gguf import merge_pairs
from cutaway.text.tokenizer.sentencepiece_model import BPE, SentencePieceModel, read_model
from cutaway.text.tokenizer.special_tokens import Marker, Markers
from cutaway.text.tokenizer.tokenizer import SpecialIds, Tokenizer
from cutaway.text.tokenizer.vocabulary import CONTROL, SPACE, UNKNOWN, UNUSED, USER, Vocabulary, is_structural

_MAX_GAP = 1024
_KINDS = {1: "Unigram", 3: "word", 4: "character"}


class _Added(NamedTuple):
    """A token that is matched as a whole before any merge."""

    id: int
    text: str
    special: bool
    lstrip: bool = False
    rstrip: bool = False
    single_word: bool = False


def tokenizer_from_model(folder: Path) -> Tokenizer:
    """The tokenizer in a model's folder.

    Raises:
        TokenizerError: tokenizer.model is damaged, or added tokens contradict it.
        UnsupportedError: a SentencePiece model other than BPE, or one that maps characters.
    """
    path = folder / "tokenizer.model"
    model = read_model(path)
    _refuse_unsupported(model)
    config = read_if_there(folder / "tokenizer_config.json")
    roles = read_if_there(folder / "special_tokens_map.json") | config
    added = _added_tokens(model, config, read_if_there(folder / "added_tokens.json"), roles)
    vocabulary = _vocabulary(model, added)
    special = _special_ids(model, vocabulary, roles, named_ends(folder))
    markers = Markers(
        {
            token.text: Marker(token.id, token.lstrip, token.rstrip, token.single_word)
            for token in added
            if _is_marker(token)
        }
    )
    kept = [token for token in added if not _is_marker(token)]
    prefix = " " * bool(model.add_prefix and config.get("add_prefix_space") is not False)
    encoder = Encoder(
        lambda: _build(path, model, vocabulary, kept, special.unk),
        prefix=prefix,
        marker_prefix=prefix if config.get("legacy") else "",  # absent: as in transformers 5
    )
    return Tokenizer(vocabulary, encoder, markers, special, strip_space=bool(prefix))


def _refuse_unsupported(model: SentencePieceModel) -> None:
    faults = {
        f"a {_KINDS.get(model.kind, model.kind)} model": model.kind != BPE,
        "trainer_spec.treat_whitespace_as_suffix": model.whitespace_suffix,
        "normalizer_spec.precompiled_charsmap": model.charsmap,
        "normalizer_spec.escape_whitespaces = false": not model.escape_blanks,
        "denormalizer_spec.precompiled_charsmap": model.denormalizes,
        "normalizer_spec.remove_extra_whitespaces with user-defined pieces that hold blanks": model.remove_extra_blanks
        and any(type == USER and SPACE in text for text, type in zip(model.pieces, model.types, strict=True)),
    }
    for what in (what for what, there in faults.items() if there):
        raise UnsupportedError(
            f"unsupported tokenizer.model: {what}",
            hint="supported: BPE that maps no characters; a tokenizer.json beside it is read instead",
            code="tokenizer_unsupported",
        )


def _is_marker(token: _Added) -> bool:
    return token.special or is_structural(token.text)


def _added_tokens(
    model: SentencePieceModel, config: Mapping[str, Any], listed: Mapping[str, Any], roles: Mapping[str, Any]
) -> list[_Added]:
    """Control and user-defined pieces, and the tokens of tokenizer_config.json and added_tokens.json; the first takes
    precedence.

    A token of the configuration replaces the piece with its id.
    """
    found: dict[int, _Added] = {}
    for id, (piece, type) in enumerate(zip(model.pieces, model.types, strict=True)):
        if type in {CONTROL, USER} or id == model.roles.get("unk"):
            found[id] = _Added(id, piece.replace(SPACE, " ") if type == USER else piece, type != USER)
    special = {role_text(roles, role) for role in ROLES}
    for text, id in listed.items():
        _check_added(id, text)
        found[id] = _Added(id, text, text in special)
    entries = config.get("added_tokens_decoder")
    for key, entry in (entries if isinstance(entries, dict) else {}).items():
        if not (isinstance(key, str) and key.isascii() and key.isdigit() and len(key) < 10 and isinstance(entry, dict)):
            raise TokenizerError(f"tokenizer_config.json: added_tokens_decoder: {key!r} is not an id with a token")
        id, content = int(key), entry.get("content")
        _check_added(id, content)
        flags = (bool(entry.get(flag)) for flag in ("special", "lstrip", "rstrip", "single_word"))
        found[id] = _Added(id, str(content), *flags)
    return [found[id] for id in sorted(found)]


def _check_added(id: Any, text: Any) -> None:
    if type(id) is not int or id < 0 or not isinstance(text, str) or not text:
        raise TokenizerError(f"an added token has the id {id!r} and the text {text!r}")


def _vocabulary(model: SentencePieceModel, added: list[_Added]) -> Vocabulary:
    count = len(model.pieces)
    size = max(count, added[-1].id + 1 if added else 0)
    if size - count > _MAX_GAP + len(added):
        raise TokenizerError(f"added token {added[-1].text!r} has the id {added[-1].id}, beyond the {count} pieces")
    tokens = model.pieces + [""] * (size - count)
    types = np.array(model.types + [UNUSED] * (size - count), np.uint8)
    for entry in added:
        tokens[entry.id] = entry.text
        types[entry.id] = CONTROL if entry.special else USER
    if (unk := model.roles.get("unk")) is not None:
        types[unk] = UNKNOWN
    places: dict[str, int] = {}
    for id, token in enumerate(tokens):
        if token and places.setdefault(token, id) != id:
            raise TokenizerError(f"tokenizer.model and the added tokens hold {token!r} twice: {places[token]} and {id}")
    return Vocabulary(tokens, types, "sentencepiece")


def _special_ids(
    model: SentencePieceModel, vocabulary: Vocabulary, config: Mapping[str, Any], ends: list[int]
) -> SpecialIds:
    ids = {role: vocabulary.ids.get(role_text(config, role) or "", model.roles.get(role)) for role in ROLES}
    return SpecialIds(
        bos=ids["bos"], eos=ids["eos"], unk=ids["unk"], pad=ids["pad"],
        add_bos=bool(config.get("add_bos_token", True)),
        add_eos=bool(config.get("add_eos_token", False)),
        ends=end_ids(vocabulary, (ids["eos"], *ends)),
    )


def _build(
    path: Path, model: SentencePieceModel, vocabulary: Vocabulary, kept: list[_Added], unk: int | None
) -> tuple[Any, Any, Any]:
    from tokenizers import AddedToken, models
    from tokenizers import Tokenizer as Library

    types = vocabulary.types
    typed = zip(vocabulary.tokens, types.tolist(), strict=True)
    tokens = [token.replace(" ", SPACE) if type == USER else token for token, type in typed]
    # SentencePiece merges neither into user-defined pieces nor out of them.
    mergeable = Vocabulary(tokens, np.where(types == USER, CONTROL, types).astype(np.uint8), "sentencepiece")
    scores = np.array(model.scores + [0.0] * (len(tokens) - len(model.scores)))
    pairs = merge_pairs(path, mergeable, tokens, scores)
    ids = {token: id for id, token in enumerate(tokens) if types[id] != UNUSED}
    unknown = tokens[unk] if unk is not None else None
    try:
        merges = models.BPE(ids, pairs, byte_fallback=model.byte_fallback, fuse_unk=True, unk_token=unknown)
    except Exception as error:  # the library raises its bare Exception
        raise TokenizerError(f"{path.name}: its pieces cannot be used: {error}") from error

    def library(normalizer: Any) -> Any:
        made = Library(merges)
        made.normalizer = normalizer
        # Like SentencePiece, search the text after spaces were replaced: such pieces may contain spaces.
        made.add_tokens(
            [
                AddedToken(
                    tokens[token.id], normalized=True, special=False,
                    lstrip=token.lstrip, rstrip=token.rstrip, single_word=token.single_word,
                )
                for token in kept
            ]
        )  # fmt: skip
        return made

    whole, inside = (library(_normalizer(model, first)) for first in (True, False))
    return whole, whole, inside


def _normalizer(model: SentencePieceModel, first: bool) -> Any:
    """first: the text is at the start or after a marker; white space around it is removed if the model is set so."""
    from tokenizers import Regex, normalizers

    steps: list[Any] = []
    if model.remove_extra_blanks:
        # The prefix is one space before the text: it is kept, and spaces after it join it.
        ends = f"[ {SPACE}]+\\z" if model.add_prefix else f"\\A +|[ {SPACE}]+\\z"
        steps += [normalizers.Replace(Regex(ends), "")] * first + [normalizers.Replace(Regex(" {2,}"), " ")]
    return normalizers.Sequence([*steps, normalizers.Replace(" ", SPACE)])
