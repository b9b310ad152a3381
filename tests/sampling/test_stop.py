"""Stops on the growing text: the cut into tokens must not matter, and nothing of a stop may be shown."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cutaway.errors import EngineError
from cutaway.sampling import SamplingParams, StopChecker, StopReason
from cutaway.sampling.patterns import Pattern

END = 9999


class Texts:
    """A detokenizer whose token i adds the i-th piece; `tail` is what it holds back until the end."""

    def __init__(self, pieces: list[str], tail: str = "") -> None:
        self._pieces, self._tail = pieces, tail

    def push(self, id: int) -> str:
        return "" if id == END else self._pieces[id]

    def flush(self) -> str:
        tail, self._tail = self._tail, ""
        return tail


def run(pieces: list[str], *, tail: str = "", end: bool = False, **options: Any) -> tuple[list[str], StopReason | None]:
    """What was shown at each token, with what `finish` gave last, and the reason."""
    checker = StopChecker(SamplingParams(**options), frozenset({END}), Texts(pieces, tail))
    shown: list[str] = []
    for token in [*range(len(pieces)), *([END] if end else [])]:
        text, reason = checker.push(token)
        shown.append(text)
        if reason is not None:
            assert checker.finish() == ""
            return shown, reason
    return [*shown, checker.finish()], None


def test_a_stop_across_tokens_is_never_shown() -> None:
    """Other engines showed its first pieces, or never found it."""
    assert run(["ABC", "DEF", "GH", "I", "J", "K"], stop="DEFGHIJ") == (
        ["ABC", "", "", "", ""],
        StopReason("stop_string", "DEFGHIJ", 4),
    )
    assert run([" N", " O", " P Q", " R"], stop="O P Q")[0] == [" N", " ", ""]


def test_held_text_is_let_go_when_it_was_no_stop() -> None:
    assert run(["ABC", "DEF", "GH", "X"], stop="DEFGHIJ") == (["ABC", "", "", "DEFGHX", ""], None)
    assert run(["ABC", "DEF"], stop="DEFGHIJ") == (["ABC", "", "DEF"], None)


def test_held_text_is_sent_when_the_run_ends_otherwise() -> None:
    assert run(["ABC", "DEF"], stop="DEFGHIJ", max_tokens=2) == (["ABC", "DEF"], StopReason("length", None, 1))
    assert run(["ABC", "DEF"], stop="DEFGHIJ", end=True) == (["ABC", "", "DEF"], StopReason("end_token", END, 2))
    assert run(["ABC", "DE"], tail="\ufffd", stop="DEFGHIJ") == (["ABC", "", "DE\ufffd"], None)


def test_a_stop_inside_a_token_cuts_the_token() -> None:
    assert run(["abSTOPcd"], stop="STOP") == (["ab"], StopReason("stop_string", "STOP", 0))
    assert run(["abSTOPcd"], stop="STOP", include_stop_str=True)[0] == ["abSTOP"]


def test_the_stop_that_ends_first_counts_then_the_one_that_begins_first() -> None:
    assert run(["abcde"], stop=["abcde", "bc"]) == (["a"], StopReason("stop_string", "bc", 0))
    assert run(["abc"], stop=["bc", "abc"]) == ([""], StopReason("stop_string", "abc", 0))
    assert run(["aab"], stop="ab")[0] == ["a"]


def test_stop_in_the_detokenizers_last_text() -> None:
    assert run(["ab", "c"], tail="de", stop="cd")[0] == ["ab", "", ""]


def test_tokens() -> None:
    assert run(["a", "b"], stop_token_ids=[1]) == (["a", ""], StopReason("stop_token", 1, 1))
    assert run(["a"], end=True) == (["a", ""], StopReason("end_token", END, 1))
    assert run(["a"], end=True, ignore_eos=True) == (["a", "", ""], None)
    assert run(["a"], end=True, ignore_eos=True, stop_token_ids=[END])[1] == StopReason("stop_token", END, 1)


def test_a_stop_wins_over_the_length_at_the_same_token() -> None:
    assert run(["a", "STOP"], stop="STOP", max_tokens=2)[1] == StopReason("stop_string", "STOP", 1)
    assert run(["a", "b"], end=True, max_tokens=3)[1] == StopReason("end_token", END, 2)


def test_min_tokens() -> None:
    assert run(["a", "a", "a", "a"], stop="a", min_tokens=2) == (["a", "a", ""], StopReason("stop_string", "a", 2))
    assert run(["a", "b", "a"], stop="ab", min_tokens=1)[1] == StopReason("stop_string", "ab", 1)
    assert run(["ab", "ab", "ab"], stop="ab", min_tokens=1)[0] == ["ab", ""]
    assert run(["ab", "c", "ab"], stop_regex="ab?", min_tokens=2) == (["ab", "c", ""], StopReason("stop_regex", "a", 2))
    assert run(["x", "y"], end=True, stop_token_ids=[0], min_tokens=1)[1] == StopReason("end_token", END, 2)


def test_context_and_time() -> None:
    checker = StopChecker(SamplingParams(), frozenset(), Texts(["a", "b"]), room=2)
    assert checker.push(0) == ("a", None)
    assert checker.push(1) == ("b", StopReason("context", None, 1))
    now = [5.0]
    checker = StopChecker(SamplingParams(time_limit=2), frozenset(), Texts(["a", "b", "c"]), clock=lambda: now[0])
    assert checker.push(0) == ("a", None)
    now[0] = 7.5
    assert checker.push(1) == ("b", StopReason("time", None, 1))
    late = StopChecker(SamplingParams(time_limit=2), frozenset(), Texts(["a"]), clock=lambda: 7.0, started=5.0)
    assert late.push(0)[1] == StopReason("time", None, 0)


def test_finish_ends_a_run() -> None:
    checker = StopChecker(SamplingParams(stop="XY"), frozenset(), Texts(["aX", "b"]))
    assert checker.push(0) == ("a", None)
    assert checker.finish() == "X"
    assert checker.finish() == ""


def test_patterns() -> None:
    assert run(["a1", "23", "4."], stop_regex=r"\d+\.") == (["a", "", ""], StopReason("stop_regex", "1234.", 2))
    assert run(["a1", "23", "x"], stop_regex=r"\d+\.") == (["a", "", "123x", ""], None)
    assert run(["ab\n", "\nc"], stop_regex=r"\n\s*\n", include_stop_str=True)[0] == ["ab", "\n\n"]


def test_a_pattern_takes_effect_at_the_first_length_at_which_it_matches() -> None:
    """Greedy or not, with look-ahead or an anchor: what follows is not known yet."""
    assert run(["12345"], stop_regex=r"\d+")[1] == StopReason("stop_regex", "1", 0)
    assert run(["foobar"], stop_regex=r"foo\b")[1] == StopReason("stop_regex", "foo", 0)
    assert run(["foobar"], stop_regex=r"foo(?!bar)")[1] == StopReason("stop_regex", "foo", 0)
    assert run(["foobar"], stop_regex=r"foo(?=bar)") == ([""], StopReason("stop_regex", "foo", 0))
    assert run(["xfoo", "ba", "z"], stop_regex=r"foo(?=bar)") == (["x", "", "foobaz", ""], None)


def test_patterns_see_what_was_shown_before() -> None:
    assert run(["ab", "c"], stop_regex=r"(?<=ab)c")[1] == StopReason("stop_regex", "c", 1)
    assert run(["ab", "ab"], stop_regex=r"^ab$")[1] == StopReason("stop_regex", "ab", 0)
    assert run(["xab", "ab"], stop_regex=r"^ab")[1] is None


def test_a_string_and_a_pattern_together() -> None:
    assert run(["ab12cd"], stop="cd", stop_regex=r"2c")[1] == StopReason("stop_regex", "2c", 0)
    assert run(["ab12cd"], stop="12", stop_regex=r"12c")[1] == StopReason("stop_string", "12", 0)


def test_a_pattern_that_backtracks_ends_in_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("cutaway.sampling.patterns.SECONDS", 0.01)
    with pytest.raises(EngineError, match="took longer than") as error:
        Pattern(r"(?:(?:a|aa)+)+\d(?<=b.)").match_in("a" * 5000, 0, 5000)
    assert error.value.code == "stop_pattern_slow"


PATTERNS = [r"ab+c", r"a.?b", r"(?<=a)b{2}", r"\bca\b", r"a(?=bc)", r"a(?!b)c?", r"c$", r"^..a", r"b\s", r"(a|bc)\1"]


@st.composite
def cuts(draw: st.DrawFn) -> tuple[str, list[str]]:
    """A text over few letters, and one way to cut it into pieces (some empty)."""
    text = draw(st.text(alphabet="aabbc \n中", max_size=24))
    borders = sorted(draw(st.lists(st.integers(0, len(text)), max_size=8)))
    ends = [0, *borders, len(text)]
    return text, [text[a:b] for a, b in pairwise(ends)]


def naive(text: str, stops: list[str]) -> tuple[str, str, str] | None:
    """The definition for strings, read off: the shortest start of the text at whose end a stop stands."""
    for end in range(len(text) + 1):
        hits = [stop for stop in stops if text[:end].endswith(stop)]
        if hits:
            longest = max(hits, key=len)
            return text[: end - len(longest)], "stop_string", longest
    return None


@settings(max_examples=300, deadline=None)
@given(
    cut=cuts(), stops=st.lists(st.text(alphabet="abc 中", min_size=1, max_size=4), max_size=3), include=st.booleans()
)
def test_any_cut_gives_the_same_for_strings(cut: tuple[str, list[str]], stops: list[str], include: bool) -> None:
    text, pieces = cut
    shown, reason = run(pieces, stop=stops, include_stop_str=include)
    expected = naive(text, stops)
    if expected is None:
        assert ("".join(shown), reason) == (text, None)
        return
    assert reason is not None
    assert "".join(shown) == expected[0] + (expected[2] if include else "")
    assert (reason.kind, reason.matched) == expected[1:]
    for stop in [] if include else stops:
        assert stop not in "".join(shown)


@settings(max_examples=300, deadline=None)
@given(
    cut=cuts(),
    patterns=st.lists(st.sampled_from(PATTERNS), min_size=1, max_size=2),
    stops=st.lists(st.text(alphabet="abc", min_size=1, max_size=3), max_size=1),
)
def test_any_cut_gives_the_same_for_patterns(cut: tuple[str, list[str]], patterns: list[str], stops: list[str]) -> None:
    text, pieces = cut
    shown, reason = run(pieces, stop=stops, stop_regex=patterns)
    one_by_one, expected = run(list(text), stop=stops, stop_regex=patterns)
    assert "".join(shown) == "".join(one_by_one)
    assert (reason is None) == (expected is None)
    if reason is not None and expected is not None:
        assert (reason.kind, reason.matched) == (expected.kind, expected.matched)


@settings(max_examples=200, deadline=None)
@given(cut=cuts(), patterns=st.lists(st.sampled_from(PATTERNS), min_size=1, max_size=2))
def test_a_pattern_stops_no_later_than_a_search_over_the_text_so_far(
    cut: tuple[str, list[str]], patterns: list[str]
) -> None:
    """Holding back lets nothing slip: the stop comes at the first length at which a plain search would find one."""
    import regex

    text, pieces = cut
    _, reason = run(pieces, stop_regex=patterns)
    lengths = [end for end in range(1, len(text) + 1) if any(regex.search(p, text[:end]) for p in patterns)]
    assert (reason is None) == (not lengths)
