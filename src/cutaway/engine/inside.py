"""The parts that compute a step of an engine, for views of a step."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from threading import Lock

from cutaway.model import Decoder
from cutaway.ops.protocol import KVLayout, Step
from cutaway.ops.rows import Rows


@dataclass(frozen=True, slots=True)
class Inside:
    """run: a step to its rows of logits, as the engine calls it. layout: where keys and values lie. looking: held
    while a view has steps run in parts, one view at a time."""

    decoder: Decoder
    layout: KVLayout
    run: Callable[[Step], Rows]
    looking: Lock = field(default_factory=Lock)
