"""/x/requests: what is kept of requests, however they end, and who may see it."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import httpx
import pytest

from cutaway.config import RecordConfig
from cutaway.xray.record import RequestRecord
from cutaway.xray.record_json import parse_record, record_from
from server.serving import CHAT, COMPLETIONS, HELLO, Running, config_for, running, until

pytestmark = pytest.mark.models
KEYS = ("first-key", "second-key")


@pytest.fixture(scope="module")
def keyed(smollm2_path: Path) -> Iterator[Running]:
    config = replace(config_for(smollm2_path, api_keys=KEYS), record=RecordConfig(hashes=True))
    with running(config) as server:
        yield server


def send(server: Running, key: str, path: str = COMPLETIONS, id: str | None = None, **fields: Any) -> httpx.Response:
    headers = {"authorization": f"Bearer {key}"} | ({} if id is None else {"x-request-id": id})
    return server.client.post(path, json=fields, headers=headers)


def look(server: Running, path: str, key: str | None = None) -> Any:
    token = server.service.admin.value if key is None else key
    return server.client.get(f"/x/{path}", headers={"authorization": f"Bearer {token}"})


def lines(server: Running, key: str | None = None, **query: Any) -> list[dict[str, Any]]:
    reply = look(server, "requests?" + "&".join(f"{k}={v}" for k, v in query.items()), key)
    assert reply.status_code == 200, reply.text
    found: list[dict[str, Any]] = reply.json()["requests"]
    return found


def recorded(server: Running, name: str) -> RequestRecord:
    until(lambda: look(server, f"requests/{name}").status_code == 200)
    return record_from(look(server, f"requests/{name}").json())


def test_a_request_leaves_what_cannot_be_computed_again(keyed: Running) -> None:
    before = time.time()
    reply = send(keyed, "first-key", CHAT, "whole", messages=HELLO, max_tokens=12, temperature=0.8, seed=5, stop="zzz")
    record = recorded(keyed, "whole")
    body = reply.json()
    assert record.tokens == body["usage"]["completion_tokens"] == len(record.token_ids or ())
    assert record.prompt_tokens == body["usage"]["prompt_tokens"] == len(record.prompt_ids or ())
    assert record.seed == 5 and record.parameters.temperature == 0.8 and record.parameters.stop == "zzz"
    assert before - 1 < record.began < time.time() and record.path == CHAT and record.end.status == 200
    assert list(record.token_ms) == sorted(record.token_ms) and record.token_ms[0] == pytest.approx(
        record.figures.ttft_ms, abs=2.0
    )
    assert sum(chunk.tokens for chunk in record.chunks) + record.figures.cached == record.prompt_tokens
    assert record.hashes is not None and len(record.hashes) == record.tokens and record.figures.pages
    served = keyed.service.roster.models["smol"]
    assert (record.system.sha256, record.system.model, record.system.context) == (served.sha256, "smol", 512)
    assert record.system.template is not None and record.system.threads


def test_nothing_of_one_key_reaches_another(keyed: Running) -> None:
    """Lists, records by their own ids and by x-request-ids that both use; the admin sees all."""
    for key in KEYS:
        send(keyed, key, id="same", prompt=f"The secret of {key} is", max_tokens=3)
    admin = lines(keyed, request="same")
    assert len(admin) == 2 and len({line["caller"] for line in admin}) == 2
    for key, other in zip(KEYS, reversed(KEYS), strict=True):
        mine = lines(keyed, key, request="same")
        assert len(mine) == 1
        record = parse_record(look(keyed, "requests/same", key).text)
        assert record.id == mine[0]["id"]
        tokenizer = keyed.service.roster.models["smol"].engine.tokenizer  # type: ignore[union-attr]
        text = tokenizer.decode(list(record.prompt_ids or ()))
        assert key in text and other not in text
        theirs = lines(keyed, other, request="same")[0]["id"]
        refused, missing = (look(keyed, f"requests/{name}", key) for name in (theirs, "0123456789abcdef"))
        assert refused.status_code == missing.status_code == 404
        assert refused.json()["error"]["code"] == missing.json()["error"]["code"] == "record_not_found"
        assert {line["caller"] for line in lines(keyed, key, limit=1000)} == {mine[0]["caller"]}
    for line in admin:
        assert look(keyed, f"requests/{line['id']}").status_code == 200


def test_without_a_key_or_with_a_query_that_is_wrong(keyed: Running) -> None:
    assert keyed.client.get("/x/requests").status_code == 401
    assert keyed.client.get("/x/requests/same").status_code == 401
    for query in ("limit=0", "limit=x", "limit=99999", "failed=1", "since=yesterday", "unknown=1", "limit=%C2%B2"):
        assert look(keyed, f"requests?{query}").status_code == 400, query


def test_an_id_that_is_a_path_names_no_file(keyed: Running) -> None:
    send(keyed, "first-key", id="..", prompt="Dots", max_tokens=2)
    [line] = lines(keyed, request="..", limit=1)
    assert line["request"] == ".." and line["id"].isalnum()
    assert recorded(keyed, line["id"]).request == ".."


def test_several_prompts_and_choices_are_a_record_each(keyed: Running) -> None:
    send(keyed, "first-key", id="many", prompt=["One", "Two"], n=2, max_tokens=3, temperature=1.0)
    found = lines(keyed, request="many")
    assert sorted((line["prompt"], line["choice"]) for line in found) == [(0, 0), (0, 1), (1, 0), (1, 1)]
    first = recorded(keyed, "many")
    assert (first.prompt, first.choice) == (0, 0)
    assert len({line["id"] for line in found}) == 4


def test_one_whose_client_left_is_recorded_as_cancelled(keyed: Running) -> None:
    headers = {"authorization": "Bearer first-key", "x-request-id": "left"}
    fields = {"prompt": "Count:", "max_tokens": 400, "stream": True, "ignore_eos": True}
    with keyed.client.stream("POST", COMPLETIONS, json=fields, headers=headers) as reply:
        next(reply.iter_lines())
    until(lambda: bool(lines(keyed, request="left")))
    record = recorded(keyed, "left")
    assert record.failed and record.forced_length and record.end.kind == "cancelled" and 0 < record.tokens < 400
    assert lines(keyed, failed="true")[0]["request"] == "left"


def test_lists_are_filtered_and_sorted(keyed: Running) -> None:
    for number in (30, 2):
        send(keyed, "first-key", id=f"long{number}", prompt="Go", max_tokens=number, ignore_eos=True)
    assert lines(keyed)[0]["request"] == "long2"
    slow = lines(keyed, slow="true", limit=1000)
    assert [line["total_ms"] for line in slow] == sorted((line["total_ms"] for line in slow), reverse=True)
    assert lines(keyed, model="other") == [] and lines(keyed, since="1m", limit=2)[0]["request"] == "long2"
    assert lines(keyed, since="2999-01-01") == []


def test_many_at_once_are_all_kept_and_the_ledger_is_whole(keyed: Running) -> None:
    def ask(number: int) -> None:
        send(keyed, "second-key", id=f"at-once-{number}", prompt=f"Number {number}", max_tokens=8, seed=number)

    threads = [threading.Thread(target=ask, args=(number,)) for number in range(16)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert {f"at-once-{n}" for n in range(16)} <= {line["request"] for line in lines(keyed, limit=1000)}
    keyed.idle("smol")


@pytest.mark.parametrize("level", ["figures", "off"])
def test_the_other_levels(smollm2_path: Path, tmp_path: Path, level: Any) -> None:
    kept = RecordConfig(level=level, folder=str(tmp_path / "records"))
    with running(replace(config_for(smollm2_path), record=kept)) as server:
        server.ok(COMPLETIONS, prompt="A secret", max_tokens=3, stop=["hidden"])
        found = look(server, "requests").json()
        assert found["kept"]["level"] == level
        if level == "off":
            assert found["requests"] == []
        else:
            [line] = found["requests"]
            record = recorded(server, line["id"])
            assert record.prompt_ids is None and record.parameters.stop == () and record.tokens == 3
    files = list(tmp_path.glob("records/*"))
    assert len(files) == (level == "figures") and not any("hidden" in path.read_text() for path in files)


def test_records_are_on_disk_when_the_server_has_ended(smollm2_path: Path, tmp_path: Path) -> None:
    folder = tmp_path / "records"
    config = replace(config_for(smollm2_path), record=RecordConfig(folder=str(folder)), date="2020-02-02")
    with running(config) as server:
        server.ok(CHAT, messages=HELLO, max_tokens=3)
    [path] = folder.glob("*.json")
    record = parse_record(path.read_text())
    assert record.tokens == 3 and record.clock is None  # this template looks at no clock
