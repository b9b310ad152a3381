"""Checks of a model's files: its name, its bytes, its tensors, and whether it fits into memory."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

from cutaway.errors import CutawayError, MemoryShortError
from cutaway.formats import first_not_finite
from cutaway.model.spec_gguf import gguf_cautions
from cutaway.ops.backends import open_backend
from cutaway.ops.host_memory import available_memory
from cutaway.planner import LoadOptions, check_memory, plan_load
from cutaway.registry import known_models, models, verify
from cutaway.xray.doctor.diagnosis import Diagnosis
from cutaway.xray.doctor.subject import OpenedModel, Subject

QUICK_BYTES = 300_000_000
"""Files up to this size are read as a whole without `measure`: about a second."""


def name(subject: Subject) -> Iterator[Diagnosis]:
    """Whether the name is a model's, and its files are here."""
    if (model := subject.opened) is None or model.resolved is not None:
        return
    error = model.errors["name"]
    alike = same_but_for_spelling(model.name, known_names())
    if alike is not None and alike != model.name:
        yield Diagnosis(
            "error", "model_name_differs", "the model's name is written otherwise",
            f"{model.name!r} is not known, {alike!r} is", "case, hyphens, dots or underscores differ",
            f"write {alike}",
        )  # fmt: skip
    else:
        yield _of("model_not_found", error, "the model is not here", "cutaway models --all lists the names")


def known_names() -> list[str]:
    """Of the catalogue and of the cache."""
    listed = [each for entry in known_models() for each in (entry.name, *entry.aliases)]
    return [*listed, *(found.manifest.name for found in models())]


def same_but_for_spelling(name: str, known: Iterable[str]) -> str | None:
    """The known name with the same letters and digits in the same order."""
    plain = _plain(name)
    return next((one for one in known if plain and _plain(one) == plain), None)


def _plain(name: str) -> str:
    return re.sub(r"[^a-z0-9]", "", name.lower())


def header(subject: Subject) -> Iterator[Diagnosis]:
    """Whether the file can be opened: whole, of a known format, with all tensors in their shapes."""
    model = subject.opened
    if model is None or model.resolved is None:
        return
    if model.file is None:
        yield _of("file_invalid", model.errors["file"], "the model's file cannot be read",
                  "download it again (cutaway rm NAME, cutaway pull NAME)")  # fmt: skip
        return
    if model.spec is None:
        yield _of("model_unsupported", model.errors["spec"], "the model cannot be run here",
                  "choose another model, or another file of it")  # fmt: skip
        return
    file = model.file
    for caution in gguf_cautions(file.metadata, file.tensors) if file.format == "gguf" else ():
        yield Diagnosis("warning", "keys_unread", "the file has entries that are not used", caution,
                        "it was made for another engine, or is damaged",
                        "use a file of the model's publisher")  # fmt: skip


def memory(subject: Subject) -> Iterator[Diagnosis]:
    """Whether every tensor is there in its shape, and there is memory for the model."""
    model = subject.opened
    if model is None or model.file is None or model.spec is None:
        return
    try:
        plan = plan_load(model.file, LoadOptions(), open_backend(threads=1))
        check_memory(plan.memory, available_memory(subject.root))
    except MemoryShortError as error:
        yield _of("memory_short", error, "the memory does not suffice for this model",
                  "a smaller --context, --kv-k int8 --kv-v int8, a smaller model; cutaway plan MODEL")  # fmt: skip
    except CutawayError as error:
        yield _of("tensors_invalid", error, "the model's tensors are not those that it needs",
                  "use another file of this model")  # fmt: skip


def content(subject: Subject) -> Iterator[Diagnosis]:
    """Whether the bytes are the published ones, and all values are numbers."""
    model = subject.opened
    if model is None or model.file is None:
        return
    size = sum(path.stat().st_size for path in model.file.files)
    if size > QUICK_BYTES and not subject.measure:
        yield Diagnosis("unknown", "content_unread", "whether the file's bytes are right is not known",
                        f"{size:,} bytes were not read", "it would take longer than the doctor may",
                        "--measure reads them")  # fmt: skip
        return
    yield from _hash(model)
    for tensor in model.file.tensors.values():
        at = first_not_finite(tensor.type, tensor.raw)
        if at is not None:
            yield Diagnosis(
                "error", "not_finite", "a tensor holds a value that is no number",
                f"{tensor.name}: NaN or infinity at element {at}", "a damaged file, or a conversion that overflowed",
                "use another file of this model",
            )  # fmt: skip
            return


def _hash(model: OpenedModel) -> Iterator[Diagnosis]:
    if model.manifest is None:
        yield Diagnosis("unknown", "hash_unknown", "whether this is the published file is not known",
                        "the path is not in the cache, so that no hash is recorded for it", "",
                        "cutaway pull NAME keeps a model with its hash")  # fmt: skip
        return
    try:
        verify(model.manifest)
    except CutawayError as error:
        yield _of("hash_differs", error, "the stored file is not the one that was downloaded",
                  f"cutaway rm {model.manifest.name}, then cutaway pull {model.manifest.name}")  # fmt: skip


def _of(code: str, error: CutawayError | OSError, what: str, remedy: str) -> Diagnosis:
    """An error of another room as a finding."""
    if isinstance(error, CutawayError):
        return Diagnosis("error", code, what, f"{error.code}: {error.message}", "", error.hint or remedy)
    return Diagnosis("error", code, what, str(error), "", remedy)
