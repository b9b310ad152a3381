"""One entry of the table of sampling parameters.

The table is `SamplingParams` (params.py): each of its fields is made by one of the functions below, which say the
type, the range, the help and the other names of a parameter. From it are made the checks of `SamplingParams`, the
options of the command line, the keys of a config's `[sampling]`, the fields of requests and docs/parameters.md.
This module imports nothing heavy, as `cutaway --help` reads the table.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

Kind = Literal[
    "number", "integer", "flag", "word", "text", "texts", "tokens", "words", "bias", "schema", "functions", "object"
]
LARGEST = 2**31 - 1


@dataclass(frozen=True, slots=True)
class Alias:
    """Another name of a parameter in requests. of: the API or server that calls it so.

    everywhere: every generating route takes it; else only the route that declares it. scale: what a value is
    multiplied by to become ours.
    """

    name: str
    of: str
    everywhere: bool = True
    scale: float = 1.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Parameter:
    """What is known of one parameter.

    kind: of its value. default: where nothing is given. optional: None is a value, too. low, high: of numbers, both
    included; above: low itself is not. choices: all values there are. stage: "module:name" of the stage that it
    switches on (module of `cutaway.sampling`), or the bare name of a stage that another parameter switches on; None: it
    belongs to no stage. help: one or two sentences. panel: the part of a command's help that shows it. flags,
    metavar: on the command line; no flags: made of the name. aliases: other names in requests. cli, config, request:
    whether the command line, the config and every generating route take it; "route": only routes that declare it.
    """

    name: str = ""
    kind: Kind
    default: Any
    optional: bool = False
    low: float = 0.0
    high: float = 0.0
    above: bool = False
    choices: tuple[Any, ...] = ()
    stage: str | None = None
    help: str
    panel: str = "More sampling"
    flags: tuple[str, ...] = ()
    metavar: str | None = None
    aliases: tuple[Alias, ...] = ()
    cli: bool = True
    config: bool = True
    request: bool | Literal["route"] = True

    @property
    def stage_name(self) -> str | None:
        return None if self.stage is None else self.stage.rpartition(":")[2]

    @property
    def options(self) -> tuple[str, ...]:
        """On the command line; those of a flag with the form that switches it off."""
        flags = self.flags or ("--" + self.name.replace("_", "-"),)
        return (f"{flags[0]}/--no-{flags[0][2:]}", *flags[1:]) if self.kind == "flag" else flags

    @property
    def range(self) -> str:
        """What a value may be, in a few words."""
        if self.choices:
            return " or ".join(str(choice) for choice in self.choices)
        if self.kind in ("number", "integer"):
            low, high = (_figure(value) for value in (self.low, self.high))
            return f"{self.kind}, {'above ' if self.above else ''}{low} to {high}"
        return {
            "flag": "true or false", "texts": "texts", "tokens": "token ids", "words": "texts or lists of token ids",
            "bias": "token id to number, -100 to 100", "schema": "JSON schema",
        }.get(self.kind, self.kind)  # fmt: skip

    @property
    def type(self) -> Any:
        """Of a value where it is written as JSON or TOML."""
        if self.choices:
            return Literal[self.choices]
        return {
            "number": float, "integer": int, "flag": bool, "text": str, "texts": str | list[str], "words": list[str],
            "tokens": list[int], "bias": dict[str, float], "schema": dict[str, Any] | bool,
        }[self.kind]  # fmt: skip


def _figure(value: float) -> str:
    if abs(value) < 2**31 - 1:
        return f"{value:g}"
    power = (abs(int(value)) + 1).bit_length() - 1
    return f"{'-' if value < 0 else ''}2^{power}" + ("" if abs(int(value)) == 2**power else " - 1")


def entry(kind: Kind, default: Any, **settings: Any) -> Any:
    """A field of `SamplingParams` that is an entry of the table."""
    parameter = Parameter(kind=kind, default=default, **settings)
    metadata = {"parameter": parameter}
    if isinstance(default, Mapping):
        return dataclasses.field(default_factory=lambda: dict(default), metadata=metadata)
    return dataclasses.field(default=default, metadata=metadata)


def number(default: float | None, low: float, high: float, **settings: Any) -> Any:
    return entry("number", default, low=low, high=high, optional=default is None, **settings)


def integer(default: int | None, low: int, high: int = LARGEST, **settings: Any) -> Any:
    return entry("integer", default, low=low, high=high, optional=default is None, **settings)


def flag(**settings: Any) -> Any:
    return entry("flag", False, **settings)


def word(default: str | None, *choices: str, **settings: Any) -> Any:
    return entry("word", default, choices=choices, optional=default is None, **settings)


def texts(*default: str, **settings: Any) -> Any:
    return entry("texts", default, **settings)


def tokens(**settings: Any) -> Any:
    return entry("tokens", (), **settings)


def internal(kind: Kind, default: Any, *, help: str, **settings: Any) -> Any:
    """A parameter that only Python code gives."""
    return entry(kind, default, help=help, cli=False, config=False, request=False, **settings)


def table(params: type) -> tuple[Parameter, ...]:
    """The parameters of a class of such fields, in their order."""
    fields = dataclasses.fields(params)
    return tuple(dataclasses.replace(field.metadata["parameter"], name=field.name) for field in fields)


def stages_of(parameters: tuple[Parameter, ...]) -> tuple[str, ...]:
    """The names of their stages, in the order of the table, which is the order in which they run."""
    return tuple(dict.fromkeys(p.stage_name for p in parameters if p.stage_name is not None))


def bias_of(given: Mapping[str, float]) -> dict[int, float]:
    """logit_bias from JSON or TOML, whose keys are texts. Raises ValueError for one that is no token id."""
    for key in given:
        if not (key.isascii() and key.isdigit() and len(key) < 10):
            raise ValueError(f"logit_bias has the key {key[:40]!r}; keys are token ids, as decimal digits")
    return {int(key): value for key, value in given.items()}
