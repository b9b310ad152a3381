"""Checks a request in the caller's thread before the engine accepts it."""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Sequence
from dataclasses import dataclass, field

from cutaway.engine.counts import Counts
from cutaway.engine.request import Request, Sink
from cutaway.engine.sliding_context import Shorten
from cutaway.engine.speculation import Speculator
from cutaway.engine.step_plan import Work
from cutaway.errors import ContextExceededError, ParameterError
from cutaway.sampling import Sampler, SamplingParams, StopChecker, compile_constraint, draw_seed
from cutaway.text import Tokenizer

MAX_CHOICES = 128


@dataclass(slots=True)
class Door:
    """Turns a prompt and its parameters into requests, or refuses them with the numbers.

    vocab: columns of the model's logits. context: tokens of prompt and answer together. speculate: the default for
    answers whose parameters do not set it. hashing: keep a hash of each row of logits that gives a token. counts: the
    counters that the requests update.
    """

    tokenizer: Tokenizer
    vocab: int
    context: int
    speculate: bool = False
    hashing: bool = False
    counts: Counts = field(default_factory=Counts)
    _last: int = 0

    def requests(
        self, prompt: Sequence[int], params: SamplingParams, seed: int | None, key: Hashable, events: Sink,
        name: str | None = None, slide: Shorten | None = None,
    ) -> Iterator[Request]:
        """One request per choice; they share their prompt's pages through the prefix cache. All send their events to
        `events`. name: the caller's id of the prompt, for records. slide: shortens the prompt when the context is
        full.

        Raises ParameterError and ContextExceededError.
        """
        if slide is not None and params.prompt_logprobs is not None:
            raise ParameterError("prompt_logprobs cannot be combined with truncation 'slide': it drops prompt tokens")
        tokens = self._checked(prompt, params)
        clamped = [] if slide is not None else self._clamped(len(tokens), params)
        warnings = [*clamped, *self.prepare(params)]
        seed = params.seed if seed is None else seed
        seed = draw_seed() if seed is None else seed
        for choice in range(params.n):
            self._last += 1
            rows_from = 0 if params.prompt_logprobs is not None and choice == 0 else len(tokens) - 1
            work = Work(self._last, list(tokens), rows_from, key)
            ends, names = self.tokenizer.end_ids, self.tokenizer
            sampler = Sampler(params, seed=seed, choice=choice, prompt=tokens, end_ids=ends, tokenizer=names)
            room = self.context - len(tokens)
            before = tokens if params.constraint is None else None  # the constraint applies to the whole text
            detokenizer = self.tokenizer.detokenizer(shown=params.visible_tokens, after=before)
            stops = StopChecker(params, ends, detokenizer, room=room if slide is None else None)
            request = Request(
                work, params, sampler, stops, choice=choice, seed=seed, events=events, name=name, counts=self.counts,
                hashing=self.hashing,
            )  # fmt: skip
            request.warnings.extend(warnings)
            request.shorten = slide
            drafts = params.speculate == "ngram" or (params.speculate is None and self.speculate)
            if drafts and slide is None:  # with a sliding context, drafts could exceed it
                request.most = room if params.max_tokens is None else min(room, params.max_tokens)
                request.speculator = Speculator()
            yield request

    def prepare(self, params: SamplingParams) -> tuple[str, ...]:
        """Compile the constraint in advance, since that may take long. Returns warnings about parts that are not
        enforced. Raises ParameterError."""
        constraint = params.constraint
        return () if constraint is None else compile_constraint(*constraint, self.tokenizer).warnings

    def _checked(self, prompt: Sequence[int], params: SamplingParams) -> list[int]:
        tokens = [int(token) for token in prompt]
        if not tokens:
            raise ParameterError("the prompt has no tokens", hint="this model adds none of its own; send a text")
        if wrong := [token for token in tokens if not 0 <= token < self.vocab]:
            raise ParameterError(f"prompt contains token {wrong[0]}; ids of this model are 0 to {self.vocab - 1}")
        params.check_vocab(self.vocab)
        if params.n > MAX_CHOICES:
            raise ParameterError(f"n is {params.n}; it must be 1 to {MAX_CHOICES}")
        room = self.context - len(tokens)
        if room < 0 or (room == 0 and params.max_tokens != 0):
            most = self.context - (params.max_tokens != 0)
            raise ContextExceededError(  # the words that clients of OpenAI's and Anthropic's APIs search for
                f"This model's maximum context length is {self.context} tokens, the answer included; the prompt is too "
                f"long: {len(tokens)} tokens > {most} maximum",
                hint="shorten the prompt, or load the model with a larger context",
                figures={"prompt_tokens": len(tokens), "context_tokens": self.context},
            )
        return tokens

    def _clamped(self, prompt: int, params: SamplingParams) -> list[str]:
        if params.max_tokens is None or prompt + params.max_tokens <= self.context:
            return []
        return [
            f"max_tokens {params.max_tokens} goes beyond the context: {prompt} prompt tokens leave "
            f"{self.context - prompt} of {self.context} for the answer"
        ]
