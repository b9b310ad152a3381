"""Constraints on the output, compiled by llguidance to masks over the vocabulary.

A request defines one by plain data (SamplingParams: json_object, json_schema, regex, choice, grammar). It is compiled
once (`compile_constraint`, cached by content). Each choice owns a `Matcher`, from which the sampler's `constraint`
stage gets the tokens that may come next. An end token is among them only if the output may end, and alone if it must.
"""

from __future__ import annotations

import json
import threading
import time
from collections import OrderedDict
from concurrent.futures import Future, ThreadPoolExecutor
from itertools import islice
from typing import Any
from weakref import WeakKeyDictionary, WeakMethod

import numpy as np
from numpy.typing import NDArray

from cutaway.errors import EngineError, ParameterError
from cutaway.sampling.constraints.grammar import as_grammar, canonical
from cutaway.sampling.constraints.subschemas import subschemas
from cutaway.sampling.params import ConstraintKind
from cutaway.text import Tokenizer

CACHED = 128
MASK_THREADS = 2
MOST_TRIED = 256
Bits = NDArray[np.bool_]
Row = NDArray[np.float32]


class Constraint:
    """A compiled constraint, shared by all requests with equal constraints. warnings: schema keywords that are
    annotations and were not enforced. seconds: the time of compilation."""

    def __init__(self, vocabulary: _Vocabulary, matcher: Any, warnings: tuple[str, ...], seconds: float) -> None:
        self.warnings = warnings
        self.seconds = seconds
        self._vocabulary = vocabulary
        self._matcher = matcher

    def matcher(self) -> Matcher:
        """A matcher at the beginning of the output."""
        return Matcher(self._vocabulary, self._matcher.deep_copy())


class Matcher:
    """Follows one output: `restrict` before a token is chosen, `accept` after. The next mask is computed by a separate
    thread while the model computes the next logits."""

    def __init__(self, vocabulary: _Vocabulary, matcher: Any) -> None:
        self._vocabulary = vocabulary
        self._matcher = matcher
        self._mask = np.zeros((vocabulary.size + 31) // 32, np.uint32)
        self._complete = False  # only an end token may come
        self._next: Future[None] | None = vocabulary.threads.submit(self._compute, None)

    def restrict(self, row: Row) -> None:
        """Ban the tokens that may not come next. row: float32 [vocab], changed in place; it may be longer than the
        tokenizer's vocabulary. Raises EngineError if no token is allowed."""
        banned = self.banned()[: len(row)]
        row[len(banned) :] = -np.inf
        if not self._complete:
            np.copyto(row[: len(banned)], -np.inf, where=banned)
            return
        ends = [id for id in sorted(self._vocabulary.end_ids) if id < len(row)]
        kept = row[ends]
        row.fill(-np.inf)
        row[ends] = kept if np.isfinite(kept).any() else 0.0  # min_tokens must leave a token

    def banned(self) -> Bits:
        """bool [vocabulary]: the tokens that may not come next."""
        if self._next is not None:
            self._next.result()
        banned = np.unpackbits(~self._mask.view(np.uint8), bitorder="little")[: self._vocabulary.size]
        return banned.view(np.bool_)

    def accept(self, token: int) -> None:
        """Accept the next token of the output, however it was chosen. After an end token only end tokens may come."""
        if self._next is not None:
            self._next.result()
        if self._complete or token in self._vocabulary.end_ids:
            self._complete, self._next = True, None
        else:
            self._next = self._vocabulary.threads.submit(self._compute, token)

    def _compute(self, token: int | None) -> None:
        """In a mask thread: accept the token, and compute what may follow."""
        if token is not None:
            self._matcher.consume_token(token)
        self._matcher.unsafe_compute_mask_ptr(self._mask.ctypes.data, self._mask.nbytes)
        if self._matcher.is_error():
            raise EngineError(f"the constraint failed: {_short(self._matcher.get_error())}", code="constraint_failed")
        self._complete = self._matcher.is_stopped()
        if not self._mask.any():
            raise EngineError(
                "the constraint leaves no token", code="constraint_failed",
                hint="the text that it requires here does not exist, or this vocabulary cannot express it",
            )  # fmt: skip


def compile_constraint(
    kind: ConstraintKind, source: Any, tokenizer: Tokenizer, *, name: str | None = None
) -> Constraint:
    """The constraint. The 128 most recently used ones of a tokenizer are cached.

    kind, source: "json_object": True; "json_schema": a schema as mapping, bool or JSON text; "regex": a regular
    expression (Rust's syntax, no look-around) for the whole output; "choice": texts, one of which is the whole output;
    "grammar": Lark in llguidance's dialect, or GBNF. name: its name in errors; None: the kind.

    Call it in a thread before submitting the request. It takes milliseconds, but 0.5 to 2 s for the first constraint
    of a model, for 150,000 to 260,000 tokens, during which llguidance holds the interpreter lock. In a coroutine use
    `await asyncio.to_thread(compile_constraint, *params.constraint, tokenizer)`.

    Raises ParameterError, which says what cannot be enforced and where.
    """
    return _vocabulary_of(tokenizer).compiled(kind, source, name or kind)


class _Vocabulary:
    """A tokenizer's tokens in the form that llguidance needs, and the constraints compiled for them."""

    def __init__(self, tokenizer: Tokenizer) -> None:
        from llguidance import LLTokenizer, TokenizerWrapper

        self.size = tokenizer.vocab_size
        self.end_ids = tokenizer.end_ids
        self.threads = ThreadPoolExecutor(MASK_THREADS, "cutaway-mask")
        self._lock = threading.Lock()
        self._cache: OrderedDict[tuple[str, str], Constraint] = OrderedDict()
        if not self.end_ids:
            raise ParameterError("this model has no end token, so an output of a fixed form could never end")
        wrapped = TokenizerWrapper(_Spelled(tokenizer))
        # In two parts, so that other threads can run between them: each part holds the interpreter lock.
        plain = LLTokenizer(wrapped, eos_token=sorted(self.end_ids), slices=[])
        time.sleep(0.005)
        self._tokenizer = plain.with_slices(LLTokenizer.general_slices())

    def compiled(self, kind: ConstraintKind, source: Any, name: str) -> Constraint:
        text, warnings = canonical(kind, source, name)
        with self._lock:
            found = self._cache.get((kind, text))
            if found is not None:
                self._cache.move_to_end((kind, text))
                return found
        made = self._compile(kind, text, warnings, name)
        with self._lock:
            self._cache[kind, text] = made
            while len(self._cache) > CACHED:
                self._cache.popitem(last=False)
        return made

    def _compile(self, kind: ConstraintKind, text: str, warnings: tuple[str, ...], name: str) -> Constraint:
        from llguidance import LLMatcher

        begin = time.perf_counter()
        matcher = LLMatcher(self._tokenizer, as_grammar(kind, text), log_level=0)
        if matcher.is_error():
            error = matcher.get_error()
            where = self._culprit(text, error) if kind == "json_schema" else ""
            raise ParameterError(f"{name}{where} cannot be enforced: {_short(error)}")
        first = matcher.deep_copy()
        possible = any(first.compute_bitmask())
        if first.is_error():
            raise ParameterError(f"{name} cannot be enforced: {_short(first.get_error())}")
        if not possible:
            raise ParameterError(f"{name}: no text that this vocabulary can express satisfies it")
        told = (*warnings, *(f"{name}: {_short(warning)}" for warning in matcher.get_grammar_warnings()))
        return Constraint(self, matcher, told, time.perf_counter() - begin)


    def _culprit(self, text: str, error: str) -> str:
        """The place of the error in the schema: the innermost schema that causes the same error on its own."""
        from llguidance import LLMatcher

        root = json.loads(text)
        defined = {key: root[key] for key in ("$defs", "definitions") if key in root}
        inside = list(islice(subschemas(root), MOST_TRIED))
        for place, schema in reversed(inside):
            alone = as_grammar("json_schema", json.dumps({**schema, **defined}))
            if LLMatcher(self._tokenizer, alone, log_level=0).get_error() == error:
                return f" at {place}"
        return ""


class _Spelled:
    """The tokenizer interface of llguidance. Control tokens count as markers, which a grammar can name; unused and
    unknown tokens can never come."""

    def __init__(self, tokenizer: Tokenizer) -> None:
        vocabulary = tokenizer.vocabulary
        mute = frozenset(id for id in range(len(vocabulary)) if vocabulary.kind(id) in ("unused", "unknown"))
        self.tokens = [b"" if id in mute else vocabulary.spelled_bytes(id) for id in range(len(vocabulary))]
        self.special_token_ids = [id for id in range(len(vocabulary)) if vocabulary.kind(id) == "control"]
        self.eos_token_id = min(tokenizer.end_ids)
        self.bos_token_id = tokenizer.bos_id
        self._encode = WeakMethod(tokenizer.encode_part)  # the cache of a tokenizer must not keep it alive

    def __call__(self, text: bytes | str) -> list[int]:
        encode = self._encode()
        plain = text if isinstance(text, str) else text.decode("utf-8", "replace")
        return encode(plain) if encode is not None else []


_vocabularies: WeakKeyDictionary[Tokenizer, _Vocabulary] = WeakKeyDictionary()
_building = threading.Lock()


def _vocabulary_of(tokenizer: Tokenizer) -> _Vocabulary:
    with _building:
        found = _vocabularies.get(tokenizer)
        if found is None:
            found = _vocabularies[tokenizer] = _Vocabulary(tokenizer)
        return found


def _short(message: str) -> str:
    """The informative part of an error of llguidance: the explanation of a syntax error, otherwise the first line."""
    lines = [line.strip() for line in message.strip().splitlines() if line.strip()]
    for line in lines:
        if line.startswith("error:"):
            return line.removeprefix("error:").strip()
    return lines[0][:300] if lines else "no reason given"
