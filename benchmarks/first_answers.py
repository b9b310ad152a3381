"""How many of the seeds 1 to N answer "Name three colours." by three different colour words (the default model).

    python benchmarks/first_answers.py [--seeds 30] [--temperature 0.7 --top-p 0.9 --top-k 40]
"""

from __future__ import annotations

import argparse
import re

from cutaway import Engine

_WORDS = """
red orange yellow green blue indigo violet purple pink brown black white gray grey gold silver cyan magenta turquoise
teal maroon navy olive lime beige tan crimson scarlet lavender coral peach cream burgundy mauve
"""
COLOURS = set(_WORDS.split())
PROMPT = [{"role": "user", "content": "Name three colours."}]


def colours(text: str) -> list[str]:
    """The colour words of a text, in order, each once."""
    return list(dict.fromkeys(word for word in re.findall(r"[a-z]+", text.lower()) if word in COLOURS))


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--model", default="smollm2-135m")
    parser.add_argument("--seeds", type=int, default=30)
    for name, kind in (("temperature", float), ("top-p", float), ("top-k", int)):
        parser.add_argument(f"--{name}", type=kind)
    given = parser.parse_args()
    changes = {name: getattr(given, name) for name in ("temperature", "top_p", "top_k")}
    with Engine.load(given.model) as engine:
        params = engine.defaults.replace(max_tokens=64, **{k: v for k, v in changes.items() if v is not None})
        seeds = [params.replace(seed=seed) for seed in range(1, given.seeds + 1)]
        answers = [result.text for result in engine.generate([PROMPT] * given.seeds, seeds)]
    right = [len(colours(text)) >= 3 for text in answers]
    for seed, (text, good) in enumerate(zip(answers, right, strict=True), 1):
        if not good:
            print(f"seed {seed}: {text!r}")
    print(f"{sum(right)} of {given.seeds} (temperature {params.temperature:g}, top_p {params.top_p:g})")


if __name__ == "__main__":
    main()
