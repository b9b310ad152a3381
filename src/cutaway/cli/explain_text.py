"""An explanation for people: the strip, why it stopped, findings, the least certain tokens; or one token's ledger.

What is shown is the JSON of an explanation (xray/explanation.py) with attributes for fields, wherever it was made.
"""

from __future__ import annotations

from typing import Any

from cutaway.cli.columns import WIDTH, print_findings, shortened, wrapped
from cutaway.cli.terminal import write_table
from cutaway.cli.token_strip import LEGEND, Piece, print_strip

LEAST_CERTAIN = 10
LED = 31  # columns of what an alternative would have led to


def print_explanation(explanation: Any, *, every: bool, width: int = WIDTH) -> None:
    """every: all tokens in the table, not only the least certain."""
    tokens = explanation.tokens
    print_strip(pieces(tokens), width)
    print(f"\n{LEGEND}\n")
    shown = tokens
    if not every and len(tokens) > LEAST_CERTAIN:
        least = sorted(tokens, key=lambda one: (one.forced, one.probability))[:LEAST_CERTAIN]
        shown = sorted(least, key=lambda one: one.position)
        print(f"the {LEAST_CERTAIN} least certain of {len(tokens)} tokens (--tokens lists all)")
    print_tokens(shown)
    print_end(explanation, width)


def pieces(tokens: list[Any]) -> list[Piece]:
    """Of the strip: a token, or those that hold one character together."""
    found: list[Piece] = []
    held: list[Any] = []
    for one in tokens:
        held.append(one)
        data = bytes.fromhex("".join(token.bytes for token in held))
        try:
            text = data.decode()
        except UnicodeDecodeError as error:
            if error.reason == "unexpected end of data":
                continue  # the rest of the character follows
            text = data.decode("utf-8", "backslashreplace")
        found.append(Piece(text if len(held) > 1 or text else one.text, tuple(map(_marked, held))))
        held = []
    found += [Piece(one.text, (_marked(one),)) for one in held]
    return found


def _marked(one: Any) -> tuple[float, bool]:
    return one.probability, one.forced


def print_end(explanation: Any, width: int = WIDTH) -> None:
    """Why it stopped, the loop, the findings, and what this cost."""
    _print_stop(explanation.stop, width)
    if explanation.loop is not None:
        _print_loop(explanation.loop, width)
    print_findings(explanation.findings, width)
    cost = explanation.cost
    lost = cost.others_milliseconds
    others = f"requests beside it lost {lost:.0f} ms" if lost else "no request ran beside it"
    parts = f"{cost.engine_milliseconds:.0f} ms of steps, {cost.looking_milliseconds:.0f} ms of looking"
    told = f"{cost.milliseconds:.0f} ms for {cost.rows} tokens; {cost.tokens_computed} computed again: {parts}"
    print("\n" + wrapped(f"cost: {told}; {others}", width))


def print_tokens(tokens: list[Any]) -> None:
    rows = [
        [
            str(one.position), shortened(one.text, 20), _share(one.probability), str(one.rank),
            f"{one.entropy:.2f}", _nats(one.margin), "forced" if one.forced else _share(one.drawn),
            "" if one.end is None else _share(one.end.probability),
            ", ".join(f"{shortened(a.text, 14)} {_share(a.probability)}" for a in one.alternatives[:1]),
        ]
        for one in tokens
    ]  # fmt: skip
    headings = ["tok", "text", "model p", "rank", "entropy", "margin", "drawn p", "end p", "instead"]
    write_table(headings, rows, right=(0, 2, 3, 4, 5, 6, 7))


def print_token(explanation: Any) -> None:
    """The token that `--token` names: its ledger, its alternatives, and what each would have led to."""
    (one,) = explanation.tokens
    again = "" if one.redrawn == one.token else f"; now #{one.redrawn} would be drawn"
    what = f"token {one.position} {shortened(one.text, 40)} (#{one.token})"
    print(wrapped(f"{what}, margin {_nats(one.margin)} nats{again}", WIDTH) + "\n")
    rows = [
        [
            stage.name, str(stage.kept), f"{stage.entropy:.3f}", _kl(stage.kl), _kl(stage.kl_model),
            _share(stage.probability), str(stage.rank), "<- forced" if stage.kept == 1 and one.forced else "",
        ]
        for stage in one.stages
    ]  # fmt: skip
    headings = ["stage", "kept", "entropy", "KL(before)", "KL(model)", "token p", "rank", ""]
    write_table(headings, rows, right=(1, 2, 3, 4, 5, 6))
    print()
    leads = {lead.token: lead for lead in explanation.leads}
    rows = [_own_row(one, leads.get(one.token))]
    rows += [_alternative_row(a, leads.get(a.token)) for a in one.alternatives]
    write_table(["rank", "token", "model p", "drawn p", "", "cut by", "and then"], rows, right=(0, 2, 3))


def _own_row(one: Any, lead: Any) -> list[str]:
    return [str(one.rank), shortened(one.text, 16), _share(one.probability), _share(one.drawn), "*", "", _led(lead)]


def _alternative_row(a: Any, lead: Any) -> list[str]:
    cut = shortened(a.cut_by, 18) if a.cut_by else ""
    return [str(a.rank), shortened(a.text, 16), _share(a.probability), _share(a.drawn), "", cut, _led(lead)]


def _led(lead: Any) -> str:
    if lead is None:
        return ""
    if lead.refused is not None:
        return "(cannot follow)"
    end = f" [{lead.ended}]" if lead.ended else ""
    return shortened(lead.continued, LED - len(end)) + end


def _print_stop(stop: Any, width: int) -> None:
    print()
    print(wrapped(f"stopped: {stop.kind}: {stop.why}", width))
    if stop.start is not None:
        print(f"  in characters {stop.start} to {stop.end}, tokens {stop.first_token} to {stop.last_token}")
    passed = [end for end in stop.ends if not end.counts]
    if passed:
        print(f"  ignore_eos: {', '.join(end.text for end in passed)} did not end it")
    if stop.nearest:
        near = ", ".join(f"{_share(n.probability)} at token {n.position} (rank {n.rank})" for n in stop.nearest[:3])
        print(wrapped(f"  end token ({stop.nearest[0].text}) nearest: {near}", width))
    if stop.last is not None and stop.kind not in ("end_token", "stop_token"):
        print(f"  at the last token: {_share(stop.last.probability)}, rank {stop.last.rank}")


def _print_loop(loop: Any, width: int) -> None:
    where = f"from token {loop.start} to {loop.end - 1}; alarm at {loop.seen}"
    print()
    print(wrapped(f"loop: {loop.period} tokens, {loop.repeats} times, {where}: {shortened(loop.text, 40)}", width))
    if loop.entropy:
        trend = ", ".join(f"{r}: {h:.2f}" for r, h in zip(loop.rounds, loop.entropy, strict=True))
        print(f"  entropy by round: {trend}")
    if loop.end_probability is not None:
        print(f"  the end token's best chance inside: {_share(loop.end_probability)}")
    if loop.dry_blind:
        print(f"  DRY does not see it: a round holds its breakers {', '.join(map(repr, loop.dry_blind))}")


def _share(value: float) -> str:
    if value >= 0.0005 or value == 0:
        return f"{value:.1%}"
    return f"{float(f'{100 * value:.0e}'):.12g}%" if value >= 1e-6 else "<0.0001%"


def _nats(value: float | None) -> str:
    return "?" if value is None else f"{value:+.2f}"


def _kl(value: float | None) -> str:
    return "inf" if value is None else f"{value:.3f}"
