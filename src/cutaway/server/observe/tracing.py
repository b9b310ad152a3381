"""OpenTelemetry: a span per request, with child spans for the queue, prefill and decode times of each answer.

A request that is refused before it reaches a model has a span too, with the status and the code of its error. Spans are
created when a request has ended, from the times that the engine measures anyway. The attributes are those of the
semantic conventions for generative AI, without prompts and answers.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from cutaway.config import TelemetryConfig
from cutaway.engine import Timings
from cutaway.errors import ConfigError
from cutaway.sampling import SamplingParams

if TYPE_CHECKING:
    from opentelemetry.context import Context
    from opentelemetry.sdk.trace import SpanProcessor, TracerProvider

ENDPOINTS = ("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "OTEL_EXPORTER_OTLP_ENDPOINT")
INSTALL = "pip install 'cutaway[otel]'"
_PARAMS = ("temperature", "top_p", "top_k", "max_tokens", "seed", "presence_penalty", "frequency_penalty")


@dataclass(frozen=True, slots=True)
class Answered:
    """One answer. reason: the API's finish reason."""

    times: Timings
    reason: str


@dataclass(frozen=True, slots=True)
class Story:
    """One finished request.

    route: its path in the table of routes. operation: what it generates. asked: the request's name of the model.
    headers: of the request. began, submitted, ended: nanoseconds since 1970; submitted: when the engine got the
    request. answers: those that ended. error: the reason of a failure, "cancelled" if the client disconnected,
    otherwise "". status: of the reply.
    """

    id: str
    route: str
    operation: str
    model: str
    asked: str
    headers: Mapping[str, str]
    began: int
    submitted: int
    ended: int
    params: SamplingParams
    answers: Sequence[Answered]
    tokens_in: int
    tokens_out: int
    cached: int
    error: str = ""
    status: int = 200


@dataclass(frozen=True, slots=True)
class Refusal:
    """One request that did not reach a model. route: as in the table, or "" for a path that is not served (their number
    is unlimited). began, ended: nanoseconds since 1970. status, code: of the reply."""

    id: str
    method: str
    route: str
    headers: Mapping[str, str]
    began: int
    ended: int
    status: int
    code: str


class Telemetry:
    """The export of one server's spans to a collector."""

    def __init__(self, provider: TracerProvider) -> None:
        from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

        self._provider = provider
        self._tracer = provider.get_tracer("cutaway")
        self._propagator = TraceContextTextMapPropagator()

    def tell(self, story: Story) -> None:
        """A request has ended."""
        from opentelemetry.trace import SpanKind, Status, StatusCode, set_span_in_context

        above = self._propagator.extract(story.headers)  # W3C traceparent, tracestate
        span = self._tracer.start_span(
            f"{story.operation} {story.model}", context=above, kind=SpanKind.SERVER, start_time=story.began,
            attributes=_attributes(story),
        )  # fmt: skip
        if span.is_recording():
            if story.error and (story.status >= 500 or story.status == 200) and story.error != "cancelled":
                span.set_status(Status(StatusCode.ERROR, story.error))
            for number, answer in enumerate(story.answers):
                self._phases(story.submitted, number, answer.times, set_span_in_context(span))
        span.end(story.ended)

    def refused(self, refusal: Refusal) -> None:
        """A request has ended before it reached a model. According to the conventions for HTTP, an error of the caller
        is not a failure of this span."""
        from opentelemetry.trace import SpanKind, Status, StatusCode

        said: dict[str, Any] = {
            "http.request.method": refusal.method, "http.response.status_code": refusal.status,
            "error.type": refusal.code, "cutaway.request.id": refusal.id,
        }  # fmt: skip
        span = self._tracer.start_span(
            f"{refusal.method} {refusal.route}".rstrip(), context=self._propagator.extract(refusal.headers),
            kind=SpanKind.SERVER, start_time=refusal.began,
            attributes=said | ({"http.route": refusal.route} if refusal.route else {}),
        )  # fmt: skip
        if refusal.status >= 500:
            span.set_status(Status(StatusCode.ERROR, refusal.code))
        span.end(refusal.ended)

    def _phases(self, start: int, choice: int, times: Timings, within: Context) -> None:
        for name, seconds in (("queue", times.queued), ("prefill", times.prefill), ("decode", times.decode)):
            end = start + int(seconds * 1e9)
            span = self._tracer.start_span(name, within, start_time=start, attributes={"cutaway.choice": choice})
            span.end(end)
            start = end

    def close(self) -> None:
        """Send the remaining spans. May take seconds if the collector does not respond."""
        self._provider.shutdown()


def _attributes(story: Story) -> dict[str, Any]:
    said: dict[str, Any] = {
        "gen_ai.operation.name": story.operation,
        "gen_ai.provider.name": "cutaway",
        "gen_ai.request.model": story.asked,
        "gen_ai.request.choice.count": story.params.n if story.params.n > 1 else None,
        **{f"gen_ai.request.{name}": getattr(story.params, name) for name in _PARAMS},
        "gen_ai.response.id": story.id,
        "gen_ai.response.model": story.model,
        "gen_ai.response.finish_reasons": [answer.reason for answer in story.answers] or None,
        "gen_ai.usage.input_tokens": story.tokens_in,
        "gen_ai.usage.output_tokens": story.tokens_out,
        "gen_ai.usage.cache_read.input_tokens": story.cached,
        "http.route": story.route,
        "http.response.status_code": story.status,
        "error.type": story.error or None,
    }
    if story.answers:
        times = story.answers[0].times
        said |= {
            "gen_ai.latency.time_in_queue": times.queued,
            "gen_ai.latency.time_to_first_token": times.ttft,
            "gen_ai.latency.e2e": times.total,
            "cutaway.preemptions": times.preemptions,
        }
    return {name: value for name, value in said.items() if value is not None}


def wanted(config: TelemetryConfig, environment: Mapping[str, str] = os.environ) -> bool:
    """Whether the config or the environment sets a collector."""
    if environment.get("OTEL_SDK_DISABLED", "").lower() == "true":
        return False
    return config.endpoint is not None or any(environment.get(name) for name in ENDPOINTS)


def make_telemetry(config: TelemetryConfig) -> Telemetry:
    """Telemetry to the configured collector, over HTTP. Raises ConfigError, also if the extra is not installed."""
    if config.endpoint is not None and not config.endpoint.startswith(("http://", "https://")):
        raise ConfigError(f"telemetry.endpoint is {config.endpoint!r}; it must begin with http:// or https://")
    try:
        from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
        from opentelemetry.sdk.trace.export import BatchSpanProcessor
    except ImportError as error:
        said = f"telemetry needs OpenTelemetry, and {error.name} is not installed"
        raise ConfigError(said, hint=INSTALL) from None
    # Without an endpoint in the config, the exporter reads the environment's, with its headers, timeout and
    # compression.
    endpoint = None if config.endpoint is None else f"{config.endpoint.rstrip('/')}/v1/traces"
    return telemetry_to(BatchSpanProcessor(OTLPSpanExporter(endpoint=endpoint)), config)


def telemetry_to(processor: SpanProcessor, config: TelemetryConfig) -> Telemetry:
    """Telemetry to any span processor. The service name and the sampling are set by the environment."""
    from opentelemetry.sdk.resources import SERVICE_NAME, Resource
    from opentelemetry.sdk.trace import TracerProvider

    resource = Resource.create({} if config.service_name is None else {SERVICE_NAME: config.service_name})
    if str(resource.attributes.get(SERVICE_NAME, "unknown_service")).startswith("unknown_service"):
        resource = resource.merge(Resource({SERVICE_NAME: "cutaway"}))
    provider = TracerProvider(resource=resource, shutdown_on_exit=False)
    provider.add_span_processor(processor)
    return Telemetry(provider)
