"""What the doctor looks at. Files are opened once, and an error of one step is kept for the check of that step."""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Literal, TypeVar

from cutaway.errors import CutawayError
from cutaway.formats import ModelFile, open_model
from cutaway.model import ModelSpec, read_spec
from cutaway.registry import Manifest, Resolved, resolve
from cutaway.text import ChatTemplate, Tokenizer, load_template, load_tokenizer
from cutaway.xray.record import RequestRecord

T = TypeVar("T")
Step = Literal["name", "file", "spec", "tokenizer", "template"]


@dataclass(slots=True)
class Subject:
    """model: a name or a path; config: a cutaway.toml; url: of a server; file: a text; request: as it
    was named, with its record or why there is none.

    machine: whether this machine is looked at, too. measure: whether checks may compute and read large files. root:
    where /proc and /sys are mounted.
    """

    model: str | None = None
    config: Path | None = None
    url: str | None = None
    file: Path | None = None
    request: str | None = None
    record: RequestRecord | None = None
    record_error: str = ""
    machine: bool = True
    measure: bool = False
    root: Path = Path("/")
    environment: Mapping[str, str] = field(default_factory=lambda: os.environ)
    opened: OpenedModel | None = None

    def __post_init__(self) -> None:
        if self.model is not None:
            self.opened = OpenedModel(self.model)

    def close(self) -> None:
        if self.opened is not None:
            self.opened.close()


class OpenedModel:
    """A model step by step. Each property is None where its step failed, `errors` has why, or an earlier one did."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.errors: dict[Step, CutawayError | OSError] = {}
        self.template_warnings: list[str] = []

    @cached_property
    def resolved(self) -> Resolved | None:
        return self._step("name", lambda: resolve(self.name))

    @property
    def manifest(self) -> Manifest | None:
        return None if self.resolved is None else self.resolved.manifest

    @cached_property
    def file(self) -> ModelFile | None:
        found = self.resolved
        return None if found is None else self._step("file", lambda: open_model(found.path))

    @cached_property
    def spec(self) -> ModelSpec | None:
        file = self.file
        return None if file is None else self._step("spec", lambda: read_spec(file))

    @cached_property
    def tokenizer(self) -> Tokenizer | None:
        file, rows = self.file, None if self.spec is None else self.spec.vocab
        if file is None:
            return None
        return self._step("tokenizer", lambda: load_tokenizer(file.path, file.metadata, rows=rows))

    @cached_property
    def template(self) -> ChatTemplate | None:
        """None also where the model has none."""
        file, tokenizer = self.file, self.tokenizer
        if file is None or tokenizer is None:
            return None
        template = self._step("template", lambda: load_template(file.path, file.metadata, tokenizer))
        if template is not None:
            self._step("template", template.check)
        return template

    def close(self) -> None:
        if self.__dict__.get("file") is not None:
            self.__dict__.pop("file").close()

    def _step(self, step: Step, run: Callable[[], T]) -> T | None:
        try:
            with warnings.catch_warnings(action="ignore"):
                return run()
        except (CutawayError, OSError) as error:
            self.errors[step] = error
            return None
