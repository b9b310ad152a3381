"""What a server leaves for its user's commands, and what others could make of it."""

from __future__ import annotations

import json
import os
import stat
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from cutaway.errors import ConfigError
from cutaway.xray import server_state
from cutaway.xray.server_state import (
    KEPT,
    Announcement,
    ServerEnd,
    ServerState,
    admin_token,
    ended_now,
    log_file,
    private_folder,
    process_start,
    read_private,
    servers,
    servers_folder,
    state_folder,
    write_private,
)


@pytest.fixture(autouse=True)
def own_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    return tmp_path / "cutaway" / "servers"


def state(port: int = 8000, pid: int | None = None, host: str = "127.0.0.1", began: float | None = None) -> ServerState:
    pid = os.getpid() if pid is None else pid
    return ServerState(pid, host, port, began or time.time(), "0.1.0", process_start(pid), None, ("smol",))


def dead_process() -> int:
    done = subprocess.Popen([sys.executable, "-c", ""])
    done.wait()
    return done.pid


def modes(folder: Path) -> set[int]:
    return {stat.S_IMODE(path.stat().st_mode) for path in folder.iterdir()}


def test_a_server_is_found_while_it_runs_and_its_end_is_known_afterwards(own_folder: Path) -> None:
    announced = Announcement(state(), "secret-token")
    [found] = servers()
    assert found == announced.state and found.alive and found.ended is None
    assert found.url == "http://127.0.0.1:8000" and admin_token(found) == "secret-token"
    announced.close(ended_now("failed", "no memory"))
    [found] = servers()
    assert not found.alive and found.ended is not None
    assert (found.ended.reason, found.ended.message) == ("failed", "no memory")
    assert admin_token(found) is None
    assert Announcement(state(), "another").state.last_end == found.ended


def test_its_files_are_this_users_alone(own_folder: Path) -> None:
    old = os.umask(0)
    try:
        Announcement(state(), "secret")
    finally:
        os.umask(old)
    assert modes(own_folder.parent) == {0o700} and modes(own_folder) == {0o600}
    assert stat.S_IMODE(own_folder.parent.stat().st_mode) == 0o700
    assert "secret" not in (own_folder / "127.0.0.1-8000.json").read_text()
    own_folder.chmod(0o755)
    Announcement(state(8001), "secret")
    assert stat.S_IMODE(own_folder.stat().st_mode) == 0o700


def test_one_that_was_killed_left_no_word() -> None:
    Announcement(state(pid=dead_process()), "secret")
    [found] = servers()
    assert not found.alive and found.ended == ServerEnd(None, "killed")
    assert Announcement(state(), "new").state.last_end == ServerEnd(None, "killed")


def test_a_later_process_with_the_same_number_is_another() -> None:
    mine = ServerState(os.getpid(), "127.0.0.1", 8000, 1.0, "0.1.0", process_start=1)
    assert process_start(os.getpid()) not in (None, 1)
    assert not mine.alive
    assert not ServerState(1, "127.0.0.1", 8000, 1.0, "0.1.0").alive or os.geteuid() == 0


def test_the_end_of_an_old_server_does_not_touch_the_new_one(own_folder: Path) -> None:
    old = Announcement(state(pid=dead_process()), "old")
    Announcement(state(), "new")
    old.close(ended_now("stopped"))
    [found] = servers()
    assert found.alive and admin_token(found) == "new"


def test_running_ones_first_and_old_ones_are_forgotten(own_folder: Path) -> None:
    gone = dead_process()
    for number in range(KEPT + 5):
        Announcement(state(1000 + number, gone, began=1000.0 + number), "x")
    Announcement(state(80, began=5.0), "x")
    found = servers()
    assert found[0].port == 80 and [s.port for s in found[1:]] == sorted((s.port for s in found[1:]), reverse=True)
    assert len(found) == KEPT + 1 and min(s.port for s in found[1:]) == 1005


@pytest.mark.parametrize(
    ("host", "url"),
    [("0.0.0.0", "http://127.0.0.1:8000"), ("::", "http://[::1]:8000"), ("::1", "http://[::1]:8000"),
     ("10.0.0.5", "http://10.0.0.5:8000")],
)  # fmt: skip
def test_where_it_is_reached(host: str, url: str, own_folder: Path) -> None:
    Announcement(state(host=host), "x")
    assert servers()[0].url == url
    assert all("/" not in path.name and ":" not in path.name for path in own_folder.iterdir())


@pytest.mark.parametrize(
    "text", ["", "[]", "{}", "null", "[" * 10_000, '{"pid": -1}', '{"pid": 1, "host": 5}', "\x00\xff",
             '{"pid": 99999999999, "host": "x", "port": 1, "began": 1, "version": "1", "models": []}'],
)  # fmt: skip
def test_a_file_that_is_no_state_is_no_server(text: str, own_folder: Path) -> None:
    private_folder(own_folder)
    write_private(own_folder / "127.0.0.1-1.json", text)
    assert servers() == []
    Announcement(state(1), "x")
    assert [found.port for found in servers()] == [1]


def test_links_and_foreign_files_are_not_followed(tmp_path: Path, own_folder: Path) -> None:
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    own_folder.parent.mkdir(parents=True)
    own_folder.symlink_to(elsewhere)
    with pytest.raises(ConfigError, match="not a folder of this user") as refused:
        Announcement(state(), "secret")
    assert refused.value.code == "folder_unsafe" and not list(elsewhere.iterdir())
    own_folder.unlink()
    private_folder(own_folder)
    (elsewhere / "victim").write_text("precious")
    (own_folder / "127.0.0.1-8000.token").symlink_to(elsewhere / "victim")
    assert admin_token(state()) is None
    Announcement(state(), "secret")
    assert (elsewhere / "victim").read_text() == "precious" and admin_token(state()) == "secret"
    (own_folder / "127.0.0.1-8000.token").chmod(0o666)  # anybody could have put one there
    assert admin_token(state()) is None
    os.mkfifo(own_folder / "pipe")
    with pytest.raises(ConfigError):  # and does not wait for somebody to write
        read_private(own_folder / "pipe")


def test_writing_replaces_whole_files_or_nothing(own_folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    private_folder(own_folder)
    write_private(own_folder / "a", "one")

    def full(*_: Any) -> None:
        raise OSError(28, "no space")

    monkeypatch.setattr(Path, "rename", full)
    with pytest.raises(OSError, match="no space"):
        write_private(own_folder / "a", "two")
    assert [path.name for path in own_folder.iterdir()] == ["a"] and (own_folder / "a").read_text() == "one"


def test_where_it_is(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    assert servers_folder() == state_folder() / "servers" == tmp_path / "cutaway" / "servers"
    for named in ("", "relative/path"):
        monkeypatch.setenv("XDG_STATE_HOME", named)
        assert state_folder() == Path.home() / ".local" / "state" / "cutaway"


def test_the_log_is_named_where_it_is_a_file(tmp_path: Path) -> None:
    script = "from cutaway.xray.server_state import log_file; print(log_file())"
    with (tmp_path / "log").open("w") as log:
        told = subprocess.run([sys.executable, "-c", script], stdout=subprocess.PIPE, stderr=log, text=True, check=True)
    assert told.stdout.strip() == str(tmp_path / "log")
    told = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert told.stdout.strip() == "None"
    assert log_file() is None or Path(str(log_file())).is_absolute()


def test_the_state_is_plain_json(own_folder: Path) -> None:
    Announcement(state(), "x")
    told = json.loads((own_folder / "127.0.0.1-8000.json").read_text())
    assert told.keys() == set(ServerState.__dataclass_fields__)
    assert server_state.servers()[0].models == ("smol",)
