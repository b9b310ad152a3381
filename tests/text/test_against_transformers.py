"""Ids and decoded text against transformers, which reads the same GGUF files.

Where its conversion from GGUF departs from the models' own tokenizers, these are right, and the difference is put right
here before comparing:

- SmolLM2 (``smollm``): the model's tokenizer.json cuts every digit apart (its steps are Digits, then ByteLevel). The
  conversion has no entry for that name and leaves the digits together.
- Qwen2.5 (``qwen2``): the model's tokenizer.json brings text to NFC first. The conversion has no normalizer.
- Gemma 3: no difference. With `split_special_tokens` transformers lets merges run into control tokens that the text
  spells out; we do not.
"""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from cutaway.text import ChatTemplate, Segment, Tokenizer, load_tokenizer
from cutaway.text.tokenizer.pretokenizers import PRE_TOKENIZERS

Loaded = tuple[Tokenizer, ChatTemplate | None]
oracle = [pytest.mark.oracle, pytest.mark.filterwarnings("ignore")]
pytestmark = oracle
MODELS = ["smollm2", "qwen", "gemma"]

HOSTILE = [
    "",
    "hello",
    " hello",
    "  two  spaces   ",
    "tel 2024-11 1234567",
    "\u65e5\u672c\u8a9e\u306e\u30c6\u30ad\u30b9\u30c8\u3001\u4e2d\u6587\u5b57\u7b26\u3002\uff01",
    "\U0001f469\u200d\U0001f680\U0001f3f3\ufe0f\u200d\U0001f308\U0001f44d\U0001f3fd",
    "a\0b\0\0",
    "cafe\u0301 nai\u0308ve \u212b \u1e9b\u0323 \uac00\u1100\u1161",
    "\n\n\n \r\n\r \t\t\tx\t",
    "\u041f\u0440\u0438\u0432\u0435\u0442 \u0645\u0631\u062d\u0628\u0627",
    "\u0939\u093f\u0928\u094d\u0926\u0940 \ud55c\uad6d\uc5b4",
    "it's we'LL I'm DON'T '\u017f",
    "<table><tr><h1>x</h1> <code>",
    "\u2581\u2581x \u2581",
    "\u200b\ufeff\u00a0\u2003x\u0085\u2028",
    "\ufb01 \u2460 \u2167 \u00b2 \u00bd",
    "\U0010ffff\ud7ff\ue000\ufdd0\uffff",
    '{"a": [1, 2.5e-3, null]}\n\tdef f(x):\n\t\treturn x',
    "<0x0A> [multimodal] <unk> <tool>",
    "x" * 5000,
    " " * 5000,
    "\n" * 500,
    "ab" * 2000 + " " * 700 + "\u65e5" * 700,
]


def corpus() -> list[str]:
    rng = random.Random(7)
    alphabet = "abc ABC 123\n\t.,'\"<>|_-\u00e9\u0301\u65e5\u672c\U0001f44d\u200d\0\u2581  "
    return HOSTILE + ["".join(rng.choices(alphabet, k=rng.randint(1, 60))) for _ in range(300)]


@pytest.fixture(scope="module")
def theirs() -> Any:
    kept: dict[Path, Any] = {}

    def load(path: Path) -> Any:
        if path not in kept:
            from transformers import AutoTokenizer

            kept[path] = AutoTokenizer.from_pretrained(str(path.parent), gguf_file=path.name)
            _put_right(path, kept[path])
        return kept[path]

    return load


def _put_right(path: Path, tokenizer: Any) -> None:
    from tokenizers import normalizers, pre_tokenizers

    steps = pre_tokenizers.Sequence([pre_tokenizers.Digits(True), pre_tokenizers.ByteLevel(add_prefix_space=False)])
    if tokenizer.vocab_size < 50_000:
        tokenizer.backend_tokenizer.pre_tokenizer = steps
    elif "<|im_end|>" in tokenizer.get_vocab():
        tokenizer.backend_tokenizer.normalizer = normalizers.NFC()


@pytest.fixture(params=MODELS)
def pair(request: pytest.FixtureRequest, theirs: Any) -> tuple[Tokenizer, Any]:
    loaded: Loaded = request.getfixturevalue(request.param)
    return loaded[0], theirs(request.getfixturevalue(f"{request.param}_path"))


@pytest.mark.models
def test_ids_and_text_on_a_hostile_corpus(pair: tuple[Tokenizer, Any]) -> None:
    ours, theirs = pair
    for text in corpus():
        ids = theirs.encode(text)
        assert ours.encode(text, parse_special=True) == ids, text[:80]
        for skip in (True, False):
            assert ours.decode(ids, skip_special=skip) == theirs.decode(ids, skip_special_tokens=skip), text[:80]


@pytest.mark.models
def test_control_tokens_in_text_that_is_read_and_in_text_that_is_not(pair: tuple[Tokenizer, Any]) -> None:
    ours, theirs = pair
    control = [ours.piece(id) for id in sorted(ours.vocabulary.of_type(3))][:40]
    text = "a ".join(control) + " b\n" + "".join(control)
    assert ours.encode(text, parse_special=True) == theirs.encode(text)
    if "<|im_end|>" in control:
        assert ours.encode(text) == theirs.encode(text, split_special_tokens=True)


CHATS: list[list[dict[str, Any]]] = [
    [{"role": "user", "content": "Hi  there\n\n"}],
    [
        {"role": "system", "content": "Be brief. \u65e5\u672c"},
        {"role": "user", "content": "  caf\u00e9 \U0001f680 12345"},
    ],
    [
        {"role": "user", "content": "a"},
        {"role": "assistant", "content": "b\n"},
        {"role": "user", "content": "<b> & 'c'"},
    ],
]
TOOL = {"type": "function", "function": {"name": "add", "description": "<b> \u00e9", "parameters": {"type": "object"}}}


@pytest.mark.models
@pytest.mark.parametrize("name", ["smollm2", "qwen"])
@pytest.mark.parametrize("head", [True, False])
def test_templates(request: pytest.FixtureRequest, theirs: Any, name: str, head: bool) -> None:
    ours, template = request.getfixturevalue(name)
    reference = theirs(request.getfixturevalue(f"{name}_path"))
    calls = [{"type": "function", "function": {"name": "add", "arguments": {"a": 2}}}]
    called = {"role": "assistant", "content": "", "tool_calls": calls}
    tools = [CHATS[0] + [called, {"role": "tool", "content": "3"}]] if name == "qwen" else []
    for chat in CHATS + tools:
        for given in (None, [TOOL]):
            options = {"tools": given, "add_generation_prompt": head}
            segments = template.render(chat, **options)
            assert "".join(segment.text for segment in segments) == reference.apply_chat_template(
                chat, tokenize=False, **options
            )
            expected = reference.apply_chat_template(chat, tokenize=True, return_dict=False, **options)
            assert ours.encode_segments(segments) == expected


@pytest.mark.models
def test_saved_as_tokenizer_json(pair: tuple[Tokenizer, Any], tmp_path: Path) -> None:
    """The same tokenizer by the other road: transformers writes tokenizer.json, we read it."""
    _, theirs = pair
    theirs.save_pretrained(tmp_path)
    ours = load_tokenizer(tmp_path, {})
    for text in HOSTILE:
        assert ours.encode(text, parse_special=True) == theirs.encode(text), text[:80]
    assert (ours.bos_id, ours.eos_id) == (theirs.bos_token_id, theirs.eos_token_id)


def test_pre_tokenizers_cut_alike() -> None:
    """Every kind that transformers knows by name, on the hostile corpus."""
    from tokenizers import Regex, pre_tokenizers
    from transformers.integrations.gguf.gguf_tokenizer_mapping import GGUF_PRE_TOKENIZER_SPLITS

    for name, pattern in GGUF_PRE_TOKENIZER_SPLITS.items():
        split = pre_tokenizers.Split(Regex(pattern), behavior="isolated")
        theirs = pre_tokenizers.Sequence([split, pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)])
        ours = PRE_TOKENIZERS[name].build()
        for text in corpus():
            assert ours.pre_tokenize_str(text) == theirs.pre_tokenize_str(text), (name, text[:80])


TRAINING = (
    """The quick brown fox jumps over the lazy dog. Hello hello world, we'll see 12345 things.
Der schnelle braune Fuchs. \u65e5\u672c\u8a9e \u4e2d\u6587 caf\u00e9 na\u00efve. def f(x): return x + 1  # comment
"""
    * 20
)


@pytest.mark.parametrize("prefix", [True, False])
def test_a_trained_sentencepiece_model(tmp_path: Path, prefix: bool) -> None:
    """Scores to merges, prefix space and byte fallback against SentencePiece itself and transformers' conversion.

    Before a text that begins with a blank SentencePiece puts its prefix too, as do Llama 2's own tokenizer.json and we;
    transformers' conversion does not, and so loses that blank.
    """
    import sentencepiece
    from transformers.integrations.gguf import convert_gguf_tokenizer

    (tmp_path / "text").write_text(TRAINING)
    sentencepiece.SentencePieceTrainer.train(
        input=str(tmp_path / "text"),
        model_prefix=str(tmp_path / "m"),
        vocab_size=480,
        model_type="bpe",
        byte_fallback=True,
        add_dummy_prefix=prefix,
        normalization_rule_name="identity",
        remove_extra_whitespaces=False,
        minloglevel=2,
    )
    model = sentencepiece.SentencePieceProcessor(model_file=str(tmp_path / "m.model"))
    count = model.get_piece_size()
    types = [
        2 if model.is_unknown(id) else 3 if model.is_control(id) else 6 if model.is_byte(id) else 1
        for id in range(count)
    ]
    metadata: dict[str, Any] = {
        "tokenizer_type": "llama",
        "tokens": [model.id_to_piece(id) for id in range(count)],
        "scores": np.array([model.get_score(id) for id in range(count)], np.float32),
        "token_type": np.array(types, np.int32),
    }
    theirs, _ = convert_gguf_tokenizer("llama", metadata | {"token_type": types, "scores": metadata["scores"].tolist()})
    keys = {f"tokenizer.ggml.{key}": value for key, value in metadata.items() if key != "tokenizer_type"}
    keys |= {"tokenizer.ggml.model": "llama", "tokenizer.ggml.unknown_token_id": 0, "tokenizer.ggml.bos_token_id": 1}
    ours = load_tokenizer(tmp_path / "m.gguf", keys | {"tokenizer.ggml.add_space_prefix": prefix})
    for text in corpus():
        ids = ours.encode(text, add_special=False)
        if prefix and not text.startswith((" ", "\u2581")) and "<unk>" not in text:
            assert ids == theirs.encode(text, add_special_tokens=False).ids, text[:80]
        if "\0" not in text:  # which ends a text there
            assert ids == model.encode(text), text[:80]
        assert ours.decode(ids) == text.replace("\u2581", " ")
    assert ours.encode_segments([Segment("</s>", True), Segment("hello", False)])[0] == 2
