"""From a model's files to answers, with a tiny random llama that is written here, and with SmolLM2."""

from __future__ import annotations

import gc
import json
import subprocess
import sys
import threading
import weakref
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers

import cutaway
from cutaway import (
    Answer,
    AnswerStream,
    CutawayError,
    Delta,
    Engine,
    JsonlRecorder,
    MemoryRecorder,
    Result,
    SamplingParams,
    StopReason,
)
from cutaway.errors import (
    ContextExceededError,
    EngineError,
    MemoryShortError,
    ModelNotFoundError,
    ParameterError,
    TemplateError,
)
from cutaway.ops.protocol import KVType

VOCAB, HIDDEN, LAYERS, HEADS, KV_HEADS, WIDTH = 258, 32, 2, 4, 2, 64
TEMPLATE = "{% for m in messages %}<|turn|>{{ m.role }}:{{ m.content }}\n{% endfor %}{{ extra or '' }}"
GREEDY = SamplingParams(temperature=0.0, max_tokens=6, ignore_eos=True)


def write_tokenizer(folder: Path, *, template: bool) -> None:
    """Byte-level, no merges: one token per byte, an end token and a turn marker."""
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    tokenizer = Tokenizer(models.BPE(vocab={symbol: i for i, symbol in enumerate(alphabet)}, merges=[]))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.add_special_tokens([AddedToken("<|end|>", special=True), AddedToken("<|turn|>", special=True)])
    tokenizer.save(str(folder / "tokenizer.json"))
    settings: dict[str, Any] = {"eos_token": "<|end|>"}
    if template:
        settings["chat_template"] = TEMPLATE
    (folder / "tokenizer_config.json").write_text(json.dumps(settings))


def write_weights(folder: Path) -> None:
    """A safetensors file of random float32: eight bytes of header length, a JSON header, the data."""
    rng, head = np.random.default_rng(7), HIDDEN // HEADS
    shapes: dict[str, tuple[int, ...]] = {"model.embed_tokens.weight": (VOCAB, HIDDEN), "model.norm.weight": (HIDDEN,)}
    for i in range(LAYERS):
        layer = f"model.layers.{i}."
        shapes |= {layer + f"self_attn.{n}_proj.weight": (KV_HEADS * head, HIDDEN) for n in "kv"}
        shapes |= {layer + f"self_attn.{n}_proj.weight": (HIDDEN, HIDDEN) for n in "qo"}
        shapes |= {layer + f"mlp.{n}_proj.weight": (WIDTH, HIDDEN) for n in ("gate", "up")}
        shapes |= {layer + "mlp.down_proj.weight": (HIDDEN, WIDTH)}
        shapes |= {layer + n + "_layernorm.weight": (HIDDEN,) for n in ("input", "post_attention")}
    header, data = {}, b""
    for name, shape in shapes.items():
        values = np.ones(shape, np.float32) if len(shape) == 1 else rng.normal(0, 0.4, shape).astype(np.float32)
        header[name] = {"dtype": "F32", "shape": shape, "data_offsets": (len(data), len(data) + values.nbytes)}
        data += values.tobytes()
    text = json.dumps(header).encode()
    (folder / "model.safetensors").write_bytes(len(text).to_bytes(8, "little") + text + data)


def write_model(folder: Path, *, template: bool = True) -> Path:
    config = {
        "architectures": ["LlamaForCausalLM"], "model_type": "llama", "hidden_size": HIDDEN, "vocab_size": VOCAB,
        "num_hidden_layers": LAYERS, "num_attention_heads": HEADS, "num_key_value_heads": KV_HEADS,
        "intermediate_size": WIDTH, "max_position_embeddings": 64, "rms_norm_eps": 1e-5, "hidden_act": "silu",
        "rope_theta": 10000.0, "tie_word_embeddings": True, "eos_token_id": 256,
    }  # fmt: skip
    (folder / "config.json").write_text(json.dumps(config))
    write_tokenizer(folder, template=template)
    write_weights(folder)
    return folder


@pytest.fixture(scope="module")
def tiny(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_model(tmp_path_factory.mktemp("tiny"))


@pytest.fixture(scope="module")
def engine(tiny: Path) -> Iterator[Engine]:
    with Engine.load(tiny, backend="reference") as engine:
        yield engine


def test_what_is_exported_is_there_and_is_loaded_late() -> None:
    exported = (
        Answer, AnswerStream, CutawayError, Delta, Engine, JsonlRecorder, MemoryRecorder, Result, SamplingParams,
        StopReason,
    )  # fmt: skip
    assert sorted(["__version__", *(item.__name__ for item in exported)]) == sorted(cutaway.__all__)
    assert set(cutaway.__all__) <= set(dir(cutaway))
    with pytest.raises(AttributeError, match="Motor"):
        _ = cutaway.Motor
    script = "import sys, cutaway; print([m for m in sys.modules if m.startswith(('cutaway.', 'numpy'))])"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_many_prompts_of_three_kinds(engine: Engine) -> None:
    chat = [{"role": "user", "content": "hi"}]
    results = engine.generate(["hello", [1, 2, 3], chat, "hello"], GREEDY)
    assert [len(result.token_ids) for result in results] == [6] * 4
    assert results[0].token_ids == results[3].token_ids
    assert results[1].prompt_token_ids == (1, 2, 3)
    assert engine.tokenizer.decode(results[2].prompt_token_ids) == "<|turn|>user:hi\n"
    for result in results:
        assert result.stop == StopReason("length", None, 5)
        assert result.text == engine.tokenizer.decode(result.token_ids, skip_special=True)
        assert (result.usage.completion_tokens, result.warnings, result.error) == (6, (), None)


def test_a_single_prompt_is_a_list_of_one(engine: Engine) -> None:
    for prompt in ("hello", [1, 2], [{"role": "user", "content": "x"}]):
        assert len(engine.generate(prompt, GREEDY)) == 1


def test_parameters_per_prompt_and_the_seed_is_told(engine: Engine) -> None:
    drawn, fixed = engine.generate(
        ["abc", "abc"], [SamplingParams(max_tokens=9), SamplingParams(max_tokens=4, seed=3, logprobs=2)]
    )
    assert len(fixed.token_ids) <= 4 and fixed.seed == 3
    assert fixed.logprobs is not None and all(len(told.top) == 2 for told in fixed.logprobs)
    assert drawn.logprobs is None
    (again,) = engine.generate("abc", SamplingParams(max_tokens=9, seed=drawn.seed))
    assert again.token_ids == drawn.token_ids
    with pytest.raises(ParameterError, match="2 entries for 1"):
        engine.generate("abc", [GREEDY, GREEDY])


def test_n_choices(engine: Engine) -> None:
    (result,) = engine.generate("a long enough prompt to fill a page", SamplingParams(max_tokens=5, n=3, seed=1))
    assert len(result.answers) == 3 and len({answer.token_ids for answer in result.answers}) > 1
    assert result.usage.completion_tokens == sum(len(answer.token_ids) for answer in result.answers)


def test_a_stream_joins_to_what_generate_says(engine: Engine) -> None:
    (whole,) = engine.generate("stream me", GREEDY)
    deltas = list(engine.stream("stream me", GREEDY))
    assert "".join(delta.text for delta in deltas) == whole.text
    assert [delta.token for delta in deltas if delta.token is not None] == list(whole.token_ids)
    assert [delta.result is not None for delta in deltas] == [False] * 6 + [True]
    last = deltas[-1].result
    assert last is not None and last.text == whole.text and deltas[-1].stop == whole.stop


def test_leaving_a_stream_early_cancels(engine: Engine) -> None:
    params = GREEDY.replace(max_tokens=None)
    with engine.stream("x", params) as stream:
        next(stream)
    assert list(stream) == []
    stream = engine.stream("x", params)
    next(stream)
    stream.cancel()
    assert stream.result().stop.kind in ("cancelled", "context")
    for delta in engine.stream("x", params):  # the iterator is garbage after the break
        assert delta.text is not None
        break
    assert engine.generate("y", GREEDY)[0].stop.kind == "length"


def test_a_second_turn_computes_only_what_is_new(engine: Engine) -> None:
    first = [{"role": "user", "content": "tell me of the sea"}]
    (one,) = engine.generate(first, GREEDY)
    second = [*first, {"role": "assistant", "content": "it is wet"}, {"role": "user", "content": "ok"}]
    (two,) = engine.generate(second, GREEDY)
    assert two.usage.cached_tokens >= len(one.prompt_token_ids) > 16


def test_user_text_is_no_control_token(engine: Engine) -> None:  # case C01
    marker = engine.tokenizer.encode("<|turn|>", parse_special=True)
    assert len(marker) == 1
    assert marker[0] not in engine.token_ids("<|turn|>")
    assert engine.token_ids([{"role": "user", "content": "<|turn|>"}]).count(marker[0]) == 1
    assert engine.tokenizer.decode(engine.token_ids([{"role": "u", "content": ""}], extra="!")).endswith("!")


@pytest.mark.parametrize(
    ("prompt", "message"),
    [([], "no prompt"), ([[]], "not empty"), ([1, "x"], "one kind"), (b"bytes", "must be"), (7, "no prompt")],
)
def test_what_is_no_prompt_is_refused(engine: Engine, prompt: Any, message: str) -> None:
    with pytest.raises(ParameterError, match=message):
        engine.generate(prompt, GREEDY)


def test_too_long_a_prompt_says_both_numbers_and_stops_the_others(engine: Engine) -> None:
    assert engine.context == 64
    with pytest.raises(ContextExceededError, match=r"maximum context length is 64 tokens.*65 tokens"):
        engine.generate(["fine", [1] * 65], GREEDY)
    assert engine.generate("fine", GREEDY)[0].stop.kind == "length"


def test_an_error_of_a_request_is_raised_or_kept(engine: Engine) -> None:
    def broken(logits: Any, prompt: Any, generated: Any) -> None:
        raise ZeroDivisionError("mine")

    params = [GREEDY, GREEDY.replace(stages=[broken])]
    with pytest.raises(EngineError, match="mine"):
        engine.generate(["a", "b"], params)
    good, bad = engine.generate(["a", "b"], params, on_error="keep")
    assert good.error is None and bad.error is not None and bad.stop.kind == "error"


def test_an_engine_seed_makes_a_whole_run_repeatable(tiny: Path) -> None:
    runs = []
    for _ in range(2):
        with Engine.load(tiny, backend="reference", seed=4) as engine:
            runs.append([r.token_ids for r in engine.generate(["a", "a", "b"], SamplingParams(max_tokens=5))])
    assert runs[0] == runs[1] and runs[0][0] != runs[0][1]


def test_a_model_without_a_template_completes_but_does_not_chat(tmp_path: Path) -> None:  # case C22
    with Engine.load(write_model(tmp_path, template=False), backend="reference") as engine:
        assert engine.template is None
        with pytest.raises(TemplateError, match="no chat template"):
            engine.generate([{"role": "user", "content": "x"}], GREEDY)
        assert engine.generate("x", GREEDY)[0].stop.kind == "length"


def test_records_reach_the_recorder(tiny: Path) -> None:
    recorder = MemoryRecorder()
    with Engine.load(tiny, backend="reference", recorder=recorder) as engine:
        (result,) = engine.generate("abc", GREEDY)
    kinds = [type(record).__name__ for record in recorder.records]
    assert kinds.count("TokenRecord") == len(result.token_ids)
    assert kinds.count("StepRecord") == len(result.token_ids)


def test_a_context_is_checked_and_warned_of(tiny: Path) -> None:
    with Engine.load(tiny, backend="reference", context=100) as engine:
        assert engine.context == 100 and "100" in engine.warnings[0] and "64" in engine.warnings[0]
    with Engine.load(tiny, backend="reference", rope_scaling="linear:2") as engine:
        assert engine.context == 128 and not engine.warnings


@pytest.mark.parametrize(("keys", "price"), [("int8", "0.0182"), ("fp8", "0.0143")])
def test_keys_that_cost_much_say_how_much(tiny: Path, keys: KVType, price: str) -> None:
    with Engine.load(tiny, backend="reference", kv_k=keys, kv_v="int8") as engine:
        (warning,) = engine.warnings
    assert f"keys in {keys}" in warning and price in warning and "docs/numerics.md" in warning


def test_values_in_int8_are_no_reason_to_warn(tiny: Path) -> None:
    with Engine.load(tiny, backend="reference", kv_v="int8") as engine:
        assert not engine.warnings


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"context": 0}, "context is 0"),
        ({"threads": 0}, "threads is 0"),
        ({"max_requests": 65}, "max_requests is 65; it must be 1 to 64"),
        ({"kv_k": "int4"}, "kv_k is 'int4'"),
        ({"backend": "abacus"}, "backend is 'abacus'"),
        ({"rope_scaling": "elastic:2"}, "rope_scaling"),
    ],
)
def test_load_options_out_of_range(tiny: Path, options: dict[str, Any], message: str) -> None:
    with pytest.raises(ParameterError, match=message):
        Engine.load(tiny, **({"backend": "reference"} | options))


def test_no_memory_says_both_numbers(tiny: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("cutaway.ops.reference_backend.available_memory", lambda: 12345)
    with pytest.raises(MemoryShortError, match=r"needs \d+ bytes.*12345"):
        Engine.load(tiny, backend="reference")


def test_a_missing_file_is_a_plain_error(tmp_path: Path) -> None:
    with pytest.raises(ModelNotFoundError):
        Engine.load(tmp_path / "none.gguf", backend="reference")


def test_closing_twice_and_asking_after(tiny: Path) -> None:
    engine = Engine.load(tiny, backend="reference")
    stream = engine.stream("x", GREEDY.replace(max_tokens=None))
    engine.close()
    engine.close()
    assert stream.result().stop.kind in ("cancelled", "context")
    with pytest.raises(EngineError, match="closed"):
        engine.generate("x", GREEDY)


def test_an_engine_that_nobody_closed_ends_with_its_last_user(tiny: Path) -> None:
    stream = Engine.load(tiny, backend="reference").stream("x", GREEDY)
    gc.collect()
    assert stream.result().stop.kind == "length"  # the stream keeps it
    before = threading.active_count()
    del stream
    gc.collect()
    assert threading.active_count() == before - 1


@pytest.mark.parametrize("backend", ["native", "reference"])
def test_the_memory_of_a_closed_engine_goes_at_once(tiny: Path, backend: Any) -> None:
    """Not when garbage is next collected: the next model needs it."""
    gc.collect()
    gc.disable()
    try:
        engine = Engine.load(tiny, backend=backend)
        engine.generate("Hello", SamplingParams(max_tokens=2))
        core = weakref.ref(engine._core)
        engine.close()
        del engine
        assert core() is None
    finally:
        gc.enable()


def test_a_program_that_leaves_without_closing_ends(tiny: Path) -> None:
    script = f"""
from cutaway import Engine, SamplingParams
engine = Engine.load({str(tiny)!r}, backend="reference")
stream = engine.stream("x", SamplingParams(ignore_eos=True))
next(stream)
"""
    done = subprocess.run([sys.executable, "-c", script], check=False, capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.models
def test_smollm2_knows_a_capital(smollm2_path: Path) -> None:
    """A token that is 2.6 nats ahead of the next: roundings do not decide it."""
    with Engine.load(smollm2_path, context=256) as engine:
        (result,) = engine.generate("The capital of France is", SamplingParams(temperature=0.0, max_tokens=4))
    assert result.text.startswith(" Paris")
