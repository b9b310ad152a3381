"""What turns a chat into tokens: a tokenizer, a chat template and how tools are shown, without the weights."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path

from cutaway.assemble import Engine
from cutaway.errors import CutawayError
from cutaway.formats import open_model
from cutaway.model import read_spec
from cutaway.planner import DEFAULT_CONTEXT
from cutaway.text import ChatTemplate, Tokenizer, load_template, load_tokenizer, tool_format_of


@dataclass(frozen=True, slots=True)
class PromptModel:
    """name: for people. context: tokens that a prompt and its answer may have together; None: not known.
    tool_format: how the model writes tool calls, None: not known."""

    name: str
    tokenizer: Tokenizer
    template: ChatTemplate | None
    context: int | None = None
    tool_format: str | None = None

    @classmethod
    def of(cls, engine: Engine) -> PromptModel:
        """Of a loaded model."""
        name = engine.path.stem if engine.manifest is None else engine.manifest.name
        format = tool_format_of(engine.template, name, engine.spec.family)
        return cls(name, engine.tokenizer, engine.template, engine.context, format)

    @classmethod
    def load(cls, name: str, path: Path, context: int | None = None) -> PromptModel:
        """Read from a model's file or folder. context: as the option of the same name; None: what is loaded without it.

        Raises FormatError, TokenizerError, TemplateError.
        """
        with open_model(path) as file:
            tokenizer = load_tokenizer(file.path, file.metadata)
            template = load_template(file.path, file.metadata, tokenizer)
            try:
                spec = read_spec(file)
            except CutawayError:  # a model that cannot be run here still has a tokenizer and a template
                return cls(name, tokenizer, template, context, tool_format_of(template, name, ""))
        context = context or min(spec.context, DEFAULT_CONTEXT)
        return cls(name, tokenizer, template, context, tool_format_of(template, name, spec.family))

    @classmethod
    def of_tokenizer(cls, name: str, path: Path) -> PromptModel:
        """Of a tokenizer.json alone, with what lies beside it. Raises TokenizerError, TemplateError."""
        tokenizer = load_tokenizer(path, {})
        return cls(name, tokenizer, load_template(path, {}, tokenizer))

    def with_template(self, source: str, name: str) -> PromptModel:
        """The same with another chat template. Raises TemplateError where it does not parse."""
        template = ChatTemplate(source, self.tokenizer)
        template.check()
        return replace(self, name=name, template=template)

    def with_tokenizer(self, other: PromptModel) -> PromptModel:
        """The same template over another model's tokenizer."""
        known = self.template
        template = None if known is None else ChatTemplate(known.source, other.tokenizer, named=known.named)
        return replace(other, name=f"{self.name}'s template, {other.name}'s tokenizer", template=template)
