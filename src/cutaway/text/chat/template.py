"""Renders chat messages to the text that a model was trained on, with the template that comes with the model."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from cutaway.errors import ParameterError, TemplateError
from cutaway.text.chat.guarded import Guard
from cutaway.text.chat.messages import REASONING, checked_mappings, checked_messages
from cutaway.text.chat.unread_fields import Watched, unread
from cutaway.text.lost_text import warn_of_loss
from cutaway.text.tokenizer.tokenizer import Segment, Tokenizer

if TYPE_CHECKING:
    import jinja2

_KEY = "tokenizer.chat_template"


class ChatTemplate:
    """A chat template, compiled on first use (Jinja is not imported before).

    Args:
        source: the template.
        tokenizer: provides the markers, and the names of the special tokens (`bos_token`, `eos_token`, …).
        named: further templates by name; "tool_use" is used when tools are given.
    """

    def __init__(self, source: str, tokenizer: Tokenizer, *, named: Mapping[str, str] | None = None) -> None:
        self.source = source
        self.named = dict(named or {})
        self._markers = tokenizer.markers
        self._tokens = _special_tokens(tokenizer)
        self._compiled: dict[tuple[str, str], jinja2.Template] = {}

    def check(self) -> None:
        """Compile now.

        Raises:
            TemplateError: the template cannot be parsed.
        """
        guard = Guard(self._markers)
        for source in (self.source, *self.named.values()):
            self._compile(source, guard)

    def render(self, messages: Sequence[Mapping[str, Any]], /, **options: Any) -> list[Segment]:
        """The chat as text, in which only text that the template wrote is read as markers.

        Args:
            messages: role, content, and other fields that the template uses (`tool_calls`, `name`, …).
            options: see `written`; others are variables of the template.

        Raises:
            TemplateError: the messages cannot be used, or the template cannot be parsed, fails, or rejects them (then
                with the template's own message and the code "template_refused").
            ParameterError: both a generation prompt and a continued message are requested.

        Warns:
            TextLossWarning: about fields of messages that the template does not use.
        """
        text, guard, chat = self.written(messages, **options)
        for what in unread(chat):
            warn_of_loss(what, stacklevel=3)
        return self.segments(text, guard)

    def written(
        self,
        messages: Sequence[Mapping[str, Any]],
        guarding: Callable[..., Guard] = Guard,
        /,
        *,
        tools: Sequence[Mapping[str, Any]] | None = None,
        documents: Sequence[Mapping[str, Any]] | None = None,
        add_generation_prompt: bool | None = None,
        continue_final_message: bool = False,
        **variables: Any,
    ) -> tuple[str, Guard, list[Watched]]:
        """What the template writes, with the guard's noncharacters still in it; the guard; the messages as it read
        them.

        Args:
            guarding: makes the guard of (markers, messages, tools, documents, variables).
            add_generation_prompt: end with the head of the assistant's turn; None: unless a message is continued.
            continue_final_message: end inside the last message, so that it is continued; no head may be added then.
            variables: further variables of the template.

        Raises as `render`.
        """
        if wrong := sorted({"messages", "self"} & variables.keys()):
            raise ParameterError(f"a variable of a chat template cannot be called {wrong[0]}")
        if continue_final_message and add_generation_prompt:
            raise ParameterError("add_generation_prompt and continue_final_message cannot be combined")
        try:
            given = (
                checked_messages(messages),
                checked_mappings(tools, "tools"),
                checked_mappings(documents, "documents"),
            )
            guard = guarding(self._markers, *given, variables)
            chat, tools, documents = (guard.protect(value) for value in given)
            source = self._choose(tools)
            if continue_final_message:
                if "tool_calls" in chat[-1]:
                    what = "the last message has tool_calls; its text cannot be continued"
                    raise TemplateError(what, code="messages_invalid")
                # The blank shows whether the template trims what it writes.
                chat[-1]["content"] = chat[-1]["content"] + guard.sentinel + " "
            chat = [Watched(_as_called(message, source)) for message in chat]
            context = {
                **self._tokens,
                **{guard.clean(name): guard.protect(value) for name, value in variables.items()},
                "messages": chat,
                "tools": tools,
                "documents": documents,
                "add_generation_prompt": add_generation_prompt is not False and not continue_final_message,
            }
            text = self._run(self._compile(source, guard), context, guard)
        except RecursionError as error:
            raise TemplateError("the messages or tools are nested too deeply", code="messages_invalid") from error
        if continue_final_message:
            text = _cut_at(text, guard.sentinel)
        return text, guard, chat

    def _choose(self, tools: Any) -> str:
        return self.named.get("tool_use", self.source) if tools else self.source

    def _compile(self, source: str, guard: Guard) -> jinja2.Template:
        compiled = self._compiled.get((source, guard.character))
        if compiled is None:
            from jinja2 import TemplateSyntaxError

            from cutaway.text.chat.jinja_environment import make_environment

            try:
                compiled = make_environment(guard.join).from_string(source)
            except (TemplateSyntaxError, RecursionError) as error:
                line = f", line {error.lineno}" if isinstance(error, TemplateSyntaxError) else ""
                raise TemplateError(f"the chat template cannot be parsed: {error}{line}") from error
            self._compiled[source, guard.character] = compiled
        return compiled

    def _run(self, template: jinja2.Template, context: dict[str, Any], guard: Guard) -> str:
        from cutaway.text.chat.jinja_environment import RefusedError

        try:
            return str.__str__(template.render(context))
        except RefusedError as error:
            raise TemplateError(guard.clean(error.message or ""), code="template_refused") from error
        except RecursionError:
            raise
        except Exception as error:  # a template can fail in any way that code can
            what = guard.clean(str(error))
            raise TemplateError(
                f"the chat template failed on these messages: {type(error).__name__}: {what}", code="template_failed"
            ) from error

    def segments(self, text: str, guard: Guard) -> list[Segment]:
        """The output of `written`, split at the markers that the template wrote, without the noncharacters."""
        return list(self._cut(text, guard))

    def _cut(self, text: str, guard: Guard) -> Iterator[Segment]:
        end = 0
        for match in self._markers.find(text):
            if match.start > end:
                yield Segment(guard.clean(text[end : match.start]), False)
            yield Segment(text[match.start : match.end], True)
            end = match.end
        if end < len(text):
            yield Segment(guard.clean(text[end:]), False)


def _as_called(message: dict[str, Any], source: str) -> dict[str, Any]:
    """The message with its reasoning under the name that the template uses."""
    if "reasoning_content" not in message:
        return message
    name = next((name for name in REASONING if re.search(rf"""[.'"]{name}\b""", source)), REASONING[0])
    return {(name if key == "reasoning_content" else key): value for key, value in message.items()}


def load_template(path: Path, metadata: Mapping[str, Any], tokenizer: Tokenizer) -> ChatTemplate | None:
    """A model's chat template, from GGUF metadata or the files beside `path`; None if it has none."""
    found = dict(_in_metadata(metadata) if metadata else _in_files(path if path.is_dir() else path.parent))
    for name, source in found.items():
        if not isinstance(source, str):
            raise TemplateError(f"chat template {name!r} must be a string, not {type(source).__name__}")
    source = found.pop("default", None)
    return None if source is None else ChatTemplate(source, tokenizer, named=found)


def require_template(template: ChatTemplate | None) -> ChatTemplate:
    """The template of a model that a chat needs.

    Raises:
        TemplateError: it has none (code "template_missing").
    """
    if template is None:
        raise TemplateError(
            "this model has no chat template",
            hint="give one as a Jinja file, or use the model for plain completion",
            code="template_missing",
        )
    return template


def _in_metadata(metadata: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    for key in metadata:
        if key == _KEY:
            yield "default", metadata[key]
        elif key.startswith(_KEY + "."):
            yield key.removeprefix(_KEY + "."), metadata[key]


def _in_files(folder: Path) -> Iterator[tuple[str, Any]]:
    """Later pairs take precedence: chat_template.jinja over tokenizer_config.json, as in Hugging Face."""
    for name in ("chat_template.json", "tokenizer_config.json"):
        file = folder / name
        if file.is_file():
            try:
                content = json.loads(file.read_text("utf-8"))
            except (ValueError, RecursionError) as error:
                raise TemplateError(f"{file} is not valid JSON: {error}") from error
            template = content.get("chat_template") if isinstance(content, dict) else None
            if isinstance(template, list):
                yield from ((entry["name"], entry["template"]) for entry in cast("Iterable[dict[str, Any]]", template))
            elif template is not None:
                yield "default", template
    for file in sorted(folder.glob("additional_chat_templates/*.jinja")):
        yield file.stem, file.read_text("utf-8")
    if (file := folder / "chat_template.jinja").is_file():
        yield "default", file.read_text("utf-8")


def _special_tokens(tokenizer: Tokenizer) -> dict[str, str]:
    special = tokenizer.special
    named = {"bos_token": special.bos, "eos_token": special.eos, "unk_token": special.unk, "pad_token": special.pad}
    return {name: tokenizer.piece(id) for name, id in named.items() if id is not None}


def _cut_at(text: str, sentinel: str) -> str:
    """The text up to the end of the message that is continued."""
    place = text.rfind(sentinel)
    if place < 0:
        raise TemplateError("the last message cannot be continued: the template does not render its text unchanged")
    kept = text[:place]
    return kept if text.startswith(sentinel + " ", place) else kept.rstrip()
