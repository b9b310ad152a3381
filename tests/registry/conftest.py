"""A cache of its own for each test, and packages that pip finds in a folder instead of an index."""

from __future__ import annotations

import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest

MakeWheel = Callable[..., Path]


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The cutaway home of this test; it does not exist yet."""
    folder = tmp_path / "cutaway-home"
    monkeypatch.setenv("CUTAWAY_HOME", str(folder))
    return folder


@pytest.fixture
def make_wheel(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> MakeWheel:
    """Makes wheels that `pip download` finds without a package index."""
    folder = tmp_path / "wheels"
    folder.mkdir()
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(folder))
    monkeypatch.setenv("PIP_EXTRA_INDEX_URL", "")

    def make(name: str, files: dict[str, bytes], version: str = "1.0", licence: str = "MIT") -> Path:
        stem = name.replace("-", "_")
        info = f"{stem}-{version}.dist-info"
        metadata = f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\nLicense: {licence}\n"
        wheel = folder / f"{stem}-{version}-py3-none-any.whl"
        with zipfile.ZipFile(wheel, "w") as archive:
            archive.writestr(f"{stem}/__init__.py", "raise SystemExit('must never run')")
            for path, data in files.items():
                archive.writestr(path, data)
            archive.writestr(f"{info}/METADATA", metadata)
            archive.writestr(f"{info}/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
            archive.writestr(f"{info}/RECORD", "")
        return wheel

    return make


