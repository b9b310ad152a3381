"""The golden files and the KL of logits against them, for the tests of this folder."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from types import ModuleType

import pytest


@pytest.fixture(scope="session")
def kl() -> ModuleType:
    """The module kl.py beside this file."""
    spec = importlib.util.spec_from_file_location("golden_kl", Path(__file__).with_name("kl.py"))
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["golden_kl"] = module  # dataclasses look their module up
    spec.loader.exec_module(module)
    return module
