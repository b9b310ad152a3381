"""Why it stopped, loops and findings, on answers whose every token is known."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from cutaway.errors import RecordError
from cutaway.formats import open_model
from cutaway.sampling import SamplingParams, StopReason
from cutaway.text import Tokenizer, load_tokenizer
from cutaway.xray.answer_findings import Seen, answer_findings
from cutaway.xray.answer_text import AnswerText
from cutaway.xray.known_answer import KnownAnswer
from cutaway.xray.loop_account import POINTS, LoopAccount, loop_account
from cutaway.xray.recorded import known_answer
from cutaway.xray.stop_account import StopAccount, stop_account
from cutaway.xray.token_account import Alternative, StageAccount, TokenAccount
from xray.records import made

pytestmark = pytest.mark.models
END = 2  # <|im_end|>
PLAIN = SamplingParams(temperature=0.0)


@pytest.fixture(scope="module")
def tokenizer(smollm2_path: Path) -> Tokenizer:
    with open_model(smollm2_path) as file:
        return load_tokenizer(file.path, file.metadata)


def known(
    tokenizer: Tokenizer, answer: str | Sequence[int], params: SamplingParams = PLAIN, **more: Any
) -> KnownAnswer:
    ids = tuple(tokenizer.encode_part(answer)) if isinstance(answer, str) else tuple(answer)
    prompt = tuple(tokenizer.encode(more.pop("prompt", "What is this?")))
    return KnownAnswer(prompt, ids, params, 1, **more)


def accounts(answer: KnownAnswer, **changes: Any) -> list[TokenAccount]:
    """changes: by field, what each token has; a list gives one each."""
    found = []
    for position, token in enumerate(answer.answer):
        own = {name: value[position] if isinstance(value, list) else value for name, value in changes.items()}
        end = Alternative(END, "<|im_end|>", 0.001 * position, 5, 0.0, None)
        stages = (StageAccount("model", 9, 1.0, 0.0, 0.0, 0.5, 1),)
        fields: dict[str, Any] = {
            "position": position, "token": token, "text": "t", "bytes": "", "probability": 0.5, "rank": 1,
            "entropy": 1.0, "margin": 0.5, "drawn": 0.5, "redrawn": token, "forced": False, "end": end,
            "alternatives": (), "stages": stages,
        }  # fmt: skip
        found.append(TokenAccount(**(fields | own)))
    return found


def stopped(tokenizer: Tokenizer, answer: KnownAnswer, **changes: Any) -> StopAccount:
    return stop_account(answer, tokenizer, accounts(answer, **changes), AnswerText.of(answer, tokenizer))


def codes(tokenizer: Tokenizer, answer: KnownAnswer, **changes: Any) -> dict[str, Any]:
    tokens = accounts(answer, **changes)
    loop = loop_account(answer, tokenizer, tokens)
    seen = Seen(answer, tokenizer, tokens, loop, AnswerText.of(answer, tokenizer))
    return {finding.code: finding for finding in answer_findings(seen)}


# --- why it stopped -----------------------------------------------------------------------------------------------
def test_an_end_token(tokenizer: Tokenizer) -> None:
    answer = known(tokenizer, [*tokenizer.encode_part("It is a test."), END])
    last = len(answer.answer) - 1
    answer = KnownAnswer(answer.prompt, answer.answer, PLAIN, 1, stop=StopReason("end_token", END, last))
    found = stopped(tokenizer, answer)
    assert (found.kind, found.matched, found.at, found.first_token, found.last_token) == (
        "end_token", END, last, last, last,
    )  # fmt: skip
    assert found.why == "'<|im_end|>' (#2) came, an end token of the model"
    assert found.last is not None and found.last.position == last
    assert [near.position for near in found.nearest] == list(range(last - 1, -1, -1))[:5], "but for the end itself"
    assert {(end.token, end.kind, end.source, end.counts) for end in found.ends} >= {(END, "control", "model", True)}


@pytest.mark.parametrize("include", [False, True])
def test_a_stop_string_over_several_tokens_is_found_where_it_matched(tokenizer: Tokenizer, include: bool) -> None:
    text = "One, two. 第一，第二。 STOP HERE"
    params = PLAIN.replace(stop=["nothing", "STOP HERE"], include_stop_str=include)
    answer = known(tokenizer, text, params)
    at = len(answer.answer) - 1
    found = stopped(tokenizer, KnownAnswer(
        answer.prompt, answer.answer, params, 1, stop=StopReason("stop_string", "STOP HERE", at)
    ))  # fmt: skip
    assert (found.start, found.end) == (text.index("STOP"), len(text))
    assert (found.pattern, found.matched) == ("STOP HERE", "STOP HERE")
    assert found.last_token == at and found.first_token is not None
    held = tokenizer.decode(answer.answer[found.first_token :])
    assert held.strip() == "STOP HERE"


def test_a_pattern_is_named_and_an_earlier_equal_text_is_not_taken_for_it(tokenizer: Tokenizer) -> None:
    params = PLAIN.replace(stop_regex=["zzz", "[0-9]+ items"], min_tokens=4)
    text = "2 items, and then more of them: 2 items"
    answer = known(tokenizer, text, params)
    stop = StopReason("stop_regex", "2 items", len(answer.answer) - 1)
    found = stopped(tokenizer, KnownAnswer(answer.prompt, answer.answer, params, 1, stop=stop))
    assert found.pattern == "[0-9]+ items"
    assert (found.start, found.end) == (text.rindex("2 items"), len(text))


def test_other_ends_and_none(tokenizer: Tokenizer) -> None:
    whys = {
        "length": "max_tokens was reached: 3 tokens", "time": "time_limit was reached: 2.0 s",
        "cancelled": "it was cancelled", "error": "the engine failed",
        "context": "the context was full: 4 tokens of prompt and 3 of answer",
        "repetition": "it repeated itself, and stop_on_repetition was on",
    }  # fmt: skip
    for kind, why in whys.items():
        stop = StopReason(kind, None, 2)  # type: ignore[arg-type]
        found = stopped(tokenizer, KnownAnswer((1, 2, 3, 4), (9, 9, 9), PLAIN.replace(time_limit=2.0), 1, stop=stop))
        assert (found.kind, found.why, found.start, found.first_token) == (kind, why, None, None)
        assert found.last is not None and found.nearest[0].position == 2
    assert stopped(tokenizer, KnownAnswer((1,), (9,), PLAIN, 1)).kind == "unknown"
    odd: Any = StopReason("odd", None, 0)  # type: ignore[arg-type]
    assert "does not know" in stopped(tokenizer, KnownAnswer((1,), (9,), PLAIN, 1, stop=odd)).why


def test_ids_that_end_an_answer(tokenizer: Tokenizer) -> None:
    params = PLAIN.replace(ignore_eos=True, stop_token_ids=[28, END, 60_000])
    ends = {(end.token, end.source): end for end in stopped(tokenizer, known(tokenizer, "a", params)).ends}
    assert not ends[END, "model"].counts and ends[END, "request"].counts
    assert (ends[28, "request"].text, ends[28, "request"].kind) == (tokenizer.token_bytes(28).decode(), "normal")
    assert ends[60_000, "request"].kind == "unused"


# --- loops --------------------------------------------------------------------------------------------------------
def looped(tokenizer: Tokenizer, round: str, times: int, params: SamplingParams = PLAIN) -> tuple[KnownAnswer, int]:
    head, body = tokenizer.encode_part("It began with another text."), tokenizer.encode_part(round)
    return known(tokenizer, [*head, *body * times], params), len(body)


def test_a_loop_its_start_and_its_entropy(tokenizer: Tokenizer) -> None:
    answer, period = looped(tokenizer, " round and round it goes,\n", 40)
    start = len(answer.answer) - 40 * period
    entropy = [2.0 if at < start + period else 1.0 / (1 + at) for at in range(len(answer.answer))]
    found = loop_account(answer, tokenizer, accounts(answer, entropy=entropy))
    assert isinstance(found, LoopAccount)
    assert (found.period, found.start, found.end) == (period, start, len(answer.answer))
    assert found.repeats == 40 and found.text == " round and round it goes,\n"
    assert start + 200 <= found.seen + 1 <= start + 240
    assert found.rounds[0] == 0 and found.rounds[-1] == 39 and len(found.rounds) == POINTS
    assert found.entropy[0] == 2.0 and list(found.entropy) == sorted(found.entropy, reverse=True)
    assert found.end_probability == pytest.approx(0.001 * (len(answer.answer) - 1))
    assert found.dry_blind == ("\n",)


def test_without_the_accounts_of_its_tokens_a_loop_is_told_without_entropy(tokenizer: Tokenizer) -> None:
    answer, _ = looped(tokenizer, " again", 250)
    found = loop_account(answer, tokenizer, accounts(answer)[:3])
    assert found is not None and (found.rounds, found.entropy, found.end_probability) == ((), (), None)
    assert loop_account(known(tokenizer, "no loop here " * 3), tokenizer, []) is None


# --- findings -----------------------------------------------------------------------------------------------------
def test_stop_ids_that_are_ordinary_text(tokenizer: Tokenizer) -> None:
    found = codes(tokenizer, known(tokenizer, "a b", PLAIN.replace(stop_token_ids=[28, 30, END])))
    assert list(found) == ["stop_id_is_text"]
    for id in (28, 30):
        assert f"{id} is {tokenizer.token_bytes(id).decode()!r}" in found["stop_id_is_text"].what
    assert not codes(tokenizer, known(tokenizer, "a b", PLAIN.replace(stop_token_ids=[END])))
    assert list(codes(tokenizer, known(tokenizer, "a", PLAIN.replace(stop_token_ids=[70_000])))) == ["stop_id_unused"]


@pytest.mark.parametrize(
    ("params", "expected"),
    [
        ({"json_schema": {"type": "object"}}, True), ({"regex": "a.*"}, True), ({"json_object": True}, True),
        ({"choice": ["a", "b"]}, False), ({}, False), ({"regex": "a.*", "temperature": 0.3}, False),
        ({"regex": "a.*", "top_k": 1}, False),
    ],
)  # fmt: skip
def test_a_form_that_is_drawn_too_freely(tokenizer: Tokenizer, params: dict[str, Any], expected: bool) -> None:
    settings = SamplingParams(**({"temperature": 0.8} | params))
    found = codes(tokenizer, known(tokenizer, "a b c", settings), rank=[1, 2, 3], forced=[False, False, True])
    assert list(found) == (["form_at_high_temperature"] if expected else [])
    if expected:
        assert "1 of 2 tokens that it left open" in found["form_at_high_temperature"].what


def test_code_that_is_drawn_too_freely(tokenizer: Tokenizer) -> None:
    hot = SamplingParams(temperature=0.7)
    code = "Here:\n```python\nfor i in range(10):\n    print(i)\n    print(i)\n```\nDone."
    found = codes(tokenizer, known(tokenizer, code, hot))
    assert list(found) == ["code_at_high_temperature"] and found["code_at_high_temperature"].token is not None
    assert not codes(tokenizer, known(tokenizer, code, SamplingParams(temperature=0.2)))
    assert not codes(tokenizer, known(tokenizer, "A word: `x`. " * 9, hot))


def test_an_end_that_was_held_back(tokenizer: Tokenizer) -> None:
    answer = known(tokenizer, "a b c", PLAIN.replace(min_tokens=3))
    given = ((2, None), (1, "min_tokens"), (1, None))
    ends = [Alternative(END, "<|im_end|>", 0.7, rank, 0.0, cut) for rank, cut in given]
    found = codes(tokenizer, answer, end=ends)["end_held_back"]
    assert (found.token, found.tokens) == (1, 1) and "min_tokens" in found.what
    ignoring = known(tokenizer, "a b c", PLAIN.replace(ignore_eos=True))
    assert codes(tokenizer, ignoring, end=ends)["end_held_back"].tokens == 2


def test_what_cannot_be_had_again(tokenizer: Tokenizer) -> None:
    answer = known(tokenizer, "a b c", own_stages=2)
    found = codes(tokenizer, answer, redrawn=[answer.answer[0], 28, 30])
    assert list(found) == ["own_stages_unknown", "not_reproduced"]
    assert (found["not_reproduced"].token, found["not_reproduced"].tokens) == (1, 2)


def test_loop_and_slide(tokenizer: Tokenizer) -> None:
    answer, _ = looped(tokenizer, " round and round", 90)
    assert list(codes(tokenizer, answer)) == ["loop"]
    slid = known(tokenizer, "The capital of France is Paris, 它位于塞纳河畔。", prompt="What is the capital?")
    found = codes(tokenizer, slid)["script_slide"]
    assert found.token is not None and "它位于" in found.what
    turns = ("system\nYou write English.<|im_end|>\n", "user\n法国的首都是哪里？<|im_end|>\n", "assistant\n")
    chat = "".join(f"<|im_start|>{turn}" for turn in turns)
    ids = tuple(tokenizer.encode(chat, parse_special=True))
    text = "法国的首都是巴黎。" + "The capital of France is Paris, a large city on a river. " * 2
    slid = KnownAnswer(ids, tuple(tokenizer.encode_part(text)), PLAIN, 1)
    assert "Latin" in codes(tokenizer, slid)["script_slide"].what


# --- records ------------------------------------------------------------------------------------------------------
def test_an_answer_of_a_record() -> None:
    record = made()
    found = known_answer(record)
    assert (found.prompt, found.answer, found.seed, found.choice) == ((1, 2, 3), (7, 8), record.seed, 2)
    assert found.stop == StopReason("stop_string", "完", 1) and found.slides == ((1, (2, 3)),)
    with pytest.raises(RecordError, match="figures only"):
        known_answer(made(level="figures", prompt_ids=None, token_ids=None))
