"""A tokenizer from Hugging Face's tokenizer.json and tokenizer_config.json."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from cutaway.errors import TokenizerError, UnsupportedError
from cutaway.text.tokenizer.encoder import Encoder
from cutaway.text.tokenizer.end_tokens import end_ids
from cutaway.text.tokenizer.folder_files import ROLES, named_ends, read_if_there, read_json, role_text
from cutaway.text.tokenizer.special_tokens import Marker, Markers
from cutaway.text.tokenizer.tokenizer import SpecialIds, Tokenizer
from cutaway.text.tokenizer.vocabulary import (
    BYTE,
    CONTROL,
    NORMAL,
    UNKNOWN,
    UNUSED,
    USER,
    Vocabulary,
    byte_tokens,
    is_structural,
)


def tokenizer_from_json(folder: Path) -> Tokenizer:
    """The tokenizer in a model's folder.

    Raises:
        TokenizerError: there is no tokenizer.json, or it contradicts itself.
        UnsupportedError: the kind of model or decoder is not known.
    """
    if not (folder / "tokenizer.json").is_file():
        raise TokenizerError(
            f"no tokenizer.json in {folder}", hint="a folder with safetensors needs its tokenizer beside it"
        )
    text, content = read_json(folder / "tokenizer.json")
    config = read_if_there(folder / "tokenizer_config.json")
    ends = named_ends(folder)
    model = content.get("model") or {}
    kinds = {"BPE": dict, "Unigram": list}
    if not isinstance(model.get("vocab"), kinds.get(model.get("type", "BPE"), ())):
        raise UnsupportedError(
            f"unsupported tokenizer model {model.get('type')!r} in tokenizer.json",
            hint="supported: BPE and Unigram",
            code="tokenizer_unsupported",
        )
    added = [entry for entry in content.get("added_tokens") or () if isinstance(entry, dict)]
    vocabulary = _vocabulary(model, added, _scheme(content))
    special = _special_ids(vocabulary, config, ends, _template_ids(content))
    kept = [entry for entry in added if not _is_marker(entry)]
    known = _model_ids(model)
    if missing := [entry for entry in kept if entry["content"] not in known]:
        # The library numbers added tokens itself, unless the model contains them.
        _teach(model, missing)
        text = json.dumps(content, ensure_ascii=False)
    encoder = Encoder(lambda: _build(text, kept, content))
    return Tokenizer(vocabulary, encoder, _markers(added), special, strip_space=_strips_space(content))


def _parts(content: Mapping[str, Any], name: str) -> list[dict[str, Any]]:
    """The parts of a component, which may be a sequence."""
    part = content.get(name)
    if not isinstance(part, dict):
        return []
    for key in ("decoders", "pretokenizers", "normalizers"):
        if isinstance(part.get(key), list):
            return [inner for entry in part[key] for inner in _parts({name: entry}, name)]
    return [part]


def _scheme(content: Mapping[str, Any]) -> Any:
    kinds = {part.get("type") for part in _parts(content, "decoder")}
    if "ByteLevel" in kinds:
        return "byte_level"
    if kinds & {"Metaspace", "ByteFallback"}:
        return "sentencepiece"
    raise UnsupportedError(
        f"unsupported decoder {sorted(map(str, kinds))} in tokenizer.json",
        hint="supported: ByteLevel, and SentencePiece's",
        code="tokenizer_unsupported",
    )


def _strips_space(content: Mapping[str, Any]) -> bool:
    return any(
        part.get("type") == "Strip" or (part.get("type") == "Metaspace" and _prepends(part) != "never")
        for part in _parts(content, "decoder")
    )


def _prepends(metaspace: Mapping[str, Any]) -> str:
    """Where a Metaspace inserts its prefix space: "first", "always" or "never"; old files have a flag instead."""
    return str(metaspace.get("prepend_scheme", "always" if metaspace.get("add_prefix_space", True) else "never"))


def _model_ids(model: Mapping[str, Any]) -> dict[str, int]:
    """The id of each piece: BPE lists them with ids, Unigram in order with scores."""
    if isinstance(model["vocab"], dict):
        return dict(model["vocab"])
    try:
        return {str(piece): id for id, (piece, _) in enumerate(model["vocab"])}
    except (TypeError, ValueError) as error:
        raise TokenizerError(f"tokenizer.json: a Unigram vocabulary must hold pieces with scores: {error}") from error


def _teach(model: dict[str, Any], missing: list[dict[str, Any]]) -> None:
    """Add tokens that are text to the model's vocabulary, under their ids."""
    if isinstance(model["vocab"], dict):
        model["vocab"].update((entry["content"], entry["id"]) for entry in missing)
        return
    for entry in sorted(missing, key=lambda entry: int(entry["id"])):
        if entry["id"] < len(model["vocab"]):
            raise TokenizerError(f"tokenizer.json: added token {entry['content']!r} has the id of another piece")
        gap = entry["id"] - len(model["vocab"])
        if gap > 1024:
            raise TokenizerError(f"tokenizer.json: added token {entry['content']!r} lies {gap} ids beyond the pieces")
        model["vocab"] += [[f"\ufdd0{len(model['vocab']) + n}", -1e9] for n in range(gap)]  # no text contains it
        model["vocab"].append([entry["content"], -1e9])


def _vocabulary(model: Mapping[str, Any], added: list[dict[str, Any]], scheme: Any) -> Vocabulary:
    ids = _model_ids(model)
    try:
        ids.update((entry["content"], entry["id"]) for entry in added)
        size = max(ids.values(), default=-1) + 1
        if size > 8 * len(ids) + 1024 or min(ids.values(), default=0) < 0:
            raise TokenizerError(f"tokenizer.json has {len(ids)} tokens but ids up to {size - 1}")
        tokens = [""] * size
        types = np.full(size, UNUSED, np.uint8)
        for token, id in ids.items():
            tokens[id] = token
        types[list(ids.values())] = NORMAL
    except (KeyError, TypeError) as error:
        raise TokenizerError(f"tokenizer.json: a token without a usable id or content: {error}") from error
    if scheme == "sentencepiece" and model.get("byte_fallback"):
        types[byte_tokens(tokens)] = BYTE
    for entry in added:
        types[entry["id"]] = CONTROL if entry.get("special") else USER
    if isinstance(unk := model.get("unk_token"), str) and unk in ids:
        types[ids[unk]] = UNKNOWN
    if isinstance(unk := model.get("unk_id"), int) and 0 <= unk < size:
        types[unk] = UNKNOWN
    return Vocabulary(tokens, types, scheme)


def _is_marker(entry: Mapping[str, Any]) -> bool:
    return bool(entry.get("special")) or is_structural(entry["content"])


def _markers(added: list[dict[str, Any]]) -> Markers:
    flags = ("lstrip", "rstrip", "single_word")
    return Markers(
        {
            entry["content"]: Marker(entry["id"], *(bool(entry.get(flag)) for flag in flags))
            for entry in added
            if _is_marker(entry)
        }
    )


def _build(text: str, kept: list[dict[str, Any]], content: Mapping[str, Any]) -> tuple[Any, Any, Any]:
    """The library's tokenizer with the file's model and steps, but only those added tokens that are text."""
    from tokenizers import AddedToken
    from tokenizers import Tokenizer as Library

    try:
        whole = Library.from_str(text)
    except Exception as error:  # the library raises its bare Exception
        raise TokenizerError(f"tokenizer.json cannot be used: {error}") from error

    def library(steps: Any) -> Any:
        made = Library(whole.model)
        if steps.normalizer is not None:
            made.normalizer = steps.normalizer
        if steps.pre_tokenizer is not None:
            made.pre_tokenizer = steps.pre_tokenizer
        flags = ("single_word", "lstrip", "rstrip", "normalized")
        made.add_tokens(
            [AddedToken(entry["content"], **{f: bool(entry.get(f)) for f in flags}, special=False) for entry in kept]
        )
        return made

    marker, inside = (_steps(content, changed) for changed in (_not_first, _no_prefix))
    return library(whole), library(marker), library(inside)


def _steps(content: Mapping[str, Any], changed: Callable[[dict[str, Any]], dict[str, Any] | None]) -> Any:
    """The library's normalizer and pre-tokenizer of a file. `changed` converts each step; None removes it."""
    from tokenizers import Tokenizer as Library

    parts: dict[str, Any] = {"model": {"type": "BPE", "vocab": {}, "merges": []}}
    for name, kinds in (("normalizer", "normalizers"), ("pre_tokenizer", "pretokenizers")):
        found = [part for step in _parts(content, name) if (part := changed(step)) is not None]
        parts[name] = {"type": "Sequence", kinds: found} if found else None
    return Library.from_str(json.dumps(parts))


def _not_first(step: dict[str, Any]) -> dict[str, Any] | None:
    """After a marker: without a prefix space that applies only to the very start."""
    return step | {"prepend_scheme": "never"} if step.get("prepend_scheme") == "first" else step


def _no_prefix(step: dict[str, Any]) -> dict[str, Any] | None:
    """Inside a text: without a prefix space."""
    kind = step.get("type")
    if kind == "Prepend":
        return None
    if kind == "Metaspace":
        return {key: value for key, value in step.items() if key != "add_prefix_space"} | {"prepend_scheme": "never"}
    return step | {"add_prefix_space": False} if "add_prefix_space" in step else step


def _template_ids(content: Mapping[str, Any]) -> tuple[list[str], list[str]]:
    """The special tokens that the file's post-processor adds before and after a text."""
    for part in [content.get("post_processor") or {}, *((content.get("post_processor") or {}).get("processors") or ())]:
        if part.get("type") == "TemplateProcessing":
            names = [next(iter(item)) for item in part.get("single") or ()]
            tokens = [item.get("SpecialToken", {}).get("id") for item in part.get("single") or ()]
            place = names.index("Sequence") if "Sequence" in names else len(names)
            return tokens[:place], tokens[place + 1 :]
    return [], []


def _special_ids(
    vocabulary: Vocabulary, config: Mapping[str, Any], ends: list[int], added: tuple[list[str], list[str]]
) -> SpecialIds:
    def named(role: str) -> int | None:
        token = role_text(config, role)
        return None if token is None else vocabulary.ids.get(token)

    before, after = added
    roles = {role: named(role) for role in ROLES}
    if len(before) == 1 and before[0] in vocabulary.ids:
        roles["bos"] = vocabulary.ids[before[0]]  # begins a text; XGLM's is its end token, not its bos_token
    return SpecialIds(
        bos=roles["bos"], eos=roles["eos"], unk=roles["unk"], pad=roles["pad"],
        add_bos=bool(before or config.get("add_bos_token")),
        add_eos=bool(after or config.get("add_eos_token")),
        ends=end_ids(vocabulary, (roles["eos"], *ends)),
    )
