"""What `cutaway ps` writes for people."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from typing import Any

from cutaway.cli.terminal import write_table
from cutaway.planner import readable_bytes
from cutaway.xray.page_view import LEGEND

LINE = 96  # pages on a line
SHOWN = 8  # refusals and preemptions

Record = Mapping[str, Any]


def write_server(server: Record) -> None:
    """One line on where it is and how it stands."""
    state = server["state"]
    if state is None:
        print(server["url"])
    elif state["alive"]:
        log = f", log {state['log']}" if state["log"] else ""
        print(f"{server['url']}  pid {state['pid']}, up {_span(time.time() - state['began'])}{log}")
    else:
        end = state["end"]
        print(f"{server['url']}  pid {state['pid']}, {_end(end)}")
    if state is not None and state["alive"] and state["last_end"]:
        print(f"  the server here before it: {_end(state['last_end'])}")
    if "error" in server:
        print(f"  error[{server['error']['code']}]: {server['error']['message']}")


def _end(end: Record) -> str:
    when = f" {_clock(end['at'])}" if end["at"] else ""
    return f"{end['reason']}{when}" + (f": {end['message']}" if end["message"] else "")


def write_memory(memory: Record) -> None:
    for model in memory["models"]:
        busy = "" if model["running"] is None else f", {model['running']} running, {model['waiting']} waiting"
        steps = "" if not model["steps"] else f", {model['steps']} steps in {model['step_seconds']:.1f} s"
        print(f"  {model['model']}: {model['state']}{busy}{steps}{' ' * bool(model['error'])}{model['error']}")
    rows = []
    for owner in memory["owners"]:
        name = ("  " if owner["within"] else "") + owner["owner"]
        figures = [_bytes(owner[part], "") for part in ("predicted", "measured", "difference")]
        figures[1] = figures[1] or "unknown"
        rows.append([name, owner["model"] or "", *figures, owner["note"]])
    rows += [
        ["accounted", "", "", _bytes(memory["accounted"]), "", ""],
        ["unaccounted", "", "", _bytes(memory["unaccounted"]), "", "of the process's own memory"],
        ["own memory", "", "", _bytes(memory["anonymous"]), "", f"and {_bytes(memory['file'])} of mapped files"],
    ]
    write_table(["owner", "model", "predicted", "measured", "difference", ""], rows, right=[2, 3, 4])
    _write_want(memory)


def _write_want(memory: Record) -> None:
    """What was refused or preempted for want of room."""
    for one in memory["preemptions"][-SHOWN:]:
        print(
            f"  {_clock(one['at'])} PREEMPTED {one['request']}: {one['gainer']} needs {_counts(one['pages_needed'])} "
            f"pages, {_counts(one['pages_available'])} available; {one['computed_tokens']} tokens again"
        )
    for one in memory["refusals"][-SHOWN:]:
        figures = ", ".join(f"{name} {value:g}" for name, value in one["figures"].items())
        print(f"  {_clock(one['at'])} REFUSED {one['request']} {one['code']}: {figures or one['message']}")


def _working(view: Record) -> Iterator[Record]:
    """The models of a view; of one whose engine has ended, only why is written."""
    for model in view["models"]:
        if "error" in model:
            print(f"  {model['model']}: {model['error']['message']}")
        else:
            yield model


def write_pages(pages: Record) -> None:
    """A character a page, and which request is which."""
    for model in _working(pages):
        for group in model["groups"]:
            kind = "full attention" if group["window"] is None else f"window {group['window']}"
            print(
                f"  {model['model']}, {kind}: {len(group['map'])} pages of {model['page_size']} tokens, "
                f"{_bytes(group['page_bytes'])} each"
            )
            for start in range(0, len(group["map"]), LINE):
                print(f"  {group['map'][start : start + LINE]}")
        rows = [
            [
                one["letter"], one["request"], one["state"], f"{one['computed_tokens']}/{_tokens(one)}",
                str(one["cached_tokens"]), _span(one["age_s"]),
            ]
            for one in model["requests"]
        ]  # fmt: skip
        if rows:
            write_table(["", "request", "", "tokens", "cached", "age"], rows, right=[3, 4, 5])
    print(f"  {LEGEND}")


def write_steps(steps: Record) -> None:
    """A line a step, the latest last."""
    for model in _working(steps):
        print(f"  {model['model']}: the latest of {model['steps_so_far']} steps")
        rows = []
        for step in model["steps"]:
            parts = step["milliseconds"]
            known = step["predicted_forward_ms"]
            requests = len({chunk["request"] for chunk in step["chunks"]})
            page = step["pages"][0] if step["pages"] else {"held": "", "free": ""}
            rows.append(
                [
                    str(step["step"]), str(requests), str(step["tokens"]), str(step["rows"]),
                    "" if known is None else f"{known:.1f}", f"{parts.get('forward', 0):.1f}",
                    f"{sum(v for name, v in parts.items() if name != 'forward'):.2f}", str(step["waiting"]),
                    str(page["held"]), str(page["free"]), _marks(step),
                ]
            )  # fmt: skip
        headings = ["step", "requests", "tokens", "rows", "predicted", "forward", "rest", "wait", "held", "free", ""]
        if rows:
            write_table(headings, rows, right=range(10))
        else:
            print("  no step since watching began")
    print("  times in ms; predicted: of the forward pass; rest: plan, batch and sampling; held, free: pages")


def _marks(step: Record) -> str:
    words = [f"+{len(step['admitted'])}"] if step["admitted"] else []
    words += [f"preempted {', '.join(step['preempted'])}"] if step["preempted"] else []
    return " ".join(words)


def _tokens(request: Record) -> int:
    return int(request["prompt_tokens"]) + int(request["answer_tokens"])


def _counts(values: list[int]) -> str:
    return "+".join(map(str, values))


def _bytes(count: int | None, unknown: str = "unknown") -> str:
    """In decimal units, small counts as they are."""
    if count is None:
        return unknown
    return ("-" if count < 0 else "") + readable_bytes(abs(count)) if abs(count) >= 10_000 else str(count)


def _clock(at: float) -> str:
    return time.strftime("%H:%M:%S", time.localtime(at))


def _span(seconds: float) -> str:
    if seconds < 60:
        return f"{seconds:.1f} s"
    minutes, rest = divmod(int(seconds), 60)
    return f"{minutes} min {rest} s" if minutes < 60 else f"{minutes // 60} h {minutes % 60} min"
