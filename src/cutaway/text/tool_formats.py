"""How the families write tool calls."""

from __future__ import annotations

TOOL_FORMATS = ("hermes", "smollm", "llama3", "mistral", "mistral_args", "phi", "gemma")


def detect_tool_format(template_source: str | None, family: str) -> str | None:
    """The format in which a model writes tool calls: by what its chat template says, else by its family
    (`general.architecture` or `model_type`); None if neither tells."""
    raise NotImplementedError


def renders_tools(template_source: str | None) -> bool:
    """Whether a chat template shows the tools to the model. If not, tell the model of them by `tool_instructions`."""
    raise NotImplementedError
