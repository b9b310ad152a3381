"""The sources of models: `hf:owner/repo[:file]` or `pypi:package==version[,package==version...]`."""

from __future__ import annotations

import re
from dataclasses import dataclass

from cutaway.errors import ParameterError

PREFIXES = ("hf:", "pypi:")

# These strings end up on a command line and in URLs, so only characters that the two registries allow are accepted.
_REPO = re.compile(r"[A-Za-z0-9][\w.-]*/[A-Za-z0-9][\w.-]*", re.ASCII)
_FILE = re.compile(r"[\w][\w./ +-]*", re.ASCII)
_PACKAGE = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*==[A-Za-z0-9][A-Za-z0-9.!+_-]*")


@dataclass(frozen=True, slots=True)
class HubSource:
    """A repository on the Hugging Face hub. `file`: one of its files, or a part of its name such as "Q4_K_M"."""

    repo: str
    file: str | None

    @property
    def name(self) -> str:
        return self.repo.split("/")[1]


@dataclass(frozen=True, slots=True)
class PackageSource:
    """Python packages that contain a model: one package, or several whose data files are joined in order."""

    packages: tuple[str, ...]

    @property
    def name(self) -> str:
        return self.packages[0].split("==")[0]


def is_source(text: str) -> bool:
    """Whether the text is meant as a source, valid or not."""
    return text.startswith(PREFIXES)


def parse_source(text: str) -> HubSource | PackageSource:
    """Parse a source. Raises ParameterError if it is malformed."""
    kind, _, rest = text.partition(":")
    if kind == "hf":
        repo, colon, file = rest.partition(":")
        if _REPO.fullmatch(repo) and (not colon or (_FILE.fullmatch(file) and ".." not in file)):
            return HubSource(repo, file if colon else None)
        raise ParameterError(f"{text!r} is not a hub source", hint="write hf:owner/repo or hf:owner/repo:file")
    packages = tuple(rest.split(","))
    if kind == "pypi" and all(_PACKAGE.fullmatch(p) for p in packages):
        return PackageSource(packages)
    raise ParameterError(
        f"{text!r} is not a package source", hint="write pypi:package==version, or several joined by commas"
    )
