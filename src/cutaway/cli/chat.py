"""`cutaway chat`: several turns. Earlier turns stay in the KV cache, so each turn computes only its new tokens."""

from __future__ import annotations

import sys
import time
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Annotated, Any

from cutaway.cli.input import typed_line
from cutaway.cli.languages import foreign, known_languages
from cutaway.cli.loading import open_engine, read_config, sampling_params, set_date
from cutaway.cli.options import LoadOptions, option, takes_options
from cutaway.cli.own_record import keep
from cutaway.cli.report import stop_line, timings_line
from cutaway.cli.sampling_options import SamplingOptions
from cutaway.cli.sliding import Truncation, check_truncation, sliding_stream
from cutaway.cli.terminal import say, warn, write
from cutaway.errors import CutawayError, ParameterError

if TYPE_CHECKING:
    from cutaway.assemble import Engine
    from cutaway.engine import Result
    from cutaway.sampling import SamplingParams

HELP = """\
/reset         start a new conversation
/system TEXT   set the system message and start a new conversation; without TEXT, remove it
/again         answer the last message again
/help          show this list
/exit          exit, like Ctrl-D; Ctrl-C stops an answer"""


@takes_options
def chat(
    load: LoadOptions,
    sampling: SamplingOptions,
    system: Annotated[str | None, option("--system", "-s", help="The system message.")] = None,
    truncation: Truncation = "error",
    date: Annotated[str | None, option("--date", help="What the template sees as now: 2026-12-01.")] = None,
    timings: Annotated[bool, option("--timings", help="Report after each answer where the time went.")] = False,
) -> None:
    """Hold a conversation with a model. Ctrl-C stops the answer, not the program; /help lists the commands."""
    from cutaway.sampling import draw_seed
    from cutaway.text import require_template

    config = read_config(load)
    check_output(given := sampling_params(sampling, config))
    check_truncation(truncation, given)
    with open_engine(load, config) as engine:
        require_template(engine.template)
        set_date(engine, date, config)
        params = sampling_params(sampling, config, engine.defaults)
        if params.on_repetition is None and params.stop_on_repetition is None:
            params = params.replace(on_repetition="stop")
        if params.seed is None and params.temperature > 0:
            params = params.replace(seed=draw_seed())
            say(f"[seed {params.seed}]")
        message, known = system if system is not None else config.system, known_languages(engine)
        slides = truncation == "slide"
        Conversation(engine, params, message, timings=timings, known=known, slides=slides).talk()


def check_output(params: SamplingParams) -> None:
    """Raises ParameterError for output that a conversation cannot show."""
    if params.n != 1:
        raise ParameterError(f"--choices is {params.n}; a turn has only one answer", hint="see: cutaway run")
    for name in ("logprobs", "prompt_logprobs"):
        if getattr(params, name) is not None:
            raise ParameterError(f"{name} cannot be shown in a conversation", hint="see: cutaway run")


class Conversation:
    """The messages so far, and the user at the terminal."""

    def __init__(
        self, engine: Engine, params: SamplingParams, system: str | None, *, timings: bool,
        known: tuple[str, tuple[str, ...]] | None = None, slides: bool = False,
    ) -> None:  # fmt: skip
        """known: the model's name and its languages, if the catalogue lists them.
        slides: drop the oldest turns when the context is full."""
        self.engine = engine
        self.params = params
        self.system = system
        self.timings = timings
        self.known = known
        self.slides = slides
        self.messages: list[dict[str, Any]] = []

    def talk(self) -> None:
        """Read lines until the end of the input or /exit."""
        if sys.stdin.isatty():
            import readline  # noqa: F401  # gives input() a history and an editable line

            say("/help lists the commands; Ctrl-D exits")
        while True:
            try:
                line = typed_line(input("> " if sys.stdin.isatty() else "")).strip()
            except EOFError:
                return
            except ParameterError as error:
                say(f"cutaway: error[{error.code}]: {error}")
                continue
            except KeyboardInterrupt:
                say("\nCtrl-D or /exit exits")
                continue
            if line in ("/exit", "/quit"):
                return
            if line:
                self.handle(line)

    def handle(self, line: str) -> None:
        """Run a command or answer a message. An error ends the turn, not the program."""
        word, _, rest = line.partition(" ")
        if not line.startswith("/"):
            self.answer([*self.messages, {"role": "user", "content": line}])
        elif word == "/reset":
            self.messages = []
        elif word == "/system":
            self.system, self.messages = rest.strip() or None, []
        elif word == "/again":
            kept = self.messages[:-1] if self.messages and self.messages[-1]["role"] == "assistant" else self.messages
            self.answer(kept) if kept else say("there is no message yet")
        else:
            say(HELP)

    def answer(self, messages: Sequence[dict[str, Any]]) -> None:
        """Answer the messages. They and the answer become the history, even if the answer was stopped."""
        if self.known is not None and (line := foreign(messages[-1]["content"], *self.known)):
            say(line)
        head = [{"role": "system", "content": self.system}] if self.system is not None else []
        from cutaway.text.chat.clock import clock

        try:
            began = time.time()
            with clock() as seen:
                result = self._stream([*head, *messages])
            keep(self.engine, "chat", self.params, result, began, seen.seen)
            if result.error is not None:
                raise result.error
        except CutawayError as error:
            say(f"cutaway: error[{error.code}]: {error}")
            return
        self.messages = [*messages, {"role": "assistant", "content": result.text}]
        for warning in result.warnings:
            warn(warning)
        if line := stop_line(result.stop):
            say(line)
        if self.timings:
            say(timings_line(result))

    def _stream(self, messages: Sequence[dict[str, Any]]) -> Result:
        if self.slides:
            opened, noted = sliding_stream(self.engine, messages, self.params)
        else:
            opened, noted = self.engine.stream(messages, self.params), ()
        with opened as pieces:
            while True:
                try:
                    for piece in pieces:
                        write(piece.text)
                        if piece.result is not None:
                            write("\n")
                            return replace(piece.result, warnings=(*noted, *piece.result.warnings))
                except KeyboardInterrupt:
                    pieces.cancel()  # continue reading: the last piece has the text so far
