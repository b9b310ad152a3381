"""A served model: its name, its properties, and its engine while it is loaded."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field, replace
from pathlib import Path
from time import monotonic, time
from typing import Any, Literal

from cutaway.assemble import Engine
from cutaway.config import Config, ModelConfig
from cutaway.errors import HashMismatchError
from cutaway.formats import open_model, parameter_count, quantization_level
from cutaway.model import parse_rope_scaling
from cutaway.ops.backends import open_backend
from cutaway.ops.protocol import KVType
from cutaway.planner import LoadOptions, MemoryPlan, plan_load
from cutaway.registry import Resolved, resolve
from cutaway.registry.model_hash import model_hash
from cutaway.server.models.hashes import fingerprint, instruction_set
from cutaway.text import tool_format_of
from cutaway.text.chat.reasoning import ReasoningFormat, detect_reasoning
from cutaway.trace import NULL, Recorder
from cutaway.xray.record import System
from cutaway.xray.system import system_of

State = Literal["unloaded", "loading", "ready", "unloading", "failed"]
STEP_MS = 50  # a new request waits for the running step and for one more
CONTEXTS = 4  # default size of the KV cache, in whole contexts


@dataclass(frozen=True, slots=True)
class Makeup:
    """What a model is made of, from its header. parameters: their number. quantization: "Q4_K_M", "BF16", ..."""

    family: str = ""
    parameters: int = 0
    quantization: str = ""


@dataclass(slots=True)
class Served:
    """name: the name that requests use. config: how it is loaded, with every default filled in.

    found, sha256, plan, format, makeup: set when it has been inspected. engine: while it is loaded. users: requests
    that hold it now. Written by the event loop only.
    """

    name: str
    config: ModelConfig
    at_start: bool
    state: State = "unloaded"
    found: Resolved | None = None
    sha256: str = ""
    format: str = ""
    makeup: Makeup = Makeup()
    plan: MemoryPlan | None = None
    engine: Engine | None = None
    users: int = 0
    last_use: float = field(default_factory=monotonic)
    created: int = field(default_factory=lambda: int(time()))
    error: str = ""
    fingerprint: str = ""
    tool_format: str | None = None
    reasoning: ReasoningFormat | None = None
    recorder: Recorder = NULL
    record_hashes: bool = False
    date: float | None = None
    system: System | None = None
    changed: asyncio.Event = field(default_factory=asyncio.Event)

    @property
    def dead(self) -> bool:
        """Whether its engine exists but accepts no more requests."""
        return self.engine is not None and self.engine.status().failed

    @property
    def context(self) -> int | None:
        return self.engine.context if self.engine is not None else self.plan.context if self.plan else None


def with_defaults(model: ModelConfig, config: Config) -> ModelConfig:
    """The model's own settings, then those of the config, then the defaults."""
    return replace(
        model,
        context=model.context or config.context,
        contexts=model.contexts or CONTEXTS,
        threads=model.threads or config.threads,
        kv_k=model.kv_k or config.kv_k or "bf16",
        kv_v=model.kv_v or config.kv_v or "bf16",
        rope_scaling=model.rope_scaling or config.rope_scaling,
        speculate=model.speculate or config.speculate,
        max_requests=model.max_requests or 16,
        backend=model.backend or "native",
    )


@dataclass(frozen=True, slots=True)
class Looked:
    """The properties of a model that is not loaded."""

    found: Resolved
    sha256: str
    format: str
    makeup: Makeup
    plan: MemoryPlan
    hashed: bool


def look(config: ModelConfig, *, always_hash: bool) -> Looked:
    """Find, hash and measure a model without loading it. Raises their errors, and HashMismatchError for a pin."""
    found = resolve(config.model, pull=False)
    sha256, hashed = model_hash(found.path, found.manifest, always=always_hash)
    wanted = (config.sha256 or "").lower().removeprefix("sha256:")
    if not sha256.startswith(wanted):
        raise HashMismatchError(f"{config.model} has the SHA-256 {sha256}, but the config requires {wanted}")
    with open_model(found.path) as file:
        scaling = parse_rope_scaling(config.rope_scaling) if config.rope_scaling else None
        options = LoadOptions(config.context, config.contexts or CONTEXTS, _kv(config.kv_k), _kv(config.kv_v), scaling)
        plan = plan_load(file, options, open_backend(config.backend or "native", threads=config.threads))
        makeup = Makeup(plan.spec.family, parameter_count(file), quantization_level(file))
        return Looked(found, sha256, file.format, makeup, plan.memory, hashed)


def _kv(kind: str | None) -> KVType:
    return kind or "bf16"  # type: ignore[return-value]


def open_engine(served: Served) -> Engine:
    """Load the model, and prepare its template and tokenizer. Takes seconds, so it runs in a thread."""
    config, plan = served.config, served.plan
    assert served.found is not None and plan is not None
    said: dict[str, Any] = {
        name: getattr(config, name)
        for name in ("contexts", "max_requests", "threads", "kv_k", "kv_v", "rope_scaling", "speculate", "backend")
    }
    options = {name: value for name, value in said.items() if value is not None}
    options |= {"context": plan.context, "step_ms": STEP_MS, "recorder": served.recorder}
    options["record_hashes"] = served.record_hashes
    engine = Engine.load(source(served), pull=False, **options)
    if engine.growth is None:
        engine.tokenizer.prepare()
    else:
        engine.growth.of_tokenizer(engine.tokenizer.prepare)
    engine.date = served.date
    return engine


def source(served: Served) -> str | Path:
    """The argument of `Engine.load`: the name if the registry knows it, so that the manifest is included."""
    assert served.found is not None
    return served.found.path if served.found.manifest is None else served.config.model


def describe(served: Served, engine: Engine) -> None:
    """Set what follows from a loaded model: its fingerprint, tool-call format and reasoning markers."""
    config = served.config
    template = engine.template.source if engine.template is not None else None
    served.fingerprint = fingerprint(
        served.sha256, instruction_set(config.backend or "native"), kv_k=config.kv_k, kv_v=config.kv_v,
        rope=config.rope_scaling,
    )  # fmt: skip
    named = engine.manifest.name if engine.manifest is not None else engine.path.stem
    served.tool_format = tool_format_of(engine.template, named, engine.spec.family)
    served.reasoning = detect_reasoning(template) if template else None
    served.system = system_of(engine, served.name, served.sha256, served.config.model)
