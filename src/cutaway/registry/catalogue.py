"""The catalogue of models: short names, their sources, licences and hashes.

A model that is given by its path does not need it, so the code that reads it is imported only then.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import cache


@dataclass(frozen=True, slots=True)
class Listed:
    """One source of a model in the catalogue. sha256 and size (bytes) are None if they are not known."""

    at: str
    sha256: str | None
    size: int | None


@dataclass(frozen=True, slots=True)
class Entry:
    """A model in the catalogue. `sources` are tried in order.

    languages: those it knows (ISO 639-1) according to its makers; () if they do not say. sampling: the parameters that
    its makers recommend, for files without any.
    """

    name: str
    aliases: tuple[str, ...]
    parameters: str
    licence: str
    note: str
    sources: tuple[Listed, ...]
    languages: tuple[str, ...] = ()
    sampling: Mapping[str, float] = field(default_factory=dict)


@cache
def known_models() -> tuple[Entry, ...]:
    """All models that cutaway knows by name, in the order of the shipped file."""
    import tomllib
    from importlib import resources

    text = resources.files("cutaway.registry").joinpath("catalogue.toml").read_text(encoding="utf-8")
    return tuple(
        Entry(
            name=model["name"],
            aliases=tuple(model["aliases"]),
            parameters=model["parameters"],
            licence=model["licence"],
            note=model["note"],
            sources=tuple(Listed(s["at"], s.get("sha256"), s.get("size")) for s in model["source"]),
            languages=tuple(model.get("languages", ())),
            sampling=model.get("sampling", {}),
        )
        for model in tomllib.loads(text)["model"]
    )


def entry_named(name: str) -> Entry | None:
    """The entry with this name or alias; case is ignored."""
    wanted = name.lower()
    return next((e for e in known_models() if wanted == e.name or wanted in e.aliases), None)


def listed_source(at: str) -> tuple[Entry, Listed] | None:
    """The entry with exactly this source, and that source's data."""
    return next(((e, s) for e in known_models() for s in e.sources if s.at == at), None)


def smallest_that_knows(language: str) -> Entry | None:
    """The entry with the fewest parameters among those that know a language (ISO 639-1)."""
    knowing = [entry for entry in known_models() if language in entry.languages]
    return min(knowing, key=lambda entry: _count(entry.parameters), default=None)


def _count(parameters: str) -> float:
    return float(parameters[:-1]) * {"M": 1e6, "B": 1e9}[parameters[-1]]


def nearest_names(name: str, known: Iterable[str]) -> list[str]:
    """Up to three known names that resemble the given one, the nearest first."""
    import difflib

    return difflib.get_close_matches(name.lower(), list(dict.fromkeys(known)), n=3, cutoff=0.4)
