"""`cutaway.toml`: defaults for a run, so that they need not be typed each time. An option on the command line wins.

Errors come in three kinds, and each shows what is needed to mend it: not TOML (line, column and the line itself), not
found (the paths looked at), or a wrong content (key, expected, given, the nearest key that exists).
"""

from __future__ import annotations

import dataclasses
import difflib
import json
import os
import re
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal

from annotated_types import Ge, Gt, Le

from cutaway.errors import ConfigError

FILE_NAME = "cutaway.toml"
KVTypeName = Literal["f32", "bf16", "int8", "fp8"]
Count = Annotated[int, Ge(1)]
Share = Annotated[float, Ge(0), Le(1)]
Penalty = Annotated[float, Ge(-2), Le(2)]
_STRICT = {"extra": "forbid", "strict": True}


@dataclass(frozen=True, slots=True)
class SamplingDefaults:
    """Sampling options that hold unless the command line says otherwise. None: the model's or the preset's own."""

    __pydantic_config__: ClassVar[Mapping[str, Any]] = _STRICT

    preset: str | None = None
    temperature: Annotated[float, Ge(0), Le(100)] | None = None
    top_p: Share | None = None
    top_k: Annotated[int, Ge(-1)] | None = None
    min_p: Share | None = None
    typical_p: Annotated[float, Gt(0), Le(1)] | None = None
    repetition_penalty: Annotated[float, Gt(0)] | None = None
    presence_penalty: Penalty | None = None
    frequency_penalty: Penalty | None = None
    max_tokens: Count | None = None
    seed: int | None = None


@dataclass(frozen=True, slots=True)
class Config:
    """The whole file. None: not said."""

    __pydantic_config__: ClassVar[Mapping[str, Any]] = _STRICT

    model: str | None = None
    system: str | None = None
    threads: Count | None = None
    context: Count | None = None
    kv_k: KVTypeName | None = None
    kv_v: KVTypeName | None = None
    rope_scaling: str | None = None
    sampling: SamplingDefaults = SamplingDefaults()


def settings(section: Config | SamplingDefaults) -> dict[str, Any]:
    """What a section says, by key; sections inside it apart."""
    said = {f.name: getattr(section, f.name) for f in dataclasses.fields(section)}
    return {key: value for key, value in said.items() if value is not None and key != "sampling"}


EXAMPLE = """\
# Defaults for `cutaway run` and `cutaway chat`. An option on the command line wins. Remove a `#` to set a line.

# model = "smollm2-135m"          # a name (see: cutaway models --all), a path, hf:... or pypi:...
# system = "You are brief."       # the system message
# threads = 2
# context = 4096                  # tokens that prompt and answer may have together
# kv_k = "bf16"                   # keys: bf16, f32, int8 or fp8
# kv_v = "bf16"                   # values: likewise; int8 is nearly free
# rope_scaling = "linear:2"

[sampling]
# preset = "chat"                 # see: cutaway presets
# temperature = 0.7
# top_p = 0.9
# top_k = 40
# max_tokens = 512
# seed = 1
"""


def config_paths() -> list[Path]:
    """Where a config is looked for, in this order: the working directory, then the user's configuration directory."""
    base = os.environ.get("XDG_CONFIG_HOME")
    return [Path(FILE_NAME), (Path(base) if base else Path.home() / ".config") / "cutaway" / FILE_NAME]


def find_config() -> Path | None:
    """The first config there is."""
    return next((p for p in config_paths() if p.is_file()), None)


def load_config(path: Path | None = None) -> Config:
    """Read a config: the given file, or the first of `config_paths`, or none (all defaults). Raises ConfigError."""
    found = path or find_config()
    if found is None:
        return Config()
    try:
        text = found.read_bytes().decode("utf-8-sig")
    except FileNotFoundError:
        looked = ", ".join(str(p.absolute()) for p in [found, *config_paths()])
        raise ConfigError(
            f"there is no config at {found}", hint=f"looked at: {looked}; make one with: cutaway config init"
        ) from None
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"{found} cannot be read: {error}", hint="it must be a text file in UTF-8") from error
    return parse_config(text, str(found))


def parse_config(text: str, name: str = FILE_NAME) -> Config:
    """A config from its text. name: what errors call it. Raises ConfigError."""
    # Not at the top: most runs have no config, and pydantic is slow to import.
    from pydantic import TypeAdapter, ValidationError

    try:
        values = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise ConfigError(_syntax(str(error), text, name)) from None
    try:
        # As JSON: there, strict validation knows that an object is how a section is written.
        return TypeAdapter(Config).validate_json(json.dumps(values, default=str))
    except ValidationError as error:
        raise ConfigError(f"{name}: " + "; ".join(_content(e) for e in error.errors())) from None


def _syntax(message: str, text: str, name: str) -> str:
    """What the parser says, with the line it says it of. (It gives the place only inside its message.)"""
    found = re.search(r"\(at line (\d+), column (\d+)\)", message)
    lines = text.splitlines() or [""]
    line, column = (int(found[1]), int(found[2])) if found else (len(lines), len(lines[-1]) + 1)
    words = message[: found.start()].strip() if found else message.replace("(at end of document)", "").strip()
    shown = lines[min(line, len(lines)) - 1]
    return f"{name}, line {line}, column {column}: {words}\n    {shown}\n    {' ' * (column - 1)}^"


def _content(error: Mapping[str, Any]) -> str:
    """One wrong entry: key, expected, given, nearest key."""
    path = [str(part) for part in error["loc"]]
    key = ".".join(path)
    if error["type"] == "unexpected_keyword_argument":
        known = _known_keys(path[:-1])
        near = difflib.get_close_matches(path[-1], known, n=1, cutoff=0.5)
        return f"unknown key {key!r}" + (f"; did you mean {near[0]!r}?" if near else f"; known: {', '.join(known)}")
    expected = str(error["msg"]).removeprefix("Input should be ")
    return f"{key} must be {expected}, and is {error['input']!r}"


def _known_keys(path: Sequence[str]) -> list[str]:
    return [f.name for f in dataclasses.fields(SamplingDefaults if list(path) == ["sampling"] else Config)]
