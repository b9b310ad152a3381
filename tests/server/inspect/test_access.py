"""Who may look under /x/: the admin, who has a key, and nobody by being near."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from cutaway.config import Config, LoggingConfig, ModelConfig, ServerConfig
from cutaway.errors import ConfigError, CutawayError
from cutaway.server import create_app
from cutaway.server.inspect.access import ADMIN, Viewer, not_yours
from cutaway.server.inspect.table import INSPECT_ROUTES
from cutaway.server.launch import announced
from cutaway.server.routes import ROUTES
from cutaway.server.transport.auth import AdminToken
from cutaway.xray import server_client
from cutaway.xray.server_client import Target, target, targets
from cutaway.xray.server_state import admin_token, servers
from server.serving import Running, config_for, running

KEYS = ("first-key", "second-key")
EVIL = "http://evil.example"


class Asked:
    """An application without its models, and its admin's token."""

    def __init__(self, folder: Path, **server: Any) -> None:
        path = folder / "model.gguf"
        path.write_bytes(b"GGUF")  # nothing is loaded before the application starts
        config = Config(
            models=(ModelConfig(str(path)),), server=ServerConfig(**server), logging=LoggingConfig(level="error")
        )
        self.app = create_app(config)
        self.token: str = self.app.state.service.admin.value

    def __call__(
        self, path: str, key: str | None = None, method: str = "GET", url: str = "http://localhost", **headers: str
    ) -> httpx.Response:
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        if key is not None:
            named["authorization"] = f"Bearer {key}"

        async def ask() -> httpx.Response:
            transport = httpx.ASGITransport(self.app, raise_app_exceptions=False)
            async with httpx.AsyncClient(transport=transport, base_url=url) as client:
                return await client.request(method, path, headers=named)

        return asyncio.run(ask())


@pytest.fixture
def keyed(tmp_path: Path) -> Asked:
    return Asked(tmp_path, api_keys=KEYS)


@pytest.fixture
def keyless(tmp_path: Path) -> Asked:
    return Asked(tmp_path)


def code(reply: httpx.Response) -> tuple[int, str]:
    return reply.status_code, reply.json()["error"]["code"]


def test_two_keys_and_an_admin(keyed: Asked) -> None:
    names = set()
    for key in KEYS:
        who = keyed("/x/access", key)
        assert who.status_code == 200 and not who.json()["admin"]
        assert who.headers["cache-control"] == "no-store"
        names.add(who.json()["caller"])
        assert code(keyed("/x/server", key)) == (403, "admin_only")
    assert len(names) == 2 and ADMIN not in names
    assert keyed("/x/access", keyed.token).json() == {"caller": "admin", "admin": True}
    whole = keyed("/x/server", keyed.token).json()
    examined = keyed("/x/doctor", keyed.token).json()
    assert examined["record"] == "examination" and {"check": "kernels", "state": "ok"} in examined["checks"]
    assert code(keyed("/x/doctor", KEYS[0])) == (403, "admin_only")
    assert whole["pid"] == os.getpid() and whole["models"] == {"model": "unloaded"}


def test_without_a_key_nobody_looks_not_even_from_here(keyed: Asked, keyless: Asked) -> None:
    for route in INSPECT_ROUTES:
        path = route.path.replace("{id}", "1")
        for asked in (keyed, keyless):
            for key in (None, "", "wrong", "admin", asked.token[:-1], asked.token + "x"):
                assert code(asked(path, key, route.method)) == (401, "invalid_api_key"), (path, key)
            endless = "?model=none" if route.path == "/x/live" else ""
            assert asked(path + endless, asked.token, route.method).status_code != 401
    assert code(keyless("/x/anything")) == (401, "invalid_api_key")  # nor what there is
    assert code(keyless("/x/anything", keyless.token)) == (404, "route_not_found")
    assert code(keyless("/x/access", method="OPTIONS")) == (401, "invalid_api_key")


def test_the_token_opens_nothing_else_and_is_new_each_time(keyed: Asked) -> None:
    assert code(keyed("/v1/models", keyed.token)) == (401, "invalid_api_key")
    assert code(keyed("/metrics", keyed.token)) == (401, "invalid_api_key")
    one, other = AdminToken(), AdminToken()
    assert one.fits(one.value) and not one.fits(other.value) and not one.fits("") and len(one.value) >= 43


@pytest.mark.parametrize("origins", [("*",), (EVIL,)])
def test_pages_of_other_origins_are_refused_whatever_the_config_allows(tmp_path: Path, origins: Any) -> None:
    asked = Asked(tmp_path, cors_origins=origins)
    assert asked("/v1/models", origin=EVIL).headers["access-control-allow-origin"] in ("*", EVIL)
    for url in ("http://localhost", "http://127.0.0.1"):
        reply = asked("/x/access", asked.token, url=url, origin=EVIL)
        assert code(reply) == (403, "origin_not_allowed") and "access-control-allow-origin" not in reply.headers
        preflight = asked("/x/access", method="OPTIONS", origin=EVIL, access_control_request_method="GET")
        assert preflight.status_code == 403 and "access-control-allow-origin" not in preflight.headers
        assert asked("/x/access", asked.token, url=url, origin="null").status_code == 403
        own = asked("/x/access", asked.token, url=f"{url}:8000", origin=f"{url}:8000")
        assert own.status_code == 200 and "access-control-allow-origin" not in own.headers


def test_names_that_a_page_can_make_its_own_are_refused_everywhere(tmp_path: Path) -> None:
    everywhere = Asked(tmp_path, host="0.0.0.0", api_keys=KEYS)
    for url, status in (("http://evil.example", 403), ("http://10.0.0.5:8000", 200), ("http://localhost:8000", 200)):
        assert everywhere("/x/access", everywhere.token, url=url).status_code == status
        assert everywhere("/v1/models", KEYS[0], url=url).status_code == 200
    named = Asked(tmp_path, host="0.0.0.0", allowed_hosts=("llm.example",))
    for url, status in (("http://evil.example", 403), ("http://llm.example", 200), ("http://10.0.0.5", 403)):
        assert named("/x/access", named.token, url=url).status_code == status


def test_bodies_are_json_and_keys_are_not_in_urls(keyed: Asked) -> None:
    assert code(keyed("/x/access", keyed.token, "POST", content_type="text/plain", content_length="2")) == (
        415, "content_type_unsupported",
    )  # fmt: skip
    for query in ("key=x", "token=x", "API_KEY=x", "a=1&access_token=x", f"token={keyed.token}"):
        reply = keyed(f"/x/access?{query}", keyed.token)
        assert reply.status_code == 400 and keyed.token not in reply.text


def test_the_paths_that_are_guarded(keyed: Asked) -> None:
    for path in ("/x", "/x/", "/x/server", "/%78/server", "/x/%73erver", "/x//server", "/x/./server"):
        assert code(keyed(path)) == (401, "invalid_api_key"), path
    assert all(route in ROUTES and route.path.startswith("/x/") for route in INSPECT_ROUTES)
    assert not [r for r in ROUTES if any(path.startswith("/x") for path in r.paths) and r not in INSPECT_ROUTES]


def test_a_viewer_sees_its_own() -> None:
    assert Viewer("key 1", False).may_see("key 1") and not Viewer("key 1", False).may_see("key 2")
    assert Viewer(ADMIN, True).may_see("key 2")
    assert not_yours("record", "x").status == 404 and len(str(not_yours("record", "y" * 9999))) < 200


# --- found by the commands of the same user ---------------------------------------------------------------------------
@pytest.fixture
def own_state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    return tmp_path / "state"


@pytest.fixture
def served(smollm2_path: Path, own_state: Path) -> Iterator[Running]:
    made = running(config_for(smollm2_path, api_keys=KEYS), wait=False)
    with made as server, announced(server.service, "127.0.0.1", server.port):
        yield server


@pytest.mark.models
def test_the_commands_of_its_user_are_its_admin(served: Running, monkeypatch: pytest.MonkeyPatch) -> None:
    assert [t.url for t in targets()] == [served.url]
    for found in (target(), target(served.url), target(f"127.0.0.1:{served.port}/")):
        assert found.ask("/x/access") == {"caller": "admin", "admin": True}
        assert served.service.admin.value not in repr(found)
    with pytest.raises(CutawayError, match="known") as refused:
        Target(served.url, "wrong").ask("/x/server")
    assert refused.value.code == "invalid_api_key"
    with pytest.raises(CutawayError) as refused:
        target().ask("/x/../x/nothing", {"a": 1, "b": None})
    assert refused.value.code == "route_not_found"
    monkeypatch.setenv("XDG_STATE_HOME", "/nonexistent")  # another user, who has a key
    monkeypatch.setenv(server_client.VARIABLE, "first-key")
    assert not target(served.url).ask("/x/access")["admin"]
    with pytest.raises(CutawayError, match="no server of this user runs"):
        target()


def test_nobody_is_asked_by_mistake(own_state: Path) -> None:
    for url in ("ftp://x", "http://", "http://user:secret@127.0.0.1:1", "http://127.0.0.1:1/?key=x", ""):
        with pytest.raises(CutawayError, match="not a URL"):
            target(url)
    with pytest.raises(CutawayError, match="no server answers") as refused:
        target("http://127.0.0.1:9").ask("/x/access", seconds=2)
    assert refused.value.code == "server_not_found"


def test_a_folder_that_cannot_be_used_means_no_admin_and_a_warning(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "file"))
    asked = Asked(tmp_path)
    warned: list[str] = []
    monkeypatch.setattr(asked.app.state.service.log, "warning", lambda event, **facts: warned.append(event))
    with announced(asked.app.state.service, "127.0.0.1", 8000):
        assert servers() == []
    assert len(warned) == 1 and "state folder" in warned[0]


def test_how_it_ended_is_left_behind(tmp_path: Path, own_state: Path) -> None:
    service = Asked(tmp_path).app.state.service
    with pytest.raises(RuntimeError), announced(service, "127.0.0.1", 8000):
        raise RuntimeError("broken")
    assert [(s.ended.reason, s.ended.message) for s in servers() if s.ended] == [("failed", "RuntimeError('broken')")]
    with announced(service, "127.0.0.1", 8000):
        [state] = servers()
        assert state.alive and state.last_end is not None and admin_token(state) == service.admin.value
    service.roster.failed = ConfigError("no such file")
    with announced(service, "127.0.0.1", 8000):
        pass
    assert [s.ended.message for s in servers() if s.ended] == ["no such file"]
