"""What `run` and `chat` keep of their answers, for `cutaway replay last` and the views of a request."""

from __future__ import annotations

from typing import TYPE_CHECKING

from cutaway.cli.terminal import warn
from cutaway.errors import CutawayError

if TYPE_CHECKING:
    from cutaway.assemble import Engine
    from cutaway.engine import Result
    from cutaway.sampling import SamplingParams


_QUICK = 2**28


def _hashes_quickly(engine: Engine) -> bool:
    """Whether the model's hash is known, or its file is so small that computing it takes no noticeable time."""
    return engine.manifest is not None or (engine.path.is_file() and engine.path.stat().st_size <= _QUICK)


def keep(
    engine: Engine, command: str, params: SamplingParams, result: Result, began: float, clock: float | None
) -> None:
    """Record the answers. One that cannot be is no failure of the command: a warning says so.

    began: when the answer was requested, in seconds since 1970; clock: the time that the template saw.
    """
    from secrets import token_hex

    from cutaway.xray.own_records import keep_own
    from cutaway.xray.recorded import Origin
    from cutaway.xray.system import system_of

    try:
        system = system_of(engine, sha256=None if _hashes_quickly(engine) else "")
        keep_own(Origin(token_hex(8), "local", began, command, system, params, clock), result)
    except (OSError, CutawayError) as error:
        warn(f"this answer was not recorded: {error}")
