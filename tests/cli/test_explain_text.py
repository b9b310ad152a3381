"""What `cutaway explain` prints fits a terminal of 100 columns whatever it is told, Chinese text included."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from rich.cells import cell_len

from cutaway.cli.explain_text import print_end, print_explanation, print_token

LONG = "一个非常长的词" * 30


def fields(**given: Any) -> SimpleNamespace:
    return SimpleNamespace(**given)


def token(position: int, text: str) -> SimpleNamespace:
    seen = {"text": text, "probability": 3e-5, "rank": 151_000, "drawn": 0.00012, "token": 150_000 + position}
    others = [fields(cut_by="repetition_penalty_of_some_name", **(seen | {"token": n})) for n in range(3)]
    stage = fields(
        name="repetition_penalty", kept=151_936, entropy=11.9312, kl=None, kl_model=0.51, probability=1e-7, rank=9
    )  # fmt: skip
    return fields(
        position=position, bytes=text.encode().hex(), entropy=11.93, margin=-17.25, redrawn=3, forced=False,
        end=fields(**seen), alternatives=others, stages=[stage], **seen,
    )  # fmt: skip


def explanation(tokens: list[Any]) -> SimpleNamespace:
    near = fields(position=1000, text="<|endoftext|>", probability=1e-9, rank=151_936)
    end = "stop_string"
    leads = [fields(token=n, continued=LONG, ended=end, refused="x" if n == 1 else None) for n in range(3)]
    return fields(
        tokens=tokens, leads=[*leads, fields(token=tokens[0].token, continued="短", ended=None, refused=None)],
        stop=fields(
            kind=end, why=f"the stop string {LONG!r} came", start=10, end=20, first_token=1, last_token=2,
            ends=[fields(text="<|im_end|>", counts=False)], nearest=[near] * 5, last=near,
        ),
        loop=fields(
            period=12, repeats=400, start=1000, end=5800, seen=1210, text=LONG, rounds=list(range(8)),
            entropy=[1.5] * 8, end_probability=1e-9, dry_blind=["\n", ":"],
        ),
        findings=[fields(code="script_slide", what="the answer slides " * 20, token=7)],
        cost=fields(
            milliseconds=123456.7, rows=4096, tokens_computed=8192, engine_milliseconds=34567.0,
            looking_milliseconds=45678.0, others_milliseconds=12345.0,
        ),
    )  # fmt: skip


@pytest.mark.parametrize("text", [" word", "数据库", LONG, "\n\n", ""])
def test_no_line_is_wider_than_the_terminal(text: str, capsys: pytest.CaptureFixture[str]) -> None:
    whole = explanation([token(n, text) for n in range(40)])
    print_explanation(whole, every=False)
    print_explanation(whole, every=True)
    one = explanation([token(1234, text)])
    print_token(one)
    print_end(one)
    lines = capsys.readouterr().out.splitlines()
    wide = [line for line in lines if cell_len(line) > 100 and not (text == LONG and line.startswith(LONG[:10]))]
    assert not wide, wide
    text = " ".join(" ".join(lines).split())
    assert "(cannot follow)" in text and "requests beside it lost 12345 ms" in text
