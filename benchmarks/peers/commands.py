"""What every peer answers: one JSON command a line on standard input, one JSON answer a line.

about: its version and features. load: a file. prompt, decode: seconds for a work of the loaded model.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable
from typing import Any, Protocol


class Loaded(Protocol):
    """A loaded model."""

    def prompt(self, tokens: int) -> float:
        """Seconds for a prompt of random tokens in an empty context, with the logits of its last one."""

    def decode(self, streams: int, context: int, steps: int) -> float:
        """Seconds for so many steps of all streams after a context, which is filled before."""

    def close(self) -> None: ...


class UnableError(Exception):
    """It cannot run this file, and says why."""


def answer(about: dict[str, str], load: Callable[..., Loaded], **others: Callable[..., None]) -> None:
    """Until standard input ends. What the peer itself prints goes to standard error."""
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    model: Loaded | None = None
    for line in sys.stdin:
        command = json.loads(line)
        do, reply = command.pop("do"), dict[str, Any]()
        if do == "about":
            reply = about
        elif do == "load":
            if model is not None:
                model.close()
            model = None
            try:
                model = load(**command)
            except UnableError as error:
                reply = {"unable": str(error)}
        elif do in others:
            others[do](**command)
        else:
            assert model is not None
            reply = {"seconds": {"prompt": model.prompt, "decode": model.decode}[do](**command)}
        print(json.dumps(reply), file=answers, flush=True)
