"""`cutaway tokens`: the tokens of a text, or a comparison of several tokenizers on the same text."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from cutaway.cli.columns import shown
from cutaway.cli.input import text_argument, text_file
from cutaway.cli.loading import DEFAULT_MODEL, model_on_disk
from cutaway.cli.terminal import warn, write_json, write_table
from cutaway.errors import CutawayError, ParameterError

if TYPE_CHECKING:
    from cutaway.text import Piece

_KINDS = {"control": "special"}  # the other kinds keep the vocabulary's names


def tokens(
    words: Annotated[
        list[str] | None,
        typer.Argument(metavar="TEXT", help='The text ("-" reads standard input), then models to compare.'),
    ] = None,
    *,
    file: Annotated[Path | None, typer.Option("--file", "-f", help="Read the text from this file.")] = None,
    model: Annotated[str, typer.Option("--model", "-m", help="Model whose tokenizer is used.")] = DEFAULT_MODEL,
    compare: Annotated[bool, typer.Option("--compare", help="Compare the models named after the text.")] = False,
    markers: Annotated[bool, typer.Option("--markers", help="Read markers in the text as control tokens.")] = False,
    bos: Annotated[bool, typer.Option("--bos", help="Add the BOS token, if the model uses one.")] = False,
    merges: Annotated[bool, typer.Option("--merges", help="Show the merges that make the tokens, in order.")] = False,
    ids_of: Annotated[
        str | None, typer.Option("--ids-of", help="Take this model's ids, and read them with --model's vocabulary.")
    ] = None,
    scripts: Annotated[bool, typer.Option("--scripts", help="Show the vocabulary by script; takes no text.")] = False,
    encoding: Annotated[str | None, typer.Option(help="Encoding of the file or input. [detected]")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Write one JSON object instead of a table.")] = False,
) -> None:
    """Show the tokens of a text: id, piece, bytes in hex, character span and kind.

    --merges shows how byte-pair encoding makes them; --ids-of what ids mean to another model.
    """
    from cutaway.cli import token_views

    given = list(words or [])
    if sum((compare, merges, scripts, ids_of is not None)) > 1:
        raise ParameterError("--compare, --merges, --ids-of and --scripts are different views; give one of them")
    if scripts:
        if given or file is not None:
            raise ParameterError("--scripts is about the vocabulary and takes no text")
        token_views.scripts(model, as_json=as_json)
        return
    if file is not None:
        text = text_file(file, encoding)
    elif given:
        text = text_argument(given.pop(0), encoding)
    else:
        raise ParameterError("no text was given", hint='give a text, --file, or "-" for standard input')
    if compare:
        _compare(text, given or [model], as_json=as_json, bos=bos, markers=markers)
    elif given:
        raise ParameterError(
            f"{1 + len(given)} texts were given; tokens takes one",
            hint="quote the text; --compare takes the other arguments as models",
        )
    elif merges:
        token_views.merges(text, model, as_json=as_json)
    elif ids_of is not None:
        token_views.ids_of(text, ids_of, model, as_json=as_json)
    else:
        _ruler(text, model, as_json=as_json, bos=bos, markers=markers)


def _ruler(text: str, model: str, *, as_json: bool, bos: bool, markers: bool) -> None:
    pieces, _ = measured(text, model, bos=bos, markers=markers)
    if as_json:
        rows = [
            {"id": p.id, "piece": p.piece, "bytes": p.bytes.hex(), "start": p.start, "end": p.end, "kind": kind(p)}
            for p in pieces
        ]
        write_json({"model": model, "tokens": rows, **_size(text), "token_count": len(pieces)})
        return
    rows_ = [
        [str(p.id), shown(p.piece), p.bytes.hex(" "), f"{p.start}-{p.end}", kind(p), shown(text[p.start : p.end])]
        for p in pieces
    ]
    write_table(["id", "piece", "bytes", "span", "kind", "text"], rows_, right=[0])
    size = _size(text)
    print(f"\n{len(pieces)} tokens, {size['characters']} characters, {size['bytes']} bytes")


def _compare(text: str, models: list[str], *, as_json: bool, bos: bool, markers: bool) -> None:
    rows: list[dict[str, Any]] = []
    for model in models:
        pieces, kv = measured(text, model, bos=bos, markers=markers)
        count = max(1, len(pieces))
        rows.append(
            {
                "model": model,
                "tokens": len(pieces),
                "characters_per_token": len(text) / count,
                "bytes_per_token": _size(text)["bytes"] / count,
                "unknown_rate": sum(p.kind == "unknown" for p in pieces) / count,
                "byte_rate": sum(p.kind == "byte" for p in pieces) / count,
                "kv_bytes": kv,
            }
        )
    if as_json:
        write_json({**_size(text), "models": rows})
        return
    from cutaway.planner import readable_bytes

    table = [
        [
            r["model"], str(r["tokens"]), f"{r['characters_per_token']:.2f}", f"{r['bytes_per_token']:.2f}",
            f"{r['unknown_rate']:.1%}", f"{r['byte_rate']:.1%}",
            "?" if r["kv_bytes"] is None else readable_bytes(r["kv_bytes"]),
        ]
        for r in rows
    ]  # fmt: skip
    headings = ["model", "tokens", "characters/token", "bytes/token", "unknown", "byte tokens", "keys and values"]
    write_table(headings, table, right=range(1, 7))
    size = _size(text)
    print(f"\n{size['characters']} characters, {size['bytes']} bytes; keys and values in bf16")


def measured(text: str, model: str, *, bos: bool, markers: bool) -> tuple[list[Piece], int | None]:
    """The text in a model's tokens, and the bytes of its keys and values in bf16, or None if that is not known."""
    from cutaway.formats import open_model
    from cutaway.text import load_tokenizer

    with open_model(model_on_disk(model).path) as opened:
        tokenizer = load_tokenizer(opened.path, opened.metadata)
        pieces = tokenizer.pieces(text, add_special=bos, parse_special=markers)
        try:
            return pieces, _kv_bytes(opened, len(pieces))
        except CutawayError as error:  # the tokens of a model that cannot run here can still be counted
            warn(f"{model}: the size of its keys and values is not known: {error}")
            return pieces, None


def _kv_bytes(opened: Any, count: int) -> int:
    from cutaway.model import kv_groups, kv_layout, read_spec

    spec = read_spec(opened)
    groups = kv_groups(spec)
    layout = kv_layout(spec, pages=(0,) * len(groups), page_size=16)
    return sum(layout.token_bytes() * len(g.layers) * min(count, g.window or count) for g in groups)


def kind(piece: Piece) -> str:
    return _KINDS.get(piece.kind, piece.kind)


def _size(text: str) -> dict[str, int]:
    return {"characters": len(text), "bytes": len(text.encode("utf-8", "surrogatepass"))}
