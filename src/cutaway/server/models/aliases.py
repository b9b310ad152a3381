"""Finds the model of a request: served names, aliases, traffic split by weight, pinned hashes."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from cutaway.config import check_names
from cutaway.server.transport.errors import ApiError, bad_request

Alias = str | Mapping[str, float]
_PIN = re.compile(r"(.*)@sha256:([0-9a-fA-F]{8,64})")


@dataclass(frozen=True, slots=True)
class Names:
    """models: served names; the first is the default. aliases: each to a name, or to several names by weight."""

    models: Sequence[str]
    aliases: Mapping[str, Alias]

    def __post_init__(self) -> None:
        """Raises ConfigError for a repeated name, an alias without a model, or an alias that is a served name."""
        check_names(self.models, self.aliases)

    def find(self, asked: str | None, request_id: str) -> tuple[str, str | None]:
        """The served name, and the pinned hash (lower case, possibly a prefix of it). Without a name: the default
        model.

        Traffic is split by the hash of the request's id, so that the choice can be repeated. Raises ApiError: 404 with
        the served names.
        """
        name, pin = split_pin(asked)
        if name is None:
            return self.models[0], pin
        target = self.aliases.get(name, name if name in self.models else None)
        if target is None:
            shown = name if len(name) <= 100 else name[:100] + "..."
            raise ApiError(
                404,
                f"no model is served as {shown!r}; the served models are: {', '.join([*self.models, *self.aliases])}",
                code="model_not_found", param="model", type="invalid_request_error",
            )  # fmt: skip
        return (target if isinstance(target, str) else _drawn(target, request_id)), pin


def split_pin(asked: str | None) -> tuple[str | None, str | None]:
    """The two parts of `name@sha256:...`. Raises ApiError for a pin that is not valid."""
    if not asked or "@sha256" not in asked:
        return asked or None, None
    found = _PIN.fullmatch(asked)
    if found is None:
        raise bad_request("a pinned model is name@sha256: and 8 to 64 hexadecimal digits", "model", "parameter_invalid")
    return found[1] or None, found[2].lower()


def check_pin(name: str, pin: str | None, sha256: str) -> None:
    """Raises ApiError: 404 with both hashes."""
    if pin is not None and not sha256.startswith(pin):
        raise ApiError(
            404, f"{name} is served with the SHA-256 {sha256}, not {pin}", code="model_not_found", param="model",
            type="invalid_request_error",
        )  # fmt: skip


def _drawn(target: Mapping[str, float], request_id: str) -> str:
    share = int.from_bytes(hashlib.sha256(request_id.encode()).digest()[:8]) / 2**64 * sum(target.values())
    for name, weight in target.items():
        share -= weight
        if share < 0:
            return name
    return next(reversed(list(target)))
