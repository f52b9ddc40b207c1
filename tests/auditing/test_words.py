"""How numbers are written: by hand, and never a negative zero."""

import re

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from pcer.auditing.file import Summary
from pcer.auditing.words import bounds, decimals, plus_minus, rate_bounds, rate_plus_minus, signed

NUMBER = re.compile(r"[−-](\d[\d,]*\.?\d*|\.\d+)(e[−+-]?\d+)?")

numbers = st.floats(-1.5, 1.5) | st.floats(-1e9, 1e9) | st.sampled_from([0.0, -0.0, -1e-300])
digits = st.integers(0, 6)


def negatives(text: str) -> list[float]:
    """Every number in a text that is written with a minus."""
    plain = [match[0].replace("−", "-").replace(",", "") for match in NUMBER.finditer(text)]
    return [float(number) for number in plain]


def test_the_check_sees_a_negative_zero():
    found = negatives("[−.000, +.100] ± −0.0; −1.50 and -2e-05, −1,234")
    assert found == [-0.0, -0.0, -1.5, -2e-05, -1234]


@given(numbers, numbers, digits)
@example(-0.00001, -0.0, 4)
def test_numbers_are_written_rounded_and_none_as_a_negative_zero(value, other, places):
    ci = (min(value, other), max(value, other))
    summary = Summary(mean=value, std=abs(other), ci=ci)
    texts = [decimals(value, places), signed(value), bounds(ci), rate_bounds(ci, places)]
    texts += [plus_minus(summary), rate_plus_minus(summary, places)]
    assert all(number < 0 for text in texts for number in negatives(text))
    assert float(decimals(value, places).replace("−", "-")) == round(value, places)
    near = float(signed(value).replace("−", "-").replace(",", ""))
    assert near == pytest.approx(value, rel=0.005, abs=1e-300)


def test_rates_lose_only_the_zero_before_the_point():
    rates = {0.5: ".50", -0.5: "−.50", 10.5: "10.50", -0.001: ".00", 1.0: "1.00"}
    for value, text in rates.items():
        assert rate_plus_minus(Summary(mean=value, std=None, ci=None), 2) == text
