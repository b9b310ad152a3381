"""Latency against load as an SVG: one panel per measure, one line per percentile."""

from __future__ import annotations

import math
from collections.abc import Sequence
from html import escape

from cutaway.bench.load import PERCENTILES, Outcome

TITLES = {"ttft": "time to first token", "tpot": "time per token", "e2e": "whole request"}
COLOURS = ("#1b6ca8", "#d98324", "#a8323e")
WIDTH, HEIGHT, LEFT, TOP, GAP = 300, 200, 56, 44, 36  # of a panel; its margins; between panels


def picture(outcomes: Sequence[Outcome], title: str) -> str:
    """The whole SVG document. Loads stand in their order, evenly spaced."""
    step = LEFT + WIDTH + GAP
    body = [_panel(outcomes, name, i * step) for i, name in enumerate(TITLES)]
    legend = "".join(
        _text(LEFT + 60 * i, TOP + HEIGHT + 52, f"p{p}", colour)
        for i, (p, colour) in enumerate(zip(PERCENTILES, COLOURS, strict=True))
    )
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{len(TITLES) * step}" height="{TOP + HEIGHT + 68}" '
        f'font-family="sans-serif" font-size="11"><rect width="100%" height="100%" fill="white"/>'
        f"{_text(LEFT, 16, title, size=13)}{''.join(body)}{legend}</svg>\n"
    )


def _panel(outcomes: Sequence[Outcome], name: str, x: int) -> str:
    top = nice_top(max((v for o in outcomes for v in o.percentiles[name]), default=1.0))
    unit, factor = ("s", 1.0) if top >= 2 else ("ms", 1e3)
    parts = [_text(x + LEFT, TOP - 10, f"{TITLES[name]}, {unit}")]
    for tick in range(5):
        y = TOP + HEIGHT - HEIGHT * tick / 4
        parts.append(f'<path d="M{x + LEFT} {y:.1f}h{WIDTH}" stroke="#ddd"/>')
        parts.append(_text(x + LEFT - 6, y + 4, f"{top * tick / 4 * factor:g}", anchor="end"))
    places = [x + LEFT + WIDTH * (i + 0.5) / len(outcomes) for i in range(len(outcomes))]
    for place, o in zip(places, outcomes, strict=True):
        parts.append(_text(place, TOP + HEIGHT + 18, o.load.label, anchor="middle"))
    for line, colour in enumerate(COLOURS):
        points = [
            (place, TOP + HEIGHT - HEIGHT * o.percentiles[name][line] / top)
            for place, o in zip(places, outcomes, strict=True)
            if o.percentiles[name]
        ]
        path = " ".join(f"{px:.1f},{py:.1f}" for px, py in points)
        parts.append(f'<polyline points="{path}" fill="none" stroke="{colour}" stroke-width="1.5"/>')
        parts += [f'<circle cx="{px:.1f}" cy="{py:.1f}" r="2.5" fill="{colour}"/>' for px, py in points]
    return "".join(parts)


def nice_top(value: float) -> float:
    """The next of 1, 2, 4, 8 or 10 times a power of ten: its quarters are round."""
    if value <= 0:
        return 1.0
    power = 10.0 ** math.floor(math.log10(value))
    return next(power * m for m in (1, 2, 4, 8, 10, 20) if power * m >= value * (1 - 1e-9))


def _text(x: float, y: float, text: str, colour: str = "#222", *, anchor: str = "start", size: int = 11) -> str:
    return (
        f'<text x="{x:.1f}" y="{y:.1f}" fill="{colour}" text-anchor="{anchor}" font-size="{size}">{escape(text)}</text>'
    )
