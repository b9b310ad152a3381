"""cutaway: a large-language-model engine with the casing cut away.

    from cutaway import Engine, SamplingParams

    with Engine.load("smollm2-135m") as engine:
        print(engine.generate("Water boils at", SamplingParams(max_tokens=16))[0].text)

What is exported here is loaded when it is first used, so that `import cutaway` costs nothing.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from cutaway.assemble import Engine
    from cutaway.engine import Answer, AnswerStream, Delta, Result
    from cutaway.errors import CutawayError
    from cutaway.sampling import SamplingParams, StopReason
    from cutaway.trace import JsonlRecorder, MemoryRecorder

__all__ = [
    "Answer",
    "AnswerStream",
    "CutawayError",
    "Delta",
    "Engine",
    "JsonlRecorder",
    "MemoryRecorder",
    "Result",
    "SamplingParams",
    "StopReason",
]

_ROOMS = {
    "assemble": ("Engine",),
    "engine": ("Answer", "AnswerStream", "Delta", "Result"),
    "errors": ("CutawayError",),
    "sampling": ("SamplingParams", "StopReason"),
    "trace": ("JsonlRecorder", "MemoryRecorder"),
}


def __getattr__(name: str) -> Any:
    for room, names in _ROOMS.items():
        if name in names:
            return getattr(import_module(f"cutaway.{room}"), name)
    raise AttributeError(f"module 'cutaway' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted([*globals(), *__all__])
