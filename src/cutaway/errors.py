"""What can go wrong, as a small tree. Each error says what, where and what to do, and carries a stable code.

Codes are part of the interface: programs match on them, messages are for people. User input raises one of these;
`assert` is for our own invariants.
"""

from __future__ import annotations


class CutawayError(Exception):
    """Base of all errors that a user's input can cause.

    Attributes:
        code: stable, machine-readable, lower_snake_case.
        hint: what to do about it, one sentence, or "".
    """

    code = "error"

    def __init__(self, message: str, *, hint: str = "", code: str | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint
        if code is not None:
            self.code = code

    def __str__(self) -> str:
        return f"{self.message} ({self.hint})" if self.hint else self.message


class FormatError(CutawayError):
    """A model file is damaged, truncated or hostile. The message names the field and the byte offset."""

    code = "format_invalid"


class UnsupportedError(CutawayError):
    """A valid input that this build cannot use: an architecture, a tensor type, a pre-tokenizer."""

    code = "unsupported"


class ModelNotFoundError(CutawayError):
    """No model by that name or at that path."""

    code = "model_not_found"


class DownloadError(CutawayError):
    """A model could not be fetched whole."""

    code = "download_failed"


class HashMismatchError(DownloadError):
    """What arrived, or what lies on disk, is not what was promised."""

    code = "hash_mismatch"


class MemoryShortError(CutawayError):
    """Not enough memory. The message gives bytes needed against bytes available."""

    code = "memory_short"


class ContextExceededError(CutawayError):
    """A prompt is longer than the context. The message gives both numbers."""

    code = "context_length_exceeded"


class ParameterError(CutawayError):
    """A parameter out of range or of the wrong type. The message gives name, value and range."""

    code = "parameter_invalid"


class TokenizerError(CutawayError):
    """A tokenizer cannot be built from what the model file says, or text cannot be encoded."""

    code = "tokenizer_invalid"


class TemplateError(CutawayError):
    """A chat template is missing, does not parse, or refused the messages (with the template's own words)."""

    code = "template_invalid"


class ConfigError(CutawayError):
    """A configuration file that cannot be used."""

    code = "config_invalid"


class EngineError(CutawayError):
    """A request ended because the engine failed it (a NaN in its logits, a closed engine)."""

    code = "engine_failed"
