"""A record of a request, whole, for tests."""

from __future__ import annotations

from typing import Any

from cutaway.sampling import SamplingParams
from cutaway.text.chat.reasoning import ReasoningFormat
from cutaway.xray.record import Ending, Figures, PrefillChunk, RequestRecord, Slide, System

PARAMS = SamplingParams(
    temperature=0.7, logit_bias={5: -3.5}, stop=("\n\n", "完"), bad_words=("x", (1, 2)), json_schema={"type": "object"},
    reasoning=ReasoningFormat(), max_tokens=9,
)  # fmt: skip


def made(**changes: Any) -> RequestRecord:
    fields: dict[str, Any] = {
        "id": "8b0c", "request": "..", "caller": "key 00ff", "began": 1.7e9, "path": "/v1/chat/completions",
        "level": "contents", "parameters": PARAMS, "seed": 2**60 + 1, "prompt_tokens": 3, "tokens": 2,
        "system": System("smol", "ab" * 32, "0.1.0", "avx2", "native", "bf16", "int8", 512, "cd" * 32, "yarn:4"),
        "end": Ending("stop_string", "完", 200), "prompt": 1, "choice": 2, "clock": 1.7e9 + 0.25,
        "prompt_ids": (1, 2, 3), "token_ids": (7, 8), "token_ms": (10.5, 20.25), "ranks": (1, None),
        "probabilities": (0.5, None), "hashes": ("00112233aabbccdd", "0" * 16),
        "chunks": (PrefillChunk(0, 2, 4.5), PrefillChunk(2, 1, 9.0)), "slides": (Slide(1, (2, 3)),),
        "figures": Figures(0.5, 9.5, 10.0, 20.0, 1, 1, "evicted", 2, 3, 4, 5), "warnings": ("careful", "小心"),
    }  # fmt: skip
    return RequestRecord(**(fields | changes))
