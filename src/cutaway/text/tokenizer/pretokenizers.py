"""How text is split into words before merging in byte-level vocabularies, by the name in ``tokenizer.ggml.pre``.

The patterns are facts about the models: they are those of the Hugging Face ``tokenizer.json`` files, under llama.cpp's
names. An unknown name is refused, because a wrong split changes token ids without any other sign.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from cutaway.errors import UnsupportedError

_CONTRACTION = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)"
_BLANKS = r"|\s*[\r\n]+|\s+(?!\S)|\s+"
_WORD = r"|[^\r\n\p{L}\p{N}]?\p{L}+"
_SIGNS = r"| ?[^\s\p{L}\p{N}]+[\r\n]*"
_UPPER, _LOWER = r"\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}", r"\p{Ll}\p{Lm}\p{Lo}\p{M}"

_LLAMA3 = _CONTRACTION + _WORD + r"|\p{N}{1,3}" + _SIGNS + _BLANKS
_QWEN2 = _CONTRACTION + _WORD + r"|\p{N}" + _SIGNS + _BLANKS
_QWEN35 = _CONTRACTION + r"|[^\r\n\p{L}\p{N}]?[\p{L}\p{M}]+|\p{N}| ?[^\s\p{L}\p{M}\p{N}]+[\r\n]*" + _BLANKS
_MINICPM5 = _CONTRACTION + _WORD + r"|\p{N}+" + _SIGNS + _BLANKS
_SEED = _CONTRACTION + _WORD + r"|\p{N}| ?[^\s\p{L}\p{N}\r\n]+" + _BLANKS
_BAILING = r"'(?i:[sdmt]|ll|ve|re)|[^\r\n\p{L}\p{N}]?+\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]++[\r\n]*|\s*[\r\n]|\s+(?!\S)|\s+"
_JAIS2 = (
    _CONTRACTION + _WORD + r"|\p{N}{1,3}" + _SIGNS + r"|\s*[\r\n]+"
    r"|\s{512}(?!\S)|\s{256}(?!\S)|\s{128}(?!\S)|\s{64}(?!\S)|\s{32}(?!\S)|\s{16}(?!\S)|\s{8}(?!\S)|\s{4}(?!\S)"
    r"|\s{1,2}(?!\S)|\s{1}"
)
_EXAONE_MOE = (
    _CONTRACTION + r"|[^\r\n\p{L}\p{N}]?(?:\p{L}\p{M}*(?: \p{L}\p{M}*)*)+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n/]?"
    r"|\s*[\r\n]|\s+(?!\S)|\s+"
)


def _cased(ending: str, digits: str, *, upper: str = _UPPER, lower: str = _LOWER, slash: str = "/") -> str:
    """The family of GPT-4o: words are split where lower case turns to upper case."""
    lead = r"[^\r\n\p{L}\p{N}]?"
    return (
        rf"{lead}[{upper}]*[{lower}]+{ending}|{lead}[{upper}]+[{lower}]*{ending}|{digits}"
        rf"| ?[^\s\p{{L}}\p{{N}}]+[\r\n{slash}]*" + _BLANKS
    )


_TEKKEN = _cased("", r"\p{N}")
_GPT4O = _cased(_CONTRACTION + "?", r"\p{N}{1,3}")
_YOUTU = _cased(_CONTRACTION + "?", r"\p{N}")
_NOT_HAN = r"&&[^\p{Han}]"
_KIMI = r"[\p{Han}]+|" + _cased(
    _CONTRACTION + "?", r"\p{N}{1,3}", upper=_UPPER + _NOT_HAN, lower=_LOWER + _NOT_HAN, slash=""
)

_CJK = "[\u4e00-\u9fa5\u3040-\u309f\u30a0-\u30ff]+"
_DEEPSEEK3 = (
    r"[!\"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~][A-Za-z]+|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+| ?[\p{P}\p{S}]+[\r\n]*"
    + _BLANKS
)
_SPARK = (
    r"[!\"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~][A-Za-z]+|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+| ?[\p{P}\p{S}]+|[\r\n]"
    r"|\s+(?!\S)|\s+"
)
_EAST_ASIAN = "[\u4e00-\u9fa5\u0800-\u4e00\uac00-\ud7ff]+"
# Cased letters of the scripts that have case, as the tokenizer of DeepSeek LLM lists them.
_DEEPSEEK_LETTERS = (
    "A-Za-z\u00b5\u00c0-\u00d6\u00d8-\u00f6\u00f8-\u01ba\u01bc-\u01bf\u01c4-\u0293\u0295-\u02af\u0370-\u0373\u0376\u0377"
    "\u037b-\u037d\u037f\u0386\u0388-\u038a\u038c\u038e-\u03a1\u03a3-\u03f5\u03f7-\u0481\u048a-\u052f\u0531-\u0556"
    "\u10a0-\u10c5\u13a0-\u13f5\u13f8-\u13fd\u1c90-\u1cba\u1cbd-\u1cbf\u1d00-\u1d2b\u1d6b-\u1d77\u1d79-\u1d9a"
    "\u1e00-\u1f15\u1f18-\u1f1d\u1f20-\u1f45\u1f48-\u1f4d\u1f50-\u1f57\u1f59\u1f5b\u1f5d\u1f5f-\u1f7d\u1f80-\u1fb4"
    "\u1fb6-\u1fbc\u1fbe\u1fc2-\u1fc4\u1fc6-\u1fcc\u1fd0-\u1fd3\u1fd6-\u1fdb\u1fe0-\u1fec\u1ff2-\u1ff4\u1ff6-\u1ffc"
    "\u2102\u2107\u210a-\u2113\u2115\u2119-\u211d\u2124\u2126\u2128\u212a-\u212d\u212f-\u2134\u2139\u213c-\u213f"
    "\u2145-\u2149\u214e\u2183\u2184\u2c00-\u2c7b\u2c7e-\u2ce4\u2ceb-\u2cee\u2cf2\u2cf3\ua640-\ua66d\ua680-\ua69b"
    "\ua722-\ua76f\ua771-\ua787\ua78b-\ua78e\uab70-\uabbf\ufb00-\ufb06\ufb13-\ufb17\uff21-\uff3a\uff41-\uff5a"
    "\U00010400-\U0001044f\U000104b0-\U000104d3\U000104d8-\U000104fb\U00010c80-\U00010cb2\U00010cc0-\U00010cf2"
    "\U000118a0-\U000118df\U0001e900-\U0001e943"
)
_DEEPSEEK_LLM = (
    r"[\r\n]",
    rf"\s?[{_DEEPSEEK_LETTERS}]+",
    "\\s?[!-/:-~\uff01-\uff0f\uff1a-\uff5e\u2018-\u201f\u3000-\u3002]+",
    r"\s+$",
    _EAST_ASIAN,
    r"\p{N}+",
)
_BLOOM = " ?[^(\\s|[.,!?\u2026\u3002\uff0c\u3001\u0964\u06d4\u060c])]+"
_YOUTU_FIRST = (
    "[\uac00-\ud7a3\u3131-\u318e]+|[\uff01\u2026\u201c\u201d\u2018\u2019\u2014\uff1a\uff1b\uff0c\u3001-\u303f\ufe30-\ufe4f]+"
    "|[\u3105-\u312f]+|" + _CJK
)


class PreTokenizer(NamedTuple):
    """Splits text in steps. Each match of a step is a part, and so is the text between matches.

    Attributes:
        steps: patterns, or the names of steps of the `tokenizers` library: "digits" (each digit alone), "digit_runs",
            "punctuation" (runs), "words" (GPT-2's own pattern, together with the spelling of bytes).
        nfc: text is first converted to Unicode's composed form.
        ignore_merges: a word that is a token is taken as a whole, regardless of the merges.
        add_bos: whether a beginning-of-sequence token is added if the file does not say.
    """

    steps: tuple[str, ...]
    nfc: bool = False
    ignore_merges: bool = False
    add_bos: bool = False

    def build(self) -> Any:
        """The `tokenizers` pre-tokenizer."""
        from tokenizers import Regex, pre_tokenizers

        named: dict[str, Callable[[], Any]] = {
            "digits": lambda: pre_tokenizers.Digits(individual_digits=True),
            "digit_runs": lambda: pre_tokenizers.Digits(individual_digits=False),
            "punctuation": lambda: pre_tokenizers.Punctuation(behavior="contiguous"),
            "words": lambda: pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=True),
        }
        parts = [
            named[step]() if step in named else pre_tokenizers.Split(Regex(step), behavior="isolated")
            for step in self.steps
        ]
        if "words" not in self.steps:
            parts.append(pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False))
        return pre_tokenizers.Sequence(parts)


_GPT2_LIKE = PreTokenizer(("words",))
_GPT2_NFC = PreTokenizer(("words",), nfc=True)
_DIGITS = PreTokenizer(("digits", "words"))
_LLAMA3_LIKE = PreTokenizer((_LLAMA3,), ignore_merges=True, add_bos=True)
_LLAMA3_PLAIN = PreTokenizer((_LLAMA3,))
_QWEN2_LIKE = PreTokenizer((_QWEN2,), nfc=True)
_QWEN2_PLAIN = PreTokenizer((_QWEN2,))
_GPT4O_LIKE = PreTokenizer((_GPT4O,))
_DEEPSEEK3_LIKE = PreTokenizer((r"\p{N}{1,3}", _CJK, _DEEPSEEK3))
_BLOOM_LIKE = PreTokenizer((_BLOOM,))
_BAILING_LIKE = PreTokenizer((_BAILING,))

_NAMES: tuple[tuple[str, PreTokenizer], ...] = (
    ("gpt-2 phi-2 jina-es jina-de jina-v2-es jina-v2-de jina-v1-en jina-v2-code roberta-bpe", _GPT2_LIKE),
    ("gigachat a.x-4.0 mellum exaone4 jais trillion granite-docling", _GPT2_LIKE),
    ("olmo mpt modern-bert", _GPT2_NFC),
    ("smollm starcoder refact codeshell exaone minerva-7b mellum2", _DIGITS),
    ("command-r", _DIGITS._replace(nfc=True)),
    ("llama3 llama-v3 llama-bpe falcon3 falcon-h1 pixtral midm-2.0 lfm2 jina-v5-nano", _LLAMA3_LIKE),
    ("dbrx smaug-bpe glm4 chatglm-bpe", _LLAMA3_PLAIN),
    ("qwen2 deepseek-r1-qwen megrez kormo f2llmv2", _QWEN2_LIKE),
    ("stablelm2 hunyuan solar-open grok-2", _QWEN2_PLAIN),
    ("qwen35", PreTokenizer((_QWEN35,), nfc=True)),
    ("gpt-4o llama4 kanana2 talkie minimax-m2", _GPT4O_LIKE),
    ("tekken", PreTokenizer((_TEKKEN,), ignore_merges=True, add_bos=True)),
    ("deepseek-llm", PreTokenizer(_DEEPSEEK_LLM)),
    ("deepseek-coder", PreTokenizer((r"[\r\n]", r"\s?\p{L}+", r"\s?\p{P}+", _EAST_ASIAN, "digits"))),
    ("deepseek-v3 hunyuan-dense joyai-llm hy_v4", _DEEPSEEK3_LIKE),
    ("spark2_5", PreTokenizer((r"\p{N}{1,3}", _CJK, _SPARK, r"\p{N}"))),
    ("falcon", PreTokenizer(("punctuation", "words", "digit_runs", "[0-9][0-9][0-9]"))),
    ("bloom poro-chat gpt3-finnish", _BLOOM_LIKE),
    ("viking", PreTokenizer((_BLOOM, "digits"))),
    ("bailingmoe bailingmoe2 llada-moe", _BAILING_LIKE),
    ("seed-coder", PreTokenizer((_SEED,))),
    ("jais-2", PreTokenizer((_JAIS2,))),
    ("youtu", PreTokenizer((_YOUTU_FIRST, _YOUTU), ignore_merges=True)),
    ("kimi-k2", PreTokenizer((_KIMI,))),
    ("exaone-moe", PreTokenizer((_EXAONE_MOE,))),
    ("laguna", PreTokenizer((r"[^\n]+|[\n]+", _QWEN2))),
    ("minicpm5", PreTokenizer((r"\p{N}{1,3}", _MINICPM5), ignore_merges=True)),
    ("ufakzeka", PreTokenizer((_WORD[1:] + r"|\p{N}" + _SIGNS + _BLANKS,))),
    ("tiny_aya cohere2moe", PreTokenizer((r"\d{1,3}(?=(?:\d{3})*\b)", _GPT4O))),
)
PRE_TOKENIZERS = {name: kind for names, kind in _NAMES for name in names.split()}


def pre_tokenizer(name: str | None) -> PreTokenizer:
    """The pre-tokenizer that a byte-level file names.

    Raises:
        UnsupportedError: there is no name, or it is not known.
    """
    if name is None:
        raise UnsupportedError(
            "the file does not say how its byte-level vocabulary splits text: tokenizer.ggml.pre is missing",
            hint="convert the model again with a current converter; guessing would change token ids silently",
            code="pre_tokenizer_unknown",
        )
    kind = PRE_TOKENIZERS.get(name)
    if kind is None:
        raise UnsupportedError(
            f"unknown pre-tokenizer {name!r} (tokenizer.ggml.pre of a byte-level vocabulary)",
            hint="guessing would change token ids silently; known: " + ", ".join(sorted(PRE_TOKENIZERS)),
            code="pre_tokenizer_unknown",
        )
    return kind
