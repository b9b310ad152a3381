"""The engine: requests, the scheduler that divides steps among them, batches, and the loop that runs the steps."""

from cutaway.engine.cost import CostModel
from cutaway.engine.events import Event, Finished, Logprob, Timings, TokenChosen, TokenLogprob, Usage
from cutaway.engine.inside import Inside
from cutaway.engine.loop import EngineCore
from cutaway.engine.preemptions import NotedPreemption
from cutaway.engine.prompt_fitting import Fitted, fitted, fitted_text
from cutaway.engine.request import Request, Sink, Stream
from cutaway.engine.results import Answer, AnswerStream, Collector, Delta, Result
from cutaway.engine.row_stream import RowStream
from cutaway.engine.scheduler import Limits
from cutaway.engine.sliding_context import Shorten
from cutaway.engine.status import Pages, Status, status_of
from cutaway.engine.watch import Look, SeenChunk, SeenRequest, SeenStep, Watch

__all__ = [
    "Answer",
    "AnswerStream",
    "Collector",
    "CostModel",
    "Delta",
    "EngineCore",
    "Event",
    "Finished",
    "Fitted",
    "Inside",
    "Limits",
    "Logprob",
    "Look",
    "NotedPreemption",
    "Pages",
    "Request",
    "Result",
    "RowStream",
    "SeenChunk",
    "SeenRequest",
    "SeenStep",
    "Shorten",
    "Sink",
    "Status",
    "Stream",
    "Timings",
    "TokenChosen",
    "TokenLogprob",
    "Usage",
    "Watch",
    "fitted",
    "fitted_text",
    "status_of",
]
