"""How benchmarks/compare.py speaks to its peers: peer.py on its side, peers/commands.py on theirs."""

from __future__ import annotations

import sys
from pathlib import Path
from types import ModuleType

import pytest

from cutaway.bench import Work

BENCHMARKS = Path(__file__).resolve().parents[2] / "benchmarks"
FAKE = f"""
import os, sys
sys.path.insert(0, {str(BENCHMARKS / "peers")!r})
from commands import UnableError, answer

class Model:
    def __init__(self, path, *, context, streams, threads):
        os.write(1, b"Loading")
        if path.endswith("strange.gguf"):
            raise UnableError("no such type")
        self.threads = threads
    def prompt(self, tokens):
        print("a prompt")
        return tokens / 1000
    def decode(self, streams, context, steps):
        return steps / 10
    def close(self):
        pass

answer({{"version": "fake 1", "features": "A  = 1"}}, Model)
"""


@pytest.fixture(scope="module")
def peers() -> ModuleType:
    sys.path.insert(0, str(BENCHMARKS))
    try:
        import peer
    finally:
        sys.path.remove(str(BENCHMARKS))
    return peer


def test_a_peer_tells_seconds_whatever_it_prints(
    peers: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "run_fake.py").write_text(FAKE, "utf-8")
    monkeypatch.setattr(peers, "SCRIPTS", tmp_path)
    fake = peers.Peer("fake", sys.executable)
    try:
        assert fake.about == "fake 1; A = 1"
        assert not fake.load(Path("strange.gguf"), Work(tokens=10), 1)
        assert fake.load(Path("known.gguf"), Work(tokens=10), 1)
        assert fake.run(Work(tokens=512), 1) == pytest.approx(1000)
        assert fake.run(Work(streams=16, context=8), 4) == pytest.approx(160)
    finally:
        fake.close()


def test_a_peer_is_named_with_its_interpreter(peers: ModuleType) -> None:
    assert peers.named("openvino=/a/python") == ("openvino", "/a/python")
    assert peers.named("transformers") == ("transformers", sys.executable)
    with pytest.raises(ValueError, match="mine"):
        peers.named("mine")


def test_every_peer_has_a_script(peers: ModuleType) -> None:
    assert all((peers.SCRIPTS / f"run_{name}.py").exists() for name in peers.OTHERS)
