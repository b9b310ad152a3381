"""What a server leaves where its own user's commands find it: a state file, and the token of its admin.

    $XDG_STATE_HOME/cutaway/servers/   (or ~/.local/state/cutaway/servers), mode 0700
        HOST-PORT.json                 the state of the server there, or of the last one that was; mode 0600
        HOST-PORT.token                its admin token while it runs; mode 0600

The admin is identified by the ability to read the token, and not by a loopback address, which every user of the
machine, every page in a browser and every proxy has.
"""

from __future__ import annotations

import contextlib
import dataclasses
import json
import os
import re
import secrets
import stat
import time
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from cutaway.errors import ConfigError, RecordError
from cutaway.xray.checked_json import Fields

KEPT = 50
"""State files of servers that have ended; older ones go when a server starts."""
_LARGEST_FILE = 2**20


@dataclass(frozen=True, slots=True)
class ServerEnd:
    """at: seconds since 1970, None if unknown; reason: "stopped" (a signal), "failed" (an error, in `message`),
    "killed" (it left no word: killed, or the machine went down)."""

    at: float | None
    reason: str
    message: str = ""


@dataclass(frozen=True, slots=True)
class ServerState:
    """One server. host, port: where it listens; began: seconds since 1970; process_start: clock ticks since the
    machine started (Linux; else None), which tell a process from a later one with the same number. log: the file that
    its log goes to, None if it is no file. models: names. end: None while it runs. last_end: of the server that was
    at the same address before."""

    pid: int
    host: str
    port: int
    began: float
    version: str
    process_start: int | None = None
    log: str | None = None
    models: tuple[str, ...] = ()
    end: ServerEnd | None = None
    last_end: ServerEnd | None = None

    @property
    def url(self) -> str:
        """Where this machine reaches it."""
        host = {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(self.host, self.host)
        return f"http://{f'[{host}]' if ':' in host else host}:{self.port}"

    @property
    def alive(self) -> bool:
        """Whether its process is there, as far as can be seen from here."""
        return self.end is None and _is_running(self.pid, self.process_start)

    @property
    def ended(self) -> ServerEnd | None:
        """How it ended, also where it could leave no word; None: it runs."""
        return None if self.alive else self.end or ServerEnd(None, "killed")

    @property
    def stem(self) -> str:
        """Of its files' names."""
        return f"{re.sub(r'[^0-9A-Za-z.]', '_', self.host)}-{self.port}"


class Announcement:
    """The files of a server that runs. Closed with how it ended. Raises ConfigError, OSError."""

    def __init__(self, state: ServerState, token: str) -> None:
        private_folder(state_folder())
        self._folder = private_folder(servers_folder())
        self._state = replace(state, last_end=_last_end(self._folder / f"{state.stem}.json"))
        write_private(self._folder / f"{state.stem}.token", token)
        self._write()
        _forget_old(self._folder)

    @property
    def state(self) -> ServerState:
        return self._state

    def close(self, end: ServerEnd) -> None:
        """Remove the token, and write how the server ended. Does nothing where another server has taken the place."""
        with contextlib.suppress(OSError, RecordError):
            if _read(self._folder / f"{self._state.stem}.json").pid == self._state.pid:
                (self._folder / f"{self._state.stem}.token").unlink(missing_ok=True)
                self._state = replace(self._state, end=end)
                self._write()

    def _write(self) -> None:
        write_private(self._folder / f"{self._state.stem}.json", json.dumps(dataclasses.asdict(self._state)))


def state_folder() -> Path:
    """Of this user: $XDG_STATE_HOME/cutaway or ~/.local/state/cutaway. It may not exist yet."""
    named = os.environ.get("XDG_STATE_HOME", "")
    return (Path(named) if named.startswith("/") else Path.home() / ".local" / "state") / "cutaway"


def servers_folder() -> Path:
    return state_folder() / "servers"


def private_folder(path: Path, *, ours: bool = True) -> Path:
    """A folder that is this user's alone, made if it is not there.

    ours: cutaway's own, so that its mode may be changed; another one must have it. Raises ConfigError where it
    belongs to another user, is a link or is open to others, and OSError.
    """
    path.mkdir(mode=0o700, parents=True, exist_ok=True)
    found = path.lstat()
    if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.geteuid():
        raise ConfigError(f"{path} is not a folder of this user", code="folder_unsafe")
    if found.st_mode & 0o077 and not ours:
        hint = "choose a folder that does not exist yet, or chmod 700"
        raise ConfigError(f"others can look into {path}", hint=hint, code="folder_unsafe")
    if found.st_mode & 0o077:
        path.chmod(0o700)
    return path


def write_private(path: Path, text: str) -> None:
    """Replace a file as a whole by one that only this user can read. Raises OSError."""
    made = path.with_name(f".{path.name}.{secrets.token_hex(4)}")
    try:
        with os.fdopen(os.open(made, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o600), "wb") as file:
            file.write(text.encode())
        made.rename(path)
    except BaseException:
        made.unlink(missing_ok=True)
        raise


def read_private(path: Path, longest: int = _LARGEST_FILE) -> str:
    """A file of this user that no other user could have written. Raises ConfigError, OSError."""
    with os.fdopen(os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK), "rb") as file:
        found = os.fstat(file.fileno())
        if not stat.S_ISREG(found.st_mode) or found.st_uid != os.geteuid() or found.st_mode & 0o022:
            raise ConfigError(f"{path} is not a file that only this user can write", code="folder_unsafe")
        return file.read(longest).decode("utf-8", "replace")


def servers() -> list[ServerState]:
    """All servers of this user that left a state, those that run first, then by their start, the newest first.
    A file that cannot be read is no server."""
    found = []
    for path in sorted(servers_folder().glob("*.json")):
        with contextlib.suppress(OSError, RecordError, ConfigError):
            found.append(_read(path))
    return sorted(found, key=lambda state: (not state.alive, -state.began))


def admin_token(state: ServerState) -> str | None:
    """What makes the reader its admin; None if it cannot be read here."""
    with contextlib.suppress(OSError, ConfigError):
        return read_private(servers_folder() / f"{state.stem}.token", 1000).strip() or None
    return None


def process_start(pid: int) -> int | None:
    """Clock ticks from the start of the machine to that of a process; None where it is not to be known (proc(5))."""
    try:
        return int(Path(f"/proc/{pid}/stat").read_bytes().rpartition(b")")[2].split()[19])
    except (OSError, ValueError, IndexError):
        return None


def log_file() -> str | None:
    """The file that standard error goes to; None if it is a terminal, a pipe or a socket."""
    with contextlib.suppress(OSError, ValueError):
        if stat.S_ISREG(os.fstat(2).st_mode):
            return str(Path("/proc/self/fd/2").readlink())
    return None


def _is_running(pid: int, started: int | None) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return False  # another user has that number now
    return started is None or process_start(pid) in (None, started)


def _read(path: Path) -> ServerState:
    """Raises OSError, ConfigError, RecordError."""
    try:
        value: Any = json.loads(read_private(path))
    except (ValueError, RecursionError) as error:
        raise RecordError(f"{path} is not JSON: {error}") from None
    fields = Fields(value, path.name)
    return ServerState(
        pid=fields.integer("pid", 1, 2**31),
        host=fields.text("host", 300),
        port=fields.integer("port", 0, 65535),
        began=fields.number("began"),
        version=fields.text("version", 100),
        process_start=fields.optional(fields.integer, "process_start"),
        log=fields.optional(fields.text, "log", 5000),
        models=fields.texts("models", 1000, 1000),
        end=_end(fields.object("end")) if fields.has("end") else None,
        last_end=_end(fields.object("last_end")) if fields.has("last_end") else None,
    )


def _end(fields: Fields) -> ServerEnd:
    return ServerEnd(fields.optional(fields.number, "at"), fields.text("reason", 100), fields.text("message", 10_000))


def _last_end(path: Path) -> ServerEnd | None:
    """How the last server at this address ended, as far as its state file shows it."""
    try:
        return _read(path).ended
    except (OSError, RecordError, ConfigError):
        return None


def _forget_old(folder: Path) -> None:
    """The oldest files of servers that have ended."""
    for state in [state for state in servers() if not state.alive][KEPT:]:
        for end in ("json", "token"):
            with contextlib.suppress(OSError):
                (folder / f"{state.stem}.{end}").unlink(missing_ok=True)


def ended_now(reason: str, message: str = "") -> ServerEnd:
    return ServerEnd(time.time(), reason, message[:1000])
