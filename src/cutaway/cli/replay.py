"""`cutaway replay`: a record run again, and where it parts if it does."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from cutaway.cli.options import option
from cutaway.cli.terminal import say, visible, warn, write_json

if TYPE_CHECKING:
    from cutaway.xray.replay import Parting, Replay

DIFFERENT = 1  # exit status where the answer is another one


def replay(
    request: Annotated[str, typer.Argument(metavar="REQUEST", help="A record's file, an x-request-id, or last.")],
    model: Annotated[str | None, option("--model", "-m", help="This model instead of the record's.")] = None,
    threads: Annotated[int | None, option("--threads", help="Threads that compute. [all cores]")] = None,
    url: Annotated[str | None, option("--url", help="The server that has the record.")] = None,
    json: Annotated[bool, option("--json", help="One JSON object instead of lines.")] = False,
) -> None:
    """Run a recorded request again, and say whether it is the same answer, bit for bit.

    Prints n/n equal, or the first token that differs. Exits with 0 if all is equal, with 1 if not. It runs here, not on
    the server, and takes as long as the answer took alone. Logits are compared where the record has their hashes
    (cutaway serve --record-hashes).
    """
    from cutaway.xray.find_record import find_record
    from cutaway.xray.replay import engine_for, replay_json
    from cutaway.xray.replay import replay as run_again

    record = find_record(request, url)
    with engine_for(record, model, threads) as engine:
        for warning in engine.warnings:
            warn(warning)
        done = run_again(engine, record)
    if json:
        write_json(replay_json(done))
    else:
        _tell(done)
    if not done.same:
        raise typer.Exit(DIFFERENT)


def _tell(done: Replay) -> None:
    logits = f", logits of {done.hashes} rows equal" if done.hashes and done.parting is None else ""
    print(f"replay: {done.equal}/{done.tokens} equal{logits} ({done.milliseconds:,.0f} ms)")
    if done.parting is not None:
        print(_parting(done.parting))
    if done.forced:
        print(f"its length is the record's, which something outside the tokens ended ({visible(done.recorded_end)})")
    elif done.end != done.recorded_end:
        print(f"why it ended: recorded {visible(done.recorded_end)}, here {done.end}")
    for one in done.differences:
        print(f"{one.name}: recorded {visible(str(one.recorded or 'unknown'))}, here {one.here or 'unknown'}")
    if done.parting is not None and not done.differences:
        say("[the record, or the model behind it, was changed: nothing here differs that could change a bit]")


def _parting(at: Parting) -> str:
    if at.by == "logits":
        return f"first difference at token {at.at} {at.recorded_text!r}: the same token from other logits"
    recorded, here = (
        "the end" if token is None else f"{text!r} (#{token})"
        for token, text in ((at.recorded, at.recorded_text), (at.here, at.here_text))
    )
    margin = "" if at.margin is None else f"; margin {at.margin:+.4f} nats"
    return f"first difference at token {at.at}: recorded {recorded}, here {here}{margin}"
