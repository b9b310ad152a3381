"""The page of symptoms: its commands exist, and it explains every finding of the doctor, in both languages."""

from __future__ import annotations

import ast
import re
import shlex
from pathlib import Path

import pytest
import typer

from cutaway.cli.app import app

ROOT = Path(__file__).resolve().parents[2]
PAGES = [ROOT / "docs" / name for name in ("troubleshooting.md", "troubleshooting.zh-CN.md")]
COMMAND = re.compile(r"^cutaway .*$|`(cutaway [^`]*)`", re.MULTILINE)


def commands(page: Path) -> list[str]:
    return [match[1] or match[0] for match in COMMAND.finditer(page.read_text(encoding="utf-8"))]


def codes_of_the_doctor() -> set[str]:
    """Both sides where a code depends on a condition."""
    found: set[str] = set()
    for path in (ROOT / "src" / "cutaway" / "xray" / "doctor").glob("*.py"):
        for call in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(call, ast.Call) and getattr(call.func, "id", "") in ("Diagnosis", "_of") and call.args:
                code = call.args[0 if getattr(call.func, "id", "") == "_of" else 1]
                found |= {
                    node.value for node in ([code.body, code.orelse] if isinstance(code, ast.IfExp) else [code])
                    if isinstance(node, ast.Constant) and isinstance(node.value, str)
                }  # fmt: skip
    return found


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_every_command_of_the_page_exists(page: Path) -> None:
    program = typer.main.get_command(app)
    assert len(commands(page)) > 50
    for line in commands(page):
        command, words = program, shlex.split(line)[1:]
        with program.make_context("cutaway", words) as context:
            while hasattr(command, "resolve_command") and not words[0].startswith("-"):  # bench alone is one too
                name, command, words = command.resolve_command(context, words)
                assert command is not None, line
            command.make_context(name, words).close()  # raises for an option that it has not


def test_the_page_explains_every_finding() -> None:
    known = codes_of_the_doctor()
    assert len(known) > 50
    for page in PAGES:
        explained = set(re.findall(r"`([a-z_0-9]+)`", page.read_text(encoding="utf-8")))
        assert known - explained == set(), page.name


def test_both_languages_have_the_same_commands_and_codes() -> None:
    english, chinese = (re.findall(r"`[^`]*`", page.read_text(encoding="utf-8")) for page in PAGES)
    assert english == chinese
