"""Parts of the server alone: names, admission, keys, blocks, tapes, the mailbox, fingerprints."""

from __future__ import annotations

import asyncio
import dataclasses
import io
import json
import re
from collections.abc import AsyncIterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from starlette.requests import Request

from cutaway.cli.serve import ServeOptions, _options
from cutaway.config import LimitsConfig, LoggingConfig, ServerConfig, check_config, parse_config
from cutaway.engine import TokenChosen
from cutaway.errors import ConfigError, HashMismatchError
from cutaway.registry.model_hash import model_hash
from cutaway.server import create_app
from cutaway.server.api.content_blocks import Blocks
from cutaway.server.generation.event_queue import Mailbox, SlowReaderError
from cutaway.server.generation.output_parser import Reader
from cutaway.server.launch import open_listener
from cutaway.server.models.aliases import Names
from cutaway.server.models.hashes import fingerprint
from cutaway.server.observe.logs import Log
from cutaway.server.transport.admission import Admission
from cutaway.server.transport.auth import Keys, read_keys
from cutaway.server.transport.errors import ApiError
from cutaway.server.transport.replay import Tapes
from cutaway.server.transport.sse import KEEP_ALIVE, EventStream, sse, to_json
from cutaway.text.chat.reasoning import ReasoningFormat, ReasoningParser
from cutaway.text.tools.parser import ToolParser


def test_an_alias_must_lead_somewhere() -> None:
    with pytest.raises(ConfigError, match="the served models are a, b"):
        Names(["a", "b"], {"x": "c"})
    with pytest.raises(ConfigError, match="is also the name of a served model"):
        Names(["a"], {"a": "a"})
    names = Names(["a", "b"], {"x": {"a": 1, "b": 3}})
    drawn = [names.find("x", str(i))[0] for i in range(2000)]
    assert 400 < drawn.count("a") < 600
    assert names.find(None, "1") == ("a", None)


def test_places_are_given_back() -> None:
    admission = Admission(LimitsConfig(queue=2))
    with (
        admission.enter("me", "m", 3, 1),
        pytest.raises(ApiError, match="queue is full"),
        admission.enter("me", "m", 1, 1),
    ):
        pass
    assert admission.in_flight == 0 and admission.refused["queue"] == 1
    admission.drain()
    with pytest.raises(ApiError, match="shutting down"), admission.enter("me", "m", 1, 1):
        pass


def request_with(**headers: str) -> Request:
    named = [(name.replace("_", "-").encode(), value.encode()) for name, value in headers.items()]
    return Request({"type": "http", "headers": named, "client": ("1.2.3.4", 5), "method": "GET", "path": "/"})


def test_keys(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert read_keys(ServerConfig()).caller(request_with()) == "1.2.3.4"
    file = tmp_path / "keys"
    file.write_text("# mine\nfrom-file\n")
    monkeypatch.setenv("CUTAWAY_API_KEYS", "from-environment")
    keys = read_keys(ServerConfig(api_keys=("first",), api_keys_file=str(file)))
    said = ({"authorization": "Bearer first"}, {"authorization": "bearer from-environment"}, {"x_api_key": "from-file"})
    callers = [keys.caller(request_with(**headers)) for headers in said]
    assert len(set(callers)) == 3
    assert all(re.fullmatch("key [0-9a-f]{12}", caller) for caller in callers)  # nothing of the key itself
    assert Keys(["other", "first"]).caller(request_with(**said[0])) == callers[0], "its place in the list is no name"
    for headers in ({}, {"authorization": "Bearer "}, {"authorization": "Basic first"}, {"x_api_key": "\u00e9"}):
        with pytest.raises(ApiError) as raised:
            keys.caller(request_with(**headers))
        assert raised.value.status == 401
    with pytest.raises(ConfigError, match="cannot be read"):
        read_keys(ServerConfig(api_keys_file=str(tmp_path / "none")))


def test_the_command_lines_keys_are_the_only_ones(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "keys"
    file.write_text("from-file")
    monkeypatch.setenv("CUTAWAY_API_KEYS", "from-environment")
    written = parse_config(f"[server]\napi_keys = ['written']\napi_keys_file = '{file}'")
    config = _options(dataclasses.replace(written), ServeOptions(api_key=["said"]))
    keys = read_keys(config.server)
    assert keys.caller(request_with(authorization="Bearer said"))
    for other in ("from-environment", "from-file", "written"):
        with pytest.raises(ApiError):
            keys.caller(request_with(authorization=f"Bearer {other}"))
    for key in ("from-environment", "from-file", "written"):  # without the option all three places hold
        assert read_keys(_options(written, ServeOptions()).server).caller(request_with(x_api_key=key))


@pytest.mark.parametrize("value", ["", " ", "  \t", ",", " , ,"])
def test_a_variable_of_blanks_does_not_open_the_server(monkeypatch: pytest.MonkeyPatch, value: str) -> None:
    monkeypatch.setenv("CUTAWAY_API_KEYS", value)
    with pytest.raises(ConfigError, match="holds no key"):
        read_keys(ServerConfig())
    assert not read_keys(ServerConfig(api_keys=("said",), only_api_keys=True)).caller(
        request_with(x_api_key="said")
    ).endswith("said")


@pytest.mark.parametrize("key", [" ", "two words", "tail ", "\u00e9", "new\nline", "\x7f"])
def test_a_key_that_no_request_can_send_is_refused_and_not_told(tmp_path: Path, key: str) -> None:
    with pytest.raises(ConfigError, match="a request cannot send") as raised:
        read_keys(ServerConfig(api_keys=("good", key)))
    assert "key 2 of server.api_keys" in str(raised.value) and (key == " " or key not in str(raised.value))


def test_a_file_without_keys_does_not_open_the_server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nor does it if other sources have keys: an explicit source must have one."""
    (tmp_path / "keys").write_text("# none yet\n\n")
    for keys in ((), ("good",)):
        with pytest.raises(ConfigError, match="holds no key"):
            read_keys(ServerConfig(api_keys=keys, api_keys_file=str(tmp_path / "keys")))


def test_a_config_from_the_command_line_is_checked() -> None:
    config = parse_config("[server]\nport = 1\n[[models]]\nmodel = 'x'")
    assert check_config(config, "command line") == config
    with pytest.raises(ConfigError, match=r"command line: server\.port must be less"):
        check_config(dataclasses.replace(config, server=ServerConfig(port=70_000)), "command line")


def test_an_application_is_made_without_loading_a_model(tmp_path: Path) -> None:
    (tmp_path / "m.gguf").write_bytes(b"")
    app = create_app(parse_config(f"[[models]]\nmodel = '{tmp_path / 'm.gguf'}'"), log_stream=io.StringIO())
    (served,) = app.state.service.roster.models.values()
    assert (served.name, served.state) == ("m", "unloaded")
    asyncio.run(app.state.service.roster.close())
    app.state.service.threads.shutdown()


def test_an_address_that_is_taken_is_said() -> None:
    with open_listener(ServerConfig(port=0)) as first, pytest.raises(ConfigError, match=r"cannot listen on 127\.0"):
        open_listener(ServerConfig(port=first.getsockname()[1]))


def test_a_model_is_hashed_again_when_it_changes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from cutaway.registry import Manifest
    from cutaway.registry.store import StoredFile, model_path

    monkeypatch.setenv("CUTAWAY_HOME", str(tmp_path))
    digest = "2c26b46b68ffc68ff99b453c1d30413413422d706483bfa0f98a5e886266e7ae"  # of "foo"
    manifest = Manifest("m", "x", "", digest, 3, "", "gguf", "hub", 0.0, (StoredFile("m.gguf", digest, 3),))
    path = model_path(manifest)
    path.parent.mkdir(parents=True)
    path.write_text("foo")
    assert model_hash(path, manifest, always=False) == (digest, True)
    assert model_hash(path, manifest, always=False) == (digest, False)
    assert model_hash(path, manifest, always=True) == (digest, True)
    path.write_text("bar")
    with pytest.raises(HashMismatchError, match="not 2c26"):
        model_hash(path, manifest, always=False)


def test_fingerprint() -> None:
    assert fingerprint("ab" * 32, "avx2", kv_k="bf16", rope=None).endswith(".abababababab.avx2.kv_k-bf16")


@pytest.mark.parametrize("share", [0.0, 0.3, 1.0])
def test_tokens_of_a_share_of_requests_are_logged(share: float) -> None:
    out = io.StringIO()
    log = Log(LoggingConfig(level="debug", format="json", token_share=share), out)
    told = sum(log.tells_tokens(str(i)) for i in range(1000))
    assert abs(told - 1000 * share) < 60
    log.token("id", 0, 5, "x")
    assert log.flush(10)
    assert json.loads(out.getvalue())["token"] == 5
    assert not Log(LoggingConfig(token_share=1.0), out).tells_tokens("1")


def test_json_survives_half_a_surrogate_pair() -> None:
    assert json.loads(to_json({"a": "\ud800"})) == {"a": "\ud800"} and to_json("é") == '"é"'.encode()


# --- readers and blocks ---------------------------------------------------------------------------------------------
TEXT = """<think>hm é</think>Sure.
<tool_call>
{"name": "f", "arguments": {"a": [1, "}"]}}
</tool_call>
<tool_call>
{"name": "g", "arguments": {}}
</tool_call>"""


def read(pieces: list[str]) -> tuple[list[tuple[str, str, str]], list[str]]:
    ids = iter(("one", "two"))
    reader = Reader(ReasoningParser(ReasoningFormat()), ToolParser("hermes", eager=False, new_id=lambda: next(ids)))
    blocks = Blocks([*(reader.push(piece) for piece in pieces), reader.finish()])
    list(blocks.close())
    return [(b.kind, b.id or b.name, b.text) for b in blocks.blocks], reader.warnings


@given(st.lists(st.integers(0, len(TEXT)), max_size=12))
def test_blocks_are_the_same_whatever_the_cut(cuts: list[int]) -> None:
    bounds = [0, *sorted(cuts), len(TEXT)]
    pieces = [TEXT[a:b] for a, b in pairwise(bounds)]
    found, warnings = read(pieces)
    assert found == [
        ("reasoning", "", "hm é"), ("text", "", "Sure."), ("call", "one", '{"a": [1, "}"]}'), ("call", "two", "{}"),
    ]  # fmt: skip
    assert not warnings


# --- what happens in the loop ---------------------------------------------------------------------------------------
def event(number: int) -> TokenChosen:
    return TokenChosen(1, 0, number, number, "x")


def test_the_mailbox_keeps_order_and_is_bounded() -> None:
    async def go() -> list[int]:
        mailbox = Mailbox(asyncio.get_running_loop(), 50)
        slot = mailbox.slot(0)
        await asyncio.to_thread(lambda: [slot.put(event(i)) for i in range(60)])
        seen: list[int] = []
        with pytest.raises(SlowReaderError, match="50 tokens are waiting"):
            async for _, got in mailbox.take():
                assert isinstance(got, TokenChosen)
                seen.append(got.token)
        return seen

    assert asyncio.run(go()) == list(range(50))


async def numbers(count: int, closed: list[bool], pause: float = 0.0) -> AsyncIterator[bytes]:
    try:
        for i in range(count):
            await asyncio.sleep(pause)
            yield sse(i)
    finally:
        closed.append(True)


async def streamed(response: EventStream, *, gone_after: float = 60.0, stuck: bool = False) -> list[bytes]:
    sent: list[bytes] = []

    async def send(message: Any) -> None:
        if message["type"] == "http.response.body":
            if stuck:
                await asyncio.sleep(60)
            sent.append(message["body"])

    async def receive() -> Any:
        await asyncio.sleep(gone_after)
        return {"type": "http.disconnect"}

    await response({"type": "http"}, receive, send)
    return sent


def stream_of(events: AsyncIterator[bytes], *, keep_alive: float = 60.0, send_timeout: float = 60.0) -> EventStream:
    return EventStream(events, keep_alive=(keep_alive, KEEP_ALIVE), send_timeout=send_timeout, farewell=b"bye")


def test_a_silent_stream_is_kept_alive_by_comments() -> None:
    closed: list[bool] = []
    sent = asyncio.run(streamed(stream_of(numbers(2, closed, 0.25), keep_alive=0.1)))
    assert sent.count(b": keep-alive\n\n") >= 2 and sent[-1] == b"" and closed
    assert [s for s in sent if s.startswith(b"data")] == [b"data: 0\n\n", b"data: 1\n\n"]


def test_a_stream_ends_when_its_reader_leaves_or_is_stuck() -> None:
    for pause, options in ((0.05, {"gone_after": 0.1}), (0.05, {"stuck": True}), (9.0, {"stuck": True})):
        closed: list[bool] = []
        stream = stream_of(numbers(9, closed, pause), keep_alive=0.2, send_timeout=0.1)
        asyncio.run(asyncio.wait_for(streamed(stream, **options), 5))  # type: ignore[arg-type]
        assert closed


def test_a_stream_says_farewell_when_the_server_ends_it() -> None:
    async def go() -> list[bytes]:
        sent: list[bytes] = []
        closed: list[bool] = []

        async def send(message: Any) -> None:
            sent.append(message.get("body", b"head"))

        task = asyncio.create_task(stream_of(numbers(9, closed, 0.2))({"type": "http"}, asyncio.Event().wait, send))
        await asyncio.sleep(0.3)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        assert closed
        return sent

    assert asyncio.run(go()) == [b"head", b"data: 0\n\n", b"bye"]


def test_tapes_are_their_callers_and_end() -> None:
    async def go() -> None:
        tapes, closed = Tapes(0.2), []  # type: ignore[var-annotated]
        first = tapes.record("id", "me", numbers(5, closed, 0.02))
        got = [await anext(first), await anext(first)]
        await first.aclose()  # type: ignore[attr-defined]
        rest = [e async for e in tapes.resume("id:1", "me")]
        assert [e.split(b"\n")[0] for e in got + rest] == [f"id: id:{i}".encode() for i in range(5)]
        for last, caller in (
            ("id:1", "you"), ("other:1", "me"), ("id:x", "me"), ("id", "me"), ("id:5", "me"),
            ("id:" + "9" * 5000, "me"),
        ):  # fmt: skip
            with pytest.raises(ApiError):
                tapes.resume(last, caller)
        assert [e async for e in tapes.resume("id:4", "me")] == []
        other = [e async for e in tapes.record("id", "you", numbers(2, closed, 0.0))]  # another's is none of its own
        assert other[0].startswith(b"id: id:0")
        again = [e async for e in tapes.record("id", "you", numbers(2, closed, 0.0))]  # an id that is taken
        assert again[0].startswith(b"id: id.:0")
        assert [e async for e in tapes.resume("id:3", "me")] == rest[-1:]
        await asyncio.sleep(0.5)
        with pytest.raises(ApiError):
            tapes.resume("id:1", "me")
        assert closed
        await tapes.close()

    asyncio.run(go())
