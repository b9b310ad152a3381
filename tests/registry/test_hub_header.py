"""The header of a hub file: enough bytes are fetched, and not the whole."""

from __future__ import annotations

from pathlib import Path

import pytest

from cutaway.errors import UnsupportedError
from cutaway.model import read_spec
from cutaway.ops.backends import open_backend
from cutaway.planner import outline_model
from cutaway.registry import hub_header
from cutaway.registry.hub import HubFile, HubModel
from cutaway.registry.hub_header import header_of
from cutaway.registry.sources import HubSource

SOURCE = HubSource("somebody/model", None)


class Hub:
    """One repository. asked: bytes that were fetched."""

    def __init__(self, files: dict[str, Path | bytes]) -> None:
        self.data = {name: f if isinstance(f, bytes) else f.read_bytes() for name, f in files.items()}
        self.asked = 0

    def model(self, source: HubSource) -> HubModel:
        files = tuple(HubFile(name, len(data), None) for name, data in self.data.items())
        return HubModel(source.repo, "c0ffee", "mit", files)

    def read(self, model: HubModel, file: HubFile, begin: int, end: int) -> bytes:
        self.asked += end - begin
        return self.data[file.name][begin:end]


@pytest.mark.models
@pytest.mark.parametrize("first", [1000, 1 << 20, 4 << 20])
def test_a_gguf_file_is_planned_from_its_first_megabytes(
    smollm2_path: Path, monkeypatch: pytest.MonkeyPatch, first: int
) -> None:
    hub = Hub({"model.gguf": smollm2_path})
    monkeypatch.setattr(hub_header, "find_on_hub", hub.model)
    monkeypatch.setattr(hub_header, "FIRST", first)
    with header_of(SOURCE, hub.read) as (file, fetched):
        spec = read_spec(file)
        there = outline_model(file, spec, open_backend(threads=1)).memory(context=2048)
    assert fetched == hub.asked < 8 << 20
    from cutaway.formats import open_model

    with open_model(smollm2_path) as file:
        assert outline_model(file, spec, open_backend(threads=1)).memory(context=2048) == there


def test_what_is_no_model_is_said_as_ever(monkeypatch: pytest.MonkeyPatch) -> None:
    hub = Hub({"model.gguf": b"GGUF" + bytes(100_000)})
    monkeypatch.setattr(hub_header, "find_on_hub", hub.model)
    with pytest.raises(UnsupportedError, match="version"), header_of(SOURCE, hub.read):
        pass
