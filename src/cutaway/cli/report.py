"""Output about an answer beside its text: JSON, log-probabilities, seed, stop reason, timings."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Any

from cutaway.cli.terminal import say, warn, write

if TYPE_CHECKING:
    from cutaway.assemble import Engine
    from cutaway.engine import Answer, Result, TokenLogprob
    from cutaway.sampling import SamplingParams, StopReason

# OpenAI's finish reasons, for programs that use them; `stop` has the full reason.
_FINISH = {
    "length": "length", "context": "length", "time": "length", "repetition": "length", "cancelled": "cancelled",
    "error": "error",
}  # fmt: skip


def as_json(result: Result) -> dict[str, Any]:
    """A result as one JSON object. The fields of the first answer are at the top level, all answers in `choices`."""
    answers = [_answer_json(a) for a in result.answers]
    usage = {**dataclasses.asdict(result.usage), "total_tokens": result.usage.total_tokens}
    more: dict[str, Any] = {"choices": answers} if len(answers) > 1 else {}
    if result.prompt_logprobs is not None:
        more["prompt_logprobs"] = [None if p is None else _logprob_json(p) for p in result.prompt_logprobs]
    return {
        **answers[0], **more, "prompt_token_ids": list(result.prompt_token_ids), "usage": usage, "seed": result.seed,
        "warnings": list(result.warnings),
    }  # fmt: skip


def _answer_json(answer: Answer) -> dict[str, Any]:
    found: dict[str, Any] = {
        "text": answer.text,
        "token_ids": list(answer.token_ids),
        "finish_reason": _FINISH.get(answer.stop.kind, "stop"),
        "stop": dataclasses.asdict(answer.stop),
        "timings": {**dataclasses.asdict(answer.timings), "ttft": answer.timings.ttft},
    }
    if answer.logprobs is not None:
        found["logprobs"] = [_logprob_json(p) for p in answer.logprobs]
    return found


def _logprob_json(entry: TokenLogprob) -> dict[str, Any]:
    top = [{"token": token, "logprob": value} for token, value in entry.top]
    return {"token": entry.token, "logprob": entry.logprob, "rank": entry.rank, "top": top}


def finish(result: Result, params: SamplingParams, *, quiet: bool, engine: Engine) -> None:
    """Report failures, warnings, early stops and the drawn seed.

    quiet: only raise a failure, because the JSON object has everything else.
    """
    if result.error is not None:
        if not quiet and (line := seed_line(params, result.seed)):
            say(line)
        raise result.error
    if quiet:
        return
    if len(result.answers) > 1:
        for number, answer in enumerate(result.answers, 1):
            write(f"--- {number} of {len(result.answers)}\n{answer.text}\n")
    for answer in result.answers:
        for entry in answer.logprobs or ():
            say(logprob_line(entry, engine))
    for warning in result.warnings:
        warn(warning)
    for text in dict.fromkeys(stop_line(a.stop) for a in result.answers):
        if text:
            say(text)
    if line := seed_line(params, result.seed):
        say(line)


def seed_line(params: SamplingParams, seed: int | None) -> str:
    """The line that names the drawn seed; "" if the seed was given, or if sampling is greedy."""
    return f"[seed {seed}]" if params.seed is None and params.temperature > 0 else ""


def stop_line(stop: StopReason) -> str:
    """The line that says why an answer ended early; "" if it ended by itself or at a requested stop."""
    return {
        "length": "[stopped by --max-tokens]",
        "context": "[stopped: the context is full]",
        "time": "[stopped by --time-limit]",
        "repetition": "[stopped: the answer repeated itself; a higher --temperature or --dry-multiplier 0.8 may help, "
        "--no-stop-on-repetition lets it continue]",
        "cancelled": "[cancelled]",
    }.get(stop.kind, "")


def logprob_line(entry: TokenLogprob, engine: Engine) -> str:
    def named(token: int, value: float) -> str:
        text = engine.tokenizer.token_bytes(token).decode("utf-8", "backslashreplace")
        return f"{(text or engine.tokenizer.piece(token))!r} {value:.4f}"

    best = ", ".join(named(token, value) for token, value in entry.top)
    return f"{named(entry.token, entry.logprob)} (rank {entry.rank})" + (f"; best: {best}" if best else "")


def timings_line(result: Result, loaded: float | None = None) -> str:
    """Seconds and tokens per second of loading, prefill and decoding."""
    times, usage = result.timings, result.usage
    computed = usage.prompt_tokens - usage.cached_tokens
    cached = f" ({usage.cached_tokens} more were cached)" if usage.cached_tokens else ""
    parts = [] if loaded is None else [f"load {loaded:.2f} s"]
    parts.append(f"prefill {computed} tokens in {times.prefill:.3f} s, {_rate(computed, times.prefill)}{cached}")
    later = max(0, len(result.token_ids) - 1)  # the prefill computes the first token
    parts.append(f"decode {later} tokens in {times.decode:.3f} s, {_rate(later, times.decode)}")
    if times.drafted:
        parts.append(f"speculation {times.accepted} of {times.drafted} drafted tokens accepted")
    return "[" + "; ".join(parts) + "]"


def _rate(tokens: int, seconds: float) -> str:
    return f"{tokens / seconds:.1f} tokens/s" if seconds > 0 else "no time"
