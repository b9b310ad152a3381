from __future__ import annotations

import random

import pytest

from cutaway.engine.cost import CostModel, pairs


def test_pairs_count_what_attention_reads() -> None:
    assert pairs(0, 1) == 1
    assert pairs(10, 3) == 11 + 12 + 13


def test_it_learns_a_line_from_noisy_steps() -> None:
    model, rng = CostModel(), random.Random(1)
    for _ in range(200):
        count = rng.choice([1, 2, 8, 64, 256])
        start = rng.randrange(4000)
        truth = 30_000 + 900 * count + 0.05 * pairs(start, count)
        model.observe(count, pairs(start, count), truth * rng.uniform(0.9, 1.1))
    for count, start in ((1, 100), (64, 0), (200, 3000)):
        truth = 30_000 + 900 * count + 0.05 * pairs(start, count)
        assert model.predict(count, pairs(start, count)) == pytest.approx(truth, rel=0.15)


def test_an_affordable_count_is_what_prediction_says() -> None:
    model = CostModel(5_000, 700, 0.4)
    for start in (0, 10, 5_000):
        for budget in (900, 10_000, 123_456, 9_999_999):
            count = model.affordable(budget, start)
            cost = [700 * n + 0.4 * pairs(start, n) for n in (count, count + 1)]
            assert cost[0] <= budget * 1.001 + 1 and cost[1] >= budget * 0.999 - 1
    assert model.affordable(0, 0) == model.affordable(-5, 0) == 0


def test_a_pause_of_the_machine_teaches_nothing() -> None:
    model = CostModel()
    for _ in range(50):
        model.observe(8, 8 * 100, 20_000)
    before = model.predict(8, 800)
    model.observe(8, 800, 60_000_000)
    assert model.predict(8, 800) == before


def test_predictions_stay_positive() -> None:
    model = CostModel()
    for count in (1, 512) * 40:
        model.observe(count, count, 1.0 if count > 1 else 5_000.0)  # absurd: larger steps are cheaper
    assert model.predict(512, 512) >= 0 and model.affordable(1_000, 0) > 0


def test_a_first_guess_follows_the_weights() -> None:
    small, large = CostModel.for_weights(10**8), CostModel.for_weights(10**10)
    assert 90 < large.predict(0, 0) / small.predict(0, 0) < 110
    assert small.predict(100, 0) - small.predict(0, 0) > 10_000


@pytest.mark.parametrize("steps", [1, 7, 63, 64, 65, 200])
def test_when_it_is_asked_changes_nothing(steps: int) -> None:
    """The model is updated at the next prediction; a step that is far off is left out either way."""
    often, late, rng = CostModel(), CostModel(), random.Random(steps)
    for i in range(steps):
        count, start = rng.randint(1, 300), rng.randint(0, 4_000)
        seen = count, pairs(start, count), 4_000 + 900.0 * count * (40 if i % 50 == 49 else rng.uniform(0.9, 1.1))
        often.observe(*seen)
        late.observe(*seen)
        often.predict(1, 1)
    assert (late.base, late.predict(512, 100_000), late.affordable(50_000, 10)) == (
        often.base,
        often.predict(512, 100_000),
        often.affordable(50_000, 10),
    )
