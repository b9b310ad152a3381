"""Quantization that a config.json describes beside the tensors: none is supported, and each is refused by name."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from cutaway.errors import UnsupportedError

_KEYS = ("quantization_config", "compression_config", "quantization")


def refuse_quantized(config: Mapping[str, Any]) -> None:
    """Raises UnsupportedError for weights that are not read by their tensor types alone. Beside float weights too: the
    answers of the quantized model are different."""
    inner = config.get("text_config")
    for key in _KEYS:
        value = config.get(key) or (inner.get(key) if isinstance(inner, Mapping) else None)
        if value:
            named = value.get("quant_method") or value.get("bits") if isinstance(value, Mapping) else value
            raise UnsupportedError(
                f"config.json: {key} ({named!r:.40}) is not supported",
                hint="use the unquantized model, or a quantized one as GGUF",
            )
