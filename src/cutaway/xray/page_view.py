"""The pages of keys and values: who holds which, what lies in them, and which go next.

A page is shown as one character: the letter of the request that holds it; `s` where several hold it; `c` where none
does, but a later request can find what it holds; `!` the one of those that is taken next; `r` held while a known text
is read again; `.` free.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from cutaway.cache import PageMap, RequestPages
from cutaway.engine import Look, SeenRequest
from cutaway.xray.owners import EVERYTHING, Eyes

FREE, CACHED, NEXT, SHARED, READ = ".", "c", "!", "s", "r"
LETTERS = "ABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"
LEGEND = "A-Z a request, s shared by several, c cached, ! cached and taken next, r read again, . free"
COLUMNS = ("page", "state", "requests", "position", "tokens", "references", "prefix", "idle_s", "victim")


def page_view(look: Look, page_bytes: Sequence[int], eyes: Eyes = EVERYTHING) -> dict[str, Any]:
    """The record of /x/pages. page_bytes: of a page of each group.

    A viewer who is no admin sees the pages of its own requests and what these left, under numbers that count only
    those; how many others there are, and where, is not shown.
    """
    requests = [request for request in look.requests if eyes.sees(request.id)]
    numbers = {request.id: number for number, request in enumerate(requests)}
    snapshot = look.snapshot
    groups = [
        {
            "window": group.window,
            "page_bytes": size,
            "counts": {"total": group.total, "free": group.free, "held": group.held, "cached": group.cached}
            if eyes.all
            else None,
            **_pages(look, index, numbers, eyes),
        }
        for index, (group, size) in enumerate(zip(snapshot.groups, page_bytes, strict=True))
    ]
    return {
        "model": eyes.model,
        "at": look.at,
        "page_size": snapshot.page_size,
        "requests": [request_json(request, number, eyes) for number, request in enumerate(requests)],
        "groups": groups,
    }


def letter_of(number: int) -> str:
    """Of the request with this number in `requests`; from 36 on letters come again."""
    return LETTERS[number % len(LETTERS)]


def request_json(request: SeenRequest, number: int, eyes: Eyes) -> dict[str, Any]:
    """One answer in the making. number: in `requests`."""
    owner = eyes.owner(request.id, request.name)
    return {
        "letter": letter_of(number), "request": owner.request, "choice": request.choice, "caller": owner.caller,
        "state": "running" if request.running else "waiting", "prompt_tokens": request.prompt,
        "answer_tokens": request.answer, "computed_tokens": request.computed, "cached_tokens": request.found,
        "age_s": round(request.age, 3),
    }  # fmt: skip


def _pages(look: Look, group: int, numbers: dict[int, int], eyes: Eyes) -> dict[str, Any]:
    """The pages that are not free, as columns of equal length, and the map."""
    pages = look.snapshot.maps[group]
    held = _holders(look, group, numbers)
    known = {page: i for i, page in enumerate(pages.published.page)}
    victims = {page: i for i, (page, _) in enumerate(pages.victims)}
    given = dict(pages.victims)
    rows: list[dict[str, Any]] = []
    shown = [FREE] * len(pages.references)
    for page, references in enumerate(pages.references):
        mine = held.get(page, [])
        place = known.get(page)
        if not references and page not in victims:
            continue
        if not mine and not _left_by(pages, place, eyes):
            continue
        count = references if eyes.all else len(mine)
        state = _state(count, [number for number, _ in mine], victims.get(page) if eyes.all else None)
        shown[page] = state
        rows.append(
            {
                "page": page if eyes.all else len(rows),
                "state": state,
                "requests": [number for number, _ in mine],
                "position": _position(mine, pages, place),
                "tokens": None if place is None else pages.published.tokens[place],
                "references": count,
                "prefix": None if place is None else f"{pages.published.prefix[place] & (2**64 - 1):016x}",
                "idle_s": round(look.moment - given[page], 3) if page in given else None,
                "victim": victims.get(page) if eyes.all else None,
            }
        )
    columns = {name: [row[name] for row in rows] for name in COLUMNS}
    return columns | {"map": "".join(shown if eyes.all else [row["state"] for row in rows])}


def _holders(look: Look, group: int, numbers: dict[int, int]) -> dict[int, list[tuple[int, int]]]:
    """Per page, the visible requests that hold it, each with the position of the page's first token."""
    held: dict[int, list[tuple[int, int]]] = {}
    size = look.snapshot.page_size
    for id, number in numbers.items():
        holding: RequestPages | None = look.snapshot.requests.get(id)
        for index, page in enumerate(holding.tables[group] if holding is not None else ()):
            if page != -1:
                held.setdefault(page, []).append((number, index * size))
    return held


def _position(holders: list[tuple[int, int]], pages: PageMap, place: int | None) -> int | None:
    if holders:
        return holders[0][1]
    return None if place is None else pages.published.position[place]


def _left_by(pages: PageMap, place: int | None, eyes: Eyes) -> bool:
    """Whether a page that no visible request holds may be shown: it is published, and the viewer published it."""
    if place is None:
        return eyes.all
    return eyes.sees_key(pages.keys[pages.published.owner[place]])


def _state(references: int, numbers: list[int], victim: int | None) -> str:
    if references > 1:
        return SHARED
    if references:
        return letter_of(numbers[0]) if numbers else READ
    return NEXT if victim == 0 else CACHED
