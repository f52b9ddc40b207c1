"""Which setting each norm prefers: a second way from the file, and by hand."""

import json
from pathlib import Path

import numpy as np
import pytest

import pcer
from pcer.paper.norms import norms
from tests.auditing.made import drawn, of_rates
from tests.paper.norms_again import numbers

ROOT = Path(__file__).parents[2]
QUICK = pcer.Plan(resamples=50, null_draws=200)
SHIPPED = sorted(
    [*ROOT.glob("studies/*/*.release.json"), *ROOT.glob("examples/*.json")]
)


@pytest.mark.parametrize("path", SHIPPED, ids=lambda path: path.stem)
def test_all_numbers_of_shipped_releases_are_those_of_a_second_script(path):
    audit = pcer.audit(path, QUICK)
    again = numbers(json.loads(path.read_text()), audit.attack)
    is_harm = audit.subject.outcome == "harm"
    for norm in norms(audit):
        names = [(n.setting.model, n.setting.epsilon) for n in norm.numbers]
        expected = [again[name][norm.key] for name in names]
        found = [(number.value, number.error**2) for number in norm.numbers]
        np.testing.assert_allclose(found, expected, rtol=1e-6, err_msg=norm.key)
        if norm.answer in ("prefers", "tied"):
            chosen = {(name.model, name.epsilon) for name in norm.settings}
            assert chosen == unbeaten(
                norm.key, dict(zip(names, expected, strict=True)), is_harm
            )


def unbeaten(key, numbers, is_harm):
    """The least loss of all, and what it does not beat."""
    sign = {"worst_rate": 1 if is_harm else -1, "worst_error": 1, "worst_exposure": 1}
    sign["worst_ratio"] = -1
    loss = {}
    for name, (value, variance) in numbers.items():
        loss[name] = (sign[key] * value if key in sign else abs(value), variance)
    least, least_variance = min(loss.values())
    return {
        name
        for name, (value, variance) in loss.items()
        if value == least or value - least <= 1.96 * (variance + least_variance) ** 0.5
    }


def by_key(release, plan=QUICK):
    return {norm.key: norm for norm in pcer.audit(release, plan).norms()}


RATES = {1.0: ((0.01, 0.05), (0.50, 0.48)), None: ((0.02, 0.03), (0.60, 0.40))}


def test_equality_prefers_the_setting_whose_rates_are_nearest():
    found = by_key(of_rates(RATES, n=(7_000, 3_000)))["parity"]
    assert [number.value for number in found.numbers] == pytest.approx([0.02, 0.2])
    # V of a rate in one split is R (1 - R) / n_test, with two right and two wrong.
    p, q = (0.5 * 3_000 + 2) / 3_004, (0.48 * 3_000 + 2) / 3_004
    assert found.numbers[0].error ** 2 == pytest.approx(
        (p * (1 - p) + q * (1 - q)) / 3_000
    )
    assert (found.answer, [s.epsilon for s in found.settings]) == ("prefers", [1.0])


def test_maximin_wants_the_worst_group_to_receive_more_of_a_benefit_and_less_of_a_harm():
    benefit = by_key(of_rates(RATES, n=(7_000, 3_000)))
    harm = by_key(of_rates(RATES, n=(7_000, 3_000), outcome="harm"))
    assert [n.groups for n in benefit["worst_rate"].numbers] == [("b",), ("b",)]
    assert [n.groups for n in harm["worst_rate"].numbers] == [("a",), ("a",)]
    for found in (benefit, harm):
        (preferred,) = found["worst_rate"].settings
        assert preferred.epsilon == 1.0
    assert harm["worst_ratio"].answer == "not_defined"
    assert benefit["worst_ratio"].answer == "cannot_tell"


def test_equal_exposure_prefers_exposures_that_are_nearest_not_lowest():
    settings = {1.0: ((0.10, 0.30), (0.5, 0.5)), None: ((0.19, 0.20), (0.5, 0.5))}
    found = by_key(
        of_rates(settings, n=(70_000, 30_000), split_kind="random", accuracy=0.6)
    )
    (nearest,) = found["gap_apart"].settings
    assert nearest.epsilon is None
    (lowest,) = found["worst_exposure"].settings
    assert lowest.epsilon is None
    assert "attack_apart" not in found  # the gap is the only attack


def test_compensation_prefers_nothing_inside_its_null_and_else_the_smaller_disparity():
    groups = {"sizes": (40_000, 40_000), "label_shares": (0.6, 0.3)}
    nothing = drawn(**groups, gaps=(0.0, 0.0), budgets=(1.0, None))
    found = by_key(nothing)["compensation"]
    assert (found.answer, found.settings) == ("cannot_tell", [])
    assert found.why.startswith("at ε = 1 ")
    groups["label_shares"] = (0.9, 0.1)
    much = drawn(**groups, gaps=(0.02, 0.06), right=(0.9, 0.9), budgets=(1.0, None))
    found = by_key(much)
    assert (found["compensation"].answer, found["compensation"].why) == ("tied", None)
    assert found["worst_ratio"].answer == "tied"


def test_what_is_not_known_prefers_nothing_and_says_why():
    no_sizes = by_key(of_rates(RATES))
    assert {norm.answer for norm in no_sizes.values()} == {"cannot_tell"}
    assert no_sizes["parity"].numbers[1].value == pytest.approx(0.2)
    assert "lacks sizes" in no_sizes["parity"].why
    assert "does not give" in no_sizes["odds"].why
    folds = by_key(of_rates(RATES, n=(7_000, 3_000), split_kind="other"))
    assert folds["parity"].answer == "prefers"
    assert "random" in folds["worst_exposure"].why
    one = by_key(of_rates({1.0: RATES[1.0]}, n=(7_000, 3_000)))
    assert {norm.why for norm in one.values()} == {"there is one setting"}


def test_the_table_says_every_answer_and_names_of_others_are_escaped():
    release = of_rates(RATES, ("<b>", "&"), n=(7_000, 3_000), outcome="harm")
    view = pcer.audit(release, QUICK).norms()
    text = str(view)
    assert "Which setting does each norm prefer?" in text
    assert {"prefers", "not", "cannot tell"} <= {*text.split(), "cannot tell"}
    assert "<b>" not in view._repr_html_()


@pytest.mark.slow
def test_norms_prefer_nothing_more_often_than_they_may(monkeypatch, tmp_path):
    """A few draws of `python -m benchmarks.norms null`, with other people."""
    from benchmarks import norms as benchmark

    kept = json.loads(benchmark.RATES.read_text())
    for verb in kept.values():
        assert all(count <= 31 for count in verb["prefers"].values())
        assert verb["draws"] == 400
    monkeypatch.setattr(benchmark, "RATES", tmp_path / "rates" / "norms.json")
    benchmark.null(12, 7)
    again = json.loads(benchmark.RATES.read_text())["null"]["prefers"]
    assert max(again.values()) <= 3  # at 5% above that in 1 of 500
