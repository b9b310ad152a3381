"""From a row of logits to a token, and from tokens to text that can be shown: parameters, stages, stops.

The exports are loaded on first use, so that the command line can read the table of parameters (params.py) without
numpy.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from cutaway.sampling.constraints.compile import Constraint, compile_constraint
    from cutaway.sampling.constraints.tool_calls import ToolConstraint, tool_constraint
    from cutaway.sampling.logprobs import TokenLogprobs, token_logprobs
    from cutaway.sampling.params import PARAMETERS, STAGES, LogprobsMode, SamplingParams
    from cutaway.sampling.presets import PRESETS, Preset, generation_settings, own_options, preset
    from cutaway.sampling.randomness import draw_seed
    from cutaway.sampling.row_hash import hash_row
    from cutaway.sampling.sampler import Choice, Sampler, draw_together
    from cutaway.sampling.stages.custom_stage import Stage
    from cutaway.sampling.stop import StopChecker, StopKind, StopReason

__all__ = [
    "PARAMETERS",
    "PRESETS",
    "STAGES",
    "Choice",
    "Constraint",
    "LogprobsMode",
    "Preset",
    "Sampler",
    "SamplingParams",
    "Stage",
    "StopChecker",
    "StopKind",
    "StopReason",
    "TokenLogprobs",
    "ToolConstraint",
    "compile_constraint",
    "draw_seed",
    "draw_together",
    "generation_settings",
    "hash_row",
    "own_options",
    "preset",
    "token_logprobs",
    "tool_constraint",
]

_MODULES = {
    "constraints.compile": ("Constraint", "compile_constraint"),
    "constraints.tool_calls": ("ToolConstraint", "tool_constraint"),
    "row_hash": ("hash_row",),
    "logprobs": ("TokenLogprobs", "token_logprobs"),
    "stages.custom_stage": ("Stage",),
    "params": ("PARAMETERS", "STAGES", "LogprobsMode", "SamplingParams"),
    "presets": ("PRESETS", "Preset", "generation_settings", "own_options", "preset"),
    "randomness": ("draw_seed",),
    "sampler": ("Choice", "Sampler", "draw_together"),
    "stop": ("StopChecker", "StopKind", "StopReason"),
}


def __getattr__(name: str) -> Any:
    for module, names in _MODULES.items():
        if name in names:
            return getattr(import_module(f"cutaway.sampling.{module}"), name)
    raise AttributeError(f"module 'cutaway.sampling' has no attribute {name!r}")
