"""Model files: GGUF and safetensors, mapped and checked, and the values of their tensors.

`open_model` reads headers only; a tensor's `raw` is a view of the mapped file; `dequantize` turns it into float32.
Every file is treated as hostile: FormatError names the field and the byte offset.
"""

from cutaway.formats.blocks import BLOCKS
from cutaway.formats.dequantize import Codes, decompose, dequantize
from cutaway.formats.finite import first_not_finite
from cutaway.formats.model_file import ModelFile, Tensor
from cutaway.formats.open import open_model
from cutaway.formats.outline import outline_of, without_data
from cutaway.formats.size_label import parameter_count, parameter_size, quantization_level

__all__ = [
    "BLOCKS",
    "Codes",
    "ModelFile",
    "Tensor",
    "decompose",
    "dequantize",
    "first_not_finite",
    "open_model",
    "outline_of",
    "parameter_count",
    "parameter_size",
    "quantization_level",
    "without_data",
]
