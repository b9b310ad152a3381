"""`--truncation`: what becomes of a prompt, and of an answer, for which the context is too short."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Annotated, Any, cast

from cutaway.cli.options import option
from cutaway.errors import ParameterError

if TYPE_CHECKING:
    from cutaway.assemble import Engine, Prompt
    from cutaway.engine import AnswerStream
    from cutaway.sampling import SamplingParams

Truncation = Annotated[
    str, option("--truncation", help="slide: what is oldest goes when the context is full; error: it ends. [error]")
]


def check_truncation(said: str, params: SamplingParams) -> None:
    """Raises ParameterError."""
    if said not in ("error", "slide"):
        raise ParameterError(f"--truncation is {said!r}; it must be slide or error")
    if said == "slide" and params.prompt_logprobs is not None:
        raise ParameterError("--truncation slide and --prompt-logprobs exclude each other: tokens of the prompt may go")


def sliding_stream(engine: Engine, prompt: Prompt, params: SamplingParams) -> tuple[AnswerStream, tuple[str, ...]]:
    """The pieces of an answer that goes on when the context is full; and warnings of what did not fit from the
    beginning. Raises what `Engine.stream` does."""
    from cutaway.engine import AnswerStream, fitted, fitted_text

    if isinstance(prompt, str):
        fit = fitted_text(engine.token_ids(prompt), engine.context, params.max_tokens)
    else:
        messages = cast(Sequence[Mapping[str, Any]], prompt)
        fit = fitted(
            messages, lambda kept: (engine.token_ids(kept), ""), engine.context, params.max_tokens,
            again=engine.token_ids,
        )  # fmt: skip
    stream = engine.submit(fit.tokens, params, shorten=fit.shorten)
    return AnswerStream(stream, fit.tokens, keeps=engine), fit.warnings
