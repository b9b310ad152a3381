"""Position tables from their formulas, and numbers that cannot be."""

from __future__ import annotations

import math

import numpy as np
import pytest

from cutaway.errors import FormatError, ParameterError
from cutaway.model.positions import alibi_slopes, inverse_frequencies, rope_table, sinusoidal_table, stretched_context
from cutaway.model.rope_scaling import RopeScaling, parse_rope_scaling
from cutaway.model.spec import RopeSpec


def test_rope_table_is_cos_and_sin_of_position_times_frequency() -> None:
    rope = rope_table(RopeSpec(10_000.0, 8), 50, 50)
    assert rope.cos.shape == rope.sin.shape == (50, 4)
    assert rope.cos.dtype == rope.sin.dtype == np.float32
    for position in (0, 1, 49):
        for i in range(4):
            angle = position / 10_000 ** (2 * i / 8)
            assert rope.cos[position, i] == pytest.approx(math.cos(angle), abs=5e-6)
            assert rope.sin[position, i] == pytest.approx(math.sin(angle), abs=5e-6)


@pytest.mark.parametrize("context", [10, 100])
def test_a_prefix_of_a_longer_table_is_the_shorter_table(context: int) -> None:
    """Tables that do not depend on the context must not: a prefix's keys could not be reused otherwise."""
    for scaling in (None, RopeScaling("linear", 3.0), RopeScaling("yarn", 4.0), RopeScaling("llama3", 8.0, 32)):
        short, long = (rope_table(RopeSpec(1e4, 16, scaling), n, 32) for n in (context, 1000))
        np.testing.assert_array_equal(long.cos[:context], short.cos)
        np.testing.assert_array_equal(long.sin[:context], short.sin)


def test_dynamic_ntk_is_fixed_by_the_context() -> None:
    within = inverse_frequencies(RopeSpec(1e4, 16, RopeScaling("dynamic", 2.0)), 32, 32)[0]
    beyond = inverse_frequencies(RopeSpec(1e4, 16, RopeScaling("dynamic", 2.0)), 64, 32)[0]
    plain = inverse_frequencies(RopeSpec(1e4, 16), 32, 32)[0]
    ntk = inverse_frequencies(RopeSpec(1e4, 16, RopeScaling("ntk", 3.0)), 64, 32)[0]  # 2 * 64/32 - (2 - 1)
    np.testing.assert_array_equal(within, plain)
    np.testing.assert_array_equal(beyond, ntk)


def test_ntk_divides_the_slowest_frequency_by_the_factor_and_keeps_the_fastest() -> None:
    plain = inverse_frequencies(RopeSpec(1e4, 16), 32, 32)[0]
    ntk = inverse_frequencies(RopeSpec(1e4, 16, RopeScaling("ntk", 4.0)), 32, 32)[0]
    assert ntk[0] == plain[0]
    assert ntk[-1] == pytest.approx(plain[-1] / 4, rel=1e-5)


def test_a_base_by_option() -> None:
    by_option = inverse_frequencies(RopeSpec(1e4, 16, parse_rope_scaling("none,base=1e6")), 32, 32)[0]
    np.testing.assert_array_equal(by_option, inverse_frequencies(RopeSpec(1e6, 16), 32, 32)[0])


def test_yarn_attention_factor() -> None:
    _, factor = inverse_frequencies(RopeSpec(1e4, 16, RopeScaling("yarn", 4.0)), 32, 32)
    assert factor == pytest.approx(0.1 * math.log(4) + 1)


@pytest.mark.parametrize(
    "rope",
    [
        RopeSpec(1.0, 16),
        RopeSpec(1e4, 15),
        RopeSpec(1e4, 16, RopeScaling("longrope", 2.0, 1)),
        RopeSpec(1e4, 16, RopeScaling("longrope", 2.0, 8, short_factors=(1.0,), long_factors=(1.0,))),
        RopeSpec(1e4, 16, RopeScaling("factors", factors=(1.0,) * 7)),
    ],
)
def test_impossible_numbers(rope: RopeSpec) -> None:
    with pytest.raises(FormatError):
        inverse_frequencies(rope, 32, 32)


def test_llama3_with_crossed_factors() -> None:
    with pytest.raises(ParameterError, match="high_freq_factor 1 must exceed 4"):
        inverse_frequencies(
            RopeSpec(1e4, 16, RopeScaling("llama3", 8.0, low_freq_factor=4, high_freq_factor=1)), 32, 32
        )


@pytest.mark.parametrize(
    ("option", "reach"),
    [(None, 1000), ("none", 1000), ("yarn:4", 4000), ("yarn:4,original=500", 2000), ("ntk:1.5", 1500)],
)
def test_stretched_context(option: str | None, reach: int) -> None:
    assert stretched_context(parse_rope_scaling(option) if option else None, 1000) == reach


def test_sinusoidal_table() -> None:
    table = sinusoidal_table(5, 9, 2)
    assert table.shape == (5, 9)
    assert (table[:, 8] == 0).all()  # an odd width ends in a zero
    for i in range(4):
        angle = 4 / 10_000 ** (i / 3)  # row 2 with offset 2
        assert table[2, i] == pytest.approx(math.sin(angle), abs=1e-6)
        assert table[2, 4 + i] == pytest.approx(math.cos(angle), abs=1e-6)


def test_alibi_slopes_for_a_power_of_two() -> None:
    np.testing.assert_allclose(alibi_slopes(8), [2.0**-i for i in range(1, 9)], rtol=1e-7)


def test_alibi_slopes_between_powers_of_two() -> None:
    """12 heads: the 8 of 8 heads, then every other one of 16 heads."""
    np.testing.assert_allclose(alibi_slopes(12)[8:], [2.0 ** -(i / 2) for i in (1, 3, 5, 7)], rtol=1e-6)
    assert alibi_slopes(1).tolist() == [2.0**-8]
