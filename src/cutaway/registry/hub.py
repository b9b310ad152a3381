"""Models on the Hugging Face hub, through huggingface_hub (imported only for a download)."""

from __future__ import annotations

import re
import shutil
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from cutaway.errors import CutawayError, DownloadError, ModelNotFoundError
from cutaway.registry.sources import HubSource

# The files that a safetensors model needs besides its weights; those that the repository has are downloaded.
_BESIDE_SAFETENSORS = {
    "config.json", "generation_config.json", "tokenizer.json", "tokenizer_config.json", "special_tokens_map.json",
    "tokenizer.model", "chat_template.jinja", "chat_template.json", "model.safetensors.index.json",
}  # fmt: skip
_PART = re.compile(r"(.*)-\d{5}-of-(\d{5})\.gguf")


@dataclass(frozen=True, slots=True)
class HubFile:
    """A file of a repository. sha256: as the hub publishes it, None for small files outside its large-file store."""

    name: str
    size: int
    sha256: str | None


@dataclass(frozen=True, slots=True)
class HubModel:
    """The files of one model at one commit."""

    repo: str
    revision: str
    licence: str
    files: tuple[HubFile, ...]

    @property
    def size(self) -> int:
        return sum(f.size for f in self.files)


def find_on_hub(source: HubSource) -> HubModel:
    """Ask the hub for the files of the model. Raises ModelNotFoundError or DownloadError."""
    with hub_errors(source):
        from huggingface_hub import HfApi

        info = HfApi().model_info(source.repo, files_metadata=True)
    listed = {
        s.rfilename: HubFile(s.rfilename, s.size or 0, s.lfs.sha256 if s.lfs else None) for s in info.siblings or ()
    }
    names = choose_files(listed, source)
    licence = info.card_data.get("license") if info.card_data else None
    return HubModel(source.repo, info.sha or "", str(licence or "unknown"), tuple(listed[n] for n in names))


def fetch_from_hub(model: HubModel, source: HubSource, folder: Path) -> Path:
    """Download the files into a folder inside `folder`, which contains nothing else afterwards. Raises
    DownloadError."""
    arrived, payload = folder / "arriving", folder / "payload"
    payload.mkdir()
    with hub_errors(source):
        from huggingface_hub import hf_hub_download
        from huggingface_hub.utils import disable_progress_bars  # type: ignore[attr-defined]

        disable_progress_bars()  # the caller shows its own progress
        for file in model.files:
            path = hf_hub_download(model.repo, file.name, revision=model.revision, local_dir=arrived)
            Path(path).replace(payload / Path(file.name).name)
    shutil.rmtree(arrived, ignore_errors=True)
    return payload


def choose_files(names: Iterable[str], source: HubSource) -> list[str]:
    """The files of the model that the source specifies, without guessing between several.

    A source with a file means that file (all parts, if it is one of a split model), or the only GGUF file whose name
    contains the text. Without one it means the only GGUF file, otherwise the safetensors files.
    """
    names = sorted(names)
    models = _gguf_models(names)
    if source.file is not None:
        if source.file in names and not source.file.endswith(".gguf"):
            return [source.file]
        exact = [m for m in models if source.file in m]
        models = exact or [m for m in models if source.file.lower() in m[0].lower()]
    if len(models) == 1:
        return models[0]
    if not models and source.file is None:
        return _safetensors_files(names, source)
    if not models:
        raise ModelNotFoundError(f"{source.repo} has no file {source.file!r}", hint=_offer(_gguf_models(names), source))
    raise ModelNotFoundError(
        f"{source.repo} holds {len(models)} models, and the source names none of them", hint=_offer(models, source)
    )


def _gguf_models(names: Sequence[str]) -> list[list[str]]:
    """GGUF files, with the parts of a split model together. Image projectors (mmproj) are not models."""
    models: dict[str, list[str]] = {}
    for name in names:
        if name.endswith(".gguf") and not Path(name).name.startswith("mmproj"):
            part = _PART.fullmatch(name)
            models.setdefault(f"{part[1]} of {part[2]}" if part else name, []).append(name)
    return list(models.values())


def _safetensors_files(names: Sequence[str], source: HubSource) -> list[str]:
    weights = [n for n in names if n.endswith(".safetensors") and "/" not in n]
    # Some repositories contain the weights twice, once in their makers' own layout.
    weights = [n for n in weights if n.startswith("model")] or weights
    if not weights or "config.json" not in names:
        raise ModelNotFoundError(
            f"{source.repo} has no model that cutaway can read", hint="it needs a .gguf file, or .safetensors files "
            "with a config.json"
        )  # fmt: skip
    return weights + [n for n in names if n in _BESIDE_SAFETENSORS]


def _offer(models: Sequence[Sequence[str]], source: HubSource) -> str:
    shown = [f"hf:{source.repo}:{m[0]}" for m in models[:8]]
    more = f" and {len(models) - len(shown)} more" if len(models) > len(shown) else ""
    return f"name one: {', '.join(shown)}{more}" if shown else "it holds no GGUF file"


@contextmanager
def hub_errors(source: HubSource) -> Iterator[None]:
    """Converts exceptions of the hub's client (its own, its HTTP library's, the system's) to cutaway's."""
    try:
        yield
    except CutawayError:
        raise
    except Exception as error:
        kind = type(error).__name__
        if kind == "GatedRepoError":
            raise DownloadError(
                f"{source.repo} is gated", hint="accept its licence on its page, then set HF_TOKEN"
            ) from error
        if kind == "RepositoryNotFoundError":
            raise ModelNotFoundError(
                f"the hub has no repository {source.repo}", hint="if it is private, set HF_TOKEN"
            ) from error
        reason = (str(error).strip() or kind).splitlines()[0]
        raise DownloadError(f"the hub did not return {source.repo}: {reason}", hint="is it reachable?") from error
