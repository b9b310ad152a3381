"""Writes errors.md and errors.zh-CN.md from the error classes and errors.toml: `python docs/make_errors.py`."""

from __future__ import annotations

import inspect
import tomllib
from pathlib import Path
from typing import Any

from cutaway import errors

HERE = Path(__file__).resolve().parent
HEAD = {
    "en": """# Errors

[中文](errors.zh-CN.md)

Every error has a stable code, which programs may rely on; messages are for people and change. The command line
prints `cutaway: error[CODE]`, a server's replies have the code in `error.code`, Python's exceptions in `.code`. The
status is that of a server's reply. This page is made by `python docs/make_errors.py`.
""",
    "zh": """# 错误

[English](errors.md)

每个错误都有稳定的代码，程序可以依赖它；消息是给人看的，可能改变。
命令行打印 `cutaway: error[CODE]`，服务器的回复在 `error.code` 中给出代码，Python 异常在 `.code` 中。
状态是服务器回复的状态。本页由 `python docs/make_errors.py` 生成。
""",
}
COLUMNS = {"en": ("code", "status", "meaning", "cause", "remedy"), "zh": ("代码", "状态", "含义", "原因", "解决办法")}
FILES = {"en": "errors.md", "zh": "errors.zh-CN.md"}


def meanings() -> dict[str, str]:
    """What the docstring of each error class says, by its code."""
    kinds = [kind for _, kind in inspect.getmembers(errors, inspect.isclass)]
    return {kind.code: (inspect.getdoc(kind) or "").split("\n\n")[0].replace("\n", " ") for kind in kinds}


def texts() -> dict[str, Any]:
    """errors.toml."""
    return tomllib.loads((HERE / "errors.toml").read_text("utf-8"))


def page(language: str) -> str:
    """The page in "en" or "zh"."""
    known, classes = texts(), meanings()
    parts = [HEAD[language]]
    for group, titles in known["groups"].items():
        parts.append(f"\n## {titles[list(FILES).index(language)]}\n\n")
        parts.append("| " + " | ".join(COLUMNS[language]) + " |\n|" + "---|" * 5 + "\n")
        for code, entry in known.items():
            if entry.get("group") == group:
                told = entry[language]
                told = told if len(told) == 3 else [classes[code], *told]
                parts.append(f"| `{code}` | {entry['status']} | " + " | ".join(told) + " |\n")
    return "".join(parts)


if __name__ == "__main__":
    for language, name in FILES.items():
        (HERE / name).write_text(page(language), "utf-8")
