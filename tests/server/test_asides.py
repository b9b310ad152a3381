"""The fields of every API beside the answers: warnings, seed, timings, and the cached part of the prompt."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest

from server.serving import CHAT, COMPLETIONS, HELLO, Running

pytestmark = pytest.mark.models

ROUTES: dict[str, dict[str, Any]] = {
    CHAT: {"messages": HELLO, "max_tokens": 2},
    COMPLETIONS: {"prompt": "1 2 3", "max_tokens": 2},
    "/v1/responses": {"input": "Say hello.", "max_output_tokens": 2},
    "/v1/messages": {"messages": HELLO, "max_tokens": 2},
}


def streamed(server: Running, path: str, fields: dict[str, Any]) -> dict[str, Any]:
    """What the events of a stream tell beside the answer, wherever it stands in them."""
    found: dict[str, Any] = {}
    for event in server.events(path, **fields):
        told = json.loads(event) if event != "[DONE]" else {}
        for part in (told, told.get("response", {})):
            for name in {"warnings", "seed", "timings"} & part.keys():
                assert name not in found, "told twice"
                found[name] = part[name]
    return found


@pytest.mark.parametrize("path", ROUTES)
def test_each_route_tells_the_same_streamed_or_not(smol: Running, path: str) -> None:
    fields = ROUTES[path] | {"seed": 7, "unheard_of": 1, "temperature": 0}
    for reply in (smol.ok(path, **fields), streamed(smol, path, fields)):
        assert reply["seed"] == 7 and "unheard_of" in reply["warnings"][0] and "timings" not in reply
    for reply in (smol.ok(path, **fields, timings=True), streamed(smol, path, fields | {"timings": True})):
        timings = reply["timings"]
        assert timings["total"] > 0 and timings["drafted"] == 0
        assert timings["cache"]["cached_tokens"] == timings["cached_tokens"]
    for reply in (smol.ok(path, **ROUTES[path]), streamed(smol, path, ROUTES[path])):
        assert "warnings" not in reply and isinstance(reply["seed"], int)


@pytest.mark.parametrize("path", ["/v1/responses", "/v1/messages"])
def test_one_answer_where_there_is_room_for_one(smol: Running, path: str) -> None:
    assert smol.ok(path, **ROUTES[path], n=1)
    error = smol.post(path, **ROUTES[path], n=2)
    assert error.status_code == 400 and "n is 2" in error.json()["error"]["message"]


@pytest.mark.parametrize("path", ["/v1/responses", "/v1/messages"])
@pytest.mark.parametrize("name", ["prompt_logprobs", "return_token_ids"])
def test_what_an_api_has_no_place_for_is_refused(smol: Running, path: str, name: str) -> None:
    error = smol.refused(path, **ROUTES[path], **{name: 2 if name == "prompt_logprobs" else True})
    assert name in error["message"]
    assert smol.ok(path, **ROUTES[path], **{name: None})


def test_token_ids_of_prompts_and_answers(smol: Running) -> None:
    asked: dict[str, Any] = {"prompt": [[5, 6], [7, 8, 9]], "max_tokens": 2, "temperature": 0, "return_token_ids": True}
    choices = smol.ok(COMPLETIONS, **asked)["choices"]
    assert [choice["prompt_token_ids"] for choice in choices] == asked["prompt"]
    told = [c for chunk in smol.chunks(COMPLETIONS, **asked) for c in chunk["choices"]]
    for choice in choices:
        mine = [c for c in told if c["index"] == choice["index"]]
        assert [t for c in mine for t in c.get("token_ids", ())] == choice["token_ids"]
        assert [c["prompt_token_ids"] for c in mine if "prompt_token_ids" in c] == [choice["prompt_token_ids"]]


def test_messages_of_a_form(smol: Running) -> None:
    """Anthropic's structured outputs; what this server would have to run elsewhere is refused."""
    schema = {
        "type": "object", "properties": {"ok": {"type": "boolean"}}, "required": ["ok"], "additionalProperties": False,
    }  # fmt: skip
    form = {"type": "json_schema", "schema": schema}
    fields: dict[str, Any] = {"messages": HELLO, "max_tokens": 40, "temperature": 0}
    for said in ({"output_config": {"format": form, "effort": "low"}}, {"output_format": form}):
        (block,) = smol.ok("/v1/messages", **fields, **said)["content"]
        assert isinstance(json.loads(block["text"])["ok"], bool)
    assert "has 5" in smol.refused("/v1/messages", **fields, output_config={"format": form | {"schema": 5}})["message"]
    assert "a format that" in smol.refused("/v1/messages", **fields, output_format={"type": "xml"})["message"]
    assert "mcp_servers" in smol.refused("/v1/messages", **fields, mcp_servers=[{"url": "http://x"}])["message"]
    assert "warnings" not in smol.ok("/v1/messages", **fields, mcp_servers=[], output_config={"effort": "low"})


def test_logprobs_that_are_included(smol: Running) -> None:
    asked = ROUTES["/v1/responses"] | {"include": ["message.output_text.logprobs"]}
    logprobs = smol.ok("/v1/responses", **asked)["output"][0]["content"][0]["logprobs"]
    assert len(logprobs) == 2 and all(entry["top_logprobs"] == [] for entry in logprobs)


def test_streamed_deltas_of_responses_carry_their_logprobs(smol: Running) -> None:
    asked = {"input": "Count to five.", "max_output_tokens": 12, "temperature": 0, "top_logprobs": 2}
    whole = smol.ok("/v1/responses", **asked)["output"][0]["content"][0]
    events = [json.loads(event) for event in smol.events("/v1/responses", **asked)]
    deltas = [event for event in events if event["type"] == "response.output_text.delta"]
    for delta in deltas:
        assert "".join(entry["token"] for entry in delta["logprobs"]) == delta["delta"]
        assert all(len(entry["top_logprobs"]) == 2 for entry in delta["logprobs"])
    (done,) = [event for event in events if event["type"] == "response.output_text.done"]
    assert [entry for delta in deltas for entry in delta["logprobs"]] == done["logprobs"] == whole["logprobs"]
    assert "".join(entry["token"] for entry in whole["logprobs"]) == whole["text"]


def breaks(server: Running) -> dict[str, float]:
    """The counter, by reason."""
    page = server.client.get("/metrics").text
    found = re.findall(r'^cutaway:prefix_breaks_total\{.*reason="(\w+)"\} (\S+)$', page, re.M)
    return {reason: float(count) for reason, count in found}


def test_what_broke_the_match_of_a_prompt_is_told(smol: Running) -> None:
    """In the timings, the log and the metrics."""
    prompt = list(range(3000, 3040))
    fields: dict[str, Any] = {"max_tokens": 1, "timings": True, "cache_salt": "breaks"}
    changed = [*prompt[:20], 77, *prompt[21:]]
    before = breaks(smol)
    told = [smol.ok(COMPLETIONS, prompt=p, **fields)["timings"]["cache"] for p in (prompt, changed, prompt)]
    whole = {"broke_at": None, "reason": None, "token": None, "expected": []}
    assert told == [
        {"cached_tokens": 0, "broke_at": 0, "reason": "never_seen", "token": 3000, "expected": []},
        {"cached_tokens": 16, "broke_at": 20, "reason": "prompt_changed", "token": 77, "expected": [3020]},
        {"cached_tokens": told[2]["cached_tokens"]} | whole,
    ]
    assert told[2]["cached_tokens"] >= 32
    entries = [entry for entry in smol.log() if entry["event"] == "request"][-3:]
    assert [(e.get("broke_at"), e.get("broke_by")) for e in entries] == [
        (0, "never_seen"), (20, "prompt_changed"), (None, None),
    ]  # fmt: skip
    after = breaks(smol)
    assert {reason: after[reason] - before.get(reason, 0) for reason in ("never_seen", "prompt_changed")} == {
        "never_seen": 1, "prompt_changed": 1,
    }  # fmt: skip


def test_how_much_an_answer_repeats_itself_is_told(smol: Running) -> None:
    """In the log and the metrics: here one token thirty times, and three tokens, in which nothing can repeat."""

    def counted() -> tuple[float, float]:
        page = smol.client.get("/metrics").text
        found = [re.findall(rf"^cutaway:repetition_score_{end}\{{.*\}} (\S+)$", page, re.M) for end in ("sum", "count")]
        return float(found[0][0]) if found[0] else 0.0, float(found[1][0]) if found[1] else 0.0

    (before, answers), fields = counted(), {"prompt": "a", "max_tokens": 30, "ignore_eos": True}
    smol.ok(COMPLETIONS, **fields, allowed_tokens=[100])
    entry = [entry for entry in smol.log() if entry["event"] == "request"][-1]
    assert entry["repetition_score"] == pytest.approx(26 / 27, abs=1e-3)
    smol.ok(COMPLETIONS, prompt="a", max_tokens=3)
    entry = [entry for entry in smol.log() if entry["event"] == "request"][-1]
    assert entry["repetition_score"] == 0
    assert counted() == (pytest.approx(before + 26 / 27), answers + 2)


@pytest.mark.parametrize(("policy", "kind"), [("stop", "repetition"), ("cool", "length"), ("warn", "length")])
def test_what_is_done_about_a_loop(smol: Running, policy: str, kind: str) -> None:
    fields = {"prompt": "a", "max_tokens": 260, "ignore_eos": True, "allowed_tokens": [100], "on_repetition": policy}
    reply = smol.ok(COMPLETIONS, **fields)
    entry = [entry for entry in smol.log() if entry["event"] == "request"][-1]
    assert entry["finish"] == kind
    assert ("goes round in circles" in str(reply.get("warnings"))) == (policy != "stop")


@pytest.mark.parametrize("name", ["guarding", "template", "source", "strftime_now", "options"])
def test_no_name_of_a_template_variable_is_a_fault_of_the_server(smol: Running, name: str) -> None:
    reply = smol.ok("/apply-template", messages=HELLO, chat_template_kwargs={name: "x"})
    assert reply["prompt"].endswith("<|im_start|>assistant\n")
