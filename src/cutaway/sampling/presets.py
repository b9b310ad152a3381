"""Named sets of sampling parameters for tasks. What a caller sets explicitly overrides them."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Any

import numpy as np

from cutaway.errors import ParameterError
from cutaway.sampling.params import SamplingParams, check_names


@dataclass(frozen=True, slots=True)
class Preset:
    """A preset: its name, its purpose in a few words, and the parameters that it sets."""

    name: str
    use: str
    options: Mapping[str, float]


def _preset(name: str, use: str, temperature: float, top_p: float, top_k: int) -> Preset:
    return Preset(name, use, MappingProxyType({"temperature": temperature, "top_p": top_p, "top_k": top_k}))


PRESETS: Mapping[str, Preset] = MappingProxyType(
    {
        preset.name: preset
        for preset in (
            _preset("chat", "conversation; the model's own values where its files name some", 0.7, 0.9, 40),
            _preset("code", "writing and completing programs", 0.2, 0.9, 40),
            _preset("math", "calculation and proofs", 0.1, 0.9, 0),
            _preset("writing", "stories, letters, ideas", 0.8, 0.95, 80),
            _preset("classification", "one label out of a few", 0.0, 1.0, 0),
            _preset("structured", "JSON and other output of a fixed form", 0.0, 1.0, 0),
            _preset("agent", "planning and calling tools", 0.3, 0.85, 80),
        )
    }
)

_GGUF = {
    "general.sampling.temp": "temperature",
    "general.sampling.top_p": "top_p",
    "general.sampling.top_k": "top_k",
    "general.sampling.min_p": "min_p",
    "general.sampling.penalty_repeat": "repetition_penalty",
}
_HUGGING_FACE = ("temperature", "top_p", "top_k", "min_p", "typical_p", "repetition_penalty")


def generation_settings(path: Path, metadata: Mapping[str, Any]) -> Mapping[str, Any]:
    """The sampling settings in a model's files, for `own_options`: GGUF metadata, or generation_config.json in or
    beside `path`."""
    if metadata:
        return metadata
    try:
        settings = json.loads(((path if path.is_dir() else path.parent) / "generation_config.json").read_text("utf-8"))
    except (OSError, ValueError):
        return {}
    return settings if isinstance(settings, dict) else {}


def own_options(metadata: Mapping[str, Any]) -> dict[str, Any]:
    """The sampling options in a model's files: GGUF metadata (`general.sampling.*`) or the contents of
    generation_config.json (`do_sample` false means temperature 0). Empty if there are none."""
    found = {ours: _number(metadata[key]) for key, ours in _GGUF.items() if key in metadata}
    found |= {key: _number(metadata[key]) for key in _HUGGING_FACE if metadata.get(key) is not None}
    if metadata.get("do_sample") is False:
        found["temperature"] = 0.0
    return found


def preset(
    name: str, own: Mapping[str, Any] | None = None, recommended: Mapping[str, Any] | None = None, /, **options: Any
) -> SamplingParams:
    """The parameters of a preset, overridden by `options`. For `chat`, own: the options in the model's files (see
    own_options); recommended: those of its makers, if the files have none.

    Raises ParameterError for an unknown preset or option.
    """
    if name not in PRESETS:
        raise ParameterError(f"preset is {name!r}; it must be one of: {', '.join(PRESETS)}")
    check_names(options)
    chosen: dict[str, Any] = dict(PRESETS[name].options)
    if name == "chat" and (told := own_options(own or {}) or dict(recommended or {})):
        chosen = told
    return SamplingParams(**(chosen | options))


def _number(value: Any) -> Any:
    """A float32 from a file as the intended decimal: 0.8, not 0.800000011920929."""
    if isinstance(value, np.ndarray | np.generic):
        value = value.item()
    return round(value, 6) if isinstance(value, float) else value
