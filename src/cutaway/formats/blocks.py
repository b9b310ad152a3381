"""The tensor types of model files: their numbers in a GGUF header and the sizes of their blocks.

Source: the GGUF specification and ggml's block structs; the safetensors format description for the last group.
"""

from __future__ import annotations

from cutaway.errors import FormatError, UnsupportedError

# Type number in a GGUF tensor record -> name.
GGUF_TYPES: dict[int, str] = {
    0: "F32", 1: "F16", 2: "Q4_0", 3: "Q4_1", 6: "Q5_0", 7: "Q5_1", 8: "Q8_0",
    10: "Q2_K", 11: "Q3_K", 12: "Q4_K", 13: "Q5_K", 14: "Q6_K",
    16: "IQ2_XXS", 17: "IQ2_XS", 18: "IQ3_XXS", 19: "IQ1_S", 20: "IQ4_NL", 21: "IQ3_S", 22: "IQ2_S", 23: "IQ4_XS",
    24: "I8", 25: "I16", 26: "I32", 27: "I64", 28: "F64", 29: "IQ1_M", 30: "BF16",
    34: "TQ1_0", 35: "TQ2_0", 39: "MXFP4", 40: "NVFP4", 41: "Q1_0", 42: "Q2_0",
}  # fmt: skip

# Numbers that once meant something, or that ggml only uses in memory: refused, but by name.
REFUSED_TYPES: dict[int, str] = {
    4: "Q4_2", 5: "Q4_3", 9: "Q8_1", 15: "Q8_K", 31: "Q4_0_4_4", 32: "Q4_0_4_8", 33: "Q4_0_8_8",
    36: "IQ4_NL_4_4", 37: "IQ4_NL_4_8", 38: "IQ4_NL_8_8",
}  # fmt: skip

# Type -> (elements per block, bytes per block). A block never crosses a row.
BLOCKS: dict[str, tuple[int, int]] = {
    "F32": (1, 4), "F16": (1, 2), "BF16": (1, 2), "F64": (1, 8),
    "I8": (1, 1), "I16": (1, 2), "I32": (1, 4), "I64": (1, 8),
    "Q1_0": (128, 18), "Q2_0": (64, 18), "Q4_0": (32, 18), "Q4_1": (32, 20), "Q5_0": (32, 22), "Q5_1": (32, 24),
    "Q8_0": (32, 34), "Q2_K": (256, 84), "Q3_K": (256, 110), "Q4_K": (256, 144), "Q5_K": (256, 176),
    "Q6_K": (256, 210),
    "IQ1_S": (256, 50), "IQ1_M": (256, 56), "IQ2_XXS": (256, 66), "IQ2_XS": (256, 74), "IQ2_S": (256, 82),
    "IQ3_XXS": (256, 98), "IQ3_S": (256, 110), "IQ4_NL": (32, 18), "IQ4_XS": (256, 136),
    "TQ1_0": (256, 54), "TQ2_0": (256, 66), "MXFP4": (32, 17), "NVFP4": (64, 36),
    # Only in safetensors.
    "BOOL": (1, 1), "U8": (1, 1), "U16": (1, 2), "U32": (1, 4), "U64": (1, 8), "F8_E4M3": (1, 1), "F8_E5M2": (1, 1),
}  # fmt: skip


def tensor_bytes(type: str, shape: tuple[int, ...]) -> int:
    """Bytes of a tensor of this type and row-major shape.

    Raises UnsupportedError for an unknown type, FormatError when a row is not a whole number of blocks.
    """
    if type not in BLOCKS:
        raise UnsupportedError(f"tensor type {type} is not supported")
    elements, size = BLOCKS[type]
    inputs = shape[-1] if shape else 1
    if inputs % elements:
        raise FormatError(f"a row of {inputs} elements is not a whole number of {type} blocks of {elements}")
    count = inputs // elements
    for extent in shape[:-1]:
        count *= extent
    return count * size
