"""The rows of the table, and what each must reach: a share of the machine's limit, and a ratio to llama.cpp."""

from __future__ import annotations

from dataclasses import dataclass, replace

from cutaway.bench import SHAPES, Work


@dataclass(frozen=True, slots=True)
class Row:
    """share, ratio: (at least, aim); None where there is no such goal. arithmetic: the share is of operations, also
    where streams decode."""

    name: str
    model: str
    work: Work
    share: tuple[float, float | None] | None = None
    ratio: tuple[float, float | None] | None = None
    arithmetic: bool = False

    @property
    def synthetic(self) -> bool:
        return self.model in SHAPES

    def at_least(self) -> str:
        return self._goal(0)

    def aim(self) -> str:
        return self._goal(1)

    def verdict(self, share: float, ratio: float | None) -> str:
        """What was met: "no", "yes" (at least), or "aim"; "" where the peer that it takes was not there."""
        if self.ratio is not None and ratio is None:
            return ""
        for place, word in ((0, "no"), (1, "yes")):
            for goal, value in ((self.share, share), (self.ratio, ratio)):
                wanted = goal[place] if goal else None
                if wanted is not None and value is not None and value < wanted:
                    return word
        return "aim"

    def on_avx2(self) -> Row:
        """With its goal there: to decode as fast as the xllamacpp wheel, and to read prompts 1.5 times as fast."""
        return replace(self, share=None, ratio=(1.0 if self.work.streams else 1.5, None))

    def _goal(self, place: int) -> str:
        share, ratio = (goal[place] if goal else None for goal in (self.share, self.ratio))
        return ", ".join(([f"{share:.0%}"] if share else []) + ([f"{ratio:g}×"] if ratio else []))


ROWS = [
    Row("decode, SmolLM2 Q4_1", "smollm2", Work(streams=1, context=128), (0.75, 0.90), (1.8, None)),
    Row("prefill 512, SmolLM2 Q4_1", "smollm2", Work(tokens=512), (0.45, 0.60), (5.0, 6.0)),
    Row("16 streams, SmolLM2 Q4_1", "smollm2", Work(streams=16, context=128), None, (6.0, None), arithmetic=True),
    Row("decode, SmolLM2 bf16", "smollm2-bf16", Work(streams=1, context=128), (0.85, 0.92), (1.05, None)),
    Row("prefill 512, SmolLM2 bf16", "smollm2-bf16", Work(tokens=512), (0.50, 0.70), (1.2, None)),
    Row("decode, Qwen Q4_K_M", "qwen", Work(streams=1, context=128), (0.85, 0.92), (1.4, None)),
    Row("prefill 512, Qwen Q4_K_M", "qwen", Work(tokens=512), (0.45, 0.60), (2.5, 3.0)),
    Row("16 streams, Qwen Q4_K_M", "qwen", Work(streams=16, context=128), None, (4.0, None), arithmetic=True),
    Row("decode at 4,096, Qwen Q4_K_M", "qwen", Work(streams=1, context=4096), (0.80, 0.90), (2.0, None)),
    Row("prefill 4,096, Qwen Q4_K_M", "qwen", Work(tokens=4096), None, (2.2, 3.0)),
    Row("decode, Qwen Q4_0", "qwen-q4_0", Work(streams=1, context=128), (0.85, 0.92), (1.05, None)),
    Row("prefill 512, Qwen Q4_0", "qwen-q4_0", Work(tokens=512), (0.50, 0.65), (1.8, None)),
    Row("decode, Gemma 270m Q4_K_M", "gemma", Work(streams=1, context=128), None, (1.3, None)),
    Row("prefill 512, Gemma 270m Q4_K_M", "gemma", Work(tokens=512), None, (2.0, None)),
    Row("decode, Llama 3 8B Q4_K (synthetic)", "llama-3-8b", Work(streams=1, context=128), (0.85, 0.92)),
    Row("decode, Qwen3 30B-A3B Q4_K (synthetic)", "qwen3-30b-a3b", Work(streams=1, context=128), (0.85, 0.92)),
]
