"""What an engine has counted since it was loaded: in the step in which it happens, whatever becomes of the request."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(slots=True)
class Counts:
    """Tokens, over all requests (a prompt with n choices is n requests). Written by the engine's thread only.

    prompt: of prompts that were read to their end. generated: of answers. looked_up, found: of prompts, in the prefix
    cache, when a request was first scheduled.
    """

    prompt: int = 0
    generated: int = 0
    looked_up: int = 0
    found: int = 0
