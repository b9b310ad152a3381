"""The report of one request: figures in its reply, a line in the log, counts in the metrics, a span."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from time import monotonic, time_ns
from typing import Any

from cutaway.engine import Delta, Finished, Result, Usage
from cutaway.errors import CutawayError, EngineError
from cutaway.sampling import SamplingParams
from cutaway.sampling.repetition import repetition_score
from cutaway.server.models.visit import Visit
from cutaway.server.observe.tracing import Answered, Story
from cutaway.server.transport.errors import ApiError, as_api_error
from cutaway.xray.waterfall import Waterfall, waterfall_parts


@dataclass(slots=True)
class RequestReport:
    """Filled in while the request runs. results: one per prompt, written by the Run; None until it is there.

    submitted: when the engine got the request; first: when the first token came; in nanoseconds since 1970, 0 before
    that.
    """

    visit: Visit
    prompts: Sequence[Sequence[int]]
    params: SamplingParams
    results: list[Result | None]
    submitted: int = 0
    first: int = 0
    _tokens: Counter[int] = field(default_factory=Counter)  # choice -> number of tokens
    _ended: set[int] = field(default_factory=set)  # choices
    _answered: list[Answered] = field(default_factory=list)
    _scores: list[float] = field(default_factory=list)  # how much each answer repeats itself
    _last: dict[int, float] = field(default_factory=dict)  # choice -> time of its last token

    @property
    def whole(self) -> bool:
        """Whether every prompt has its result."""
        return None not in self.results

    def token(self, choice: int, delta: Delta) -> None:
        """A token arrived."""
        now, before = monotonic(), self._last.get(choice)
        self._last[choice] = now
        self._tokens[choice] += 1
        service = self.visit.service
        self.first = self.first or time_ns()
        if before is None:
            service.metrics.first_token(self.visit.model, self._age())
        else:
            service.metrics.next_token(self.visit.model, now - before)
        if delta.token is not None and service.log.tells_tokens(self.visit.id):
            service.log.token(self.visit.id, choice, delta.token, delta.text)

    @property
    def tokens(self) -> int:
        """The number of tokens of all answers so far."""
        return self._tokens.total()

    def _age(self) -> float:
        """Seconds since the request arrived."""
        return max(0.0, (time_ns() - self.visit.began) / 1e9)

    def answered(self, choice: int, event: Finished, reason: str, result: Result | None) -> None:
        """An answer ended. reason: the API's finish reason. result: with the last answer of a prompt."""
        metrics = self.visit.service.metrics
        self._ended.add(choice)
        self._answered.append(Answered(event.timings, reason))
        metrics.answered(self.visit.model, event.stop.kind, reason, event.usage, event.timings)
        if result is not None:
            for answer in result.answers:
                self._scores.append(score := repetition_score(answer.token_ids))
                metrics.repetition(self.visit.model, score)
            metrics.prompt(self.visit.model, result.usage.prompt_tokens, result.broke)

    def usage(self) -> Usage:
        """The usage of all prompts."""
        done = [result.usage for result in self.results if result is not None]
        return Usage(
            sum(u.prompt_tokens for u in done),
            sum(u.completion_tokens for u in done),
            sum(u.cached_tokens for u in done),
        )

    def close(self, error: BaseException | None, status: int) -> None:
        """The request has ended: write its counts, its log line and its span. status: of the reply."""
        self._count_cut(error)
        self._log(error)
        self._keep_waterfall()
        if (telemetry := self.visit.service.telemetry) is not None:
            telemetry.tell(self._story(error, status))

    def _count_cut(self, error: BaseException | None) -> None:
        """The answers that the engine had and that did not finish."""
        if not self.submitted:
            return
        metrics, kind = self.visit.service.metrics, "cancelled" if error is None else "error"
        for choice in set(range(len(self.prompts) * self.params.n)) - self._ended:
            metrics.cut(self.visit.model, kind, self._tokens[choice], self._age())
        for prompt, result in zip(self.prompts, self.results, strict=True):
            if result is None:
                metrics.prompt(self.visit.model, len(prompt), None)

    def _log(self, error: BaseException | None) -> None:
        visit, log = self.visit, self.visit.service.log
        facts: dict[str, Any] = {
            "id": visit.id, "path": visit.path, "caller": visit.caller, "model": visit.model,
            "sha256": visit.lease.served.sha256[:12],
        }  # fmt: skip
        if visit.lease.alias is not None:
            facts["alias"] = visit.lease.alias
        if self.whole:
            facts |= self._figures()
        else:
            facts |= {"tokens_in": sum(map(len, self.prompts)), "tokens_out": self.tokens}
        if log.prompts:
            facts["prompts"] = [visit.lease.engine.tokenizer.decode(tokens) for tokens in self.prompts]
            facts["answers"] = [a.text for r in self.results if r is not None for a in r.answers]
        if self.whole:
            log.info("request", **facts)
        elif isinstance(error, EngineError) or (error is not None and not isinstance(error, CutawayError | ApiError)):
            log.error("request", **facts, finish="error", error=str(error), exc_info=error)
        elif error is not None:
            log.info("request", **facts, finish="error", error=str(error))
        else:
            visit.service.metrics.cancelled(visit.model)
            log.info("request", **facts, finish="cancelled")

    def _keep_waterfall(self) -> None:
        """What the first prompt waited for, if it came to an answer."""
        done, visit = self.results[0] if self.results else None, self.visit
        if done is None or not self.first:
            return
        moments = (visit.began / 1e9, visit.entered / 1e9, self.submitted / 1e9, self.first / 1e9)
        parts = waterfall_parts(*moments, done.timings.queued, done.timings.prefill)
        visit.service.watching.waterfalls.add(
            Waterfall(
                visit.id, visit.caller, visit.model, visit.began / 1e9, parts, done.usage.prompt_tokens,
                done.usage.cached_tokens, done.timings.preemptions, done.broke.reason if done.broke else None,
            )
        )  # fmt: skip

    def _story(self, error: BaseException | None, status: int) -> Story:
        visit, usage = self.visit, self.usage()
        failed = "" if self.whole or error is None else type(error).__name__
        if isinstance(error, Exception):
            failed = as_api_error(error).code or failed
        return Story(
            visit.id, visit.route.path, visit.route.operation, visit.model, visit.lease.alias or visit.model,
            visit.headers, visit.began, self.submitted, time_ns(), self.params, self._answered,
            usage.prompt_tokens or sum(map(len, self.prompts)), usage.completion_tokens or self.tokens,
            usage.cached_tokens, failed if self.whole or error is not None else "cancelled",
            status,
        )  # fmt: skip

    def _figures(self) -> dict[str, Any]:
        done = [result for result in self.results if result is not None]
        usage, times, broke = self.usage(), done[0].timings, done[0].broke
        tokens = len(done[0].token_ids)
        return {
            "tokens_in": usage.prompt_tokens, "tokens_out": usage.completion_tokens, "cached": usage.cached_tokens,
            "hit_rate": round(usage.cached_tokens / usage.prompt_tokens, 3) if usage.prompt_tokens else 0.0,
            "queue_ms": round(times.queued * 1e3, 1), "ttft_ms": round(times.ttft * 1e3, 1),
            "tpot_ms": round(times.decode * 1e3 / (tokens - 1), 2) if tokens > 1 else None,
            "total_ms": round(times.total * 1e3, 1), "finish": done[0].stop.kind, "seed": done[0].seed,
            "repetition_score": round(max(self._scores, default=0.0), 3),
        } | ({} if broke is None else {"broke_at": broke.at, "broke_by": broke.reason})  # fmt: skip


def timings_json(done: Result, *, shared: bool) -> dict[str, Any]:
    """The times of the first answer to a prompt in seconds, rates in tokens per second, and the cached part of the
    prompt.

    shared: whether the prompt was compared with prefixes of other callers.
    """
    times, usage = done.timings, done.usage
    computed, later = usage.prompt_tokens - usage.cached_tokens, max(0, len(done.token_ids) - 1)
    return {
        "queued": times.queued, "prefill": times.prefill, "decode": times.decode, "total": times.total,
        "ttft": times.ttft, "preemptions": times.preemptions, "drafted": times.drafted,
        "accepted": times.accepted, "prompt_tokens": usage.prompt_tokens,
        "cached_tokens": usage.cached_tokens, "cache": _cache(done, shared),
        "prefill_per_second": computed / times.prefill if times.prefill else None,
        "decode_per_second": later / times.decode if times.decode else None,
    }  # fmt: skip


def _cache(done: Result, shared: bool) -> dict[str, Any]:
    """The cached part of the prompt and the first token that was not cached; null if nothing broke the match.

    If prefixes are shared between callers, the break is not described: the expected tokens, and even their existence,
    may belong to another caller.
    """
    at, token, reason, expected = None, None, None, []
    if done.broke is not None and not shared:
        at, token, reason, expected = done.broke.at, done.broke.token, done.broke.reason, list(done.broke.expected)
    return {
        "cached_tokens": done.usage.cached_tokens, "broke_at": at, "reason": reason, "token": token,
        "expected": expected,
    }  # fmt: skip
