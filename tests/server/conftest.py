"""One server for all tests that do not change it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from server.serving import Running, config_for, running


@pytest.fixture(scope="session")
def smol(smollm2_path: Path) -> Iterator[Running]:
    with running(config_for(smollm2_path)) as server:
        yield server
