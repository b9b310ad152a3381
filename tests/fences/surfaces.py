"""What programs and people rely on, written down as text: help, names, codes, keys, the OpenAPI description.

Written from the objects, not from what a library prints of them: widths, colours and versions of typer, pydantic and
prometheus-client change nothing here.
"""

from __future__ import annotations

import ast
import dataclasses
import inspect
import json
import re
import textwrap
import typing
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any

import typer

import cutaway
from cutaway import errors
from cutaway.cli.app import app
from cutaway.config import Config, LoggingConfig, ModelConfig
from cutaway.config.sections import SECTIONS
from cutaway.server.app import create_app

SOURCE = Path(cutaway.__file__).parent


# --- the command line -------------------------------------------------------------------------------------------------
def help_texts() -> str:
    """Every command: what it says it does, its arguments and options with their help, types, bounds and defaults."""
    return "\n".join(_program("cutaway", app))


def _program(path: str, program: typer.Typer) -> Iterator[str]:
    callback = program.registered_callback
    yield f"## {path}"
    yield from _wrapped(program.info.help if isinstance(program.info.help, str) else "")
    if callback is not None and callback.callback is not None:
        yield from _command(callback.callback)
    yield ""
    for command in program.registered_commands:
        assert command.callback is not None
        yield f"## {path} {command.name or command.callback.__name__.replace('_', '-')}"
        yield from _wrapped(command.help or inspect.getdoc(command.callback) or "")
        yield from [*_command(command.callback), ""]
    for group in program.registered_groups:
        assert group.typer_instance is not None
        yield from _program(f"{path} {group.name}", group.typer_instance)


def _command(callback: Any) -> Iterator[str]:
    hints = typing.get_type_hints(callback, include_extras=True)
    for name, parameter in inspect.signature(callback).parameters.items():
        if typing.get_origin(hints[name]) is not Annotated:
            continue
        kind, info = typing.get_args(hints[name])[:2]
        argument = isinstance(info, typer.models.ArgumentInfo)
        given = [decl for decl in (info.default, *(info.param_decls or ())) if isinstance(decl, str)]
        spelled = name.upper() if argument else ", ".join(given or ["--" + name.replace("_", "-")])
        default = "required" if parameter.default is inspect.Parameter.empty else f"default {parameter.default!r}"
        bounds = [f"{end} {getattr(info, end)}" for end in ("min", "max") if getattr(info, end) is not None]
        yield f"  {spelled}  [{', '.join([getattr(kind, '__name__', str(kind)), *bounds, default])}]"
        yield from _wrapped(info.help or "", "      ")


def _wrapped(text: str, indent: str = "") -> list[str]:
    return textwrap.wrap(" ".join(text.split()), 100, initial_indent=indent, subsequent_indent=indent)


# --- Python -----------------------------------------------------------------------------------------------------------
def public_names() -> str:
    """Everything that `cutaway` exports, with signatures, public methods and fields."""
    lines: list[str] = []
    for name in sorted(cutaway.__all__):
        exported = getattr(cutaway, name)
        if inspect.isclass(exported):
            lines += [f"class {name}({', '.join(base.__name__ for base in exported.__bases__)})", *_class(exported), ""]
        else:
            lines += [f"{name}: {type(exported).__name__}", ""]
    return "\n".join(lines)


def _class(kind: type) -> Iterator[str]:
    if dataclasses.is_dataclass(kind):
        yield from (f"    {field.name}: {field.type}{_field_default(field)}" for field in dataclasses.fields(kind))
    for name, member in sorted(vars(kind).items()):
        if name.startswith("_") and not (name == "__init__" and not dataclasses.is_dataclass(kind)):
            continue
        inner = getattr(member, "__func__", member)
        if isinstance(member, property):
            yield f"    {name}: property"
        elif inspect.isfunction(inner):
            mark = type(member).__name__ + " " if inner is not member else ""
            yield f"    {mark}{name}({', '.join(_arguments(inner))})"
        elif not (inspect.ismemberdescriptor(member) or name in getattr(kind, "__dataclass_fields__", ())):
            yield f"    {name} = {member!r}"


def _arguments(function: Any) -> Iterator[str]:
    starred = False
    for parameter in inspect.signature(function).parameters.values():
        annotation = "" if parameter.annotation is inspect.Parameter.empty else f": {parameter.annotation}"
        default = "" if parameter.default is inspect.Parameter.empty else f" = {_readable(parameter.default)}"
        if parameter.kind is inspect.Parameter.KEYWORD_ONLY and not starred:
            starred = True
            yield "*"
        starred = starred or parameter.kind is inspect.Parameter.VAR_POSITIONAL
        stars = {inspect.Parameter.VAR_POSITIONAL: "*", inspect.Parameter.VAR_KEYWORD: "**"}.get(parameter.kind, "")
        yield f"{stars}{parameter.name}{annotation}{default}"


def _field_default(field: Any) -> str:
    if field.default is not dataclasses.MISSING:
        return f" = {_readable(field.default)}"
    return "" if field.default_factory is dataclasses.MISSING else f" = {field.default_factory.__name__}()"


def _readable(value: Any) -> str:
    """The value's repr, without an address in memory."""
    return re.sub(r" object at 0x[0-9a-f]+", "", repr(value))


# --- errors, config ---------------------------------------------------------------------------------------------------
def error_codes() -> str:
    """Classes of errors with their codes, and codes given where an error is raised."""
    classes = [kind for _, kind in inspect.getmembers(errors, inspect.isclass)]
    lines = [f"{kind.__name__}({kind.__bases__[0].__name__}): {kind.code}" for kind in classes]
    return "\n".join([*lines, "", "given where they are raised:", *sorted(_codes_in_source())]) + "\n"


def _codes_in_source() -> set[str]:
    found = set()
    for path in SOURCE.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            if isinstance(node, ast.keyword) and node.arg == "code" and isinstance(node.value, ast.Constant):
                found.add(str(node.value.value))
    return found - {"None"}


def config_keys() -> str:
    """Sections of the configuration, their keys, what a value may be, and the default."""
    lines = []
    for section, kind in SECTIONS.items():
        lines.append(f"[{section}]")
        lines += [f"{f.name}: {f.type}{_config_default(f)}" for f in dataclasses.fields(kind)] + [""]
    return "\n".join(lines)


def _config_default(field: Any) -> str:
    return "" if dataclasses.is_dataclass(field.default) else _field_default(field)


# --- the server -------------------------------------------------------------------------------------------------------
def openapi(folder: Path) -> str:
    """Paths and methods, and the schemas line by line: one for each property."""
    made = create_app(Config(models=(ModelConfig(str(_empty_model(folder))),), logging=LoggingConfig(format="json")))
    description = made.openapi()
    lines = [f"openapi: {description['openapi']}", f"title: {description['info']['title']}", ""]
    for path, methods in description["paths"].items():
        for method, operation in methods.items():
            lines.append(f"{method.upper()} {path}")
            lines += [f"  {key}: {_compact(value)}" for key, value in operation.items()]
    for name, schema in sorted(description["components"]["schemas"].items()):
        lines += ["", f"schema {name}: {_compact({k: v for k, v in schema.items() if k != 'properties'})}"]
        lines += [f"  {key}: {_compact(value)}" for key, value in schema.get("properties", {}).items()]
    lines += ["", f"security: {_compact(description['components']['securitySchemes'])}"]
    return "\n".join(lines) + "\n"


def _empty_model(folder: Path) -> Path:
    path = folder / "model.gguf"
    path.write_bytes(b"GGUF")  # nothing is loaded before the application starts
    return path


def _compact(value: Any) -> str:
    return json.dumps(_without_titles(value), ensure_ascii=False, sort_keys=True)


def _without_titles(value: Any, named: bool = False) -> Any:
    """Pydantic makes titles out of names. named: the keys of this object are names themselves."""
    if isinstance(value, list):
        return [_without_titles(one) for one in value]
    if not isinstance(value, dict):
        return value
    return {key: _without_titles(v, key == "properties") for key, v in value.items() if named or key != "title"}


def metric_names(page: str) -> str:
    """Of a page of /metrics: names, types, labels and help, without values."""
    found: dict[str, set[str]] = {}
    for line in page.splitlines():
        if line.startswith("# "):
            found.setdefault(line, set())
        else:
            sample = re.fullmatch(r"([\w:]+)(?:\{(.*)\})? .*", line)
            assert sample is not None, line
            labels = ",".join(re.findall(r'(\w+)="', sample[2] or ""))
            found.setdefault(f"{sample[1]}{{{labels}}}", set())
    return "\n".join(sorted(name for name in found if "_created" not in name)) + "\n"
