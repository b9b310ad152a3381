"""Generates the tables of docs/parameters.md and docs/parameters.zh-CN.md from the table of sampling parameters.

    python -m cutaway.sampling.parameter_docs docs

rewrites both. The descriptions in the Chinese page are written by hand and kept; a new parameter starts in English.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Mapping
from pathlib import Path

from cutaway.sampling.parameter import Parameter
from cutaway.sampling.params import PARAMETERS

PAGES = ("parameters.md", "parameters.zh-CN.md")
_ROW = re.compile(r"^\| `(\w+)` \|.*\| ([^|]+) \|$", re.MULTILINE)
_TABLE = re.compile(r"(?<=\|\n)\| `.*\n(?:\| `.*\n)*")


def rows(parameters: tuple[Parameter, ...] = PARAMETERS, described: Mapping[str, str] | None = None) -> str:
    """The rows of the table in its order. described: descriptions that replace the English help, by parameter."""
    return "".join(_row(p, (described or {}).get(p.name, p.help)) for p in parameters)


def page(text: str, *, translated: bool) -> str:
    """The page with its rows generated again. translated: keep the descriptions that the page has."""
    described = dict(_ROW.findall(text)) if translated else {}
    return _TABLE.sub(lambda _: rows(described=described), text, count=1)


def _row(p: Parameter, help: str) -> str:
    where = [f"`{flag}`" for flag in p.options] if p.cli else []
    names = [f"`{alias.name}` ({alias.of})" for alias in p.aliases]
    default = "" if p.default in (None, (), {}) else f"`{_written(p.default)}`"
    cells = [f"`{p.name}`", p.range, default, p.stage_name or "", ", ".join(where), "[sampling]" if p.config else "",
             ", ".join(names), help]  # fmt: skip
    return "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |\n"


def _written(value: object) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, tuple):
        return " ".join(repr(one) for one in value)
    return f"{value:g}" if isinstance(value, float) else str(value)


if __name__ == "__main__":
    for name in PAGES:
        path = Path(sys.argv[1]) / name
        path.write_text(page(path.read_text("utf-8"), translated="zh" in name), "utf-8")
