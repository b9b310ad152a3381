"""Constraints: each kind, what is refused, and what stands in the way of an end."""

from __future__ import annotations

import gc
import json
import threading
import time
import weakref
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from cutaway.errors import EngineError, ParameterError
from cutaway.sampling import Constraint, Sampler, SamplingParams, compile_constraint
from cutaway.text.tokenizer.from_gguf import tokenizer_from_gguf
from cutaway.trace import MemoryRecorder
from sampling.generating import accepts, answer, closers
from sampling.small_tokenizer import marker, small_tokenizer


def compiled(kind: str, source: Any) -> Constraint:
    return compile_constraint(kind, source, small_tokenizer())  # type: ignore[arg-type]


# --- kinds ----------------------------------------------------------------------------------------------------------
def test_json_object() -> None:
    for seed in range(5):
        text = answer(SamplingParams(json_object=True), seed=seed, lift=closers(), most=2000)
        assert text is not None
        assert isinstance(json.loads(text), dict)


def test_choice_takes_texts_as_they_are() -> None:
    texts = ["a\nb", 'q"', "back\\slash", "\x00\x7f", ".*", "\u65e5\u672c", "\U0001f600", " x ", "ab", "abc"]
    assert {answer(SamplingParams(choice=texts), seed=seed) for seed in range(60)} == set(texts)


def test_regex_spans_the_whole_output() -> None:
    assert accepts("regex", "[ab]{2}c?", "ab")
    assert accepts("regex", "^[ab]{2}c?$", "abc")
    assert not accepts("regex", "[ab]{2}c?", "a")
    assert not accepts("regex", "[ab]{2}c?", "abcc")


@pytest.mark.parametrize(
    "grammar",
    [
        'root ::= "a" rest\nrest ::= [\\u0030-9]+ | "\\u00e9" # a comment',
        'start: "a" (/[0-9]+/ | "\u00e9")',
    ],
)
def test_grammar_as_gbnf_and_as_lark(grammar: str) -> None:
    for text, right in [("a10", True), ("a\u00e9", True), ("a", False), ("b", False), ("ax", False)]:
        assert accepts("grammar", grammar, text) is right


# --- json_schema: the cases -----------------------------------------------------------------------------------------
def test_pattern_and_length_both_hold() -> None:
    schema = {"type": "string", "pattern": "^[a-z]+$", "maxLength": 3}
    assert accepts("json_schema", schema, '"abc"')
    assert not accepts("json_schema", schema, '"abcd"')
    japanese = {"type": "string", "minLength": 2, "maxLength": 2}
    assert accepts("json_schema", japanese, '"\u65e5\u672c"')
    assert not accepts("json_schema", japanese, '"\u65e5\u672c\u8a9e"')


def test_blanks_are_bounded_and_the_object_completes() -> None:
    blanks = {marker(c): 12.0 for c in ("\u0120", "\u010a", "\u0120\u0120", "\u010a\u0120")}
    schema = {"type": "object", "properties": {"s": {"type": "string", "maxLength": 4}}, "required": ["s"],
              "additionalProperties": False}  # fmt: skip
    text = answer(SamplingParams(json_schema=schema, temperature=0), lift=blanks, most=200)
    assert text is not None
    assert text.endswith("}")
    assert list(json.loads(text)) == ["s"]
    assert "\n" * 9 not in text
    assert accepts("json_schema", {"type": "string"}, '"' + " " * 30 + '"')


def test_characters_in_strings() -> None:
    free = {"type": "string"}
    assert [accepts("json_schema", free, text) for text in ('"\t"', '"\n"', '"\\x"')] == [False] * 3
    assert [accepts("json_schema", free, text) for text in ('"\\t"', '"\\n"', '"/"')] == [True] * 3
    assert accepts("json_schema", {"const": "http://e.x/p"}, '"http://e.x/p"')
    raw, escaped = ["caf\u00e9", 'a"b', "\u65e5\u672c"], '{"enum": ["caf\\u00e9", "a\\"b", "\\u65e5\\u672c"]}'
    for schema in ({"enum": raw}, escaped):
        assert {json.loads(answer(SamplingParams(json_schema=schema), seed=s) or "") for s in range(30)} == set(raw)


def test_integer_bounds() -> None:
    schema = {"type": "integer", "minimum": -12, "maximum": 105}
    for text, right in [("-12", True), ("0", True), ("99", True), ("105", True), ("-13", False), ("106", False),
                        ("01", False), ("1.0", False)]:  # fmt: skip
        assert accepts("json_schema", schema, text) is right
    big = {"type": "integer", "minimum": 2**53, "maximum": 2**53 + 2}
    assert [accepts("json_schema", big, str(2**53 + d)) for d in (-1, 0, 1, 2, 3)] == [False, True, True, True, False]


def test_a_recursive_list_may_nest() -> None:
    following = {"anyOf": [{"type": "null"}, {"$ref": "#"}]}
    properties = {"v": {"type": "integer"}, "next": following}
    node = {"type": "object", "properties": properties, "required": ["v", "next"]}
    assert accepts("json_schema", node, '{"v":1,"next":{"v":2,"next":{"v":3,"next":null}}}')
    assert not accepts("json_schema", node, '{"v":1,"next":{"v":2}}')


def test_a_key_cannot_come_twice_by_another_spelling() -> None:
    schema = {"properties": {"a": {"type": "integer"}}, "required": ["a"], "additionalProperties": True}
    assert accepts("json_schema", schema, '{"a":1,"b":"x"}')
    assert not accepts("json_schema", schema, '{"a":1,"a":"x"}')
    assert not accepts("json_schema", schema, '{"a":1,"\\u0061":"x"}')


def test_a_large_enum_is_quick_and_cached() -> None:
    schema = {"type": "string", "enum": [f"{number:04d}" for number in range(4000)], "maxLength": 4}
    compiled("choice", ("x",))  # builds what all constraints share
    begin = time.perf_counter()
    first = compiled("json_schema", schema)
    assert time.perf_counter() - begin < 2
    assert compiled("json_schema", json.dumps(schema)) is first
    assert accepts("json_schema", schema, '"3999"')
    assert not accepts("json_schema", schema, '"4000"')
    assert accepts("choice", schema["enum"], "3999")


# --- refusals -------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("kind", "source", "said"),
    [
        ("regex", "[a-", "regex.*unclosed"),
        ("regex", "(?=a)b", "look-around"),
        ("json_schema", "", "not valid JSON"),
        ("json_schema", "[1]", "must be an object"),
        ("json_schema", False, "accepts no value"),
        ("json_schema", {"type": "strin"}, "at #.*strin"),
        ("json_schema", {"properties": {"a": {"pattern": "(?=a)b"}}}, "at #/properties/a.*look-around"),
        ("json_schema", {"type": "integer", "exclusiveMinimum": 0, "exclusiveMaximum": 1}, "no integer"),
        ("json_schema", {"$defs": {"A": {"$ref": "#/$defs/A"}}, "$ref": "#/$defs/A"}, r"\$ref.*endless cycle"),
        ("json_schema", {"$ref": "http://x.y/z"}, "within the schema"),
        ("json_schema", {"$ref": "#/nowhere"}, "nowhere"),
        ("grammar", "start: nothing", "nothing"),
        ("grammar", 'root ::= "a', "end of input"),
        ("grammar", 'root ::= "a\\', "escape"),
        ("grammar", "root ::= " + "(" * 5000, "nested"),
        ("grammar", "what is this", "neither Lark"),
        ("choice", ["x" * (1 << 21)], "at most"),
    ],
)
def test_refused(kind: str, source: Any, said: str) -> None:
    with pytest.raises(ParameterError, match=said):
        compiled(kind, source)
    assert compiled("choice", ["ok"])


def test_deep_schemas_are_refused_at_once() -> None:
    deep: dict[str, Any] = {"type": "integer"}
    for _ in range(20_000):
        deep = {"type": "array", "items": deep}
    begin = time.perf_counter()
    for schema in (deep, '{"items":' * 20_000 + "{}" + "}" * 20_000):
        with pytest.raises(ParameterError, match="64 levels"):
            compiled("json_schema", schema)
    assert time.perf_counter() - begin < 5
    while "items" in deep:  # taken apart by hand: so deep a thing can even be too deep to free
        deep = deep.pop("items")


def test_a_model_without_end_tokens() -> None:
    tokens = {"tokens": ["a", "b"], "token_type": [1, 1], "merges": [], "model": "gpt2", "pre": "gpt-2"}
    endless = tokenizer_from_gguf(Path("x.gguf"), {f"tokenizer.ggml.{key}": value for key, value in tokens.items()})
    with pytest.raises(ParameterError, match="no end token"):
        compile_constraint("choice", ["a"], endless)


# --- in the sampler -------------------------------------------------------------------------------------------------
def test_one_form_only() -> None:
    with pytest.raises(ParameterError, match="json_object and regex"):
        SamplingParams(json_object=True, regex="a")
    with pytest.raises(ParameterError, match="regex is ''"):
        SamplingParams(regex="")
    with pytest.raises(ParameterError, match="choice"):
        SamplingParams(choice=[])
    assert SamplingParams(json_schema=True).constraint == ("json_schema", True)
    assert SamplingParams().constraint is None


def test_needs_a_tokenizer() -> None:
    with pytest.raises(ParameterError, match="tokenizer"):
        Sampler(SamplingParams(regex="a"), seed=0)


def test_with_truncation_logprobs_and_a_recorder() -> None:
    params = SamplingParams(choice=["yes", "no"], temperature=1, top_k=2, top_p=0.9, logprobs=1)
    plain, seen = (
        Sampler(params, seed=3, end_ids=small_tokenizer().end_ids, tokenizer=small_tokenizer()) for _ in "ab"
    )
    recorder = MemoryRecorder()
    rng = np.random.default_rng(0)
    while plain.generated[-1:] != (min(small_tokenizer().end_ids),):
        row = rng.standard_normal(small_tokenizer().vocab_size).astype(np.float32)
        looked = seen.choose(row, recorder)
        assert plain.choose(row).token == looked.token
        assert "constraint" in [stage.name for stage in looked.stages]
        assert looked.logprob is not None
        assert looked.logprob < 0


def test_the_end_comes_alone_when_all_is_said_and_min_tokens_cannot_stop_it() -> None:
    tokenizer = small_tokenizer()
    params = SamplingParams(choice=["a"], min_tokens=5, ignore_eos=True)
    sampler = Sampler(params, seed=0, end_ids=tokenizer.end_ids, tokenizer=tokenizer)
    row = np.zeros(tokenizer.vocab_size, np.float32)
    tokens = [sampler.choose(row).token for _ in range(4)]
    assert tokenizer.decode(tokens, skip_special=True) == "a"
    assert set(tokens[1:]) <= tokenizer.end_ids


def test_what_no_token_can_go_on_with_is_an_error() -> None:
    tokenizer = small_tokenizer()
    banned = [marker("b")]
    sampler = Sampler(SamplingParams(choice=["b"], banned_tokens=banned), seed=0, tokenizer=tokenizer)
    with pytest.raises(EngineError, match="no token is left"):
        sampler.choose(np.zeros(tokenizer.vocab_size, np.float32))
    wrong = Sampler(SamplingParams(choice=["b"]), seed=0, tokenizer=tokenizer)
    wrong.accept(marker("a"))
    with pytest.raises(EngineError, match="constraint"):
        wrong.choose(np.zeros(tokenizer.vocab_size, np.float32))


def test_control_and_unused_tokens_never_come() -> None:
    tokenizer = small_tokenizer()
    sampler = Sampler(SamplingParams(regex="[\\s\\S]*"), seed=0, end_ids=tokenizer.end_ids, tokenizer=tokenizer)
    row = np.zeros(tokenizer.vocab_size + 7, np.float32)
    row[[marker("[TOOL_CALLS]"), marker("[PAD0]")]] = 50
    row[tokenizer.vocab_size :] = 60
    assert tokenizer.kind(sampler.choose(row).token) in ("normal", "user", "control")
    assert sampler.generated[0] not in (marker("[TOOL_CALLS]"), marker("[PAD0]"))


def test_what_is_cached_does_not_keep_a_tokenizer_alive() -> None:
    small_tokenizer.cache_clear()
    tokenizer = small_tokenizer()
    compile_constraint("choice", ["a"], tokenizer)
    gone = weakref.ref(tokenizer)
    small_tokenizer.cache_clear()
    del tokenizer
    gc.collect()
    assert gone() is None


def test_many_threads_compile_at_once() -> None:
    made: list[Constraint] = []
    threads = [threading.Thread(target=lambda: made.append(compiled("regex", "a{3}b*"))) for _ in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(made) == 6
    assert all(constraint.seconds < 1 for constraint in made)
