"""`cutaway explain`: why this text. Token by token, what the model held of it and what sampling made of that."""

from __future__ import annotations

import json
import shutil
import sys
from dataclasses import dataclass
from types import SimpleNamespace
from typing import TYPE_CHECKING, Annotated, Any

import typer

from cutaway.cli.columns import WIDTH
from cutaway.cli.options import option, takes_options
from cutaway.cli.terminal import write_json
from cutaway.errors import CutawayError, ParameterError, RecordError

if TYPE_CHECKING:
    from cutaway.xray.record import RequestRecord

LONGEST = 600.0  # seconds that a server may take for it


@dataclass(frozen=True, slots=True)
class ExplainOptions:
    """What of the answer is explained, and how it is shown."""

    token: Annotated[
        list[str] | None,
        option("--token", help="With @TOKEN: another alternative to follow, a text or #ID. Repeatable."),
    ] = None
    every: Annotated[bool, option("--tokens", help="List every token, not only the least certain.")] = False
    first: Annotated[int | None, option("--first", help="The first token to explain. [0]")] = None
    last: Annotated[int | None, option("--last", help="The last one. [the answer's]")] = None
    best: Annotated[int | None, option("--best", help="Alternatives of each token. [5]")] = None
    lead: Annotated[
        int | None, option("--lead", help="With @TOKEN: tokens of what each alternative would have led to. [16]")
    ] = None
    choice: Annotated[int | None, option("--choice", help="Which answer of a request with several. [0]")] = None
    model: Annotated[
        str | None, option("--model", "-m", help="Of a record file: the model, if it is called otherwise here.")
    ] = None
    url: Annotated[str | None, option("--url", help="The server that has the request. [the one that runs]")] = None
    json: Annotated[bool, option("--json", help="One JSON object instead of tables.")] = False


@takes_options
def explain(
    request: Annotated[
        str, typer.Argument(metavar="REQUEST[@TOKEN]", help="An x-request-id, a record file, or last; a token from 0.")
    ],
    options: ExplainOptions,
) -> None:
    """Explain an answer: each token's probability, rank, alternatives, sampling stages; why it stopped.

    The answer is read again behind all other requests; nothing was recorded but its token ids. With @TOKEN: the ledger
    of that token's sampling stages, and where each alternative would have led. Requests that run meanwhile on the same
    server lose at most a tenth of their time; what it cost is printed at the end (docs/seeing.md).
    """
    from cutaway.xray.find_record import split_place

    name, at = split_place(request)
    if options.token and at is None:
        raise ParameterError("--token adds an alternative at one token", hint="name it: REQUEST@57")
    found = _explained(name, at, options)
    if options.json:
        write_json(found)
        return
    from cutaway.cli.explain_text import print_end, print_explanation, print_token

    shown = json.loads(json.dumps(found), object_hook=lambda fields: SimpleNamespace(**fields))
    width = min(WIDTH, shutil.get_terminal_size((WIDTH, 24)).columns) if sys.stdout.isatty() else WIDTH
    if at is None:
        print_explanation(shown, every=options.every, width=width)
    else:
        print_token(shown)
        print_end(shown, width)


def _explained(name: str, at: int | None, options: ExplainOptions) -> dict[str, Any]:
    """The explanation as JSON, made here from a record's file, or by the server that has the request."""
    from cutaway.xray.find_record import find_record, is_record_file
    from cutaway.xray.own_records import is_own, own_records

    record = find_record(name, options.url)
    if options.model is None and not is_own(record) and (options.url is not None or not is_record_file(name)):
        return _there(record, at, options)
    others = [] if options.choice is None else own_records()
    if (chosen := record.with_choice(options.choice, others)) is None:
        raise ParameterError(f"the request has no answer {options.choice} here")
    return _here(chosen, at, options)


def _there(record: RequestRecord, at: int | None, options: ExplainOptions) -> dict[str, Any]:
    """Made by the server that has the record."""
    from cutaway.xray.server_client import target, targets

    query: dict[str, str | int | float | None] = {
        "at": at, "first": options.first, "last": options.last, "best": options.best, "lead": options.lead,
        "choice": options.choice,
    }  # fmt: skip
    if options.token:
        query["tokens"] = json.dumps(options.token, ensure_ascii=False)
    for server in targets() if options.url is None else [target(options.url)]:
        try:
            found: dict[str, Any] = server.ask(f"/x/requests/{record.id}/explain", query, seconds=LONGEST)
            return found
        except CutawayError as error:
            if error.code != "record_not_found" or options.choice is not None:
                raise
    raise RecordError(f"no server has the record {record.id} any more", code="record_not_found")


def _here(record: RequestRecord, at: int | None, options: ExplainOptions) -> dict[str, Any]:
    """Made in this process: the record's model is loaded."""
    from cutaway.xray.explanation import BEST, LEAD, Asked, explain, explanation_json, token_named
    from cutaway.xray.recorded import known_answer
    from cutaway.xray.replay import engine_for

    known = known_answer(record)
    with engine_for(record, options.model) as engine:
        tokens = tuple(token_named(text, engine.tokenizer) for text in options.token or ())
        asked = Asked(
            options.first or 0, options.last, at, tokens, BEST if options.best is None else options.best,
            LEAD if options.lead is None else options.lead,
        )  # fmt: skip
        return explanation_json(explain(engine, known, asked))
