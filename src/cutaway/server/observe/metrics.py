"""The metrics for Prometheus, under vLLM's names where the meaning is the same, otherwise under cutaway's."""

from __future__ import annotations

from collections.abc import Iterable

from prometheus_client import CollectorRegistry, Counter, Histogram, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from cutaway.cache import PrefixBreak
from cutaway.engine import Status, Timings, Usage
from cutaway.server.models.pool import Roster
from cutaway.server.observe.logs import Log
from cutaway.server.transport.admission import Admission

_FAST = (0.001, 0.0025, 0.005, 0.01, 0.02, 0.04, 0.06, 0.08, 0.1, 0.15, 0.25, 0.5, 1, 2.5, 5, 10, 20, 40, 80, 160)
_SLOW = (0.1, 0.3, 0.5, 0.8, 1, 1.5, 2, 2.5, 5, 10, 15, 20, 30, 40, 60, 120, 240, 480, 960)
_TOKENS = (1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 2000, 5000, 10_000, 20_000, 50_000)
_SHARES = (0.02, 0.05, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 0.95, 1.0)
STATES = ("unloaded", "loading", "ready", "unloading", "failed")


class Metrics:
    """One server's metrics, in a registry of their own."""

    def __init__(self, roster: Roster, admission: Admission, log: Log) -> None:
        self._registry = CollectorRegistry()
        self._registry.register(_Engines(roster, admission, log))
        name = ("model_name",)

        def counter(metric: str, what: str, *labels: str) -> Counter:
            return Counter(metric, what, (*name, *labels), registry=self._registry)

        def histogram(metric: str, what: str, buckets: tuple[float, ...]) -> Histogram:
            return Histogram(metric, what, name, registry=self._registry, buckets=buckets)

        self._breaks = counter("cutaway:prefix_breaks", "Prompts not cached to their end, by reason.", "reason")
        self._success = counter("vllm:request_success", "Answers that ended.", "finished_reason")
        self._stops = counter("cutaway:stops", "Answers by the kind of their stop.", "kind")
        self._cancelled = counter("cutaway:cancelled", "Requests whose client disconnected.")
        self._first = histogram("vllm:time_to_first_token_seconds", "From arrival to the first token.", _FAST)
        self._between = histogram("vllm:inter_token_latency_seconds", "From a token to the next one.", _FAST)
        self._whole = histogram("vllm:e2e_request_latency_seconds", "From arrival to the end.", _SLOW)
        self._queue = histogram("vllm:request_queue_time_seconds", "From arrival to the first step.", _FAST)
        self._prefill = histogram("vllm:request_prefill_time_seconds", "From the first step to the first token.", _FAST)
        self._decode = histogram("vllm:request_decode_time_seconds", "From the first token to the end.", _SLOW)
        self._prompt_sizes = histogram("vllm:request_prompt_tokens", "Tokens of a prompt.", _TOKENS)
        self._answer_sizes = histogram("vllm:request_generation_tokens", "Tokens of an answer.", _TOKENS)
        what = "Share of an answer's runs of four tokens that stood in it before."
        self._repetition = histogram("cutaway:repetition_score", what, _SHARES)
        self._compile = histogram("cutaway:grammar_compile_seconds", "Compilation of constraints.", _FAST)

    def repetition(self, model: str, score: float) -> None:
        """An answer ended. score: its repetition_score."""
        self._repetition.labels(model).observe(score)

    def compiled(self, model: str, seconds: float) -> None:
        """A constraint was compiled or found in the cache."""
        self._compile.labels(model).observe(seconds)

    def first_token(self, model: str, seconds: float) -> None:
        """An answer began this many seconds after its request arrived."""
        self._first.labels(model).observe(seconds)

    def next_token(self, model: str, seconds: float) -> None:
        """A token arrived this many seconds after the previous one."""
        self._between.labels(model).observe(seconds)

    def answered(self, model: str, kind: str, reason: str, usage: Usage, times: Timings) -> None:
        """An answer ended. kind: of its stop. reason: the API's finish reason."""
        self._stops.labels(model, kind).inc()
        self._success.labels(model, "length" if reason == "length" else "stop").inc()
        self._answer_sizes.labels(model).observe(usage.completion_tokens)
        self._queue.labels(model).observe(times.queued)
        if usage.completion_tokens:
            self._prefill.labels(model).observe(times.prefill)
            self._decode.labels(model).observe(times.decode)
        self._whole.labels(model).observe(times.total)

    def cut(self, model: str, kind: str, tokens: int, seconds: float) -> None:
        """An answer ended early. kind: cancelled or error. seconds: since its request arrived."""
        self._stops.labels(model, kind).inc()
        self._success.labels(model, "abort" if kind == "cancelled" else "error").inc()
        self._answer_sizes.labels(model).observe(tokens)
        self._whole.labels(model).observe(seconds)

    def prompt(self, model: str, tokens: int, broke: PrefixBreak | None) -> None:
        """All answers to a prompt ended. broke: the part of it that was not in the cache, and why."""
        self._prompt_sizes.labels(model).observe(tokens)
        if broke is not None:
            self._breaks.labels(model, broke.reason).inc()

    def cancelled(self, model: str) -> None:
        self._cancelled.labels(model).inc()

    def text(self) -> bytes:
        """The text of /metrics."""
        return generate_latest(self._registry)


class _Engines(Collector):
    """Values that are read from the engines when the metrics are requested."""

    def __init__(self, roster: Roster, admission: Admission, log: Log) -> None:
        self._log = log
        self._roster = roster
        self._admission = admission

    def collect(self) -> Iterable[Metric]:
        statuses = {n: s.engine.status() for n, s in self._roster.models.items() if s.engine is not None}
        yield from _requests(statuses)
        yield from _pages(statuses)
        yield from self._models()
        refused = CounterMetricFamily("cutaway:refused", "Requests refused, by limit.", labels=["reason"])
        for reason, count in self._admission.refused.items():
            refused.add_metric([reason], count)
        yield refused
        dropped = CounterMetricFamily("cutaway:log_lines_dropped", "Lines of the log that could not be written.")
        dropped.add_metric([], self._log.dropped)
        yield dropped

    def _models(self) -> Iterable[Metric]:
        info = GaugeMetricFamily("cutaway_model_info", "1 for each served model.", labels=["name", "sha256"])
        state = GaugeMetricFamily(
            "cutaway:model_state", "1 for the state a model is in.", labels=["model_name", "state"]
        )
        for name, served in self._roster.models.items():
            info.add_metric([name, served.sha256], 1)
            for word in STATES:
                state.add_metric([name, word], int(served.state == word))
        memory = GaugeMetricFamily("cutaway:memory_bytes", "Memory of models.", labels=["of"])
        memory.add_metric(["taken"], self._roster.taken)
        if self._roster.budget is not None:
            memory.add_metric(["budget"], self._roster.budget)
        return [info, state, memory]


def _requests(statuses: dict[str, Status]) -> Iterable[Metric]:
    name = ["model_name"]
    running = GaugeMetricFamily("vllm:num_requests_running", "Answers in the running batch.", labels=name)
    waiting = GaugeMetricFamily("vllm:num_requests_waiting", "Waiting answers.", labels=name)
    preempted = CounterMetricFamily("vllm:num_preemptions", "Preemptions of answers.", labels=name)
    steps = CounterMetricFamily("cutaway:steps", "Forward passes.", labels=name)
    busy = CounterMetricFamily("cutaway:step_seconds", "Seconds spent in forward passes.", labels=name)
    drafted = CounterMetricFamily("vllm:spec_decode_num_draft_tokens", "Drafted tokens.", labels=name)
    accepted = CounterMetricFamily("vllm:spec_decode_num_accepted_tokens", "Accepted drafted tokens.", labels=name)
    prompts = CounterMetricFamily("vllm:prompt_tokens", "Tokens of prompts whose prefill is complete.", labels=name)
    generated = CounterMetricFamily("vllm:generation_tokens", "Tokens of answers.", labels=name)
    queries = CounterMetricFamily("vllm:prefix_cache_queries", "Prompt tokens looked up in the cache.", labels=name)
    hits = CounterMetricFamily("vllm:prefix_cache_hits", "Prompt tokens found in the cache.", labels=name)
    for model, status in statuses.items():
        for metric, value in (
            (prompts, status.counts.prompt), (generated, status.counts.generated),
            (queries, status.counts.looked_up), (hits, status.counts.found), (running, status.running),
            (waiting, status.waiting), (preempted, status.preemptions),
            (steps, status.steps), (busy, status.busy), (drafted, status.drafted), (accepted, status.accepted),
        ):  # fmt: skip
            metric.add_metric([model], value)
    return [running, waiting, preempted, steps, busy, drafted, accepted, prompts, generated, queries, hits]


def _pages(statuses: dict[str, Status]) -> Iterable[Metric]:
    usage = GaugeMetricFamily("vllm:kv_cache_usage_perc", "Share of the pages in use, 0 to 1.", labels=["model_name"])
    pages = GaugeMetricFamily("cutaway:kv_pages", "Pages by state.", labels=["model_name", "window", "state"])
    for model, status in statuses.items():
        totals = [(p.held, p.free + p.held + p.cached) for p in status.pages]
        usage.add_metric([model], max((held / total for held, total in totals if total), default=0.0))
        for group in status.pages:
            window = "full" if group.window is None else str(group.window)
            for word, count in (("free", group.free), ("held", group.held), ("cached", group.cached)):
                pages.add_metric([model, window, word], count)
    return [usage, pages]
