"""From the command line and the config to a model on disk, an engine and sampling parameters."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from cutaway.cli.options import LoadOptions
from cutaway.cli.sampling_options import SamplingOptions
from cutaway.cli.terminal import DownloadBar, say, warn
from cutaway.registry import Resolved, resolve

if TYPE_CHECKING:
    from cutaway.assemble import Engine
    from cutaway.config import Config
    from cutaway.sampling import SamplingParams
    from cutaway.trace import Recorder

DEFAULT_MODEL = "smollm2-135m"


def model_on_disk(name: str) -> Resolved:
    """The model's file or folder. Shows a progress bar during a download, and reports how the hash was checked."""
    with DownloadBar(name) as progress:
        found = resolve(name, pull=True, progress=progress)
    if found.fetched and found.manifest is not None:
        kept = "its hash was checked" if found.manifest.trust != "first use" else "its hash is trusted on first use"
        say(f"kept {found.manifest.name} as {found.path}; {kept}; licence: {found.manifest.licence}")
    return found


def read_config(options: LoadOptions) -> Config:
    """The config that the options name, or the default one. Raises ConfigError."""
    from cutaway.config import load_config

    return load_config(Path(options.config) if options.config else None, warn)


def open_engine(options: LoadOptions, config: Config, recorder: Recorder | None = None) -> Engine:
    """The engine that the options and the config describe. Its warnings are printed."""
    from cutaway.assemble import Engine

    name = options.model or config.model or DEFAULT_MODEL
    model_on_disk(name)
    given: dict[str, Any] = {"recorder": recorder, "backend": options.backend}
    for field in ("context", "threads", "kv_k", "kv_v", "rope_scaling", "speculate"):
        option = getattr(options, field)
        given[field] = option if option is not None else getattr(config, field)
    engine = Engine.load(name, pull=False, **{field: value for field, value in given.items() if value is not None})
    for warning in engine.warnings:
        warn(warning)
    return engine


def set_date(engine: Engine, date: str | None, config: Config) -> None:
    """What the engine's template sees as now: the command line's date, or the config's. Raises ParameterError."""
    from cutaway.text.chat.clock import parse_date

    if (text := date or config.date) is not None:
        engine.date = parse_date(text)


def sampling_params(options: SamplingOptions, config: Config, defaults: SamplingParams | None = None) -> SamplingParams:
    """The parameters of the command line, then of the config, then of a preset.

    defaults: the model's own parameters, which replace the preset `chat`. A preset on the command line overrides the
    config's parameters except max_tokens and seed. Raises ParameterError.
    """
    from cutaway.config import sampling_settings
    from cutaway.sampling import preset

    configured = sampling_settings(config)
    name = options.preset or config.sampling.preset or "chat"
    if options.preset is not None:
        configured = {k: v for k, v in configured.items() if k in ("max_tokens", "seed")}
    base = defaults if name == "chat" and defaults is not None else preset(name)
    return base.replace(**(configured | options.changes()))
