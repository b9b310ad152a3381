"""cutaway: a large-language-model engine with the casing cut away.

    from cutaway import Engine, SamplingParams

    with Engine.load("smollm2-135m") as engine:
        print(engine.generate("Water boils at", SamplingParams(max_tokens=16))[0].text)

What is exported here is loaded when it is first used, so that `import cutaway` costs nothing.
"""

from __future__ import annotations

import gc
from importlib import import_module
from types import ModuleType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    __version__: str
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
    "__version__",
]

_ROOMS = {
    "assemble": ("Engine",),
    "engine": ("Answer", "AnswerStream", "Delta", "Result"),
    "errors": ("CutawayError",),
    "sampling": ("SamplingParams", "StopReason"),
    "trace": ("JsonlRecorder", "MemoryRecorder"),
}


def __getattr__(name: str) -> Any:
    if name == "__version__":
        return _version()
    for room, names in _ROOMS.items():
        if name in names:
            return getattr(_imported(f"cutaway.{room}"), name)
    raise AttributeError(f"module 'cutaway' has no attribute {name!r}")


def _imported(module: str) -> ModuleType:
    """With the garbage collector paused: importing makes a hundred thousand objects, and none of them is garbage."""
    collecting = gc.isenabled()
    gc.disable()
    try:
        return import_module(module)
    finally:
        if collecting:
            gc.enable()


def _version() -> str:
    from importlib import metadata

    try:
        return metadata.version("cutaway")
    except metadata.PackageNotFoundError:  # run from a source tree that is not installed
        return "0+source"


def __dir__() -> list[str]:
    return sorted([*globals(), *__all__])
