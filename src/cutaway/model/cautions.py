"""Warnings about a model before its use: what its files do not define, and what loading fixes that changes answers."""

from __future__ import annotations

from cutaway.model.positions import stretched_context
from cutaway.model.rope_scaling import RopeScaling
from cutaway.model.spec import ModelSpec
from cutaway.text import Tokenizer


def cautions(spec: ModelSpec, tokenizer: Tokenizer, context: int, stretched: RopeScaling | None) -> list[str]:
    """The warnings.

    Args:
        context: tokens of a request, by which LongRoPE's factors are chosen at load.
        stretched: the scaling that an option set in place of the model's own.
    """
    found = list(tokenizer.warnings)
    reach = stretched_context(stretched, spec.context)
    if context > reach:
        found.append(
            f"a context of {context} tokens is more than the {reach} that the model was trained for; answers "
            "beyond that are unreliable (rope_scaling can extend the context)"
        )
    if not tokenizer.end_ids:
        found.append(
            "the model's files define no end token: answers end only at max_tokens or a stop (eos_token_id in "
            "generation_config.json or config.json, or tokenizer.ggml.eos_token_id in GGUF, can define one)"
        )
    scaling = None if spec.rope is None or stretched is not None else spec.rope.scaling
    if scaling is not None and scaling.kind == "longrope" and context > (scaling.original_context or spec.context):
        original = scaling.original_context or spec.context
        found.append(
            f"LongRoPE: with a context of {context} tokens the factors for long texts also apply to short ones, "
            f"which changes their answers; with a context of at most {original} short texts are computed as in training"
        )
    return found
