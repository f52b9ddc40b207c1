"""What leaves of a search for subgroups: numbers, at most one rule, and refusals."""

from dataclasses import replace

import numpy as np
import pytest

from pcer.attacks import subgroup_rows as rows_of
from pcer.attacks.attack import attack_models
from pcer.attacks.scorers import SettingScores


def setting(seed=0, n=1_500, n_models=9, lift=3.0, wrong=0.0):
    """Men of 50 and over are memorised, and wrongly predicted more often."""
    rng = np.random.default_rng(seed)
    sex = rng.choice(["men", "women"], n)
    age = rng.choice(["-30", "30-50", "50+"], n)
    inside = (sex == "men") & (age == "50+")
    labels = rng.integers(0, 2, n)
    member = rng.random((n_models, n)) < 0.6
    of_truth = rng.normal(size=member.shape) + lift * member * inside + 1.0
    of_truth = np.where(rng.random(n) < wrong * inside, -abs(of_truth), of_truth)
    return SettingScores(
        logits=np.where(labels == 1, of_truth, -of_truth),
        labels=labels,
        member=member,
        group=np.zeros(n, dtype=int),
        group_names=("everybody",),
        traits={"sex": sex, "age": age},
    )


def searches(*settings, outcome="harm"):
    everybody = [rows_of.as_one_group(one) for one in settings]
    attacked = [attack_models([one])[0] for one in everybody]
    found = rows_of.subgroup_rows(everybody, attacked, outcome)
    return {search.about: search for search in found}


def rule_of(search):
    return [(one.attribute, one.value) for one in search.worst.rule]


PLANTED = [("sex", "men"), ("age", "50+")]


def test_the_planted_subgroup_is_named_by_two_attacks_at_half_the_level():
    found = searches(setting())
    exposure = found["exposure"]
    assert rule_of(exposure) == PLANTED
    assert [test.attack for test in exposure.tests] == [
        "rmia_advantage",
        "paired_confidence",
    ]
    assert exposure.level == pytest.approx(0.025)
    assert exposure.worst.n_people % 10 == 0
    assert exposure.worst.lower_bound > 0
    assert found["outcomes"].worst is None
    assert found["outcomes"].withheld is None


def test_the_bound_follows_from_what_leaves():
    exposure = searches(setting())["exposure"]
    worst = exposure.worst
    (test,) = (one for one in exposure.tests if one.attack == worst.attack)
    bound = worst.difference - test.critical_value * worst.standard_error
    assert worst.lower_bound == pytest.approx(bound)


@pytest.mark.parametrize("outcome", ["harm", "benefit"])
def test_errors_are_of_one_label(outcome):
    models = setting(lift=0.0, wrong=0.7)
    found = searches(models, outcome=outcome)
    assert rule_of(found["wrongly"]) == PLANTED
    inside = (models.traits["sex"] == "men") & (models.traits["age"] == "50+")
    can_meet = models.labels == (0 if outcome == "harm" else 1)
    n = int((inside & can_meet).sum())
    assert found["wrongly"].worst.n_people == 10 * round(n / 10)


def test_without_a_name_all_settings_share_the_level():
    quiet = replace(setting(seed=1, lift=0.0), epsilon=1.0)
    exposure = searches(quiet, setting())["exposure"]
    assert exposure.level == pytest.approx(0.05 / 4)
    assert len(exposure.tests) == 4
    assert exposure.worst.epsilon is None
    assert rule_of(exposure) == PLANTED


def test_nobody_is_named_where_everybody_is_alike_and_the_power_is_given():
    exposure = searches(setting(lift=0.0))["exposure"]
    assert exposure.worst is None
    assert exposure.withheld is None
    assert all(test.detectable > 0 for test in exposure.tests)


def test_a_rule_that_leaves_few_people_of_a_shorter_one_is_not_named():
    models = setting()
    sex, age = models.traits["sex"], models.traits["age"].copy()
    others = np.flatnonzero((sex == "men") & (age != "50+"))
    age[others[30:]] = "50+"  # 30 men are younger
    inside = (sex == "men") & (age == "50+")
    is_rest = (sex == "men") & ~inside
    of_truth = np.random.default_rng(3).normal(size=models.member.shape)
    of_truth += 6.0 * models.member * inside - 3.0 * models.member * is_rest
    logits = np.where(models.labels == 1, of_truth, -of_truth)
    changed = replace(models, traits={"sex": sex, "age": age}, logits=logits)
    exposure = searches(changed)["exposure"]
    assert exposure.worst is None
    assert "fewer than 50 people" in exposure.withheld


def test_a_cell_of_nobody_is_not_named():
    """Of 190 people none is judged wrongly: that would tell all their answers."""
    models = setting(lift=0.0)
    inside = (models.traits["sex"] == "men") & (models.traits["age"] == "50+")
    of_truth = np.where(inside, -3.0, 3.0) * np.ones(models.member.shape)
    logits = np.where(models.labels == 1, of_truth, -of_truth)
    wrongly = searches(replace(models, logits=logits))["wrongly"]
    assert wrongly.worst is None
    assert "fewer than 10 people" in wrongly.withheld


def test_numbers_are_rounded_against_the_finding():
    for number in (0.0123456, 1.0, 9.999, 123.4):
        rounded = rows_of._rounded_up(number)
        assert number <= rounded <= number * 1.01
