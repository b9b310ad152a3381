"""The hub, with a stand-in for its client: which files are meant, what is checked, what its failures become."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace

import huggingface_hub
import pytest

from cutaway import registry
from cutaway.errors import DownloadError, HashMismatchError, ModelNotFoundError
from cutaway.registry.hub import choose_files
from cutaway.registry.sources import HubSource

MODEL = b"GGUF" + b"weights" * 100


@dataclass
class FakeHub:
    """Repositories as dictionaries. published: hashes that differ from the files' own."""

    files: dict[str, bytes]
    published: dict[str, str] = field(default_factory=dict)
    fetched: list[str] = field(default_factory=list)
    error: Exception | None = None

    def model_info(self, repo: str, *, files_metadata: bool) -> SimpleNamespace:
        if self.error:
            raise self.error
        siblings = [
            SimpleNamespace(
                rfilename=name,
                size=len(data),
                lfs=SimpleNamespace(sha256=self.published.get(name, hashlib.sha256(data).hexdigest()))
                if name.endswith((".gguf", ".safetensors"))
                else None,
            )
            for name, data in self.files.items()
        ]
        return SimpleNamespace(siblings=siblings, sha="c0ffee", card_data={"license": "mit"})

    def hf_hub_download(self, repo: str, name: str, *, revision: str, local_dir: Path) -> str:
        assert revision == "c0ffee"
        path = Path(local_dir) / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(self.files[name])
        self.fetched.append(name)
        return str(path)


@pytest.fixture
def hub(cache: Path, monkeypatch: pytest.MonkeyPatch) -> FakeHub:
    fake = FakeHub({})
    monkeypatch.setattr(huggingface_hub, "HfApi", lambda: fake)
    monkeypatch.setattr(huggingface_hub, "hf_hub_download", fake.hf_hub_download)
    return fake


def test_a_file_of_a_repository(hub: FakeHub, cache: Path) -> None:
    hub.files = {"README.md": b"hello", "sub/Tiny-Q4_K_M.gguf": MODEL, "Tiny-Q8_0.gguf": b"GGUF other"}
    found = registry.resolve("hf:owner/Tiny-GGUF:q4_k_m", pull=True)
    assert hub.fetched == ["sub/Tiny-Q4_K_M.gguf"]
    assert found.path.read_bytes() == MODEL and found.path.parent == cache / "models"
    manifest = found.manifest
    assert manifest is not None
    assert (manifest.name, manifest.licence, manifest.trust, manifest.revision) == ("tiny-gguf", "mit", "hub", "c0ffee")
    assert not registry.resolve("hf:owner/Tiny-GGUF:q4_k_m", pull=True).fetched


def test_the_hubs_own_hash_is_checked(hub: FakeHub, cache: Path) -> None:
    hub.files, hub.published = {"a.gguf": MODEL}, {"a.gguf": "f" * 64}
    with pytest.raises(HashMismatchError, match="f" * 64):
        registry.resolve("hf:owner/repo", pull=True)
    assert registry.models() == []


def test_a_split_model_and_a_safetensors_folder(hub: FakeHub) -> None:
    hub.files = {f"big-0000{n}-of-00002.gguf": MODEL + bytes([n]) for n in (1, 2)}
    split = registry.resolve("hf:owner/big", pull=True)
    assert split.path.is_dir()
    assert sorted(p.name for p in split.path.iterdir()) == sorted(hub.files)
    hub.files = {
        "config.json": b"{}", "tokenizer.json": b"{}", "model.safetensors": b"x", "consolidated.safetensors": b"y",
        "pytorch_model.bin": b"z",
    }  # fmt: skip
    folder = registry.resolve("hf:owner/plain", pull=True)
    assert sorted(p.name for p in folder.path.iterdir()) == ["config.json", "model.safetensors", "tokenizer.json"]
    assert folder.manifest is not None and folder.manifest.format == "safetensors"
    registry.verify(folder.manifest)
    (folder.path / "config.json").write_bytes(b"[]")
    with pytest.raises(HashMismatchError, match=r"config\.json"):
        registry.verify(folder.manifest)
    registry.remove("plain")
    assert not folder.path.exists() and split.path.exists()


def test_never_a_guess_between_several() -> None:
    names = ["a-Q4_0.gguf", "a-Q8_0.gguf", "mmproj-a.gguf", "b-00001-of-00002.gguf", "b-00002-of-00002.gguf"]
    source = HubSource("o/r", None)
    with pytest.raises(ModelNotFoundError, match="3 models") as raised:
        choose_files(names, source)
    assert "hf:o/r:a-Q4_0.gguf" in raised.value.hint
    assert choose_files(names, HubSource("o/r", "b-00002-of-00002.gguf")) == names[3:]
    assert choose_files(names[:1] + names[2:3], source) == names[:1]
    with pytest.raises(ModelNotFoundError, match="no file 'Q2_K'"):
        choose_files(names, HubSource("o/r", "Q2_K"))
    with pytest.raises(ModelNotFoundError, match="no model that cutaway can read"):
        choose_files(["pytorch_model.bin", "config.json"], source)


class GatedRepoError(Exception): ...


class RepositoryNotFoundError(Exception): ...


@pytest.mark.parametrize(
    ("error", "kind", "words"),
    [
        (GatedRepoError("403"), DownloadError, "HF_TOKEN"),
        (RepositoryNotFoundError("404"), ModelNotFoundError, "no repository owner/repo"),
        (ConnectionError("no route\nmore"), DownloadError, "no route"),
        (TimeoutError(), DownloadError, "TimeoutError"),
    ],
)
def test_failures_of_the_hub(hub: FakeHub, error: Exception, kind: type[Exception], words: str) -> None:
    hub.error = error
    with pytest.raises(kind, match=words):
        registry.resolve("hf:owner/repo", pull=True)
