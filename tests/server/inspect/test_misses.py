"""GET /x/requests/{id}/miss, and `cutaway waterfall REQUEST`, on a served model: what it says, and to whom."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from rich.cells import cell_len

from cutaway.cli import main
from server.serving import Running, bearer, config_for, running, until

pytestmark = pytest.mark.models
KEYS = ("first-key", "second-key")
RULES = "You are a careful assistant. " * 12
SECRET = "the heron sleeps at noon"


@pytest.fixture(scope="module")
def served(smollm2_path: Path) -> Iterator[Running]:
    with running(config_for(smollm2_path, api_keys=KEYS)) as server:
        yield server


def answered(server: Running, name: str, key: str, system: str, **fields: Any) -> None:
    messages = [{"role": "system", "content": system}, {"role": "user", "content": "Hello."}]
    headers = bearer(key) | {"x-request-id": name}
    body = {"messages": messages, "max_tokens": 3, "temperature": 0} | fields
    assert server.client.post("/v1/chat/completions", json=body, headers=headers).status_code == 200
    until(lambda: looked(server, name, key)[0] == 200)


def looked(server: Running, name: str, key: str) -> tuple[int, Any]:
    reply = server.client.get(f"/x/requests/{name}/miss", headers=bearer(key))
    return reply.status_code, reply.json()


def test_both_sides_in_words_to_the_caller_and_the_admin_alone(served: Running) -> None:
    answered(served, "one", KEYS[0], f"{RULES}It is 10:15 now, {SECRET}. {RULES}")
    answered(served, "two", KEYS[0], f"{RULES}It is 11:42 now, {SECRET}. {RULES}")
    status, found = looked(served, "two", KEYS[0])
    miss = found["miss"]
    assert status == 200 and found["record"] == "prefix_miss" and found["unknown"] is None
    assert miss["cause"] == "changed" and 0 < miss["at"] < found["prompt_tokens"]
    assert miss["before"].endswith("It is 1") and miss["here"].startswith("1:42") and miss["there"].startswith("0:15")
    assert miss["cached"] == found["cached_tokens"] <= miss["at"] and miss["lost"] > 60 and miss["price_ms"] > 0
    assert looked(served, "two", served.service.admin.value) == (status, found)
    assert looked(served, "two", KEYS[1])[0] == 404 == looked(served, "there-is-none", KEYS[1])[0]


def test_nothing_of_another_caller_is_compared(served: Running) -> None:
    answered(served, "other", KEYS[1], f"{RULES}It is 12:00 now, what sleeps? {RULES}")
    _, found = looked(served, "other", KEYS[1])
    assert found["miss"]["cause"] == "new" and found["miss"]["there"] is None and SECRET not in json.dumps(found)
    assert found["cached_tokens"] == 0


def test_what_was_found_whole(served: Running) -> None:
    for name in ("first", "again"):
        answered(served, name, KEYS[0], f"{RULES}It is 09:30 now. {RULES}")
    _, found = looked(served, "again", KEYS[0])
    assert found["cached_tokens"] > 100 and (found["miss"] is None or found["miss"]["cause"] == "partial_page")


def test_where_callers_share_nothing_is_said_of_the_others(smollm2_path: Path) -> None:
    with running(config_for(smollm2_path, api_keys=KEYS, share_prefixes=True)) as server:
        answered(server, "theirs", KEYS[1], f"{RULES}It is 12:00 now, {SECRET}. {RULES}")
        answered(server, "mine", KEYS[0], f"{RULES}It is 13:00 now, {SECRET}. {RULES}")
        _, found = looked(server, "mine", KEYS[0])
        assert found["cached_tokens"] > 50 and found["miss"]["cause"] == "new" and found["miss"]["there"] is None


def test_the_command_says_it_in_words(
    served: Running, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CUTAWAY_API_KEY", KEYS[0])
    answered(served, "uno", KEYS[0], f"{RULES}现在是上午十点。{RULES}")
    answered(served, "due", KEYS[0], f"{RULES}现在是下午三点。{RULES}")
    for more in ([], ["--json"]):
        with pytest.raises(SystemExit) as left:
            main(["waterfall", "due", "--url", served.url, *more])
        assert left.value.code == 0
        out = capsys.readouterr().out
        if more:
            assert json.loads(out)["prefix_miss"]["miss"]["cause"] == "changed"
        else:
            assert "an earlier prompt continued differently" in out and "remedy" in out and "午" in out
            assert max(map(cell_len, out.splitlines())) <= 100
