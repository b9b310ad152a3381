"""One entry of the table of sampling parameters.

The table is `SamplingParams` (params.py). Each of its fields is made by one of the functions below, which take the
type, range, help and other names of the parameter. The table is the source of the checks of `SamplingParams`, the
options of the command line, the keys of a config's `[sampling]`, the fields of requests and docs/parameters.md.
This module imports nothing heavy, because `cutaway --help` reads the table.
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
    """Another name of a parameter in requests.

    of: the API or server that uses this name. everywhere: every generating route accepts it; otherwise only the route
    that declares it. scale: the factor that converts a value to the parameter's unit.
    """

    name: str
    of: str
    everywhere: bool = True
    scale: float = 1.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Parameter:
    """The definition of one parameter.

    kind: the kind of value. default: the value when none is given. optional: None is also a value. low, high: the
    range of a number, inclusive; above: low is excluded. choices: the complete list of values. stage: "module:name" of
    the stage that the parameter enables (a module of `cutaway.sampling`), or the bare name of a stage that another
    parameter enables; None: it belongs to no stage. help: one or two sentences. panel: the section of a command's help
    that lists it. flags, metavar: for the command line; without flags the option is derived from the name. aliases:
    other names in requests. cli, config, request: whether the command line, the config and every generating route
    accept it; "route": only routes that declare it.
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
        """The options on the command line. Those of a flag include the form that turns it off."""
        flags = self.flags or ("--" + self.name.replace("_", "-"),)
        return (f"{flags[0]}/--no-{flags[0][2:]}", *flags[1:]) if self.kind == "flag" else flags

    @property
    def range(self) -> str:
        """The permitted values, as text for people."""
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
        """The Python type of a value in JSON or TOML."""
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
    """A parameter that can only be set from Python."""
    return entry(kind, default, help=help, cli=False, config=False, request=False, **settings)


def table(params: type) -> tuple[Parameter, ...]:
    """The parameters of a class with such fields, in the order of the fields."""
    fields = dataclasses.fields(params)
    return tuple(dataclasses.replace(field.metadata["parameter"], name=field.name) for field in fields)


def stages_of(parameters: tuple[Parameter, ...]) -> tuple[str, ...]:
    """The names of the parameters' stages in the order of the table, which is the order in which they run."""
    return tuple(dict.fromkeys(p.stage_name for p in parameters if p.stage_name is not None))


def bias_of(given: Mapping[str, float]) -> dict[int, float]:
    """logit_bias from JSON or TOML, whose keys are strings. Raises ValueError for a key that is not a token id."""
    for key in given:
        if not (key.isascii() and key.isdigit() and len(key) < 10):
            raise ValueError(f"logit_bias has the key {key[:40]!r}; keys are token ids, as decimal digits")
    return {int(key): value for key, value in given.items()}
