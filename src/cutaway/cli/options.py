"""Options that several commands share: each field of a dataclass is an option of the command.

`takes_options` turns a function with such parameters into a command that has all their options.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from dataclasses import dataclass, fields
from typing import Annotated, Any, get_type_hints

import typer


def option(*flags: str, help: str, **settings: Any) -> Any:
    """A typer option that does not show its default."""
    return typer.Option(*flags, help=help, show_default=False, **settings)


_MODEL = {"rich_help_panel": "Model"}


@dataclass(frozen=True, slots=True)
class LoadOptions:
    """Which model is used and how it is loaded. None means that the option was not given."""

    model: Annotated[
        str | None, option("--model", "-m", help="Model: a name, a path, hf:... or pypi:... [smollm2-135m]", **_MODEL)
    ] = None
    config: Annotated[
        str | None, option("--config", help="Use this cutaway.toml instead of the default one.", **_MODEL)
    ] = None
    backend: Annotated[
        str | None, option("--backend", help="Backend: native, or reference (NumPy, slow). [native]", **_MODEL)
    ] = None
    context: Annotated[
        int | None, option("--context", help="Context size: tokens of prompt and answer together.", **_MODEL)
    ] = None
    threads: Annotated[int | None, option("--threads", help="Number of threads. [all cores]", **_MODEL)] = None
    kv_k: Annotated[
        str | None, option("--kv-k", help="Type of cached keys: bf16, f32, int8 or fp8. [bf16]", **_MODEL)
    ] = None
    kv_v: Annotated[str | None, option("--kv-v", help="Type of cached values, likewise. [bf16]", **_MODEL)] = None
    rope_scaling: Annotated[
        str | None,
        option("--rope-scaling", help="Extend the context: linear:2, ntk:4, dynamic, yarn:4, ...", **_MODEL),
    ] = None
    speculate: Annotated[
        str | None,
        option("--speculate", help="ngram: faster where the answer repeats earlier text; same answer.", **_MODEL),
    ] = None


def _fields(kind: Any) -> list[inspect.Parameter]:
    hints = get_type_hints(kind, include_extras=True)
    return [
        inspect.Parameter(f.name, inspect.Parameter.KEYWORD_ONLY, default=f.default, annotation=hints[f.name])
        for f in fields(kind)
    ]


def takes_options(command: Callable[..., None]) -> Callable[..., None]:
    """The command with its dataclass parameters replaced by one option per field, and each parameter whose type has
    `options()` replaced by those options."""
    bundles: dict[str, tuple[type, list[str]]] = {}
    parameters: list[inspect.Parameter] = []
    hints = get_type_hints(command, include_extras=True)
    for parameter in inspect.signature(command).parameters.values():
        kind = hints[parameter.name]
        if not (hasattr(kind, "__dataclass_fields__") or hasattr(kind, "options")):
            parameters.append(parameter.replace(annotation=kind, kind=inspect.Parameter.KEYWORD_ONLY))
            continue
        made = kind.options() if hasattr(kind, "options") else _fields(kind)
        bundles[parameter.name] = kind, [option.name for option in made]
        parameters += made

    @functools.wraps(command)
    def with_options(**values: Any) -> None:
        bundled = {name: kind(**{one: values.pop(one) for one in names}) for name, (kind, names) in bundles.items()}
        command(**values, **bundled)

    del with_options.__wrapped__  # typer would read the command's own signature through it
    with_options.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    with_options.__annotations__ = {p.name: p.annotation for p in parameters}
    return with_options
