"""Spans, into a list instead of a collector; and over HTTP, to a collector of the test's own."""

from __future__ import annotations

import subprocess
import sys
import threading
from collections.abc import Iterator
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

import pytest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import SpanKind, StatusCode

from cutaway.config import LimitsConfig, TelemetryConfig, parse_config
from cutaway.engine import Timings
from cutaway.errors import ConfigError
from cutaway.sampling import SamplingParams
from cutaway.server.observe.tracing import Answered, Story, make_telemetry, telemetry_to, wanted
from server.serving import CHAT, COMPLETIONS, HELLO, Running, config_for, raw_request, running, until

TRACE, PARENT = "4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7"
SECOND = 10**9
STORY = Story(
    id="r1", route=CHAT, operation="chat", model="small", asked="alias",
    headers={"traceparent": f"00-{TRACE}-{PARENT}-01"},
    began=100 * SECOND, submitted=101 * SECOND, ended=110 * SECOND, params=SamplingParams(temperature=0.5, seed=3),
    answers=[Answered(Timings(1.0, 2.0, 3.0, 6.0), "stop"), Answered(Timings(1.0, 2.0, 5.0, 8.0), "length")],
    tokens_in=7, tokens_out=9, cached=4,
)  # fmt: skip


@pytest.fixture(autouse=True)
def no_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("OTEL_EXPORTER_OTLP_ENDPOINT", "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "OTEL_SDK_DISABLED"):
        monkeypatch.delenv(name, raising=False)


def told(story: Story) -> dict[str, list[ReadableSpan]]:
    exporter = InMemorySpanExporter()
    telemetry = telemetry_to(SimpleSpanProcessor(exporter), TelemetryConfig())
    telemetry.tell(story)
    spans = by_name(exporter)
    telemetry.close()
    return spans


def by_name(exporter: InMemorySpanExporter) -> dict[str, list[ReadableSpan]]:
    spans: dict[str, list[ReadableSpan]] = {}
    for span in exporter.get_finished_spans():
        spans.setdefault(span.name, []).append(span)
    return spans


def attributes(span: ReadableSpan) -> dict[str, Any]:
    return dict(span.attributes or {})


def test_a_request_is_a_span_with_what_its_answers_waited_for_below() -> None:
    spans = told(STORY)
    (root,) = spans.pop("chat small")
    assert (root.start_time, root.end_time, root.kind) == (100 * SECOND, 110 * SECOND, SpanKind.SERVER)
    assert root.resource.attributes["service.name"] == "cutaway"
    assert {name: [(s.start_time, s.end_time) for s in found] for name, found in spans.items()} == {
        "queue": [(101 * SECOND, 102 * SECOND)] * 2,
        "prefill": [(102 * SECOND, 104 * SECOND)] * 2,
        "decode": [(104 * SECOND, 107 * SECOND), (104 * SECOND, 109 * SECOND)],
    }
    children = [span for found in spans.values() for span in found]
    assert all(s.parent is not None and s.parent.span_id == root.context.span_id for s in children)


def test_the_attributes_are_those_of_the_conventions() -> None:
    said = attributes(told(STORY)["chat small"][0])
    expected = {
        "gen_ai.operation.name": "chat", "gen_ai.provider.name": "cutaway", "gen_ai.request.model": "alias",
        "gen_ai.response.model": "small", "gen_ai.response.id": "r1", "gen_ai.request.temperature": 0.5,
        "gen_ai.request.seed": 3, "gen_ai.response.finish_reasons": ("stop", "length"),
        "gen_ai.usage.input_tokens": 7, "gen_ai.usage.output_tokens": 9, "gen_ai.usage.cache_read.input_tokens": 4,
        "gen_ai.latency.time_to_first_token": 3.0, "gen_ai.latency.time_in_queue": 1.0,
    }  # fmt: skip
    assert expected.items() <= said.items()
    assert "error.type" not in said


def test_the_callers_trace_goes_on() -> None:
    (root,) = told(STORY)["chat small"]
    assert f"{root.context.trace_id:032x}" == TRACE
    assert root.parent is not None and f"{root.parent.span_id:016x}" == PARENT
    assert not told(replace(STORY, headers={"traceparent": f"00-{TRACE}-{PARENT}-00"})), "the caller samples it out"
    (alone,) = told(replace(STORY, headers={"traceparent": "nonsense"}))["chat small"]
    assert alone.parent is None


def test_a_failure_is_an_error_and_a_client_that_left_is_none() -> None:
    (failed,) = told(replace(STORY, error="engine_failed", answers=[]))["chat small"]
    assert failed.status.status_code is StatusCode.ERROR and attributes(failed)["error.type"] == "engine_failed"
    (left,) = told(replace(STORY, error="cancelled", answers=[]))["chat small"]
    assert left.status.status_code is StatusCode.UNSET and attributes(left)["error.type"] == "cancelled"


def test_it_is_wanted_where_config_or_environment_name_a_collector() -> None:
    there = {"OTEL_EXPORTER_OTLP_ENDPOINT": "http://x:4318"}
    assert not wanted(TelemetryConfig(), {})
    assert wanted(TelemetryConfig(), there) and wanted(TelemetryConfig(endpoint="http://x:4318"), {})
    assert not wanted(TelemetryConfig(endpoint="http://x"), there | {"OTEL_SDK_DISABLED": "true"})
    config = parse_config('[telemetry]\nendpoint = "http://x:4318"\nservice_name = "mine"')
    assert config.telemetry == TelemetryConfig("http://x:4318", "mine")
    with pytest.raises(ConfigError, match="http://"):
        make_telemetry(TelemetryConfig(endpoint="x:4317"))


def test_without_the_extra_it_is_refused_with_what_to_do(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "opentelemetry.exporter.otlp.proto.http.trace_exporter", None)
    with pytest.raises(ConfigError, match=r"cutaway\[otel\]"):
        make_telemetry(TelemetryConfig(endpoint="http://127.0.0.1:1"))


def test_who_wants_none_pays_nothing() -> None:
    script = "import sys, cutaway.server; print([m for m in sys.modules if m.startswith('opentelemetry.sdk')])"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


# --- a server ---------------------------------------------------------------------------------------------------------
class Collector(BaseHTTPRequestHandler):
    """Takes OTLP over HTTP."""

    received: list[ExportTraceServiceRequest]

    def do_POST(self) -> None:
        assert self.path == "/v1/traces"
        self.received.append(ExportTraceServiceRequest.FromString(self.rfile.read(int(self.headers["content-length"]))))
        self.send_response(200)
        self.send_header("content-length", "0")
        self.end_headers()

    def log_message(self, format: str, *args: Any) -> None:
        pass


@pytest.fixture
def collector() -> Iterator[tuple[str, list[ExportTraceServiceRequest]]]:
    received: list[ExportTraceServiceRequest] = []
    with HTTPServer(("127.0.0.1", 0), type("Listening", (Collector,), {"received": received})) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{server.server_address[1]}", received
        server.shutdown()
        thread.join()


@pytest.mark.models
def test_a_server_tells_its_collector(
    smollm2_path: Path, collector: tuple[str, list[ExportTraceServiceRequest]]
) -> None:
    url, received = collector
    config = replace(config_for(smollm2_path), telemetry=TelemetryConfig(endpoint=url))
    with running(config) as server:
        assert server.ok(COMPLETIONS, prompt="one two", max_tokens=3, n=2)
    spans = [s for r in received for of in r.resource_spans for scope in of.scope_spans for s in scope.spans]
    assert sorted(span.name for span in spans) == ["decode"] * 2 + ["prefill"] * 2 + ["queue"] * 2 + [
        "text_completion smol"
    ]


@pytest.mark.models
def test_what_a_server_tells_of_a_stream_and_of_a_client_that_leaves(smol: Running) -> None:
    exporter = InMemorySpanExporter()
    smol.service.telemetry = telemetry_to(SimpleSpanProcessor(exporter), TelemetryConfig())
    try:
        smol.client.headers["traceparent"] = f"00-{TRACE}-{PARENT}-01"
        smol.chunks(CHAT, messages=HELLO, max_tokens=4, ignore_eos=True, temperature=0)
        connection = raw_request(smol, COMPLETIONS, {"prompt": "x", "max_tokens": 300, "ignore_eos": True})
        until(lambda: smol.status("smol").running == 1)
        connection.close()
        smol.idle("smol")
        until(lambda: len(by_name(exporter)) == 5)
    finally:
        smol.client.headers.pop("traceparent", None)
        smol.service.telemetry = None
    spans = by_name(exporter)
    (stream,), (left,) = spans["chat smol"], spans["text_completion smol"]
    assert f"{stream.context.trace_id:032x}" == TRACE and left.parent is None
    said = attributes(stream)
    assert said["gen_ai.usage.output_tokens"] == 4 and said["gen_ai.response.finish_reasons"] == ("length",)
    assert attributes(left)["error.type"] == "cancelled" and attributes(left)["gen_ai.usage.input_tokens"] == 1
    (queue,), (prefill,), (decode,) = (spans[name] for name in ("queue", "prefill", "decode"))
    assert (stream.start_time or 0) <= (queue.start_time or 0) and (decode.end_time or 0) <= (stream.end_time or 0)
    assert queue.end_time == prefill.start_time and prefill.end_time == decode.start_time


def refusals(spans: dict[str, list[ReadableSpan]]) -> dict[str, list[tuple[object, object, StatusCode]]]:
    """By name: status, code, and the span's own status."""
    return {
        name: [
            (attributes(s)["http.response.status_code"], attributes(s)["error.type"], s.status.status_code)
            for s in found
        ]
        for name, found in spans.items()
    }


@pytest.mark.models
def test_what_is_refused_is_one_span_with_status_and_code(
    smollm2_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CUTAWAY_API_KEYS", "secret")
    config = replace(config_for(smollm2_path), limits=LimitsConfig(requests_per_minute=4))
    exporter, unset = InMemorySpanExporter(), StatusCode.UNSET
    with running(config) as server:
        server.service.telemetry = telemetry_to(SimpleSpanProcessor(exporter), TelemetryConfig())
        server.refused(CHAT, 401, messages=HELLO)
        server.client.headers.update({"authorization": "Bearer secret", "traceparent": f"00-{TRACE}-{PARENT}-01"})
        server.refused(CHAT, temperature="hot", messages=HELLO)
        server.refused(CHAT, 404, model="nobody", messages=HELLO)
        server.refused("/somewhere", 404)
        server.refused("/v1/messages/count_tokens", messages=[])
        server.refused(COMPLETIONS, prompt="one " * 600)  # the engine refuses it
        server.refused(COMPLETIONS, prompt="one", max_tokens=2, regex="[a-")
        for _ in range(2):
            server.ok(COMPLETIONS, prompt="one", max_tokens=1)
        server.refused(COMPLETIONS, 429, prompt="one")
        server.service.admission.drain()
        server.refused(CHAT, 503, messages=HELLO)
        server.service.telemetry = None
    spans = by_name(exporter)
    told = refusals({name: found for name, found in spans.items() if name.startswith("POST")})
    assert told == {
        f"POST {CHAT}": [
            (401, "invalid_api_key", unset), (400, "parameter_invalid", unset), (404, "model_not_found", unset),
            (503, "shutting_down", StatusCode.ERROR),
        ],
        "POST": [(404, "route_not_found", unset)],
        "POST /v1/messages/count_tokens": [(400, "messages_invalid", unset)],
        f"POST {COMPLETIONS}": [(429, "rate_limit_exceeded", unset)],
    }  # fmt: skip
    began = {s.name: s for found in spans.values() for s in found}["POST"]
    assert f"{began.context.trace_id:032x}" == TRACE and (began.start_time or 0) <= (began.end_time or 0)
    reached = [attributes(s) for s in spans["text_completion smol"]]
    assert [(a["http.response.status_code"], a.get("error.type")) for a in reached] == [
        (400, "context_length_exceeded"), (400, "parameter_invalid"), (200, None), (200, None),
    ]  # fmt: skip
    assert all(s.status.status_code is unset for s in spans["text_completion smol"])
