"""`cutaway perplexity`: how well a model predicts a text."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from cutaway.cli.input import text_argument, text_file
from cutaway.cli.loading import open_engine, read_config
from cutaway.cli.options import LoadOptions, option, takes_options
from cutaway.cli.terminal import say, write_json, write_table
from cutaway.errors import ParameterError

if TYPE_CHECKING:
    from cutaway.xray.needle import Needle
    from cutaway.xray.perplexity import Perplexity


@dataclass(frozen=True, slots=True)
class PerplexityOptions:
    """What is read, and how it is shown."""

    file: Annotated[Path | None, option("--file", "-f", help="Read the text from this file.")] = None
    window: Annotated[int | None, option("--window", help="Tokens read at once. [the context]")] = None
    stride: Annotated[int | None, option("--stride", help="Tokens from a window to the next. [half a window]")] = None
    needle: Annotated[
        bool, option("--needle", help="Hide a sentence in the text, and see whether it is found at the end.")
    ] = False
    encoding: Annotated[str | None, option("--encoding", help="Of the file or input. [detected]")] = None
    json: Annotated[bool, option("--json", help="One JSON object instead of tables.")] = False


@takes_options
def perplexity(
    load: LoadOptions,
    options: PerplexityOptions,
    text: Annotated[str | None, typer.Argument(metavar="TEXT", help='The text; "-" reads it from input.')] = None,
) -> None:
    """Measure how well a model predicts a text: perplexity with its error, by position, bits per byte.

    Two models with different tokenizers can be compared by bits per byte, and not by perplexity. --needle tests whether
    the context holds, for instance a stretched one (--rope-scaling).
    """
    from cutaway.xray.needle import needles
    from cutaway.xray.perplexity import perplexity as measured

    if text is not None and options.file is None:
        given = text_argument(text, options.encoding)
    elif text is None and options.file is not None:
        given = text_file(options.file, options.encoding)
    else:
        raise ParameterError("give a text or --file, one of them", hint='"-" reads a text from input')
    with open_engine(load, read_config(load)) as engine:
        name = engine.path.stem if engine.manifest is None else engine.manifest.name
        head: dict[str, Any] = {"record": "perplexity", "model": name, "context": engine.context}
        if options.needle:
            found = []
            for one in needles(engine, given):
                found.append(one)
                say(_needle_line(one))
            if options.json:
                write_json(head | {"record": "needles", "needles": [asdict(one) for one in found]})
            else:
                _print_needles(found)
            return
        done = measured(engine, given, window=options.window, stride=options.stride, progress=_progress)
    if options.json:
        write_json(head | asdict(done))
    else:
        _print(name, done)


def _progress(done: int, count: int, nats: float) -> None:
    import math

    if done < count:
        say(f"{done} of {count} tokens: perplexity {math.exp(nats):.3f}")


def _print(name: str, done: Perplexity) -> None:
    error = "error unknown, the text is too short" if done.error is None else f"± {done.error:.3f}"
    print(f"{name}: perplexity {done.perplexity:.3f} ({error})")
    print(f"{done.tokens} tokens, {done.nats:.4f} nats a token; the most probable token is right for {done.top:.1%}")
    print(f"{done.bits_per_byte:.4f} bits per byte, {done.bits_per_character:.4f} per character")
    print(f"windows of {done.window} tokens, one every {done.stride}; {done.seconds:.1f} s\n")
    rows = [[f"{r.low}-{r.high - 1}", str(r.tokens), f"{r.perplexity:.3f}"] for r in done.positions]
    write_table(["tokens before it", "counted", "perplexity"], rows, right=(1, 2))
    if done.error is not None:
        print("\n±: standard error, from the means of blocks of 64 tokens")


def _needle_line(one: Needle) -> str:
    where = "without the sentence" if one.depth is None else f"depth {one.depth:.0%}"
    return f"{one.tokens} tokens, {where}: {'found' if one.found else 'not found'}"


def _print_needles(found: Sequence[Needle]) -> None:
    depths = sorted({one.depth for one in found if one.depth is not None})
    rows = []
    for share in dict.fromkeys(one.share for one in found):
        line = {one.depth: one for one in found if one.share == share}
        rows.append([str(max(one.tokens for one in line.values())), *(_mark(line[d]) for d in (None, *depths))])
    write_table(["tokens", "without", *(f"at {depth:.0%}" for depth in depths)], rows, right=(0,))
    print("\nyes: greedy decoding would write it; the number: nats a token of it; without: guessed, not found")


def _mark(one: Needle) -> str:
    return f"{'yes' if one.found else 'no'} {one.nats:.2f}"
