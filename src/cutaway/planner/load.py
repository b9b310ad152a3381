"""How a model is to be loaded, composed once: `Engine.load`, the server and `cutaway plan` all ask this."""

from __future__ import annotations

from dataclasses import dataclass

from cutaway.errors import ParameterError
from cutaway.formats import ModelFile
from cutaway.model import ModelSpec, RopeScaling, read_spec, stretched_context
from cutaway.ops.backend import Backend
from cutaway.ops.protocol import KV_ITEM_BYTES, KVLayout, KVType
from cutaway.planner.memory import MemoryPlan
from cutaway.planner.outline import outline_model

DEFAULT_CONTEXT = 4096


@dataclass(frozen=True, slots=True)
class LoadOptions:
    """What decides the size of a loaded model.

    context: tokens of a prompt and its answer; None: what the model reaches, DEFAULT_CONTEXT at most. contexts: how
    many whole contexts the pages hold. rope_scaling: in place of the model's own, to stretch the context.
    Raises ParameterError for an unknown type of keys or values and for numbers below 1.
    """

    context: int | None = None
    contexts: int = 2
    key_type: KVType = "bf16"
    value_type: KVType = "bf16"
    rope_scaling: RopeScaling | None = None

    def __post_init__(self) -> None:
        check_kv_types(self.key_type, self.value_type)
        for name, value in (("context", self.context), ("contexts", self.contexts)):
            if value is not None and value < 1:
                raise ParameterError(f"{name} is {value}; it must be at least 1")


@dataclass(frozen=True, slots=True)
class LoadPlan:
    """What a model is, how many tokens a prompt and its answer may have, where keys and values lie, what it takes."""

    spec: ModelSpec
    context: int
    layout: KVLayout
    memory: MemoryPlan


def plan_load(file: ModelFile, options: LoadOptions, backend: Backend) -> LoadPlan:
    """Plan from an opened file's header alone. The backend says what a packed weight takes and how large a step is.

    Raises FormatError, UnsupportedError.
    """
    spec = read_spec(file)
    reach = stretched_context(options.rope_scaling, spec.context)
    context = min(reach, DEFAULT_CONTEXT) if options.context is None else options.context
    outline = outline_model(file, spec, backend, options.rope_scaling)
    types = options.key_type, options.value_type
    memory = outline.memory(context=context, requests=options.contexts, key_type=types[0], value_type=types[1])
    return LoadPlan(spec, context, outline.layout(context, options.contexts, *types), memory)


def check_kv_types(key_type: str, value_type: str) -> None:
    """Raises ParameterError for a type that keys and values cannot be stored in."""
    for name, kind in (("kv_k", key_type), ("kv_v", value_type)):
        if kind not in KV_ITEM_BYTES:
            raise ParameterError(f"{name} is {kind!r}; it must be one of {', '.join(KV_ITEM_BYTES)}")
