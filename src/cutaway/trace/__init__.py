"""Records of what happened, and recorders that receive them. Every room above emits records; nothing here decides."""

from cutaway.trace.old_recorder import with_wants
from cutaway.trace.recorders import NULL, JsonlRecorder, Kind, MemoryRecorder, NullRecorder, Recorder
from cutaway.trace.records import PrefixRecord, Record, StageRecord, StepRecord, TokenRecord, as_json

__all__ = [
    "NULL",
    "JsonlRecorder",
    "Kind",
    "MemoryRecorder",
    "NullRecorder",
    "PrefixRecord",
    "Record",
    "Recorder",
    "StageRecord",
    "StepRecord",
    "TokenRecord",
    "as_json",
    "with_wants",
]
