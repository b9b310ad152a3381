"""Checks of a configuration: where it lies, whether it can be read, and whether what it names is here."""

from __future__ import annotations

import contextlib
import errno
import socket
from collections.abc import Iterator
from pathlib import Path

from cutaway.config import Config, check_served, config_paths, find_config, load_config
from cutaway.errors import CutawayError
from cutaway.ops.thread_count import choose_threads
from cutaway.registry import resolve
from cutaway.xray.doctor.diagnosis import Diagnosis
from cutaway.xray.doctor.model_files import known_names, same_but_for_spelling
from cutaway.xray.doctor.subject import Subject
from cutaway.xray.server_state import servers


def contents(subject: Subject) -> Iterator[Diagnosis]:
    """Path, format, contents, in this order; renamed keys."""
    renamed: list[str] = []
    path = _path(subject)
    if path is None:
        return
    try:
        check_served(load_config(path, renamed.append), str(path))
    except CutawayError as error:
        yield Diagnosis("error", "config_invalid", "the config cannot be used", error.message, "",
                        error.hint or "cutaway config check FILE, after it was corrected")  # fmt: skip
    for line in renamed:
        yield Diagnosis("warning", "config_key_renamed", "the config has a key of an earlier version", line,
                        "the key was renamed", "write the new name")  # fmt: skip


def shadowed(subject: Subject) -> Iterator[Diagnosis]:
    """Whether another config would be expected to count."""
    found = [path for path in config_paths() if path.is_file()]
    if subject.config is None and len(found) > 1:
        yield Diagnosis("note", "config_shadowed", "two configs exist, and only the first is read",
                        " and ".join(str(path.absolute()) for path in found), "the working directory comes first",
                        "--config names one")  # fmt: skip


def named_models(subject: Subject) -> Iterator[Diagnosis]:
    """Whether the models that it names exist under these names."""
    config = _config(subject)
    if config is None:
        return
    for name in dict.fromkeys([*([config.model] if config.model else []), *(one.model for one in config.models)]):
        try:
            resolve(name)
        except CutawayError as error:
            alike = same_but_for_spelling(name, known_names())
            if "has not been downloaded" in error.message:
                yield Diagnosis("note", "config_model_absent", "a model of the config is not here yet", error.message,
                                "", error.hint)  # fmt: skip
            else:
                yield Diagnosis("error", "config_model_unknown", "a model of the config does not exist", error.message,
                                "" if alike is None else "case, hyphens, dots or underscores differ",
                                error.hint if alike is None else f"write {alike}")  # fmt: skip


def threads(subject: Subject) -> Iterator[Diagnosis]:
    """Whether it requests more threads than may run."""
    config = _config(subject)
    asked = [] if config is None else [config.threads, *(one.threads for one in config.models)]
    for count in dict.fromkeys(one for one in asked if one is not None):
        for line in choose_threads(count, root=subject.root).warnings:
            yield Diagnosis("warning", "threads_beyond", "more threads are requested than may run", line,
                            "the affinity mask or the control group's quota is smaller",
                            "leave threads out: cutaway version shows what is chosen and why")  # fmt: skip


def port(subject: Subject) -> Iterator[Diagnosis]:
    """Whether a server could listen at its address. A server of this user there is no finding."""
    config = _config(subject) or Config()
    host, number = config.server.host, config.server.port
    if number == 0 or any(state.alive and state.port == number for state in servers()):
        return
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    with contextlib.closing(socket.socket(family, socket.SOCK_STREAM)) as listener:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            listener.bind((host, number))
        except OSError as error:
            taken = error.errno == errno.EADDRINUSE
            cause = "another program listens there" if taken else "the address or the port is not this user's to take"
            yield Diagnosis(
                "error" if subject.config else "warning", "port_taken" if taken else "address_invalid",
                "a server could not listen at its address", f"{host}:{number}: {error.strerror or error}", cause,
                f"ss -ltnp 'sport = :{number}' shows it; or another port" if taken else "another server.host or port",
            )  # fmt: skip


def _path(subject: Subject) -> Path | None:
    return subject.config or find_config()


def _config(subject: Subject) -> Config | None:
    """None: there is none, or `contents` names why it cannot be used."""
    path = _path(subject)
    with contextlib.suppress(CutawayError):
        return None if path is None else load_config(path)
    return None
