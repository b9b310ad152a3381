"""From a row of logits to a token, and from tokens to text that is safe to show: parameters, stages, stops."""

from cutaway.sampling.grammar import Constraint, compile_constraint, prepare_constraints
from cutaway.sampling.grammar_tools import ToolConstraint, tool_constraint
from cutaway.sampling.logprobs import TokenLogprobs, token_logprobs
from cutaway.sampling.params import LogprobsMode, SamplingParams, Stage
from cutaway.sampling.presets import PRESETS, Preset, ignored_options, own_options, preset
from cutaway.sampling.randomness import draw_seed
from cutaway.sampling.sampler import STAGES, Choice, Sampler, draw_together
from cutaway.sampling.stop import StopChecker, StopKind, StopReason

__all__ = [
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
    "ignored_options",
    "own_options",
    "prepare_constraints",
    "preset",
    "token_logprobs",
    "tool_constraint",
]
