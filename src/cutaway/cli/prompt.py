"""`cutaway prompt`: what the model sees of a prompt, token by token, and who put it there."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from cutaway.cli.columns import WIDTH, print_findings, shortened, shown
from cutaway.cli.loading import DEFAULT_MODEL, model_on_disk
from cutaway.cli.options import option, takes_options
from cutaway.cli.prompt_file import asked_of, recorded
from cutaway.cli.terminal import warn, write_json, write_table
from cutaway.errors import ParameterError

if TYPE_CHECKING:
    from cutaway.xray.prompt_account import PromptAccount, PromptSpan, PromptToken
    from cutaway.xray.prompt_diff import PromptDifference
    from cutaway.xray.prompt_findings import Finding
    from cutaway.xray.prompt_model import PromptModel

_KINDS = {"control": "special"}
CLOCK = "clock"
TEMPLATES = (".jinja", ".jinja2", ".j2")
"""How the name of a file ends that is a chat template."""


@dataclass(frozen=True, slots=True)
class PromptOptions:
    """What the prompt is made with, and how it is shown."""

    model: Annotated[str, option("--model", "-m", help="Whose template and tokenizer. [smollm2-135m]")] = DEFAULT_MODEL
    file: Annotated[Path | None, option("--file", "-f", help="A JSON file: messages, a body, or a record.")] = None
    record: Annotated[
        str | None, option("--record", help="The prompt of a request: a record file, an x-request-id, or last.")
    ] = None
    system: Annotated[str | None, option("--system", "-s", help="The system message of a text.")] = None
    raw: Annotated[bool, option("--raw", help="The text as it is: no chat template.")] = False
    template: Annotated[Path | None, option("--template", help="This chat template instead of the model's.")] = None
    context: Annotated[int | None, option("--context", help="Tokens that prompt and answer may have together.")] = None
    diff: Annotated[
        str | None, option("--diff", help="Another model, a tokenizer (tokenizer.json), or a template (*.jinja).")
    ] = None
    tokens: Annotated[bool, option("--tokens", help="List every token, not only the spans.")] = False
    encoding: Annotated[str | None, option("--encoding", help="Of a text file or input. [detected]")] = None
    json: Annotated[bool, option("--json", help="One JSON object instead of tables.")] = False


@takes_options
def prompt(
    options: PromptOptions,
    text: Annotated[
        str | None, typer.Argument(metavar="PROMPT", help='A text ("-" reads it), or a JSON file of messages.')
    ] = None,
) -> None:
    """Show what the model sees of a prompt: spans, tokens, bytes, and who put them there.

    user: a message, a tool or a variable; template: the chat template; tokenizer: a first or last token.
    """
    from cutaway.xray.prompt_account import prompt_account
    from cutaway.xray.prompt_diff import prompt_difference
    from cutaway.xray.prompt_findings import prompt_findings
    from cutaway.xray.prompt_json import account_json, difference_json

    if options.record is None:
        asked = asked_of(text, options.file, system=options.system, raw=options.raw, encoding=options.encoding)
    elif text is None and options.file is None:
        asked = recorded(options.record)
    else:
        raise ParameterError("give a prompt or --record, one of them")
    model = _model(options)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        account = prompt_account(model, asked)
    told = list(dict.fromkeys(str(warning.message) for warning in caught))
    findings = prompt_findings(account, model, asked)
    difference = None
    if options.diff is not None:
        theirs = _other(options.diff, model, options.context)
        with warnings.catch_warnings(action="ignore"):
            same = theirs.tokenizer.vocabulary.tokens == model.tokenizer.vocabulary.tokens
            difference = prompt_difference(account, prompt_account(theirs, asked), same_vocabulary=same)
    if options.json:
        more = {} if difference is None else {"diff": difference_json(difference)}
        write_json({**account_json(account, findings, told), **more})
        return
    for line in told:
        warn(line)
    _print_account(account, findings, tokens=options.tokens)
    if difference is not None:
        _print_difference(difference)


def _model(options: PromptOptions) -> PromptModel:
    from cutaway.cli.input import text_file
    from cutaway.xray.prompt_model import PromptModel

    model = PromptModel.load(options.model, model_on_disk(options.model).path, options.context)
    if options.template is not None:
        model = model.with_template(text_file(options.template, options.encoding), str(options.template))
    return model


def _other(name: str, model: PromptModel, context: int | None) -> PromptModel:
    """What is compared with: the same model with another template or tokenizer, or another model."""
    from cutaway.cli.input import text_file
    from cutaway.xray.prompt_model import PromptModel

    path = Path(name)
    if path.suffix in TEMPLATES:
        return model.with_template(text_file(path), name)
    if path.name == "tokenizer.json":
        return model.with_tokenizer(PromptModel.of_tokenizer(name, path))
    return PromptModel.load(name, model_on_disk(name).path, context)


# --- for people -------------------------------------------------------------------------------------------------------
def _print_account(account: PromptAccount, findings: Sequence[Finding], *, tokens: bool) -> None:
    of_context = "" if account.context is None else f" of a context of {account.context}"
    print(f"{account.model}: {len(account.tokens)} tokens{of_context}, {len(account.text)} characters\n")
    if tokens:
        _print_tokens(account)
    else:
        _print_spans(account)
    rows = [
        [s.what, str(s.tokens), f"{s.of_prompt:.1%}", "?" if s.of_context is None else f"{s.of_context:.1%}"]
        for s in account.shares
    ]
    print()
    write_table(["spent on", "tokens", "of the prompt", "of the context"], rows, right=(1, 2, 3))
    print_findings(findings, WIDTH)


def _print_spans(account: PromptAccount) -> None:
    rows = []
    for _, run in groupby(account.spans, lambda span: span.by if _plain_template(span) else span):
        spans = list(run)
        start, end = spans[0].start, spans[-1].end
        held = [t for t in account.tokens if t.start < end and t.end > start]
        source = "" if len(spans) > 1 else _source(spans[0])
        rows.append(_span_row(held, spans[0].by, source, account.text[start:end]))
    for token in account.tokens:
        if token.by == "tokenizer":
            rows.insert(0 if not token.index else len(rows), _span_row([token], "tokenizer", "", token.piece))
    write_table(["tokens", "count", "by", "from", "text"], rows, right=(1,))


def _plain_template(span: PromptSpan) -> bool:
    return span.by == "template" and span.source != CLOCK


def _span_row(held: Sequence[PromptToken], by: str, source: str, text: str) -> list[str]:
    where = "" if not held else str(held[0].index) + (f"-{held[-1].index}" if len(held) > 1 else "")
    return [where, str(len(held)), by, source, shortened(text, 44)]


def _print_tokens(account: PromptAccount) -> None:
    rows = [
        [
            str(t.index), str(t.id), shortened(t.bytes.hex(" "), 24), _KINDS.get(t.kind, t.kind), t.by, _source(t),
            shortened(t.bytes.decode("utf-8", "backslashreplace"), 24),
        ]
        for t in account.tokens
    ]  # fmt: skip
    write_table(["tok", "id", "bytes", "kind", "by", "from", "text"], rows, right=(0, 1))


def _source(span: PromptSpan | PromptToken) -> str:
    """messages[0].content as 0.content (system)."""
    source = span.source or ""
    if span.message is None:
        return source
    inside = source.removeprefix("messages[").replace("]", "", 1)
    return f"{inside} ({span.role})"


def _print_difference(difference: PromptDifference) -> None:
    ours, theirs = difference.counts
    print(f"\nbeside {difference.theirs}: {ours} tokens here, {theirs} there")
    if difference.text is None:
        print("the text is the same")
    else:
        text = difference.text
        print(f"the text differs first at character {text.character}, byte {text.byte}:")
        for name, rest in (("here", text.ours), ("there", text.theirs)):
            print(f"  {name:5}  {shortened(rest[:200], 80) if rest else '(the text ends)'}")
    if (token := difference.token) is None:
        print("the tokens are the same")
        return
    print(f"the tokens differ first at token {token.index}:")
    for name, one in (("here", token.ours), ("there", token.theirs)):
        told = "(the tokens end)"
        if one is not None:
            told = f"{one.id:>7}  {shown(one.piece)}  [{one.bytes.hex(' ')}]  by {one.by}"
        print(f"  {name:5}  {told}")
