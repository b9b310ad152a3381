"""Which type each matrix has in a file of a named mix, as llama.cpp's quantizer chooses it (src/llama-quant.cpp).

Q4_K_M is no type: most matrices are Q4_K, some that matter more are Q6_K, and where a row is no whole number of blocks
of 256 another type stands in.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from cutaway.errors import ParameterError
from cutaway.formats import BLOCKS
from cutaway.model import ModelSpec


@dataclass(frozen=True, slots=True)
class Mix:
    """base: of most matrices. values, down: of attention values and of down-projections in the layers that get more
    bits ("half": see `more_bits`; "eighth": the first eighth; "all"). head: of the output matrix."""

    base: str
    values: str = ""
    down: str = ""
    layers: str = "half"
    head: str = "Q6_K"


MIXES: Mapping[str, Mix] = {
    "F32": Mix("F32", head="F32"),
    "BF16": Mix("BF16", head="BF16"),
    "F16": Mix("F16", head="F16"),
    "Q8_0": Mix("Q8_0", head="Q8_0"),
    "Q6_K": Mix("Q6_K"),
    "Q5_K_M": Mix("Q5_K", "Q6_K", "Q6_K"),
    "Q5_K_S": Mix("Q5_K"),
    "Q5_0": Mix("Q5_0"),
    "Q4_K_M": Mix("Q4_K", "Q6_K", "Q6_K"),
    "Q4_K_S": Mix("Q4_K", "Q5_K", "Q5_K", "eighth"),
    "Q4_0": Mix("Q4_0"),
    "IQ4_XS": Mix("IQ4_XS", "Q5_K", "Q5_K", "eighth"),
    "Q3_K_M": Mix("Q3_K", "Q4_K", "Q4_K", "all"),
    "Q2_K": Mix("Q2_K", "Q4_K", "Q3_K", "all"),
}
OFFERED = ("BF16", "Q8_0", "Q6_K", "Q5_K_M", "Q4_K_M", "Q4_0", "Q3_K_M", "Q2_K")
"""Those that a plan compares where none is named."""

_STAND_IN = {"Q2_K": "Q4_0", "Q3_K": "Q4_0", "IQ4_XS": "IQ4_NL", "Q4_K": "Q5_0", "Q5_K": "Q5_1", "Q6_K": "Q8_0"}


def mix_named(name: str) -> Mix:
    """Raises ParameterError for an unknown name."""
    found = MIXES.get(name.upper())
    if found is None:
        raise ParameterError(f"weights is {name!r}; it must be one of {', '.join(MIXES)}")
    return found


def type_of(mix: Mix, name: str, layer: int, inputs: int, spec: ModelSpec) -> str:
    """The type of one matrix. name: as in model/tensor_names.py. inputs: elements of a row."""
    kind = mix.base
    if name == "head" or (name == "embedding" and spec.tied):
        kind = mix.head
    elif name == "router":
        kind = "F32"
    elif name in ("v", "qkv") and mix.values and _more_bits(mix, layer, spec.layers):
        kind = mix.values if name == "v" else kind
    elif name in ("down", "expert_down", "shared_down") and mix.down and _more_bits(mix, layer, spec.layers):
        kind = mix.down
    if name == "v" and spec.layers == 80 and kind in ("Q3_K", "Q4_K"):
        kind = "Q5_K"  # a 70B model shares these among eight heads, and they are small
    while inputs % BLOCKS[kind][0]:
        kind = _STAND_IN.get(kind, "F16")
    return kind


def _more_bits(mix: Mix, layer: int, layers: int) -> bool:
    eighth = layers // 8
    if mix.layers == "all":
        return True
    if mix.layers == "eighth":
        return layer < max(eighth, 1)
    return layer < eighth or layer >= 7 * layers // 8 or (layer - eighth) % 3 == 2
