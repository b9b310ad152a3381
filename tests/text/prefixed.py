"""Small SentencePiece vocabularies with a prefix space, by each of the ways in which files say so."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from tokenizers import AddedToken, Tokenizer, decoders, models, normalizers, pre_tokenizers, processors

from cutaway import text
from cutaway.text.tokenizer.vocabulary import BYTE, CONTROL, NORMAL, UNKNOWN

SPACE = "\u2581"
WORDS = ("The", "cap", "capital", "of", "France", "is", "Paris", "he", "hello", "{", '"', "a")
KINDS = ("first", "always", "never", "prepend")


def library(kind: str) -> Tokenizer:
    """Words as whole pieces with and without a space, characters, bytes; merged in this order.

    kind: Metaspace's scheme, or "prepend" for Llama 2's two normalizers.
    """
    words = sorted(WORDS, key=len, reverse=True)
    pieces = list(dict.fromkeys(word[:end] for word in words for end in range(2, len(word) + 1)))
    pieces += [SPACE + piece for piece in (SPACE, *words, "P", "T", "c")]
    characters = sorted({*"".join(WORDS), SPACE, *":}<|_im>/s[]nt"})
    tokens = ["<unk>", "<s>", "</s>", *(f"<0x{byte:02X}>" for byte in range(256)), *characters, *pieces]
    cuts = ((piece[:end], piece[end:]) for piece in pieces for end in range(1, len(piece)))
    merges = [cut for cut in cuts if set(cut) <= set(tokens)]
    ids = {token: id for id, token in enumerate(tokens)}
    made = Tokenizer(models.BPE(vocab=ids, merges=merges, byte_fallback=True, fuse_unk=True, unk_token="<unk>"))
    if kind == "prepend":
        made.normalizer = normalizers.Sequence([normalizers.Prepend(SPACE), normalizers.Replace(" ", SPACE)])
    else:
        made.pre_tokenizer = pre_tokenizers.Metaspace(SPACE, prepend_scheme=kind, split=False)
    steps = [decoders.Replace(SPACE, " "), decoders.ByteFallback(), decoders.Fuse()]
    made.decoder = decoders.Sequence(steps + ([] if kind == "never" else [decoders.Strip(" ", 1, 0)]))
    made.post_processor = processors.TemplateProcessing(single="<s> $A", pair="<s> $A $B", special_tokens=[("<s>", 1)])
    made.add_special_tokens(
        [AddedToken(name, normalized=False, special=True) for name in ("<unk>", "<s>", "</s>", "<|im_end|>")]
    )
    return made


def saved(folder: Path, kind: str) -> text.Tokenizer:
    """The tokenizer as this program reads it from the file."""
    library(kind).save(str(folder / "tokenizer.json"))
    (folder / "tokenizer_config.json").write_text('{"bos_token": "<s>", "eos_token": "</s>", "unk_token": "<unk>"}')
    return text.load_tokenizer(folder, {})


def gguf_keys() -> dict[str, Any]:
    """The same vocabulary as Llama 2's GGUF files hold it: scores instead of merges."""
    made = library("prepend")
    ids = made.get_vocab()
    tokens = sorted(ids, key=ids.__getitem__)
    special = {"<unk>": UNKNOWN, "<s>": CONTROL, "</s>": CONTROL, "<|im_end|>": CONTROL}
    kinds = [special.get(token, BYTE if token.startswith("<0x") else NORMAL) for token in tokens]
    values: dict[str, Any] = {
        "model": "llama", "tokens": tokens, "token_type": np.array(kinds, np.int32), "add_space_prefix": True,
        "scores": -np.arange(len(tokens), dtype=np.float32),
        "bos_token_id": 1, "eos_token_id": 2, "unknown_token_id": 0, "add_bos_token": True,
    }  # fmt: skip
    return {f"tokenizer.ggml.{key}": value for key, value in values.items()}
