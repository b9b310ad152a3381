"""Reads a config, and explains one that cannot be used: a syntax error (line, column, the line itself, the usual
mistake), a missing file (every path that was searched), or invalid contents (key, expected and given value, nearest
key).
"""

from __future__ import annotations

import dataclasses
import difflib
import json
import os
import re
import tomllib
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from cutaway.config.sections import SECTIONS, Config, parse_bytes
from cutaway.errors import ConfigError
from cutaway.sampling.parameter import bias_of

FILE_NAME = "cutaway.toml"
RENAMED: dict[str, str] = {}
"""Keys of earlier versions and their present names, with their section: "server.old" -> "new"."""
Warn = Callable[[str], None]


def settings(section: Any) -> dict[str, Any]:
    """The keys that a section sets, and the sections inside it."""
    said = {f.name: getattr(section, f.name) for f in dataclasses.fields(section)}
    return {k: v for k, v in said.items() if v is not None and k not in SECTIONS and k != "aliases"}


def sampling_settings(config: Config) -> dict[str, Any]:
    """The settings of `[sampling]` without the preset, as arguments of SamplingParams. Raises ConfigError."""
    said = {name: value for name, value in settings(config.sampling).items() if name != "preset"}
    if "logit_bias" in said:
        try:
            said["logit_bias"] = bias_of(said["logit_bias"])
        except ValueError as error:
            raise ConfigError(f"sampling.{error}") from None
    return said


def config_paths() -> list[Path]:
    """The places of a config, in the order of the search: the working directory, then the user's configuration
    directory."""
    base = os.environ.get("XDG_CONFIG_HOME")
    return [Path(FILE_NAME), (Path(base) if base else Path.home() / ".config") / "cutaway" / FILE_NAME]


def find_config() -> Path | None:
    """The first existing config, or None."""
    return next((p for p in config_paths() if p.is_file()), None)


def load_config(path: Path | None = None, warn: Warn | None = None) -> Config:
    """Read a config: the given file, or the first of `config_paths`, or none (all defaults).

    warn: called for keys that were renamed. Raises ConfigError.
    """
    found = path or find_config()
    if found is None:
        return Config()
    try:
        text = found.read_bytes().decode("utf-8-sig")
    except FileNotFoundError:
        looked = ", ".join(str(p.absolute()) for p in [found, *config_paths()])
        raise ConfigError(
            f"there is no config at {found}",
            hint=f"searched: {looked}; the working directory is {Path.cwd()}; create one with: cutaway config init",
        ) from None
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"{found} cannot be read: {error}", hint="it must be a text file in UTF-8") from error
    return parse_config(text, str(found), warn)


def parse_config(text: str, name: str = FILE_NAME, warn: Warn | None = None) -> Config:
    """A config from its text. name: its name in errors. Raises ConfigError."""
    try:
        values = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise ConfigError(*_syntax(str(error), text, name)) from None
    except RecursionError:
        raise ConfigError(f"{name} is nested too deeply") from None
    for old, new in _take_renamed(values):
        if warn is not None:
            warn(f"{name}: {old} is now called {new}; the old name still works")
    return _validated(values, name)


def check_config(config: Config, name: str) -> Config:
    """A config from another source, with the checks of one that was read. Raises ConfigError."""
    return _validated(dataclasses.asdict(config), name)


def check_served(config: Config, name: str) -> None:
    """Checks that only a server needs: a valid size, unique names, aliases of existing models (if all models are given
    names; otherwise their names come from their files). Raises ConfigError."""
    if config.server.memory is not None:
        parse_bytes(config.server.memory)
    parse_bytes(config.record.memory, "record.memory")
    names = [model.name for model in config.models if model.name]
    known = bool(names) and len(names) == len(config.models)
    check_names(names, config.aliases or {}, known=known, where=f"{name}: ")


def check_names(
    names: Sequence[str], aliases: Mapping[str, str | Mapping[str, float]], *, known: bool = True, where: str = ""
) -> None:
    """Check that served names are unique, and that aliases refer to served models and are not served names.

    known: whether `names` is complete. where: the beginning of messages. Raises ConfigError.
    """
    if twice := next((one for one in names if names.count(one) > 1), None):
        raise ConfigError(f"{where}two models are served as {twice!r}", hint="give one of them another name")
    for alias, target in aliases.items():
        if alias in names:
            raise ConfigError(f"{where}aliases.{alias} is also the name of a served model")
        for model in [target] if isinstance(target, str) else target:
            if known and model not in names:
                near = difflib.get_close_matches(model, names, n=1)
                hint = f"did you mean {near[0]!r}?" if near else ""
                raise ConfigError(
                    f"{where}aliases.{alias} names {model!r}; the served models are {', '.join(names)}", hint=hint
                )
        if not target:
            raise ConfigError(f"{where}aliases.{alias} names no model")


def _validated(values: dict[str, Any], name: str) -> Config:
    # Not at the top: most runs have no config, and importing pydantic is slow.
    from pydantic import TypeAdapter, ValidationError

    try:
        # As JSON, because strict validation then accepts an object as a section.
        return TypeAdapter(Config).validate_json(json.dumps(values, default=str))
    except ValidationError as error:
        raise ConfigError(f"{name}: " + "; ".join(_content(e) for e in error.errors())) from None


def _take_renamed(values: dict[str, Any]) -> list[tuple[str, str]]:
    """Rename old keys in place, unless the new one is present too."""
    found = []
    for old, new in RENAMED.items():
        section, _, key = old.rpartition(".")
        at = values.get(section, {}) if section else values
        if isinstance(at, dict) and key in at and new not in at:
            at[new] = at.pop(key)
            found.append((old, new))
    return found


# --- step 1: is it TOML -----------------------------------------------------------------------------------------------
def _syntax(message: str, text: str, name: str) -> tuple[str]:
    """The parser's message, with the line to which it refers. (The message is the only place of the line number.)"""
    found = re.search(r"\(at line (\d+), column (\d+)\)", message)
    lines = text.splitlines() or [""]
    line, column = (int(found[1]), int(found[2])) if found else (len(lines), len(lines[-1]) + 1)
    words = message[: found.start()].strip() if found else message.replace("(at end of document)", "").strip()
    shown = lines[min(line, len(lines)) - 1]
    mistake = _usual_mistake(shown, words)
    said = f"\n    {mistake}" if mistake else ""
    return (f"{name}, line {line}, column {column}: {words}\n    {shown}\n    {' ' * (column - 1)}^{said}",)


_MISTAKES = (
    (r"[\u201c\u201d\u2018\u2019\uff02]", "the quotes are typographic ones; TOML wants the plain \" or '"),
    (r"=\s*(True|False)\b", "TOML writes true and false in small letters"),
    (r"=\s*(None|null|nil)\b", "TOML has no empty value; leave the line out"),
    (r"^\s*[\w.-]+\s*:", "TOML writes key = value, not key: value"),
    (r"^\s*[\w.-]+\s*$", "a key needs a value: key = value"),
    (r'=\s*"[^"]*\\[^btnfruUex"\\]', "a backslash inside \"...\" begins an escape; put paths into '...'"),
    (r"=\s*\"[^\"]*$|=\s*'[^']*$", "the closing quote is missing"),
    (r"^\s*\[\[?[^\]]*\]?\s*$", "a section is written [name], a list of sections [[name]]"),
    (r"=\s*[A-Za-z~./][^\"'\[{]*$", 'a text needs quotes: key = "value"'),
)


def _usual_mistake(line: str, words: str) -> str:
    """The usual cause of this error on such a line; "" if none is known."""
    if "overwrite" in words or "twice" in words or "redefine" in words:
        return "a key or a section stands there twice"
    return next((said for pattern, said in _MISTAKES if re.search(pattern, line)), "")


# --- step 3: is its content right -------------------------------------------------------------------------------------
def _content(error: Mapping[str, Any]) -> str:
    """One invalid entry: key, expected and given value, nearest key."""
    path = [str(part) for part in error["loc"] if part != "str" and not str(part).startswith("dict[")]
    key = ".".join(path)
    if error["type"] == "unexpected_keyword_argument":
        return f"unknown key {key!r}" + _nearest(path)
    if error["type"] in ("missing", "missing_argument"):
        return f"{key} is missing"
    expected = str(error["msg"]).removeprefix("Input should be ")
    return f"{key} must be {expected}, and is {error['input']!r}"


def _nearest(path: Sequence[str]) -> str:
    """The nearest key of that section, otherwise of another section, otherwise all keys of this section."""
    section = path[0] if len(path) > 1 else ""
    known = _keys(section)
    if near := difflib.get_close_matches(path[-1], known, n=1, cutoff=0.6):
        return f"; did you mean {near[0]!r}?"
    if elsewhere := [f"{s}.{path[-1]}".lstrip(".") for s in SECTIONS if path[-1] in _keys(s)]:
        return f"; there is {' and '.join(elsewhere)}"
    if near := difflib.get_close_matches(path[-1], known, n=1, cutoff=0.45):
        return f"; did you mean {near[0]!r}?"
    return f"; known: {', '.join(known)}"


def _keys(section: str) -> list[str]:
    return [f.name for f in dataclasses.fields(SECTIONS.get(section, Config))]
