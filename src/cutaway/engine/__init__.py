"""The engine: requests, the scheduler that shares steps among them, batches, and the loop that runs them."""

from cutaway.engine.cost import CostModel
from cutaway.engine.events import Event, Finished, Logprob, Timings, TokenChosen, TokenLogprob, Usage
from cutaway.engine.loop import EngineCore
from cutaway.engine.request import Request, Stream
from cutaway.engine.results import Answer, AnswerStream, Collector, Delta, Result
from cutaway.engine.scheduler import Limits

__all__ = [
    "Answer",
    "AnswerStream",
    "Collector",
    "CostModel",
    "Delta",
    "EngineCore",
    "Event",
    "Finished",
    "Limits",
    "Logprob",
    "Request",
    "Result",
    "Stream",
    "Timings",
    "TokenChosen",
    "TokenLogprob",
    "Usage",
]
