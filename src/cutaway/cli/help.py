"""Plain help in groups: options by panel, commands by purpose. It needs no terminal features."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from typer.core import TyperCommand, TyperGroup

GROUPS: Mapping[str, tuple[str, ...]] = {
    "Use": ("run", "chat", "serve"),
    "Look inside": ("tokens", "prompt", "requests", "explain", "trace", "replay", "branch", "waterfall"),
    "Measure": ("plan", "ps", "bench"),
    "Compare": ("perplexity",),
    "Find faults": ("doctor",),
    "Set up": ("pull", "models", "rm", "config", "presets", "version"),
}
"""The commands by purpose. A test checks that every command is in a group."""

PANELS = (
    "Options",
    "Model",
    "Sampling",
    "Against repetition",
    "Stopping",
    "Form of the answer",
    "Additional output",
    "More sampling",
)


class Command(TyperCommand):
    """A command whose help lists the options in panels, the most common ones first."""

    def format_options(self, ctx: Any, formatter: Any) -> None:
        panels: dict[str, list[tuple[str, str]]] = {name: [] for name in PANELS}
        for parameter in self.get_params(ctx):
            record = parameter.get_help_record(ctx)
            panel = getattr(parameter, "rich_help_panel", None) or "Options"
            if record is not None:
                panels.setdefault("Arguments" if parameter.param_type_name == "argument" else panel, []).append(record)
        for name in ("Arguments", *(name for name in panels if name != "Arguments")):
            if panels.get(name):
                with formatter.section(name):
                    formatter.write_dl(panels[name])


class Group(TyperGroup):
    """The program, whose help lists the commands in groups."""

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        rest = [name for name in self.list_commands(ctx) if not any(name in names for names in GROUPS.values())]
        for title, names in {**GROUPS, "More commands": rest}.items():
            shown = [(n, c.get_short_help_str(100)) for n in names if (c := self.get_command(ctx, n)) is not None]
            if shown:
                with formatter.section(title):
                    formatter.write_dl(shown)
