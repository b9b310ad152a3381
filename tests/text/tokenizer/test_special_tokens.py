from __future__ import annotations

import re
import time
from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from cutaway.text.tokenizer.special_tokens import Marker, Markers

TEXTS = ["<a>", "<a>b", "<|x|>", "<|x", "[I]", "xy"]
MARKERS = Markers({text: Marker(id) for id, text in enumerate(TEXTS)})


def found(markers: Markers, text: str) -> list[tuple[str, int]]:
    return [(text[match.start : match.end], match.id) for match in markers.find(text)]


def test_leftmost_then_longest() -> None:
    assert found(MARKERS, "<a><a>b<|x<|x|>[I]") == [("<a>", 0), ("<a>b", 1), ("<|x", 3), ("<|x|>", 2), ("[I]", 4)]


@given(st.text(alphabet="<a>b|x[I]y", max_size=60))
def test_search_equals_a_regular_expression(text: str) -> None:
    longest_first = sorted(TEXTS, key=len, reverse=True)
    expected = re.findall("|".join(map(re.escape, longest_first)), text)
    assert [marker for marker, _ in found(MARKERS, text)] == expected


def test_blanks_beside_a_marker_can_belong_to_it() -> None:
    markers = Markers({"<l>": Marker(0, lstrip=True), "<r>": Marker(1, rstrip=True)})
    assert found(markers, "a <l> b  <r>  c") == [(" <l>", 0), ("<r>  ", 1)]
    assert found(markers, "<r>  <l>x") == [("<r>  ", 1), ("<l>", 0)]


def test_a_single_word_marker_needs_room_around_it() -> None:
    markers = Markers({"ab": Marker(0, single_word=True)})
    assert found(markers, "ab cab abc ab") == [("ab", 0), ("ab", 0)]


def test_one_character_is_never_a_marker() -> None:
    markers = Markers({"\n": Marker(0)})
    assert found(markers, "\n\n") == []
    assert markers.lookalikes("\n") == []


def test_lookalikes_in_any_case_overlapping_and_begun_at_the_end() -> None:
    assert MARKERS.lookalikes("a<A>") == [1]
    assert MARKERS.lookalikes("<a><|x|> <|") == [0, 3, 9]
    assert MARKERS.lookalikes("nothing") == []
    assert MARKERS.lookalikes("\u0130<|X|>") == [1]
    assert MARKERS.lookalikes("<") == [0]


@given(st.text(alphabet="<a>b|x[I]yA\u0130", max_size=60), st.text(alphabet="<a>b|x[I]y", max_size=10))
def test_text_cut_at_its_lookalikes_holds_no_marker_whatever_follows(text: str, after: str) -> None:
    cuts = [0, *(place + 1 for place in MARKERS.lookalikes(text)), len(text)]
    broken = "\ufdd0".join(text[a:b] for a, b in pairwise(cuts))
    assert all(match.start >= len(broken) for match in MARKERS.find(broken + after))
    assert not list(MARKERS.find(broken.lower()))


def test_search_time_does_not_grow_with_the_number_of_markers() -> None:
    text = "<unused7>user\nhello<end>\n" * 4000

    def seconds(count: int) -> float:
        markers = Markers({f"<unused{number}>": Marker(number) for number in range(count)} | {"<end>": Marker(count)})
        list(markers.find(text[:100]))
        start = time.perf_counter()
        assert len(list(markers.find(text))) == 8000
        return time.perf_counter() - start

    # A search marker by marker would differ by a factor of 600.
    assert min(seconds(6000) for _ in range(3)) < 10 * min(seconds(10) for _ in range(3))
