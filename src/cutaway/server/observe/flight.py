"""The records that a request leaves when both are known: how the engine ended its answers, and the reply's status."""

from __future__ import annotations

from array import array
from collections.abc import Sequence
from threading import Lock

from cutaway.engine import Event, Finished, Sink
from cutaway.sampling import SamplingParams
from cutaway.server.models.visit import Visit
from cutaway.xray.recorded import Origin, kept


class Flight:
    """Of one request: one record for each answer that the engine accepted."""

    def __init__(
        self, visit: Visit, prompts: Sequence[Sequence[int]], params: SamplingParams, clock: float | None
    ) -> None:
        self._visit = visit
        self._prompts = prompts
        self._compact: dict[int, array[int]] = {}  # for all choices of a prompt, when the first has ended
        self._params = params
        self._clock = clock
        self._lock = Lock()
        self._ends: list[tuple[int, Finished]] = []
        self._closed: tuple[int, BaseException | None] | None = None

    def sink(self, number: int, further: Sink) -> Sink:
        """Of the prompt with this number: hands all on."""
        return further if self._visit.service.flights.level is None else _Watching(self, number, further)

    def ended(self, number: int, end: Finished) -> None:
        """In the engine's thread, which it must not stop."""
        with self._lock:
            self._ends.append((number, end))
        self._commit()

    def close(self, status: int, error: BaseException | None) -> None:
        """The request has ended; answers that the engine still has may follow."""
        self._closed = status, error
        self._commit()

    def _commit(self) -> None:
        with self._lock:
            if self._closed is None or not self._ends:
                return
            (status, error), ends, self._ends = self._closed, self._ends, []
        service, visit = self._visit.service, self._visit
        recorder, system = service.flights, visit.lease.served.system
        if recorder.level is None or system is None:
            return
        origin = Origin(visit.id, visit.caller, visit.began / 1e9, visit.path, system, self._params, self._clock)
        try:
            for number, end in ends:
                if number not in self._compact:
                    self._compact[number] = array("i", self._prompts[number])
                recorder.add(
                    kept(origin, end, self._compact[number], recorder.level, number=number, status=status,
                         error=error if isinstance(error, Exception) else None, warnings=visit.warnings)
                )  # fmt: skip
        except Exception as broken:
            service.log.error("a request could not be recorded", id=visit.id, exc_info=broken)


class _Watching:
    """A sink that reports the ends of answers to a flight."""

    __slots__ = ("_flight", "_further", "_number")

    def __init__(self, flight: Flight, number: int, further: Sink) -> None:
        self._flight, self._number, self._further = flight, number, further

    def put(self, event: Event, /) -> None:
        self._further.put(event)
        if type(event) is Finished:
            self._flight.ended(self._number, event)
