"""What the one argument of the doctor means: a model, a URL, a config, a file or a request."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from cutaway.errors import CutawayError
from cutaway.registry import entry_named, resolve
from cutaway.xray.doctor.model_files import known_names, same_but_for_spelling
from cutaway.xray.doctor.subject import Subject
from cutaway.xray.find_record import LAST, find_record, read_record

_ADDRESS = re.compile(r"[\w.-]+:\d{1,5}|\[[0-9a-fA-F:]+\]:\d{1,5}", re.ASCII)
_MODEL_ENDS = (".gguf", ".safetensors", ".index.json")


def subject_of(
    text: str | None, *, model: str | None = None, url: str | None = None, measure: bool = False
) -> Subject:
    """model: whose tokenizer a file or a request goes through. url: a server that is looked at as well."""
    more: dict[str, Any] = {"url": url, "measure": measure}
    if text is None:
        return Subject(model=model, **more)
    path = Path(text)
    if "://" in text or _ADDRESS.fullmatch(text):
        return Subject(**more | {"url": text}, machine=False)
    if path.suffix == ".toml":
        return Subject(config=path, **more)
    if path.is_file() and not text.endswith(_MODEL_ENDS):
        return _file(path, model, more)
    if text != LAST and (path.exists() or _is_model(text)):
        return Subject(model=text, **more)
    return _request(text, model, more)


def _is_model(text: str) -> bool:
    """Also one that is only spelled otherwise."""
    if text.endswith(_MODEL_ENDS) or "/" in text or entry_named(text):
        return True
    try:
        resolve(text)
    except CutawayError:
        return same_but_for_spelling(text, known_names()) is not None
    return True


def _file(path: Path, model: str | None, more: dict[str, Any]) -> Subject:
    try:
        found = read_record(path) if path.suffix == ".json" else None
    except CutawayError:
        found = None
    if found is None:
        return Subject(file=path, model=model, machine=False, **more)
    return Subject(request=str(path), record=found, model=model or found.system.source or found.system.model, **more)


def _request(text: str, model: str | None, more: dict[str, Any]) -> Subject:
    """A request if there is a record of it; else a model's name that is not known."""
    try:
        found = find_record(text, more["url"])
    except CutawayError as error:
        if text == LAST or more["url"] is not None:
            return Subject(request=text, record_error=str(error), model=model, **more)
        return Subject(model=text, **more)
    return Subject(request=text, record=found, model=model or found.system.source or found.system.model, **more)
