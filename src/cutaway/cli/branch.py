"""`cutaway branch`: an answer continued otherwise from one of its tokens."""

from __future__ import annotations

import json as json_text
from typing import TYPE_CHECKING, Annotated, Any

import typer

from cutaway.cli.options import option
from cutaway.cli.terminal import visible, warn, write_json
from cutaway.errors import ParameterError

if TYPE_CHECKING:
    from cutaway.xray.branch import Branch

UNSOUND = 1  # exit status where the unchanged way does not give the answer again


def branch(
    request: Annotated[
        str, typer.Argument(metavar="REQUEST@TOKEN", help="A record, and the token from which on, from 0.")
    ],
    token: Annotated[str | None, option("--token", help="Put this token there: its text, or #ID.")] = None,
    without_stage: Annotated[list[str] | None, option("--without-stage", help="Switch it off. Repeatable.")] = None,
    values: Annotated[
        list[str] | None, option("--set", metavar="NAME=VALUE", help="Another value of a parameter. Repeatable.")
    ] = None,
    length: Annotated[int, option("--length", "-n", help="Tokens of the branch at most. [64]")] = 64,
    model: Annotated[str | None, option("--model", "-m", help="This model instead of the record's.")] = None,
    threads: Annotated[int | None, option("--threads", help="Threads that compute. [all cores]")] = None,
    url: Annotated[str | None, option("--url", help="The server that has the record.")] = None,
    json: Annotated[bool, option("--json", help="One JSON object instead of text.")] = False,
) -> None:
    """Continue a recorded answer otherwise from one of its tokens, with the same seed.

    REQUEST is a record's file, an x-request-id, or last; last@12 branches at the 13th token of the last answer. The
    branch is checked: the way with nothing changed must give the answer again. It costs two tokens computed here for
    each token of the branch, and nothing on the server.
    """
    from cutaway.xray.branch import branch as continued
    from cutaway.xray.branch import branch_json
    from cutaway.xray.explanation import token_named
    from cutaway.xray.find_record import find_record, split_place
    from cutaway.xray.recorded import known_answer
    from cutaway.xray.replay import engine_for

    name, at = split_place(request)
    if at is None:
        raise ParameterError(f"{request!r} names no token", hint="REQUEST@12 branches at the 13th token")
    given = dict(_value(one) for one in values or ())
    record = find_record(name, url)
    known = known_answer(record)
    with engine_for(record, model, threads) as engine:
        for warning in engine.warnings:
            warn(warning)
        id = None if token is None else token_named(token, engine.tokenizer)
        done = continued(engine, known, at, token=id, without=without_stage or (), values=given, length=length)
        begun = engine.tokenizer.decode(list(known.answer[:at]))
    if json:
        write_json(branch_json(done))
    else:
        _tell(done, begun)
    if not done.sound:
        raise typer.Exit(UNSOUND)


def _value(text: str) -> tuple[str, Any]:
    """NAME=VALUE; the value as JSON where it is that, else as a text."""
    name, equals, value = text.partition("=")
    if not equals:
        raise ParameterError(f"--set {text!r} must be NAME=VALUE")
    try:
        found = json_text.loads(value)
    except (ValueError, RecursionError):
        found = value
    name = name.strip().replace("-", "_")
    return name, {int(k): v for k, v in found.items()} if name == "logit_bias" and isinstance(found, dict) else found


SHOWN = 60


def _tell(done: Branch, begun: str) -> None:
    for change in done.changes:
        print(f"changed   {change.name}: {change.before!r} -> {change.after!r}")
    print(f"before    {visible(('…' if len(begun) > SHOWN else '') + begun[-SHOWN:])}")
    print(f"answer    {visible(done.answer.text)}")
    print(f"branch    {visible(done.branch.text)}{f'  [{done.branch.ended}]' if done.branch.ended else ''}")
    count, parts = len(done.branch.tokens), done.branch.parts
    where = "the same tokens" if parts is None else f"it parts at token {done.at + parts}"
    print(f"{count} tokens from token {done.at} on; {where} ({done.milliseconds:,.0f} ms)")
    if done.sound:
        print(f"self-check: {done.check}/{done.checked} equal with nothing changed")
    else:
        print(f"self-check FAILED: unchanged it parts at token {done.at + done.check}, so the branch shows nothing")
