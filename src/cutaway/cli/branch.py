"""`cutaway branch`: an answer continued otherwise from one of its tokens."""

from __future__ import annotations

import json as json_text
from typing import TYPE_CHECKING, Annotated, Any

import typer

from cutaway.cli.columns import shortened
from cutaway.cli.options import option
from cutaway.cli.terminal import visible, warn, write_json, write_table
from cutaway.errors import ParameterError

if TYPE_CHECKING:
    from cutaway.xray.branch import Branch
    from cutaway.xray.record import RequestRecord
    from cutaway.xray.remedies import Remedy

UNSOUND = 1  # exit status where the unchanged way does not give the answer again


def branch(
    request: Annotated[
        str, typer.Argument(metavar="REQUEST[@TOKEN]", help="A record, and the token from which on, from 0.")
    ],
    token: Annotated[str | None, option("--token", help="Put this token there: its text, or #ID.")] = None,
    without_stage: Annotated[list[str] | None, option("--without-stage", help="Switch it off. Repeatable.")] = None,
    values: Annotated[
        list[str] | None, option("--set", metavar="NAME=VALUE", help="Another value of a parameter. Repeatable.")
    ] = None,
    remedies: Annotated[
        bool, option("--remedies", help="Try what might have ended the answer's loop; takes no token.")
    ] = False,
    length: Annotated[
        int | None, option("--length", "-n", help="Tokens of the branch at most. [64; of a remedy 256]")
    ] = None,
    model: Annotated[str | None, option("--model", "-m", help="This model instead of the record's.")] = None,
    threads: Annotated[int | None, option("--threads", help="Threads that compute. [all cores]")] = None,
    url: Annotated[str | None, option("--url", help="The server that has the record.")] = None,
    json: Annotated[bool, option("--json", help="One JSON object instead of text.")] = False,
) -> None:
    """Continue a recorded answer otherwise from one of its tokens, with the same seed.

    REQUEST is a record's file, an x-request-id, or last; last@12 branches at the 13th token of the last answer. The
    branch is checked: the way with nothing changed must give the answer again. It costs two tokens computed here for
    each token of the branch, and nothing on the server. --remedies tries penalties and cooling from where a loop began.
    """
    from cutaway.xray.branch import LENGTH, branch_json
    from cutaway.xray.branch import branch as continued
    from cutaway.xray.explanation import token_named
    from cutaway.xray.find_record import find_record, split_place
    from cutaway.xray.recorded import known_answer
    from cutaway.xray.replay import engine_for

    name, at = split_place(request)
    if remedies:
        if at is not None or token is not None or without_stage or values:
            raise ParameterError("--remedies begins where the loop does, and changes one parameter at a time")
        _remedies(find_record(name, url), model, threads, length, as_json=json)
        return
    if at is None:
        raise ParameterError(f"{request!r} names no token", hint="REQUEST@12 branches at the 13th token")
    given = dict(_value(one) for one in values or ())
    record = find_record(name, url)
    known = known_answer(record)
    with engine_for(record, model, threads) as engine:
        for warning in engine.warnings:
            warn(warning)
        id = None if token is None else token_named(token, engine.tokenizer)
        most = LENGTH if length is None else length
        done = continued(engine, known, at, token=id, without=without_stage or (), values=given, length=most)
        begun = engine.tokenizer.decode(list(known.answer[:at]))
    if json:
        write_json(branch_json(done))
    else:
        _tell(done, begun)
    if not done.sound:
        raise typer.Exit(UNSOUND)


def _remedies(
    record: RequestRecord, model: str | None, threads: int | None, length: int | None, *, as_json: bool
) -> None:  # fmt: skip
    from cutaway.xray import remedies
    from cutaway.xray.recorded import known_answer
    from cutaway.xray.replay import engine_for

    with engine_for(record, model, threads) as engine:
        done = remedies.remedies(engine, known_answer(record), length=remedies.LENGTH if length is None else length)
    if as_json:
        write_json(remedies.remedies_json(done))
        return
    loop = done.loop
    text = shortened(loop.text, 50)
    print(f"the loop: {loop.period} tokens {loop.repeats} times, from token {loop.start} on: {text}")
    print(f"tried from token {done.at} on, where its first round ends ({done.milliseconds:,.0f} ms)\n")
    rows = [
        [
            "as it was" if one.name is None else f"{one.name}={one.value:g}", str(one.tokens), _end(one),
            "?" if one.kl is None else f"{one.kl:.3f}", shortened(one.text, 40),
        ]
        for one in (done.own, *done.tried)
    ]  # fmt: skip
    write_table(["settings", "tokens", "what became of it", "KL", "text"], rows, right=(1, 3))
    print("\nKL: of the distribution drawn from to the model's own, nats a token: the price of a remedy")


def _end(one: Remedy) -> str:
    if one.loops_at is not None:
        return f"loops at {one.loops_at}"
    return "no loop" if one.ended is None else f"ends: {one.ended}"


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
