"""docs/errors.md and its Chinese twin are made from the error classes, and know every code that the source gives."""

from __future__ import annotations

import ast
import importlib.util
import re
from pathlib import Path
from types import ModuleType

import pytest

ROOT = Path(__file__).resolve().parents[2]
WITH_CODE = {"bad_request": 2, "_fail": 2}  # functions that take a code by its place


def maker() -> ModuleType:
    spec = importlib.util.spec_from_file_location("make_errors", ROOT / "docs" / "make_errors.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def given_codes() -> set[str]:
    """Codes in the source: of classes, as `code=...`, by place."""
    found: set[str] = set()
    for path in (ROOT / "src" / "cutaway").rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            values: list[ast.expr] = []
            if isinstance(node, ast.Call):
                values += [keyword.value for keyword in node.keywords if keyword.arg == "code"]
                place = WITH_CODE.get(getattr(node.func, "id", ""))
                values += node.args[place : place + 1] if place is not None else []
            elif isinstance(node, ast.ClassDef) and any("Error" in ast.unparse(base) for base in node.bases):
                assigned = [n for n in node.body if isinstance(n, ast.Assign)]
                values += [n.value for n in assigned if ast.unparse(n.targets[0]) == "code"]
            found |= {v.value for v in values if isinstance(v, ast.Constant) and isinstance(v.value, str)}
    return found


def test_every_code_is_explained_and_every_explained_code_exists() -> None:
    known = maker().texts().keys() - {"groups"}
    given = given_codes()
    lacking = sorted(given - known)
    assert not lacking, f"docs/errors.toml lacks {lacking}: explain them there, then run python docs/make_errors.py"
    source = "\n".join(path.read_text("utf-8") for path in (ROOT / "src" / "cutaway").rglob("*.py"))
    assert not [code for code in known if f'"{code}"' not in source], "a code that nothing gives"


def test_every_class_speaks_for_itself() -> None:
    made = maker()
    for code, meaning in made.meanings().items():
        assert len(made.texts()[code]["en"]) == 2, f"{code}: its meaning is its class's docstring"
        assert meaning.endswith("."), code


def test_the_entries_are_whole() -> None:
    made = maker()
    texts = made.texts()
    for code, entry in texts.items():
        if code == "groups":
            continue
        assert entry["group"] in texts["groups"] and 400 <= entry["status"] < 600, code
        assert len(entry["zh"]) == 3 and all(entry["en"]) and all(entry["zh"]), code
        assert all(text.endswith(".") and "|" not in text for text in entry["en"]), code
        assert all(re.search("[\u4e00-\u9fff]|`", text) and text.endswith("。") for text in entry["zh"]), code


@pytest.mark.parametrize("language", ["en", "zh"])
def test_the_pages_are_current(language: str) -> None:
    made = maker()
    written = (ROOT / "docs" / made.FILES[language]).read_text("utf-8")
    assert written == made.page(language), "run: python docs/make_errors.py"
