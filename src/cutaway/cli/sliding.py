"""`--truncation`: what happens to a prompt or an answer that does not fit into the context."""

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
    str,
    option(
        "--truncation",
        help="When the context is full, end the answer (error) or drop the oldest part and continue (slide). [error]",
    ),
]


def check_truncation(given: str, params: SamplingParams) -> None:
    """Raises ParameterError if the value is unknown or cannot be combined with `params`."""
    if given not in ("error", "slide"):
        raise ParameterError(f"--truncation is {given!r}; it must be slide or error")
    if given == "slide" and params.prompt_logprobs is not None:
        raise ParameterError("--truncation slide cannot be combined with --prompt-logprobs: it may drop prompt tokens")


def sliding_stream(engine: Engine, prompt: Prompt, params: SamplingParams) -> tuple[AnswerStream, tuple[str, ...]]:
    """The pieces of an answer that continues when the context is full, and warnings about what did not fit at the
    start. Raises the errors of `Engine.stream`."""
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
