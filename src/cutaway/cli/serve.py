"""`cutaway serve`: models for many at once, through the APIs that programs already speak."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Annotated, Any

import typer

from cutaway.cli.loading import DEFAULT_MODEL, model_on_disk, read_config
from cutaway.cli.options import LoadOptions, option, takes_options

if TYPE_CHECKING:
    from cutaway.config import Config


@dataclass(frozen=True, slots=True)
class ServeOptions:
    """What the config says of the server can be said here, too, as far as it is asked for often."""

    config: Annotated[str | None, option("--config", help="A cutaway.toml, instead of the one that is found.")] = None
    host: Annotated[str | None, option("--host", help="Address to listen on. [127.0.0.1]")] = None
    port: Annotated[int | None, option("--port", help="0: any that is free. [8000]")] = None
    api_key: Annotated[list[str] | None, option("--api-key", help="Who may ask. Repeatable. [$CUTAWAY_API_KEYS]")] = (
        None
    )
    cors_origin: Annotated[list[str] | None, option("--cors-origin", help="Pages that may ask. Repeatable.")] = None
    context: Annotated[int | None, option("--context", help="Tokens that prompt and answer may have together.")] = None
    contexts: Annotated[int | None, option("--contexts", help="Whole contexts that the pages hold together. [4]")] = (
        None
    )
    max_requests: Annotated[int | None, option("--max-requests", help="Answers at once; others wait. [16]")] = None
    threads: Annotated[int | None, option("--threads", help="Threads that compute. [all cores]")] = None
    kv_k: Annotated[str | None, option("--kv-k", help="Type of keys: bf16, f32, int8, fp8. [bf16]")] = None
    kv_v: Annotated[str | None, option("--kv-v", help="Type of values: the same. [bf16]")] = None
    speculate: Annotated[str | None, option("--speculate", help="ngram: as for run; same answers.")] = None
    memory: Annotated[str | None, option("--memory", help="For all models, for instance 6GB. [what is available]")] = (
        None
    )
    queue: Annotated[int | None, option("--queue", help="Answers that may wait. [256]")] = None
    strict: Annotated[bool, option("--strict", help="An unknown field of a request is an error.")] = False
    verify: Annotated[bool, option("--verify", help="Hash models even if their files have not changed.")] = False
    resume: Annotated[float | None, option("--resume", help="Seconds that a stream outlives its reader. [0]")] = None
    log_level: Annotated[str | None, option("--log-level", help="debug, info, warning or error. [info]")] = None
    log_format: Annotated[str | None, option("--log-format", help="console or json. [console]")] = None
    log_prompts: Annotated[bool, option("--log-prompts", help="Prompts and answers are in the log.")] = False


@takes_options
def serve(
    options: ServeOptions,
    *,
    models: Annotated[list[str] | None, typer.Argument(help="Names or paths; NAME=MODEL gives one a name.")] = None,
) -> None:
    """Serve models over HTTP: OpenAI's and Anthropic's APIs on http://127.0.0.1:8000. Ends with Ctrl-C."""
    config = _checked(_options(_models(read_config(LoadOptions(config=options.config)), models), options))
    for model in config.models:
        model_on_disk(model.model)  # fetched with a progress bar, before anybody waits
    from cutaway.server import serve as run_server  # FastAPI is not for every command to load

    run_server(config)


def _options(config: Config, options: ServeOptions) -> Config:
    """The command line over the config."""
    server = {
        "host": options.host, "port": options.port, "memory": options.memory, "resume": options.resume,
        "api_keys": tuple(options.api_key) if options.api_key else None,
        "only_api_keys": True if options.api_key else None,
        "cors_origins": tuple(options.cors_origin) if options.cors_origin else None,
        "strict": options.strict or None, "verify": "always" if options.verify else None,
    }  # fmt: skip
    logging = {"level": options.log_level, "format": options.log_format, "prompts": options.log_prompts or None}
    models = {
        name: getattr(options, name)
        for name in ("context", "contexts", "max_requests", "threads", "kv_k", "kv_v", "speculate")
    }
    return replace(
        config,
        server=replace(config.server, **_said(server)),
        limits=replace(config.limits, **_said({"queue": options.queue})),
        logging=replace(config.logging, **_said(logging)),
        models=tuple(replace(model, **_said(models)) for model in config.models),
        **_said({name: models[name] for name in ("context", "threads", "kv_k", "kv_v", "speculate")}),
    )


def _models(config: Config, named: list[str] | None) -> Config:
    """The models of the command line, else of the config, else its `model`, else the default one."""
    from cutaway.config import ModelConfig

    if not named and config.models:
        return config
    made = []
    for said in named or [config.model or DEFAULT_MODEL]:
        name, equals, model = said.partition("=")
        known = next((m for m in config.models if said in (m.name, m.model)), None)
        made.append(known or (ModelConfig(model, name) if equals and name and "/" not in name else ModelConfig(said)))
    return replace(config, models=tuple(made))


def _said(options: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in options.items() if value is not None}


def _checked(config: Config) -> Config:
    """The command line's values go through the same checks as the config's. Raises ConfigError."""
    from cutaway.config import check_config

    return check_config(config, "command line")
