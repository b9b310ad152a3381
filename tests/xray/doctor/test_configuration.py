"""Each check of a config, a server and a clock has a broken instance that it names and a healthy one."""

from __future__ import annotations

import os
import socket
import threading
import time
from collections.abc import Iterator
from email.utils import formatdate
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

import pytest

from cutaway.xray.doctor import clock, config, server
from cutaway.xray.doctor.checks import Check, examine
from cutaway.xray.doctor.subject import Subject
from cutaway.xray.server_state import Announcement, ServerEnd, ServerState, ended_now


def codes(check: Check, subject: Subject) -> list[str]:
    return [one.code for one in check(subject)]


@pytest.fixture(autouse=True)
def nothing_else_here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    monkeypatch.chdir(tmp_path)


def configured(path: Path, text: str) -> Subject:
    path.write_text(text, encoding="utf-8")
    return Subject(config=path, machine=False)


@pytest.mark.parametrize(
    ("check", "broken", "healthy", "code"),
    [
        (config.contents, "model = smollm2", 'model = "smollm2-135m"', "config_invalid"),
        (config.contents, "[server]\nprot = 1", "[server]\nport = 1", "config_invalid"),
        (config.contents, '[[models]]\nmodel = "a"\nname = "x"\n[[models]]\nmodel = "b"\nname = "x"',
         '[[models]]\nmodel = "a"\nname = "x"', "config_invalid"),
        (config.named_models, 'model = "SmolLM2_135m_"', 'system = "x"', "config_model_unknown"),
        (config.threads, "threads = 4096", "threads = 1", "threads_beyond"),
        (config.port, '[server]\nhost = "203.0.113.7"\nport = 8123', "[server]\nport = 0", "address_invalid"),
    ],
)  # fmt: skip
def test_config(check: Check, broken: str, healthy: str, code: str, tmp_path: Path) -> None:
    assert codes(check, configured(tmp_path / "a.toml", broken)) == [code]
    assert codes(check, configured(tmp_path / "b.toml", healthy)) == []


def test_a_config_that_is_not_there(tmp_path: Path) -> None:
    assert codes(config.contents, Subject(config=tmp_path / "none.toml")) == ["config_invalid"]


def test_a_renamed_key(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("cutaway.config.reading.RENAMED", {"server.old": "port"})
    assert codes(config.contents, configured(tmp_path / "a.toml", "[server]\nold = 1")) == ["config_key_renamed"]


def test_a_shadowed_config(tmp_path: Path) -> None:
    (tmp_path / "cutaway.toml").write_text("")
    assert codes(config.shadowed, Subject()) == []
    (tmp_path / "config" / "cutaway").mkdir(parents=True)
    (tmp_path / "config" / "cutaway" / "cutaway.toml").write_text("")
    assert codes(config.shadowed, Subject()) == ["config_shadowed"]


def test_a_port_that_is_taken(tmp_path: Path) -> None:
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        number = other.getsockname()[1]
        subject = configured(tmp_path / "a.toml", f"[server]\nport = {number}")
        assert codes(config.port, subject) == ["port_taken"]
        kept = announced(number)
        assert codes(config.port, subject) == []  # by a server of this user
        kept.close(ended_now("stopped"))
    assert codes(config.port, subject) == []


# --- servers ----------------------------------------------------------------------------------------------------------
def announced(port: int, pid: int | None = None, process_start: int | None = None) -> Announcement:
    return Announcement(ServerState(pid or os.getpid(), "127.0.0.1", port, time.time(), "0", process_start), "token")


def test_servers_that_are_gone() -> None:
    assert codes(server.ended, Subject()) == []
    kept = announced(9)
    kept.close(ended_now("stopped"))
    assert codes(server.ended, Subject()) == []
    announced(10).close(ServerEnd(time.time(), "failed", "boom"))
    announced(11, process_start=1)  # this process's number, and another one's start
    found = {one.code: one for one in server.ended(Subject())}
    assert found.keys() == {"server_failed", "server_killed"} and "boom" in found["server_failed"].evidence
    assert found["server_killed"].cause.startswith("not known")
    assert codes(server.ended, Subject(url="http://127.0.0.1:10")) == ["server_failed"]
    assert codes(server.ended, Subject(url="http://elsewhere.example:10")) == []
    again = announced(11)
    assert codes(server.restarted, Subject()) == ["server_restarted"]
    again.close(ended_now("stopped"))
    assert codes(server.restarted, Subject()) == []


class Answers(BaseHTTPRequestHandler):
    models = b'{"data": [{"id": "m", "error": null}]}'
    status = 200
    moment = 0.0

    def do_GET(self) -> None:
        body = b"{}" if self.path == "/health" else self.models
        self.send_response_only(self.status)
        self.send_header("date", formatdate(time.time() + self.moment, usegmt=True))
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *arguments: object) -> None:
        """Nothing."""


@pytest.fixture
def url(monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    httpd = HTTPServer(("127.0.0.1", 0), Answers)
    threading.Thread(target=httpd.serve_forever, args=(0.02,), daemon=True).start()
    yield f"http://127.0.0.1:{httpd.server_port}"
    httpd.shutdown()
    httpd.server_close()


def test_a_server_by_url(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    assert examine(Subject(url=url, machine=False)).findings == ()
    for name, value, code in (
        ("models", b'{"data": [{"id": "m", "error": "too large"}]}', "model_failed"),
        ("models", b"[1]", "server_foreign"), ("models", b"<html>", "server_refuses"), ("status", 503, "server_silent"),
    ):  # fmt: skip
        with monkeypatch.context() as patch:
            patch.setattr(Answers, name, value)
            assert codes(server.silent, Subject(url=url)) == [code]
    for moment, code in ((-90.0, "clock_skew"), (90.0, "clock_skew")):
        with monkeypatch.context() as patch:
            patch.setattr(Answers, "moment", moment)
            assert codes(clock.skew, Subject(url=url)) == [code]
    with monkeypatch.context() as patch:
        patch.setattr(Answers, "send_header", lambda self, *header: None)
        assert codes(clock.skew, Subject(url=url)) == ["skew_unknown"]
    assert codes(server.silent, Subject(url="http://user@x")) == ["url_invalid"]


def test_a_server_that_answers_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server, "PATIENCE", 0.2)
    with socket.socket() as deaf:
        deaf.bind(("127.0.0.1", 0))
        deaf.listen()
        kept = announced(deaf.getsockname()[1])
        (found,) = server.silent(Subject())
        assert found.code == "server_silent" and found.cause.startswith("its process runs")
        kept.close(ended_now("stopped"))
    assert codes(server.silent, Subject()) == []


# --- clocks -----------------------------------------------------------------------------------------------------------
def test_this_machines_clock(monkeypatch: pytest.MonkeyPatch) -> None:
    assert codes(clock.behind, Subject()) == []
    monkeypatch.setattr(clock.time, "time", lambda: 1e9)
    assert codes(clock.behind, Subject()) == ["clock_behind"]


@pytest.mark.parametrize(("now", "found"), [(900.0, ["frequency_low"]), (3900.0, []), (None, ["frequency_unknown"])])
def test_the_processors_clock(now: float | None, found: list[str], tmp_path: Path) -> None:
    (tmp_path / "proc").mkdir()
    (tmp_path / "proc/cpuinfo").write_text("" if now is None else f"cpu MHz\t\t: {now}\n")
    (tmp_path / "sys/devices/system/cpu/cpu0/cpufreq").mkdir(parents=True)
    (tmp_path / "sys/devices/system/cpu/cpu0/cpufreq/cpuinfo_max_freq").write_text("4000000\n")
    assert codes(clock.frequency, Subject(root=tmp_path)) == []  # computes only to measure
    assert codes(clock.frequency, Subject(root=tmp_path, measure=True)) == found
