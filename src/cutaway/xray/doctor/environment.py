"""Checks of the environment: console, variables, the disk that models lie on."""

from __future__ import annotations

import difflib
import os
import shutil
import sys
from collections.abc import Iterator

from cutaway.registry import home
from cutaway.xray.doctor.diagnosis import Diagnosis
from cutaway.xray.doctor.subject import Subject

VARIABLES = ("CUTAWAY_API_KEY", "CUTAWAY_API_KEYS", "CUTAWAY_HOME", "CUTAWAY_ISA")
"""All that are read. Those that begin with CUTAWAY_TEST_ belong to the tests."""
LOCAL = ("127.0.0.1", "localhost")
FREE = 2**30
"""Bytes below which a download of a small model would fail."""


def console(subject: Subject) -> Iterator[Diagnosis]:
    """Whether standard output can show every character."""
    encoding = (getattr(sys.stdout, "encoding", None) or "utf-8").lower().replace("_", "-")
    if encoding not in ("utf-8", "utf8"):
        named = ("LC_ALL", "LC_CTYPE", "LANG")
        locale = next((f"{name}={value}" for name in named if (value := subject.environment.get(name))), "none set")
        yield Diagnosis(
            "warning", "console_encoding", "the console's encoding lacks characters, which are shown as escapes",
            f"standard output is {encoding}; locale: {locale}", "the locale or $PYTHONIOENCODING chooses it",
            "export LC_ALL=C.UTF-8 (or another locale in UTF-8)",
        )  # fmt: skip


def variables(subject: Subject) -> Iterator[Diagnosis]:
    """Names that look like ours and are not read."""
    for name in sorted(subject.environment):
        if name.startswith("CUTAWAY") and name not in VARIABLES and not name.startswith("CUTAWAY_TEST_"):
            near = difflib.get_close_matches(name, VARIABLES, n=1)
            yield Diagnosis("warning", "variable_unread", "a variable of the environment has no effect",
                            f"${name} is not read", "a misspelled name, or one of another version",
                            f"write ${near[0]}" if near else f"the names are {', '.join(VARIABLES)}")  # fmt: skip


def proxy(subject: Subject) -> Iterator[Diagnosis]:
    """Whether clients would send requests for this machine to a proxy."""
    found = {name.lower(): value for name, value in subject.environment.items() if name.lower() in
             ("http_proxy", "all_proxy", "no_proxy") and value}  # fmt: skip
    around = [one.strip() for one in found.pop("no_proxy", "").split(",")]
    if found and "*" not in around and not all(host in around for host in LOCAL):
        yield Diagnosis(
            "warning", "proxy", "clients here may send requests for a local server to a proxy",
            f"${next(iter(found))} is set, and $no_proxy does not list {' and '.join(LOCAL)}",
            "HTTP libraries use the proxy for every host that no_proxy does not name",
            f"export no_proxy={','.join(LOCAL)}",
        )  # fmt: skip


def cache(subject: Subject) -> Iterator[Diagnosis]:
    """Whether models can be kept."""
    folder = home()
    there = next((path for path in (folder, *folder.parents) if path.exists()), None)
    if there is None:
        return
    if not os.access(there, os.W_OK) or not there.is_dir():
        yield Diagnosis("warning", "cache_read_only", "models cannot be downloaded", f"{there} cannot be written",
                        "another user's folder, or a file system that is mounted read-only",
                        "$CUTAWAY_HOME names another folder")  # fmt: skip
        return
    free = shutil.disk_usage(there).free
    if free < FREE:
        yield Diagnosis("warning", "disk_full", "the disk that holds the models is nearly full",
                        f"{free:,} bytes are free at {there}", "",
                        "cutaway models shows what lies there, cutaway rm NAME removes it")  # fmt: skip
