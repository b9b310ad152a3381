"""How many of the seeds 1 to N answer "Name three colours." by three different colour words (the default model).

    python benchmarks/first_answers.py [--seeds 30] [--max-tokens 128] [--temperature 0.7 --top-p 0.9 --top-k 40]
"""

from __future__ import annotations

import argparse
import re
from collections.abc import Sequence

from cutaway import Engine, SamplingParams

_WORDS = """
red orange yellow green blue indigo violet purple pink brown black white gray grey gold silver cyan magenta turquoise
teal maroon navy olive lime beige tan crimson scarlet lavender coral peach cream burgundy mauve
"""
COLOURS = set(_WORDS.split())
PROMPT = [{"role": "user", "content": "Name three colours."}]


def colours(text: str) -> list[str]:
    """The colour words of a text, in order, each once."""
    return list(dict.fromkeys(word for word in re.findall(r"[a-z]+", text.lower()) if word in COLOURS))


def answers(model: str, seeds: Sequence[int], **changes: float) -> tuple[list[str], SamplingParams]:
    """An answer by each seed, and the parameters: the model's own with these changes."""
    with Engine.load(model) as engine:
        params = engine.defaults.replace(**changes)
        asked = [params.replace(seed=seed) for seed in seeds]
        return [result.text for result in engine.generate([PROMPT] * len(asked), asked)], params


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--model", default="smollm2-135m")
    parser.add_argument("--seeds", type=int, default=30)
    parser.add_argument("--max-tokens", type=int, default=128)
    for name, kind in (("temperature", float), ("top-p", float), ("top-k", int), ("min-p", float)):
        parser.add_argument(f"--{name}", type=kind)
    parser.add_argument("--repetition-penalty", type=float)
    given = vars(parser.parse_args())
    model, count = given.pop("model"), given.pop("seeds")
    changes = {name: value for name, value in given.items() if value is not None}
    texts, params = answers(model, range(1, count + 1), **changes)
    right = [len(colours(text)) >= 3 for text in texts]
    for seed, (text, good) in enumerate(zip(texts, right, strict=True), 1):
        if not good:
            print(f"seed {seed}: {text!r}")
    print(f"{sum(right)} of {count} ({params.temperature=:g}, {params.top_p=:g}, {changes})")


if __name__ == "__main__":
    main()
