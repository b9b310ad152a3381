"""What starting imports: nothing heavy before it is needed, and for a model that is a file nothing that fetches."""

from __future__ import annotations

import subprocess
import sys
from importlib import metadata
from pathlib import Path

import pytest

import cutaway

FETCHES = {"huggingface_hub", "pip", "urllib3", "requests", "httpx", "tomllib", "difflib", "tempfile"}
SERVES = {"fastapi", "uvicorn", "structlog", "prometheus_client", "asyncio"}
DRAWS = {"rich", "typer", "pydantic"}
COMPUTES = {"numpy", "tokenizers", "ml_dtypes", "llguidance"}


def imported(script: str, *arguments: str) -> set[str]:
    """The packages that a process has imported in the end."""
    tail = "\nimport sys; print(*{name.split('.')[0] for name in sys.modules}, file=sys.stderr)"
    command = [sys.executable, "-c", script + tail, *arguments]
    return set(subprocess.run(command, capture_output=True, text=True, check=True).stderr.split())


def test_the_help_computes_nothing() -> None:
    script = "import sys\nfrom cutaway.cli import main\ntry:\n    main(sys.argv[1:])\nexcept SystemExit:\n    pass"
    assert not imported(script, "--help") & (FETCHES - {"difflib"} | SERVES | COMPUTES | {"rich", "pydantic", "jinja2"})


@pytest.mark.models
def test_a_completion_from_a_file_needs_neither_downloads_nor_servers_nor_templates(smollm2_path: Path) -> None:
    script = """
import sys
from cutaway import Engine, SamplingParams
with Engine.load(sys.argv[1], context=64, threads=1) as engine:
    engine.generate("Water", SamplingParams(max_tokens=1, temperature=0.0))
"""
    found = imported(script, str(smollm2_path))
    assert not found & (FETCHES | SERVES | DRAWS | {"jinja2", "ml_dtypes", "llguidance", "charset_normalizer"})
    assert {"numpy", "tokenizers"} <= found


def test_the_version_is_the_packages() -> None:
    try:
        expected = metadata.version("cutaway")
    except metadata.PackageNotFoundError:
        expected = "0+source"
    assert cutaway.__version__ == expected
    assert "importlib.metadata" not in imported_modules("import cutaway")


def imported_modules(script: str) -> list[str]:
    command = [sys.executable, "-c", f"{script}\nimport sys; print(*sys.modules)"]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout.split()


def test_importing_a_room_leaves_the_garbage_collector_as_it_was() -> None:
    script = "import gc, cutaway; {}; cutaway.Engine; print(gc.isenabled())"
    for before, after in (("pass", "True"), ("gc.disable()", "False")):
        command = [sys.executable, "-c", script.format(before)]
        assert subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip() == after
