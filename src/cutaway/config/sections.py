"""The sections of a config: a field is a key, and its annotation the type of the value."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, make_dataclass
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal

from annotated_types import Ge, Gt, Le, MinLen

from cutaway.errors import ConfigError
from cutaway.sampling.parameter import Parameter
from cutaway.sampling.params import PARAMETERS

KVTypeName = Literal["f32", "bf16", "int8", "fp8"]
Count = Annotated[int, Ge(1)]
Seconds = Annotated[float, Ge(0), Le(1e7)]
Share = Annotated[float, Ge(0), Le(1)]
Name = Annotated[str, MinLen(1)]
_STRICT = {"extra": "forbid", "strict": True}


def _value(parameter: Parameter) -> Any:
    """The type of a key of `[sampling]`."""
    if parameter.choices or parameter.kind not in ("number", "integer"):
        return parameter.type
    low = Gt(parameter.low) if parameter.above else Ge(parameter.low)
    return Annotated[parameter.type, low, Le(parameter.high)]


if TYPE_CHECKING:

    class SamplingDefaults:
        """The keys of `[sampling]`, created below."""

        preset: str | None

        def __getattr__(self, name: str) -> Any: ...

else:
    SamplingDefaults = make_dataclass(
        "SamplingDefaults",
        [("preset", str | None, None), *((p.name, _value(p) | None, None) for p in PARAMETERS if p.config)],
        namespace={"__pydantic_config__": _STRICT, "__module__": __name__},
        frozen=True, slots=True,
    )  # fmt: skip
    SamplingDefaults.__doc__ = """Parameters of the table that hold unless the command line or a request gives others.
    None: the model's own."""


@dataclass(frozen=True, slots=True)
class ModelConfig:
    """One served model.

    model: name, path or source. name: the name that requests use; None: the model's own. load: at the start, on first
    use, or None: at the start for the first model, on first use for the others. sha256: its required hash, whole or a
    prefix. contexts: the size of its KV cache, in whole contexts. The rest as on the command line.
    """

    __pydantic_config__: ClassVar[Mapping[str, Any]] = _STRICT

    model: Name
    name: Name | None = None
    load: Literal["start", "use"] | None = None
    sha256: str | None = None
    context: Count | None = None
    contexts: Count | None = None
    max_requests: Count | None = None
    threads: Count | None = None
    kv_k: KVTypeName | None = None
    kv_v: KVTypeName | None = None
    rope_scaling: str | None = None
    speculate: Literal["ngram"] | None = None
    backend: Literal["native", "reference"] | None = None


@dataclass(frozen=True, slots=True)
class ServerConfig:
    """The address, access rules and limits of a server.

    only_api_keys: only `api_keys` are valid, not those of the file or of $CUTAWAY_API_KEYS. cors_origins: origins of
    web pages that may use the server. allowed_hosts: further names that it accepts ("*.example.com": all subdomains,
    "*": all); on a loopback address it accepts loopback names, on another address every name unless some are listed.
    trusted_proxies: addresses or networks whose X-Forwarded-For and X-Forwarded-Proto are used. memory: for all models
    together, as "6 GB" or bytes; None: what is available at the start. verify: hash models if their file has changed,
    or always. strict: an unknown field of a request is an error, not a warning. body_encodings: encodings other than
    UTF-8 in which bodies are accepted, with a warning. keep_alive: seconds between comments on a silent stream.
    send_timeout: seconds within which a client must read. grace: seconds that running requests have after SIGTERM.
    resume: seconds that a stream is kept after its client has disconnected, so that it can be resumed
    (`Last-Event-ID`); 0: off. max_events: tokens that wait for a slow client. share_prefixes: share cached prefixes
    between all callers, not only within one caller (API key, or address).
    """

    __pydantic_config__: ClassVar[Mapping[str, Any]] = _STRICT

    host: Name = "127.0.0.1"
    port: Annotated[int, Ge(0), Le(65535)] = 8000
    api_keys: tuple[Name, ...] = ()
    api_keys_file: str | None = None
    only_api_keys: bool = False
    cors_origins: tuple[Name, ...] = ()
    allowed_hosts: tuple[Name, ...] = ()
    trusted_proxies: tuple[Name, ...] = ()
    strict: bool = False
    memory: str | int | None = None
    verify: Literal["changed", "always"] = "changed"
    max_body: Annotated[int, Ge(1024)] = 8 * 2**20
    max_depth: Annotated[int, Ge(4), Le(500)] = 100
    body_encodings: tuple[Literal["gb18030", "big5"], ...] = ()
    keep_alive: Annotated[float, Gt(0)] = 15.0
    send_timeout: Annotated[float, Gt(0)] = 30.0
    grace: Seconds = 30.0
    resume: Seconds = 0.0
    max_events: Annotated[int, Ge(16)] = 8192
    share_prefixes: bool = False


@dataclass(frozen=True, slots=True)
class LimitsConfig:
    """Limits of the server and of one caller. None: no limit.

    queue: answers that wait while the model runs as many as it can. requests_per_key: at once, by API key (without
    keys: by address); requests_per_minute: likewise. tokens_per_request, seconds_per_request: of an answer.
    """

    __pydantic_config__: ClassVar[Mapping[str, Any]] = _STRICT

    queue: Annotated[int, Ge(0)] = 256
    requests_per_key: Count | None = None
    requests_per_minute: Count | None = None
    tokens_per_request: Count | None = None
    seconds_per_request: Annotated[float, Gt(0)] | None = None


@dataclass(frozen=True, slots=True)
class LoggingConfig:
    """prompts: log prompts and answers. token_share: the share of requests whose every token is logged at level
    debug."""

    __pydantic_config__: ClassVar[Mapping[str, Any]] = _STRICT

    level: Literal["debug", "info", "warning", "error"] = "info"
    format: Literal["console", "json"] = "console"
    prompts: bool = False
    token_share: Share = 0.0


@dataclass(frozen=True, slots=True)
class RecordConfig:
    """What a server keeps of its last requests, for /x/ and `cutaway requests`.

    level: "contents" keeps token ids, which are the text; "figures" keeps none; "off" keeps nothing. memory, seconds,
    count: bounds of what is kept, in bytes ("64 MB"), by age and in number. folder: takes each record as a file, too,
    within the same bounds. hashes: keep a hash of the logits of each token, so that a replay can compare them.
    """

    __pydantic_config__: ClassVar[Mapping[str, Any]] = _STRICT

    level: Literal["contents", "figures", "off"] = "contents"
    memory: str | int = "64 MiB"
    seconds: Annotated[float, Gt(0), Le(1e9)] = 3600.0
    count: Count = 10_000
    folder: Name | None = None
    hashes: bool = False


@dataclass(frozen=True, slots=True)
class TelemetryConfig:
    """OpenTelemetry. endpoint: a collector that accepts OTLP over HTTP; None: the environment's
    (OTEL_EXPORTER_OTLP_ENDPOINT), otherwise none. service_name: None: the environment's, otherwise "cutaway"."""

    __pydantic_config__: ClassVar[Mapping[str, Any]] = _STRICT

    endpoint: Name | None = None
    service_name: Name | None = None


@dataclass(frozen=True, slots=True)
class Config:
    """The whole file. None: not given. aliases: each a further name of a model, or of several by weight, which splits
    traffic."""

    __pydantic_config__: ClassVar[Mapping[str, Any]] = _STRICT

    model: str | None = None
    system: str | None = None
    date: str | None = None
    threads: Count | None = None
    context: Count | None = None
    kv_k: KVTypeName | None = None
    kv_v: KVTypeName | None = None
    rope_scaling: str | None = None
    speculate: Literal["ngram"] | None = None
    sampling: SamplingDefaults = SamplingDefaults()  # noqa: RUF009  # it is frozen
    server: ServerConfig = ServerConfig()
    models: tuple[ModelConfig, ...] = ()
    aliases: Mapping[str, str | Mapping[str, Annotated[float, Gt(0)]]] | None = None
    limits: LimitsConfig = LimitsConfig()
    logging: LoggingConfig = LoggingConfig()
    record: RecordConfig = RecordConfig()
    telemetry: TelemetryConfig = TelemetryConfig()


SECTIONS: Mapping[str, type] = {
    "": Config, "sampling": SamplingDefaults, "server": ServerConfig, "models": ModelConfig,
    "limits": LimitsConfig, "logging": LoggingConfig, "record": RecordConfig, "telemetry": TelemetryConfig,
}  # fmt: skip

_BYTES = re.compile(r"\s*(\d+(?:\.\d+)?)\s*([kMGT]?i?)B?\s*", re.ASCII)


def parse_bytes(said: str | int, where: str = "server.memory") -> int:
    """Bytes from "6 GB", "512MiB" or a number. Raises ConfigError."""
    if isinstance(said, int):
        return said
    found = _BYTES.fullmatch(said)
    if found is None:
        raise ConfigError(f"{where} is {said!r}; it must be a size such as 6 GB or 512 MiB, or bytes")
    base = 1024 if found[2].endswith("i") else 1000
    return int(float(found[1]) * base ** " kMGT".index(found[2][:1] or " "))
