"""The program `cutaway`: its commands, and how their errors are reported.

Commands import heavy modules when they run, so that `cutaway --help` is fast.
"""

from __future__ import annotations

import gc
import os
import sys
import traceback
from collections.abc import Sequence
from typing import Annotated

import typer

from cutaway.cli.bench import app as bench_app
from cutaway.cli.bench_calibrate import calibrate
from cutaway.cli.branch import branch
from cutaway.cli.chat import chat
from cutaway.cli.config import app as config_app
from cutaway.cli.doctor import doctor
from cutaway.cli.explain import explain
from cutaway.cli.help import Command, Group
from cutaway.cli.models import models
from cutaway.cli.perplexity import perplexity
from cutaway.cli.plan import plan
from cutaway.cli.presets import presets
from cutaway.cli.prompt import prompt
from cutaway.cli.ps import ps
from cutaway.cli.pull import pull
from cutaway.cli.replay import replay
from cutaway.cli.requests import requests
from cutaway.cli.rm import rm
from cutaway.cli.run import run
from cutaway.cli.serve import serve
from cutaway.cli.terminal import prepare_streams
from cutaway.cli.tokens import tokens
from cutaway.cli.trace import trace
from cutaway.cli.version import version
from cutaway.cli.waterfall import waterfall
from cutaway.errors import CutawayError

BAD_INPUT = 2  # exit status of every error that the user's input can cause
INTERRUPTED = 130
# Allocations between two garbage collections. Starting makes 100,000 objects that stay; the default of 700 cost 5 %.
COLLECT_EVERY = 50_000

FIRST = """\
cutaway run "Name three colours."   answers one prompt (the first run downloads a model of 98 MB)
cutaway chat                        starts a conversation; Ctrl-C stops an answer, Ctrl-D exits
cutaway --help                      lists all commands; cutaway run --help lists the options of run"""
"""Shown on a terminal when the program is started without arguments."""

app = typer.Typer(
    cls=Group,
    add_completion=False,
    rich_markup_mode=None,  # plain help works on every terminal and is fast
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
    help="A large-language-model engine with the casing cut away.",
)


@app.callback()
def options(
    debug: Annotated[bool, typer.Option("--debug", help="Show tracebacks. Accepted in any position.")] = False,
) -> None:
    """Options of the program itself. `main` removes --debug before parsing; it is declared here for the help."""


COMMANDS = (
    run, chat, serve, pull, models, rm, tokens, prompt, requests, explain, trace, replay, branch, ps, waterfall,
    presets, plan, perplexity, doctor, version,
)  # fmt: skip
for command in COMMANDS:
    app.command(cls=Command)(command)
app.add_typer(config_app, name="config")
bench_app.command(cls=Command)(calibrate)
app.add_typer(bench_app, name="bench")


def main(arguments: Sequence[str] | None = None) -> None:
    """Run a command and exit with status 0, 2 for bad input, 130 when interrupted, or 1 for an internal error."""
    gc.set_threshold(COLLECT_EVERY, *gc.get_threshold()[1:])
    given = list(sys.argv[1:] if arguments is None else arguments)
    end = given.index("--") if "--" in given else len(given)
    debug = "--debug" in given[:end]
    given = [a for i, a in enumerate(given) if a != "--debug" or i > end]
    prepare_streams()
    sys.exit(_run(given, debug=debug))


def _run(arguments: list[str], *, debug: bool) -> int:
    if not arguments and sys.stdout.isatty():
        print(FIRST)
        return 0
    usage_error = typer.BadParameter.__mro__[1]  # typer does not export its base class
    command = typer.main.get_command(app)
    try:
        # Not command.main(), which handles interrupts and broken pipes in its own way.
        with command.make_context("cutaway", arguments or ["--help"]) as context:
            command.invoke(context)
        sys.stdout.flush()
        return 0
    except typer.Exit as left:
        return left.exit_code
    except (KeyboardInterrupt, typer.Abort):
        _say("interrupted")
        return INTERRUPTED
    except BrokenPipeError:  # the reader of our output has closed it
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except Exception as error:
        if debug:
            traceback.print_exc()
        if isinstance(error, CutawayError):
            _say(f"error[{error.code}]: {error}")
        elif isinstance(error, usage_error):
            where = getattr(error, "ctx", None)
            hint = f" (see: {where.command_path} --help)" if where else ""
            _say(f"error[usage]: {error.format_message()}{hint}")  # type: ignore[attr-defined]
        elif isinstance(error, MemoryError):
            _say("error[memory_short]: out of memory (choose a smaller context or a smaller model)")
        elif isinstance(error, OSError):
            _say(f"error[system]: {error}")
        else:
            _say(f"error[internal]: {type(error).__name__}: {error} (a bug in cutaway; --debug shows the traceback)")
            return 1
        return BAD_INPUT


def _say(text: str) -> None:
    sys.stdout.flush()
    print(f"cutaway: {text}", file=sys.stderr)
