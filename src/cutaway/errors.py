"""The tree of errors. Each error says what went wrong, where, and what to do about it, and has a stable code.

Codes are part of the interface: programs match on them, and messages are for people. Invalid input raises one of these
classes; `assert` is only for internal invariants.
"""

from __future__ import annotations


class CutawayError(Exception):
    """Base of all errors that a user's input can cause.

    Attributes:
        figures: the numbers that caused it, by name, where they are kept.
        code: stable and machine-readable, in lower_snake_case.
        hint: what to do about it in one sentence, or "".
    """

    code = "error"

    def __init__(
        self, message: str, *, hint: str = "", code: str | None = None, figures: dict[str, float] | None = None
    ) -> None:
        super().__init__(message)
        self.message = message
        self.figures = figures or {}
        self.hint = hint
        if code is not None:
            self.code = code

    def __str__(self) -> str:
        return f"{self.message} ({self.hint})" if self.hint else self.message


class FormatError(CutawayError):
    """A model file is damaged, truncated or hostile. The message names the field and the byte offset."""

    code = "format_invalid"


class UnsupportedError(CutawayError):
    """The input is valid, but this build does not support it: an architecture, a tensor type, a pre-tokenizer."""

    code = "unsupported"


class ModelNotFoundError(CutawayError):
    """There is no model with that name or at that path."""

    code = "model_not_found"


class DownloadError(CutawayError):
    """A model could not be downloaded completely."""

    code = "download_failed"


class HashMismatchError(DownloadError):
    """A downloaded or stored file does not have the expected hash."""

    code = "hash_mismatch"


class MemoryShortError(CutawayError):
    """There is not enough memory. The message gives the bytes needed and the bytes available."""

    code = "memory_short"


class ContextExceededError(CutawayError):
    """A prompt is longer than the context. The message gives both numbers."""

    code = "context_length_exceeded"


class ParameterError(CutawayError):
    """A parameter is out of range or of the wrong type. The message gives its name, value and range."""

    code = "parameter_invalid"


class TokenizerError(CutawayError):
    """A tokenizer cannot be built from the model file, or a text cannot be encoded."""

    code = "tokenizer_invalid"


class TemplateError(CutawayError):
    """A chat template is missing, cannot be parsed, or rejected the messages (with the template's own message)."""

    code = "template_invalid"


class ConfigError(CutawayError):
    """A configuration file cannot be used."""

    code = "config_invalid"


class EngineError(CutawayError):
    """A request ended because the engine failed (a NaN in its logits, a closed engine)."""

    code = "engine_failed"


class RecordError(CutawayError):
    """A record of a request cannot be read, or does not hold what a view needs."""

    code = "record_invalid"
