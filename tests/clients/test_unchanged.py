"""Other people's clients, as their packages have them, against `cutaway serve`: each script says what it looks at."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from cutaway import Engine, SamplingParams

pytestmark = [pytest.mark.models, pytest.mark.clients]


@pytest.mark.parametrize("name", ["litellm", "langchain", "instructor", "pydantic_ai", "openai_agents"])
def test_python(run_python: Callable[..., str], name: str) -> None:
    run_python(f"with_{name}.py")


@pytest.mark.parametrize("name", ["openai", "anthropic"])
def test_node(run_node: Callable[[str], str], name: str) -> None:
    run_node(f"with_{name}.mjs")


def test_lm_eval_scores_texts_as_the_engine_does(run_python: Callable[..., str], smollm2_path: Path) -> None:
    """To the last bit: its sums are taken in the order of the tokens."""
    printed = run_python("with_lm_eval.py", "lm_eval")
    (line,) = (line for line in printed.splitlines() if line.startswith("RESULT "))
    result = json.loads(line.removeprefix("RESULT "))
    with Engine.load(str(smollm2_path), context=512) as engine:
        for (context, text), (score, greedy) in zip(result["pairs"], result["scores"], strict=True):
            if context:  # an empty one becomes the end token, as lm-eval writes it
                assert (score, greedy) == _score(engine, context, text)
        asked = SamplingParams(temperature=0, max_tokens=8, stop=("\n",))
        assert result["text"] == engine.generate("One, two, three,", asked)[0].text
    assert result["rolling"] < 0


def _score(engine: Engine, context: str, text: str) -> tuple[float, bool]:
    encode = engine.tokenizer.encode
    head = len(encode(context, add_special=False))
    ids = encode(context + text, add_special=False)
    (result,) = engine.generate(ids, SamplingParams(temperature=0, max_tokens=1, prompt_logprobs=1))
    assert result.prompt_logprobs is not None
    told = [each for each in result.prompt_logprobs[head:] if each is not None]
    return sum(each.logprob for each in told), all(each.rank == 1 for each in told)
