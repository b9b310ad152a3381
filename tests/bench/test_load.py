from __future__ import annotations

import json
import time
from pathlib import Path
from statistics import median
from xml.etree import ElementTree

import pytest

from bench.serving import canned
from cutaway.bench.client import Answer, Target, base_url, first_model
from cutaway.bench.conversations import Mix, questions
from cutaway.bench.load import HEADINGS, Load, Outcome, outcome, outcome_json, outcome_row, percentiles, run_load
from cutaway.bench.picture import nice_top, picture
from cutaway.cli import main
from cutaway.errors import ParameterError


def run(url: str, load: Load, count: int = 6, tokens: int = 5) -> Outcome:
    asked = questions(Mix(prompt_tokens=8, answer_tokens=tokens), count, seed=1)
    return run_load(Target(f"{url}/v1", "canned", {}), load, asked, headers={}, timeout=10, seed=1)


# --- what is asked ----------------------------------------------------------------------------------------------------
def test_questions_are_the_same_for_the_same_seed() -> None:
    assert questions(Mix(), 20, 3) == questions(Mix(), 40, 3)[:20]
    assert questions(Mix(), 20, 3) != questions(Mix(), 20, 4)


def test_lengths_are_spread_as_in_conversations() -> None:
    found = questions(Mix(longest=2048), 2000, 0)
    lengths = sorted(q.tokens for q in found)
    assert 75 < median(lengths) < 105 and lengths[1800] > 350 and lengths[0] >= 4
    assert all(q.tokens + q.answer_tokens <= 2048 for q in found)
    assert all(len(q.text.split()) == q.tokens for q in found)


def test_a_share_begins_alike() -> None:
    found = questions(Mix(prompt_tokens=10, shared=0.5, prefix_tokens=30), 400, 0)
    begins = [q for q in found if q.tokens == 40]
    assert 160 < len(begins) < 240
    assert len({" ".join(q.text.split()[:30]) for q in begins}) == 1
    assert len({q.text for q in begins}) == len(begins)


@pytest.mark.parametrize("wrong", [{"shared": 1.5}, {"prompt_tokens": 0}, {"longest": -1}])
def test_an_impossible_mix_is_refused(wrong: dict[str, float]) -> None:
    with pytest.raises(ParameterError, match=next(iter(wrong))):
        Mix(**wrong)  # type: ignore[arg-type]


# --- what comes back --------------------------------------------------------------------------------------------------
def test_so_many_at_once_and_no_more() -> None:
    with canned() as server:
        found = run(server.url, Load(concurrency=3), count=9)
        assert server.most == 3 and len(server.heard) == 9
    assert (found.requests, found.answered, found.tokens, found.prompt_tokens) == (9, 9, 45, 63)
    assert all(len(values) == 3 and values[0] <= values[1] <= values[2] for values in found.percentiles.values())
    assert len(outcome_row(found)) == len(HEADINGS)


def test_arrivals_follow_the_rate() -> None:
    with canned() as server:
        begin = time.perf_counter()
        found = run(server.url, Load(rate=40), count=8)
        assert time.perf_counter() - begin > 0.05
    assert found.answered == 8 and found.load.label == "40 a second"


@pytest.mark.parametrize(
    ("mode", "error"),
    [
        ("refused", "status 429: too many"),
        ("broken", "the stream broke off"),
        ("error", "in the stream: out of luck"),
        ("silent", "no text came"),
        ("garbled", "not JSON: {not json"),
    ],
)
def test_what_goes_wrong_is_counted_by_name(mode: str, error: str) -> None:
    with canned(mode) as server:
        found = run(server.url, Load(concurrency=2), count=4)
    assert found.errors == {error: 4} and found.answered == 0 and found.tokens == 0
    assert outcome_row(found)[2] == "4" and outcome_json(found)["errors"] == {error: 4}


def test_a_server_that_is_not_there_is_an_error_of_each_request() -> None:
    with canned() as server:
        url = server.url
    found = run(url, Load(concurrency=1), count=2)
    assert sum(found.errors.values()) == 2 and all("ConnectError" in e for e in found.errors)


def test_times_of_an_answer() -> None:
    answer = Answer(10.0, (11.0, 11.5, 13.0), 13.25, 5, 3)
    assert (answer.first, answer.whole, answer.per_token, answer.gaps) == (1.0, 3.25, 1.0, [0.5, 1.5])
    assert Answer(0, (1.0,), 1.0, 5, 1).per_token is None
    found = outcome(Load(concurrency=1), [answer, Answer(0, (), 1, 5, 0, "bad")], 2.0)
    assert found.percentiles["tpot"] == (1.0, 1.0, 1.0) and found.errors == {"bad": 1}


def test_percentiles_of_nothing_are_none() -> None:
    assert percentiles([]) == () and percentiles([2.0]) == (2.0, 2.0, 2.0)


@pytest.mark.parametrize(("given", "made"), [("http://a:1", "http://a:1/v1"), ("https://a/v1/", "https://a/v1")])
def test_addresses_end_with_the_version(given: str, made: str) -> None:
    assert base_url(given) == made


def test_an_address_without_scheme_is_refused() -> None:
    with pytest.raises(ParameterError, match="http://"):
        base_url("localhost:8000")


def test_the_first_model_is_asked_for() -> None:
    with canned() as server:
        assert first_model(f"{server.url}/v1", {}) == "canned"
    with canned("empty") as server, pytest.raises(ParameterError, match="gives no model"):
        first_model(f"{server.url}/v1", {})


# --- the picture ------------------------------------------------------------------------------------------------------
def test_the_picture_is_a_drawing_of_all_loads() -> None:
    answers = [Answer(0, (0.1 * i, 0.2 * i), 0.2 * i, 5, 2) for i in (1, 2, 3)]
    found = [outcome(Load(concurrency=n), answers, 1.0) for n in (1, 4)]
    found.append(outcome(Load(rate=2), [Answer(0, (), 1, 5, 0, "bad")], 1.0))
    root = ElementTree.fromstring(picture(found, "a & b <c>"))
    name = "{http://www.w3.org/2000/svg}"
    assert len(root.findall(f"{name}polyline")) == 9 and len(root.findall(f"{name}circle")) == 18
    texts = [t.text for t in root.iter(f"{name}text")]
    assert "a & b <c>" in texts and texts.count("4 at once") == 3 and "2 a second" in texts


@pytest.mark.parametrize(("value", "top"), [(0.9, 1), (1, 1), (3, 4), (0.07, 0.08), (9, 10), (11, 20), (0, 1)])
def test_axes_end_at_round_numbers(value: float, top: float) -> None:
    assert nice_top(value) == pytest.approx(top)


# --- the command ------------------------------------------------------------------------------------------------------
def test_the_command_tells_a_table_and_draws(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with canned() as server, pytest.raises(SystemExit) as left:
        main(["bench", "serve", "--url", server.url, "-c", "1,2", "--rate", "50", "-n", "4", "--answer-tokens", "3",
              "--prompt-tokens", "9", "--api-key", "secret", "--svg", str(tmp_path / "a.svg")])  # fmt: skip
    assert left.value.code == 0
    assert len(server.heard) == 12 and all(key == "Bearer secret" for _, key in server.heard)
    assert all(body["ignore_eos"] and body["stream"] for body, _ in server.heard)
    out = capsys.readouterr().out
    assert "1 at once" in out and "2 at once" in out and "50 a second" in out
    assert (tmp_path / "a.svg").read_text("utf-8").startswith("<svg")


def test_the_command_tells_json_and_warns_of_errors(capsys: pytest.CaptureFixture[str]) -> None:
    with canned("refused") as server, pytest.raises(SystemExit):
        main(["bench", "serve", "--url", server.url, "-c", "2", "-n", "4", "--json", "--stop-early"])
    told = capsys.readouterr()
    assert json.loads(told.out)["loads"][0]["errors"] == {"status 429: too many": 4}
    assert "4 requests failed: status 429" in told.err and "ignore_eos" not in server.heard[0][0]


@pytest.mark.parametrize("wrong", [["-c", "x"], ["-c", "0"], ["--rate", "-1"], ["--rate", "a"], ["-n", "0"]])
def test_wrong_loads_are_bad_input(wrong: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as left:
        main(["bench", "serve", *wrong])
    assert left.value.code == 2 and "error[parameter_invalid]" in capsys.readouterr().err
