"""The types that mypy sees are those of the extension."""

from __future__ import annotations

from pathlib import Path

from nanobind.stubgen import StubGen

import cutaway.native
from cutaway.native import _native


def test_the_stub_is_what_the_extension_says() -> None:
    """To renew it: python -m nanobind.stubgen -m cutaway.native._native -o src/cutaway/native/_native.pyi"""
    generator = StubGen(_native)
    generator.put(_native)
    committed = Path(cutaway.native.__file__).with_name("_native.pyi").read_text("utf-8")
    assert generator.get().strip() == committed.strip()
