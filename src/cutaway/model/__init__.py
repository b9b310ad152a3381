"""Models: the spec, the weights from files, token positions, and the decoder."""

from cutaway.model.cautions import cautions
from cutaway.model.decoder import Decoder
from cutaway.model.positions import stretched_context
from cutaway.model.rope_scaling import GRAMMAR, RopeScaling, parse_rope_scaling
from cutaway.model.spec import LayerGroup, ModelSpec, kv_groups, kv_layout
from cutaway.model.spec_config import spec_from_config
from cutaway.model.spec_gguf import spec_from_gguf
from cutaway.model.weights import load_decoder, read_spec

__all__ = [
    "GRAMMAR",
    "Decoder",
    "LayerGroup",
    "ModelSpec",
    "RopeScaling",
    "cautions",
    "kv_groups",
    "kv_layout",
    "load_decoder",
    "parse_rope_scaling",
    "read_spec",
    "spec_from_config",
    "spec_from_gguf",
    "stretched_context",
]
