"""What a plan is made of: a file, a header on the hub, a config.json, or a known model's sizes."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal

from cutaway.errors import FormatError, ModelNotFoundError
from cutaway.formats import ModelFile, open_model
from cutaway.model import ModelSpec, read_spec
from cutaway.model.spec_config import spec_from_config
from cutaway.planner.mixes import mix_named
from cutaway.planner.named_tensors import outline_from_spec
from cutaway.planner.shapes import SHAPES, shape_spec, with_sizes
from cutaway.registry import resolve
from cutaway.registry.catalogue import entry_named
from cutaway.registry.hub_header import header_of
from cutaway.registry.sources import HubSource, is_source, parse_source

DEFAULT_MIX = "Q4_K_M"  # of models that are known by their sizes alone
MOST_CONFIG = 1 << 26
Origin = Literal["file", "header", "config", "sizes"]


@dataclass(frozen=True, slots=True)
class PlannedModel:
    """types: of the weights, a mix or "as in the file". path: on this machine. fetched: bytes of a header on the hub.
    changed: whether sizes differ from the model's own."""

    name: str
    origin: Origin
    spec: ModelSpec
    file: ModelFile
    types: str
    path: Path | None = None
    fetched: int | None = None
    changed: bool = False

    def as_mix(self, mix: str) -> PlannedModel:
        """The same model with its weights in the types of a mix."""
        outline = outline_from_spec(self.spec, mix_named(mix), self.name)
        return replace(self, file=outline, types=mix.upper(), changed=True)


@contextmanager
def planned_model(name: str, *, mix: str | None = None, changes: Sequence[str] = ()) -> Iterator[PlannedModel]:
    """Find what is planned. Nothing but a header is fetched. A model that is here goes before a header, and that before
    sizes. Raises ModelNotFoundError, DownloadError, ParameterError, FormatError, UnsupportedError."""
    with _found(name) as found:
        if changes:
            spec = with_sizes(found.spec, changes)
            types = DEFAULT_MIX if found.types == "as in the file" else found.types
            yield replace(found, spec=spec, changed=True).as_mix(mix or types)
        else:
            yield found if mix is None else found.as_mix(mix)


@contextmanager
def _found(name: str) -> Iterator[PlannedModel]:
    path = Path(name).expanduser()
    if path.name.endswith(".json") and not path.name.endswith(".index.json"):
        yield _from_config(name, path)
        return
    here = _here(name)
    if here is not None:
        with open_model(here) as file:
            yield PlannedModel(name, "file", read_spec(file), file, "as in the file", here)
        return
    source = _hub_source(name)
    if name in SHAPES or source is None:
        spec = shape_spec(name)
        yield PlannedModel(name, "sizes", spec, outline_from_spec(spec, mix_named(DEFAULT_MIX), name), DEFAULT_MIX)
        return
    with header_of(source) as (file, fetched):
        # Small tensors of rotation factors may lie in the hole; they take nothing worth counting.
        file.tensors = {n: t for n, t in file.tensors.items() if not n.startswith(("rope_freqs", "rope_factors"))}
        yield PlannedModel(name, "header", read_spec(file), file, "as in the file", None, fetched)


def _here(name: str) -> Path | None:
    """The model on this machine. Raises ModelNotFoundError for a name that means nothing."""
    try:
        return resolve(name, pull=False).path
    except ModelNotFoundError:
        if name in SHAPES or _hub_source(name) is not None:
            return None
        raise


def _hub_source(name: str) -> HubSource | None:
    entry = entry_named(name)
    for at in [name] if is_source(name) else [s.at for s in entry.sources] if entry else []:
        source = parse_source(at)
        if isinstance(source, HubSource):
            return source
    return None


def _from_config(name: str, path: Path) -> PlannedModel:
    try:
        if path.stat().st_size > MOST_CONFIG:
            raise FormatError(f"{path.name} is larger than {MOST_CONFIG} bytes")
        config = json.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise ModelNotFoundError(f"cannot open {path}: {error.strerror or error}") from None
    except (ValueError, RecursionError):
        raise FormatError(f"{path.name} is not valid JSON") from None
    if not isinstance(config, dict):
        raise FormatError(f"{path.name} is not a JSON object")
    spec = spec_from_config(config)
    mix = {"float32": "F32", "float16": "F16"}.get(str(config.get("torch_dtype") or config.get("dtype")), "BF16")
    return PlannedModel(name, "config", spec, outline_from_spec(spec, mix_named(mix), name), mix)
