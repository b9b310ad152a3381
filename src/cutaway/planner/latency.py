"""Times before a model is loaded: intervals from calibrations of this machine, or nothing."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from cutaway.planner.calibration import Calibration, Lines, fit

LEAST_SPREAD = 0.05  # runs of one process lie closer together than those of two
OTHER_SPREAD = 0.15  # what another model's shapes add to the range of the rates
MOST_STRETCH = 4  # times the largest measured context or number of requests, beyond which there is no prediction
FRESH_SECONDS = 600.0  # the machine's bandwidth drifts by the hour
MOST_BUSY = 0.1


@dataclass(frozen=True, slots=True)
class Interval:
    """Milliseconds: nine of ten measurements should lie between low and high."""

    low: float
    middle: float
    high: float

    @property
    def width(self) -> float:
        """Relative to the middle."""
        return (self.high - self.low) / self.middle


@dataclass(frozen=True, slots=True)
class Work:
    """What a model does, counted on its outline. See `Calibration`. integer: matrices are multiplied as integers.
    experts: more requests read more of them."""

    step_bytes: float
    token_operations: float
    position_bytes: float
    pair_operations: float
    integer: bool
    experts: bool = False


@dataclass(frozen=True, slots=True)
class Predictor:
    """Times of one model. basis: what they rest on, for people; age: seconds since that was measured; sound: it was
    measured on this very model, lately, on a quiet machine."""

    basis: str
    age: float
    sound: bool
    _lines: Sequence[Lines]
    _spreads: tuple[float, float]
    _reach: tuple[int, int]
    _alone: bool = False  # only of one request at a time

    def first(self, tokens: int) -> Interval | None:
        """Seconds until the first token of a prompt of `tokens`, one request alone. None: beyond the calibration."""
        if tokens > MOST_STRETCH * self._reach[1]:
            return None
        return _interval([lines.first(tokens) for lines in self._lines], self._spreads[0])

    def each(self, requests: int, context: int) -> Interval | None:
        """Per further token of each of so many requests that have so many tokens before it."""
        if self._alone and requests > 1:
            return None
        if requests > MOST_STRETCH * self._reach[0] or context > MOST_STRETCH * self._reach[1]:
            return None
        return _interval([lines.each(requests, context) for lines in self._lines], self._spreads[1])

    def attention(self, requests: int, context: int) -> float | None:
        """The share of a step that grows with the context: reading keys and values."""
        if self.each(requests, context) is None:
            return None
        lines = self._lines[0]
        return lines.position * requests * context / lines.each(requests, context)


def _interval(times: Sequence[float], spread: float) -> Interval:
    low, high = min(times), max(times)
    return Interval(low * (1 - spread), (low + high) / 2, high * (1 + spread))


def own_predictor(calibration: Calibration, now: float) -> Predictor:
    """From a calibration of the model itself."""
    lines = fit(calibration)
    age = max(0.0, now - calibration.made)
    quiet = calibration.busy is not None and calibration.busy <= MOST_BUSY
    spreads = max(LEAST_SPREAD, lines.first_spread), max(LEAST_SPREAD, lines.each_spread)
    state = "" if quiet else ", on a busy machine" if calibration.busy is not None else ", load unknown"
    basis = f"calibrated {_ago(age)} ago{state}"
    return Predictor(basis, age, quiet and age <= FRESH_SECONDS, [lines], spreads, _reach(calibration))


def other_predictor(calibrations: Sequence[Calibration], work: Work, now: float) -> Predictor | None:
    """From other models' rates on this machine: bytes and operations counted, at the rates that those reached. None
    where no calibration multiplies as this model does."""
    alike = [c for c in calibrations if c.integer == work.integer]
    if not alike:
        return None
    lines = [_scaled(fit(c), c, work) for c in alike]
    age = max(now - c.made for c in alike)
    names = ", ".join(dict.fromkeys(c.model for c in alike))
    reach = max(_reach(c)[0] for c in alike), max(_reach(c)[1] for c in alike)
    basis = f"an estimate from the rates of {names} on this machine, {_ago(age)} ago"
    return Predictor(basis, age, False, lines, (OTHER_SPREAD, OTHER_SPREAD), reach, work.experts)


def _scaled(lines: Lines, c: Calibration, work: Work) -> Lines:
    read = work.step_bytes / c.step_bytes
    compute = work.token_operations / c.token_operations
    pairs = work.pair_operations / c.pair_operations
    positions = work.position_bytes / c.position_bytes
    one = lines.bases[0][1] * read
    # What more requests add to a step is arithmetic.
    bases = tuple((r, one + (t - lines.bases[0][1]) * compute) for r, t in lines.bases)
    return Lines(lines.fixed, lines.token * compute, lines.pair * pairs, bases, lines.position * positions, 0.0, 0.0)


def _reach(calibration: Calibration) -> tuple[int, int]:
    """The most requests and the longest context that were measured."""
    return max(s.requests for s in calibration.samples), max(s.context for s in calibration.samples)


def _ago(seconds: float) -> str:
    for size, unit in ((86400, "days"), (3600, "hours"), (60, "minutes")):
        if seconds >= 2 * size:
            return f"{seconds / size:.0f} {unit}"
    return f"{seconds:.0f} seconds"
