"""The options of the table of sampling parameters, and the values that they were given."""

from __future__ import annotations

import inspect
from pathlib import Path
from typing import Annotated, Any

from cutaway.cli.input import text_file
from cutaway.cli.options import option
from cutaway.errors import ParameterError
from cutaway.sampling.parameter import Parameter
from cutaway.sampling.params import PARAMETERS

REPEATED = ("texts", "tokens", "words", "bias")


class SamplingOptions(dict[str, Any]):
    """How tokens are chosen and when an answer ends: the value of each option by parameter name, None if not given."""

    @staticmethod
    def options() -> list[inspect.Parameter]:
        """The options of the table, in panels, and `--preset`."""
        first = option(
            "--preset", help="Sampling parameters for a task; see: cutaway presets. [chat]", rich_help_panel="Sampling"
        )
        found = [_parameter("preset", Annotated[str | None, first])]
        return found + [_parameter(p.name, Annotated[_type(p) | None, _option(p)]) for p in PARAMETERS if p.cli]

    @property
    def preset(self) -> str | None:
        name: str | None = self["preset"]
        return name

    def changes(self) -> dict[str, Any]:
        """The given options as arguments of SamplingParams, without the preset. Raises ParameterError."""
        known = {p.name: p for p in PARAMETERS}
        given = {name: value for name, value in self.items() if name != "preset" and value is not None and value != []}
        return {name: _value(known[name], value) for name, value in given.items()}


def _parameter(name: str, annotation: Any) -> inspect.Parameter:
    return inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=None, annotation=annotation)


def _type(parameter: Parameter) -> Any:
    plain: Any = {"number": float, "integer": int, "flag": bool}.get(parameter.kind, str)
    if parameter.kind in REPEATED:
        return list[int] if parameter.kind == "tokens" else list[str]
    return plain


def _option(parameter: Parameter) -> Any:
    more = " Repeatable." if parameter.kind in REPEATED else _default(parameter)
    help = parameter.help + more
    return option(*parameter.options, help=help, metavar=parameter.metavar, rich_help_panel=parameter.panel)


def _default(parameter: Parameter) -> str:
    """The default, where it is informative: a preset or the model sets the temperature, and "off" needs no default."""
    shown = (
        parameter.panel in ("More sampling", "Against repetition")
        and "off" not in parameter.help
        and parameter.default not in (None, 0, False, ())
    )
    return f" [{parameter.default:g}]" if shown and isinstance(parameter.default, int | float) else ""


def _value(parameter: Parameter, given: Any) -> Any:
    if parameter.kind == "bias":
        return dict(_bias(parameter.name, item) for item in given)
    if parameter.metavar is not None and parameter.metavar.endswith("|@FILE") and given.startswith("@"):
        return text_file(Path(given[1:]))
    return given


def _bias(name: str, item: str) -> tuple[int, float]:
    token, _, value = item.partition("=")
    try:
        return int(token), float(value)
    except ValueError:
        raise ParameterError(f"{name} is {item!r}; it must be ID=BIAS, for instance 28120=-100") from None
