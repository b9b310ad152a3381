"""`cutaway serve`: serve models to many clients at once, through the APIs that programs already use."""

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
    """The most common server settings of the config, as options."""

    config: Annotated[str | None, option("--config", help="Use this cutaway.toml instead of the default one.")] = None
    host: Annotated[str | None, option("--host", help="Address to listen on. [127.0.0.1]")] = None
    port: Annotated[int | None, option("--port", help="Port to listen on; 0 takes any free one. [8000]")] = None
    api_key: Annotated[
        list[str] | None, option("--api-key", help="A key that clients must send. Repeatable. [$CUTAWAY_API_KEYS]")
    ] = None
    cors_origin: Annotated[
        list[str] | None, option("--cors-origin", help="Web origin that may use the server. Repeatable.")
    ] = None
    context: Annotated[int | None, option("--context", help="Context size: tokens of prompt and answer together.")] = (
        None
    )
    contexts: Annotated[int | None, option("--contexts", help="Size of the KV cache, in full contexts. [4]")] = None
    max_requests: Annotated[
        int | None, option("--max-requests", help="Answers computed at once; others wait. [16]")
    ] = None
    threads: Annotated[int | None, option("--threads", help="Number of threads. [all cores]")] = None
    kv_k: Annotated[str | None, option("--kv-k", help="Type of cached keys: bf16, f32, int8 or fp8. [bf16]")] = None
    kv_v: Annotated[str | None, option("--kv-v", help="Type of cached values, likewise. [bf16]")] = None
    speculate: Annotated[
        str | None, option("--speculate", help="ngram: faster where answers repeat earlier text; same answers.")
    ] = None
    memory: Annotated[
        str | None, option("--memory", help="Memory for all models, for instance 6GB. [what is available]")
    ] = None
    queue: Annotated[int | None, option("--queue", help="Maximum number of waiting answers. [256]")] = None
    strict: Annotated[bool, option("--strict", help="Reject requests that have unknown fields.")] = False
    verify: Annotated[bool, option("--verify", help="Hash model files even if they have not changed.")] = False
    resume: Annotated[
        float | None, option("--resume", help="Seconds that a stream is kept after its client disconnects. [0]")
    ] = None
    log_level: Annotated[str | None, option("--log-level", help="Log level: debug, info, warning or error. [info]")] = (
        None
    )
    log_format: Annotated[str | None, option("--log-format", help="Log format: console or json. [console]")] = None
    record: Annotated[str | None, option("--record", help="Also write the record of each request here.")] = None
    record_level: Annotated[
        str | None, option("--record-level", help="contents, figures (no token ids) or off. [contents]")
    ] = None
    record_hashes: Annotated[bool, option("--record-hashes", help="Record a hash of each token's logits.")] = False
    date: Annotated[str | None, option("--date", help="What templates see as now, as 2026-12-01. [the clock]")] = None
    log_prompts: Annotated[bool, option("--log-prompts", help="Include prompts and answers in the log.")] = False


@takes_options
def serve(
    options: ServeOptions,
    *,
    models: Annotated[list[str] | None, typer.Argument(help="Names or paths. NAME=MODEL sets the served name.")] = None,
) -> None:
    """Serve models over HTTP with the APIs of OpenAI, Anthropic and Ollama. Ctrl-C stops the server."""
    config = _checked(_options(_models(read_config(LoadOptions(config=options.config)), models), options))
    for model in config.models:
        model_on_disk(model.model)  # downloaded with a progress bar before the server starts
    from cutaway.server import serve as run_server  # other commands need not load FastAPI

    run_server(config)


def _options(config: Config, options: ServeOptions) -> Config:
    """The config with the values of the command line."""
    server = {
        "host": options.host, "port": options.port, "memory": options.memory, "resume": options.resume,
        "api_keys": tuple(options.api_key) if options.api_key else None,
        "only_api_keys": True if options.api_key else None,
        "cors_origins": tuple(options.cors_origin) if options.cors_origin else None,
        "strict": options.strict or None, "verify": "always" if options.verify else None,
    }  # fmt: skip
    logging = {"level": options.log_level, "format": options.log_format, "prompts": options.log_prompts or None}
    record = {"folder": options.record, "level": options.record_level, "hashes": options.record_hashes or None}
    models = {
        name: getattr(options, name)
        for name in ("context", "contexts", "max_requests", "threads", "kv_k", "kv_v", "speculate")
    }
    return replace(
        config,
        server=replace(config.server, **_given(server)),
        limits=replace(config.limits, **_given({"queue": options.queue})),
        logging=replace(config.logging, **_given(logging)),
        record=replace(config.record, **_given(record)),
        models=tuple(replace(model, **_given(models)) for model in config.models),
        **_given({name: models[name] for name in ("context", "threads", "kv_k", "kv_v", "speculate")}),
        **_given({"date": options.date}),
    )


def _models(config: Config, named: list[str] | None) -> Config:
    """The models of the command line, or of the config, or the config's `model`, or the default model."""
    from cutaway.config import ModelConfig

    if not named and config.models:
        return config
    made = []
    for given in named or [config.model or DEFAULT_MODEL]:
        name, equals, model = given.partition("=")
        known = next((m for m in config.models if given in (m.name, m.model)), None)
        made.append(known or (ModelConfig(model, name) if equals and name and "/" not in name else ModelConfig(given)))
    return replace(config, models=tuple(made))


def _given(options: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in options.items() if value is not None}


def _checked(config: Config) -> Config:
    """The config, after the same checks that a config file gets. Raises ConfigError."""
    from cutaway.config import check_config

    return check_config(config, "command line")
