"""How large a model is and what its weights are made of, in the words that people use for it."""

from __future__ import annotations

from collections import Counter
from math import prod

from cutaway.formats.model_file import ModelFile

# general.file_type of a GGUF file -> its name (GGUF specification; llama.cpp's list of file types).
_FILE_TYPES = {
    0: "F32", 1: "F16", 2: "Q4_0", 3: "Q4_1", 7: "Q8_0", 8: "Q5_0", 9: "Q5_1", 10: "Q2_K", 11: "Q3_K_S", 12: "Q3_K_M",
    13: "Q3_K_L", 14: "Q4_K_S", 15: "Q4_K_M", 16: "Q5_K_S", 17: "Q5_K_M", 18: "Q6_K", 19: "IQ2_XXS", 20: "IQ2_XS",
    21: "Q2_K_S", 22: "IQ3_XS", 23: "IQ3_XXS", 24: "IQ1_S", 25: "IQ4_NL", 26: "IQ3_S", 27: "IQ3_M", 28: "IQ2_S",
    29: "IQ2_M", 30: "IQ4_XS", 31: "IQ1_M", 32: "BF16", 36: "TQ1_0", 37: "TQ2_0", 38: "MXFP4_MOE", 39: "NVFP4",
}  # fmt: skip


def parameter_count(file: ModelFile) -> int:
    """Elements of all tensors."""
    return sum(prod(tensor.shape) for tensor in file.tensors.values())


def parameter_size(count: int) -> str:
    """A number of parameters as Ollama writes it: 134.52M, 1.5B, 8B."""
    for size, letter, digits in ((10**9, "B", 1), (10**6, "M", 2), (10**3, "K", 0)):
        if count >= size:
            return f"{count / size:.{0 if count % size == 0 else digits}f}{letter}"
    return str(count)


def quantization_level(file: ModelFile) -> str:
    """What the file calls its mixture of types, else the type of most elements; "" where there are no tensors."""
    named = file.metadata.get("general.file_type")
    if isinstance(named, int) and int(named) in _FILE_TYPES:
        return _FILE_TYPES[int(named)]
    elements: Counter[str] = Counter()
    for tensor in file.tensors.values():
        elements[tensor.type] += prod(tensor.shape)
    return max(elements, key=lambda type: elements[type], default="")
