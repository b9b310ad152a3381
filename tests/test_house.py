"""The house rules of the design, kept by reading the source: floors, cycles, sizes, names, and what starting up costs.

A figure here is raised on purpose, with a reason in the commit, or not at all.
"""

from __future__ import annotations

import ast
import importlib
import inspect
import re
import subprocess
import sys
import tokenize
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
SOURCE = ROOT / "src" / "cutaway"

# From the ground up. Rooms on one floor do not import each other. The hall has a landing: assemble.py knows its rooms.
FLOORS = [
    {"errors"},
    {"formats", "text", "trace", "native"},
    {"ops", "sampling", "cache"},
    {"model"},
    {"engine"},
    {"config", "registry", "planner"},
    {"assemble"},
    {"cutaway"},  # the package itself: what people import from it
    {"bench"},  # measures whatever it likes below
    {"xray"},  # what can be seen of a model, a request and a server; nothing below knows it
    {"server"},
    {"cli"},
    {"__main__"},
]
SHEDS = {"quantize", "train", "rag", "cluster"}  # they use the house; the house never uses them
FLOOR_OF = {room: number for number, rooms in enumerate(FLOORS) for room in rooms} | dict.fromkeys(SHEDS, len(FLOORS))

FILE_LINES = 300
FUNCTION_LINES = 60
TEST_FILE_LINES = 400
KERNEL_FILE_LINES = 600
LINE_COLUMNS = 120  # of C++; ruff has the figure for Python
EXTENSION = {"_native"}  # a compiled module's customary name
BANNED = {"manager", "helper", "util", "common", "misc", "impl"}
# Words of a machine, and not of the project. Written in pieces so that this file passes its own test.
MACHINE_PATHS = re.compile("|".join(["/ho" + "me/[a-z]", "/ro" + "ot/", "/wo" + "rk/", r"[/\\]Use" + r"rs[/\\]"]))


def python_files(folder: Path = SOURCE) -> list[Path]:
    return sorted(folder.rglob("*.py"))


def native_files() -> list[Path]:
    return sorted(p for p in (ROOT / "csrc").rglob("*") if p.suffix in {".h", ".hpp", ".cpp", ".cc", ".inc"})


@cache
def tree(path: Path) -> ast.Module:
    return ast.parse(path.read_text(encoding="utf-8"), str(path))


def module_name(path: Path) -> str:
    parts = ("cutaway", *path.relative_to(SOURCE).with_suffix("").parts)
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def room(module: str) -> str:
    return module.split(".")[1] if "." in module else "cutaway"


MODULES = {module_name(p): p for p in python_files()}


def imports(path: Path) -> Iterator[tuple[str, int, str]]:
    """(module, line, name imported from it or ""), of this package only; everywhere in the file, types included."""
    for node in ast.walk(tree(path)):
        if isinstance(node, ast.Import):
            yield from ((a.name, node.lineno, "") for a in node.names if a.name.split(".")[0] == "cutaway")
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}:{node.lineno}: write imports from the top: from cutaway..."
            if (node.module or "").split(".")[0] == "cutaway":
                for alias in node.names:
                    inner = f"{node.module}.{alias.name}"
                    yield (inner, node.lineno, "") if inner in MODULES else (node.module or "", node.lineno, alias.name)


def where(path: Path, line: int) -> str:
    return f"{path.relative_to(ROOT)}:{line}"


def test_every_room_has_a_floor() -> None:
    assert {room(m) for m in MODULES} <= FLOOR_OF.keys()


def test_imports_point_downward() -> None:
    wrong = []
    for module, path in MODULES.items():
        here = room(module)
        for target, line, _ in imports(path):
            there = room(target)
            if there != here and FLOOR_OF[there] >= FLOOR_OF[here]:
                wrong.append(f"{where(path, line)}: {here} imports {target}")
    assert not wrong, "\n".join(wrong)


def test_no_room_takes_anothers_private_names() -> None:
    wrong = [
        f"{where(path, line)}: {target} {name}"
        for module, path in MODULES.items()
        for target, line, name in imports(path)
        if room(target) != room(module) and any(p.startswith("_") for p in {*target.split(".")[2:], name} - EXTENSION)
    ]
    assert not wrong, "\n".join(wrong)


def test_no_import_cycles() -> None:
    graph = {m: {t for t, _, _ in imports(p) if t in MODULES and t != m} for m, p in MODULES.items()}
    done: set[str] = set()

    def visit(module: str, path: tuple[str, ...]) -> None:
        assert module not in path, "a cycle: " + " -> ".join((*path[path.index(module) :], module))
        if module not in done:
            for target in sorted(graph[module]):
                visit(target, (*path, module))
            done.add(module)

    for module in graph:
        visit(module, ())


def test_no_circles_between_the_rooms_of_a_room() -> None:
    """server/api may know server/generation, or the other way round; a file of server/ itself may be known by both."""
    arrows: dict[str, set[str]] = {}
    for module, path in MODULES.items():
        here = module.split(".")
        for target, _, _ in imports(path):
            there = target.split(".")
            if min(len(here), len(there)) > 3 and here[1] == there[1] and here[2] != there[2]:
                arrows.setdefault(".".join(here[:3]), set()).add(".".join(there[:3]))

    def visit(inner: str, path: tuple[str, ...]) -> None:
        assert inner not in path, "a circle: " + " -> ".join((*path[path.index(inner) :], inner))
        for target in sorted(arrows.get(inner, ())):
            visit(target, (*path, inner))

    for inner in arrows:
        visit(inner, ())


def test_sizes() -> None:
    limits = [(python_files(), FILE_LINES), (python_files(ROOT / "tests"), TEST_FILE_LINES)]
    limits += [(native_files(), KERNEL_FILE_LINES)]
    long = [
        f"{path.relative_to(ROOT)}: {lines} lines, at most {limit}"
        for paths, limit in limits
        for path in paths
        if (lines := len(path.read_text(encoding="utf-8").splitlines())) > limit
    ]
    for path in python_files() + python_files(ROOT / "tests"):
        for node in ast.walk(tree(path)):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                lines = (node.end_lineno or 0) - node.lineno + 1
                if lines > FUNCTION_LINES:
                    long.append(f"{where(path, node.lineno)}: {node.name} has {lines} lines, at most {FUNCTION_LINES}")
    for path in native_files():
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
            if len(line) > LINE_COLUMNS:
                long.append(f"{where(path, number)}: {len(line)} columns, at most {LINE_COLUMNS} (.clang-format)")
    assert not long, "\n".join(long)


def words(name: str) -> set[str]:
    """The words of a snake_case or CamelCase name, singular."""
    return {w.lower().removesuffix("s") for w in re.findall(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+", name)}


def test_banned_names() -> None:
    found = []
    for path in python_files() + python_files(ROOT / "tests") + native_files():
        found += [f"{path.relative_to(ROOT)}" for part in path.relative_to(ROOT).parts if words(part) & BANNED]
    for path in python_files() + python_files(ROOT / "tests"):
        for node in ast.walk(tree(path)):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef) and words(node.name) & BANNED:
                found.append(f"{where(path, node.lineno)}: {node.name}")
    assert not found, "\n".join(found)


def test_frozen_means_frozen() -> None:
    found = [
        where(path, node.lineno)
        for path in python_files()
        for node in ast.walk(tree(path))
        if isinstance(node, ast.Attribute) and node.attr == "__setattr__"
    ]
    assert not found, "\n".join(found)


def test_no_machine_paths() -> None:
    folders = ["src", "tests", "csrc", "docs", "benchmarks", ".ci"]
    suffixes = {".py", ".h", ".hpp", ".cpp", ".md", ".toml", ".txt", ".sh", ""}
    paths = [p for f in folders for p in (ROOT / f).rglob("*") if p.is_file() and p.suffix in suffixes]
    paths += [p for p in ROOT.iterdir() if p.is_file() and p.suffix in suffixes and not p.name.startswith(".git")]
    found = [
        f"{where(path, number)}: {line.strip()}"
        for path in paths
        if "__pycache__" not in path.parts
        for number, line in enumerate(path.read_text(encoding="utf-8", errors="replace").splitlines(), 1)
        if MACHINE_PATHS.search(line)
    ]
    assert not found, "\n".join(found)


def exports(path: Path) -> bool:
    """Whether a room says what it exports."""
    assigned = [t for n in tree(path).body if isinstance(n, ast.Assign) for t in n.targets]
    return any(getattr(t, "id", "") == "__all__" for t in assigned)


@pytest.mark.parametrize("module", [m for m, p in MODULES.items() if exports(p)])
def test_exports_exist_and_are_tested(module: str) -> None:
    tests = "\n".join(p.read_text(encoding="utf-8") for p in python_files(ROOT / "tests"))
    exporting = importlib.import_module(module)
    for name in exporting.__all__:
        exported = getattr(exporting, name)
        if inspect.isfunction(exported) or module == "cutaway":
            assert re.search(rf"\b{name}\b", tests), f"{module}.{name} is exported, and no test names it"


def test_importing_cutaway_is_light() -> None:
    heavy = "{'torch', 'transformers', 'fastapi', 'typer', 'rich', 'huggingface_hub', 'pydantic'}"
    script = f"import sys, cutaway; print(sorted({heavy} & {{m.split('.')[0] for m in sys.modules}}))"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


# Words that docs/glossary.md replaces (also bare "somebody" and its kin: the subject has a name). Text in backticks
# is code.
WORDS_NOT_USED = re.compile(r"\b(told|tells|telling|said|asked|asks|heard|whoever|(no|some|any)body)\b", re.IGNORECASE)


def prose(path: Path) -> Iterator[tuple[int, str]]:
    """The comments, docstrings and messages of a file, with their lines; a message is any text of several words."""
    with path.open("rb") as file:
        yield from ((t.start[0], t.string) for t in tokenize.tokenize(file.readline) if t.type == tokenize.COMMENT)
    for node in ast.walk(tree(path)):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and " " in node.value:
            yield node.lineno, node.value


def test_one_word_per_idea() -> None:
    found = [
        f"{where(path, line)}: {match[0]!r}; see docs/glossary.md"
        for path in python_files()
        for line, text in prose(path)
        if (match := WORDS_NOT_USED.search(re.sub(r"`[^`]*`|\b\w+: ", "", text)))
    ]
    pages = [ROOT / f"{name}.md" for name in PAGES if name != "docs/glossary"]
    found += [
        f"{where(path, number)}: {match[0]!r}"
        for path in pages
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1)
        if (match := WORDS_NOT_USED.search(re.sub(r"`[^`]*`", "", line)))
    ]
    assert not found, "\n".join(found)


PAGES = [
    "README", "docs/cli", "docs/numerics", "docs/performance", "docs/serving", "docs/api", "docs/errors",
    "docs/parameters", "docs/glossary", "docs/seeing", "docs/planning", "docs/troubleshooting",
    "docs/comparing",
]  # fmt: skip


@pytest.mark.parametrize("name", PAGES)
def test_both_languages_tell_the_same(name: str) -> None:
    """The English and the Chinese text have the same headings in number, and the same commands."""
    english, chinese = ((ROOT / f"{name}{end}").read_text(encoding="utf-8") for end in (".md", ".zh-CN.md"))

    def commands(text: str) -> list[str]:
        return re.findall(r"^```(?:sh|python|toml)\n(.*?)^```", text, re.MULTILINE | re.DOTALL)

    def headings(text: str) -> list[int]:
        return [len(h) for h in re.findall(r"^(#+) ", text, re.MULTILINE)]

    assert commands(english) == commands(chinese)
    assert headings(english) == headings(chinese)


def test_the_log_has_dated_entries() -> None:
    lines = (ROOT / "docs" / "log.md").read_text(encoding="utf-8").splitlines()
    headings = [line for line in lines if line.startswith("#")]
    assert headings[0] == "# Log" and len(headings) > 40
    assert not [line for line in headings[1:] if not re.match(r"## 20\d\d-\d\d-\d\d: \S", line)]
    assert not [(number, line) for number, line in enumerate(lines, 1) if len(line) > 120]


@pytest.mark.parametrize("name", ["README.md", "README.zh-CN.md"])
def test_the_files_that_the_readme_names_exist(name: str) -> None:
    text = (ROOT / name).read_text(encoding="utf-8")
    paths = re.findall(r"`((?:src|csrc|tests|docs)/[\w./-]+)`", text) + re.findall(r"\]\(([\w./-]+)\)", text)
    assert len(paths) > 20 and not [path for path in paths if not (ROOT / path).exists()]


def test_the_readmes_test_command_is_the_one_that_ci_runs() -> None:
    command = "pip install '.[test,oracle]' && ./check"
    assert command in (ROOT / "README.md").read_text(encoding="utf-8")
    assert command in (ROOT / ".ci" / "run").read_text(encoding="utf-8")
