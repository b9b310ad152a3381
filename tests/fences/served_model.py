"""A model file small enough to serve within milliseconds: llama's shape, every byte a token, a ChatML template."""

from __future__ import annotations

import math
from pathlib import Path

import gguf
import numpy as np

from cutaway.text.tokenizer.vocabulary import CONTROL, NORMAL, USER, byte_alphabet
from fences.tiny_models import Sizes, metadata, tiny_model
from fences.tiny_models import gguf as gguf_case

MERGES = [
    "t h", "th e", "\u0120 the", "i n", "e r", "a n", "o n", "\u0120 a", "r e", "h e", "l l", "he ll", "hell o", '{ "',
]  # fmt: skip
CONTROLS = ["<|endoftext|>", "<|im_start|>", "<|im_end|>"]
USERS = ["<tool_call>", "</tool_call>", "<think>", "</think>"]
TEMPLATE = (
    "{% if tools %}<|im_start|>system\nTools: {{ tools | tojson }} Call: <tool_call>"
    '{"name": ..., "arguments": ...}</tool_call><|im_end|>\n{% endif %}'
    "{% for message in messages %}<|im_start|>{{ message.role }}\n{{ message.content or '' }}"
    "{% for call in message.tool_calls or [] %}<tool_call>{{ call.function | tojson }}</tool_call>{% endfor %}"
    "<|im_end|>\n{% endfor %}{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)
ALPHABET = byte_alphabet()
TOKENS = [*ALPHABET, *("".join(merge.split(" ")) for merge in MERGES), *CONTROLS, *USERS]
LIKELY = [i for i, token in enumerate(TOKENS) if token.isascii() and token.isprintable()]  # others are seldom chosen


def write_model(path: Path) -> None:
    """Write it. Its matrices are F32 and Q8_0, so that no instruction set has bits of its own for them."""
    sizes = Sizes(layers=2, vocab=len(TOKENS), context=1024)
    case = gguf_case("llama", sizes=sizes, types=("Q8_0", "F32"))
    writer = gguf.GGUFWriter(path, "llama")
    writer.add_name("Tiny")
    for key, value in metadata(case).items():
        if key != "general.architecture":
            (writer.add_float32 if isinstance(value, float) else writer.add_uint32)(key, value)
    _add_tokenizer(writer)
    for tensor in tiny_model(case).tensors.values():
        if tensor.name == "output.weight":
            values = tensor.raw.view(np.float32).reshape(tensor.shape) if tensor.type == "F32" else None
            assert values is not None, "the output matrix must be F32"
            quiet = np.setdiff1d(np.arange(len(TOKENS)), LIKELY)
            values[quiet] = 0
        data = tensor.raw.view(np.float32).reshape(tensor.shape) if tensor.type == "F32" else _rows(tensor)
        writer.add_tensor(tensor.name, data, raw_dtype=gguf.GGMLQuantizationType[tensor.type])
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def _rows(tensor: object) -> np.ndarray:
    """Quantized bytes as one row per row of the matrix, as the writer takes them."""
    raw, shape = tensor.raw, tensor.shape  # type: ignore[attr-defined]
    return np.asarray(raw.reshape(math.prod(shape[:-1]), -1))


def _add_tokenizer(writer: gguf.GGUFWriter) -> None:
    types = [NORMAL] * (len(ALPHABET) + len(MERGES)) + [CONTROL] * len(CONTROLS) + [USER] * len(USERS)
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre("qwen2")
    writer.add_token_list(TOKENS)
    writer.add_token_types(types)
    writer.add_token_merges(MERGES)
    writer.add_eos_token_id(TOKENS.index("<|im_end|>"))
    writer.add_chat_template(TEMPLATE)
