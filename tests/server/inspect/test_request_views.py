"""/x/requests/{id}/prompt and /trace: of one's own requests; measuring ops is the admin's."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from threading import Event
from typing import Any

import httpx
import pytest

import cutaway.server.inspect.request_views as route
from cutaway.config import RecordConfig
from server.serving import CHAT, Running, bearer, config_for, running, until

pytestmark = pytest.mark.models
KEYS = ("first-key", "second-key")
VIEWS = ("prompt", "trace")


@pytest.fixture(scope="module")
def keyed(smollm2_path: Path) -> Iterator[Running]:
    with running(config_for(smollm2_path, api_keys=KEYS)) as server:
        chat = [{"role": "user", "content": "A secret 你好<|im_end|>"}]
        headers = {"authorization": "Bearer first-key", "x-request-id": "mine"}
        fields = {"messages": chat, "max_tokens": 5, "ignore_eos": True}
        assert server.client.post(CHAT, json=fields, headers=headers).status_code == 200
        until(lambda: look(server, "requests/mine").status_code == 200)
        yield server


def look(server: Running, path: str, key: str | None = None) -> httpx.Response:
    token = server.service.admin.value if key is None else key
    return server.client.get(f"/x/{path}", headers=bearer(token))


def told(server: Running, path: str, key: str | None = None) -> Any:
    reply = look(server, path, key)
    assert reply.status_code == 200, reply.text
    return reply.json()


@pytest.mark.parametrize("view", VIEWS)
def test_nothing_of_one_key_reaches_another(keyed: Running, view: str) -> None:
    assert told(keyed, f"requests/mine/{view}", "first-key") == told(keyed, f"requests/mine/{view}")
    refused, missing = (look(keyed, f"requests/{name}/{view}", "second-key") for name in ("mine", "none"))
    assert refused.status_code == missing.status_code == 404 and "secret" not in refused.text
    assert refused.json()["error"]["code"] == missing.json()["error"]["code"] == "record_not_found"
    assert keyed.client.get(f"/x/requests/mine/{view}").status_code == 401


def test_the_prompt_as_the_model_saw_it(keyed: Running) -> None:
    record, view = told(keyed, "requests/mine"), told(keyed, "requests/mine/prompt")
    assert [token["id"] for token in view["tokens"]] == record["prompt_ids"]
    assert "A secret 你好<|im_end|>" in view["text"] and {token["by"] for token in view["tokens"]} == {"unknown"}
    assert view["shares"][0]["of_context"] == pytest.approx(len(record["prompt_ids"]) / 512)


def test_stages_for_its_owner_and_ops_for_the_admin(keyed: Running) -> None:
    mine = told(keyed, "requests/mine/trace", "first-key")
    assert mine["tokens"] == 5 and mine["answer_ops"] == [] and "ops=true" in mine["why_no_ops"]
    assert sum(step["reads"] for step in mine["steps"]) >= 1
    refused = look(keyed, "requests/mine/trace?ops=true", "first-key")
    assert refused.status_code == 403 and refused.json()["error"]["code"] == "admin_only"
    view = told(keyed, "requests/mine/trace?ops=true")
    assert view["places"] and view["ops_ms"] > 0 and {row["part"] for row in view["answer_ops"]} >= {"layers", "head"}
    assert look(keyed, "requests/mine/trace?ops=maybe").status_code == 400
    assert look(keyed, "requests/mine/trace?unknown=1").status_code == 400


def test_figures_alone_have_no_prompt(smollm2_path: Path) -> None:
    config = replace(config_for(smollm2_path), record=RecordConfig(level="figures"))
    with running(config) as server:
        chat = [{"role": "user", "content": "Hi"}]
        headers = {"x-request-id": "figures"}
        assert server.client.post(CHAT, json={"messages": chat, "max_tokens": 2}, headers=headers).status_code == 200
        until(lambda: look(server, "requests/figures").status_code == 200)
        assert look(server, "requests/figures/prompt").json()["error"]["code"] == "record_incomplete"
        assert told(server, "requests/figures/trace?ops=true")["why_no_ops"] == "the record has no token ids"


def test_a_caller_has_one_computed_at_a_time(keyed: Running, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever looks at long prompts again and again takes no thread in which others' prompts are prepared."""
    began, leave = Event(), Event()

    def slow(*_: Any) -> dict[str, Any]:
        began.set()
        assert leave.wait(60)
        return {}

    monkeypatch.setattr(route, "_prompt", slow)
    with ThreadPoolExecutor(1) as other:
        first = other.submit(look, keyed, "requests/mine/prompt", "first-key")
        assert began.wait(60)
        second = look(keyed, "requests/mine/prompt", "first-key")
        assert second.status_code == 429 and second.json()["error"]["code"] == "explaining"
        leave.set()
        assert first.result().status_code == 200
