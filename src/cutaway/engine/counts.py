"""The counters of an engine since it was loaded, updated in the step in which something happens."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(slots=True)
class Counts:
    """Tokens over all requests (a prompt with n choices is n requests). Written by the engine's thread only.

    prompt: of prompts whose prefill is complete. generated: of answers. looked_up, found: of prompts, in the prefix
    cache, when a request is first scheduled.
    """

    prompt: int = 0
    generated: int = 0
    looked_up: int = 0
    found: int = 0
