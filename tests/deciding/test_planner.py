"""What could be shown: formulas by hand, searches, the front, and power simulated."""

import json
import math
import os
from dataclasses import replace
from pathlib import Path

import jsonschema
import numpy as np
import pytest
from scipy import stats
from scipy.special import ndtr, ndtri

import pcer
from pcer.auditing.sentences.advice import advice
from pcer.measuring import power
from pcer.measuring.exact import Strata, memorised
from pcer.measuring.power import (
    POWER,
    Design,
    Question,
    people_for,
    smallest,
    splits_for,
)
from pcer.measuring.variances import people_part, record_variance
from pcer.release.file import parse_release
from pcer.statistics import SIGNIFICANCE
from tests.pages import many_groups, mixed_release
from tests.worlds.releases import World, simulate

ROOT = Path(__file__).parents[2]
GOLDEN = Path(__file__).parent / "golden" / "advice.txt"
FOREST = ROOT / "examples" / "compas-forest.release.json"
FIRST = Question(groups=(0,))
PAIR = Question(groups=(0, 1))


def planned(
    *,
    people=(10_000, 10_000),
    accuracy=(0.8, 0.8),
    train_share=0.7,
    n_splits=1,
    n_settings=6,
) -> Design:
    return Design(
        group_names=("a", "b"),
        people=np.array(people, dtype=float),
        n_splits=n_splits,
        n_tests=(2 * n_settings, n_settings),
        error=power.CountsError(accuracy=np.array(accuracy), train_share=train_share),
    )


def measured(
    *, standard_error, n_splits=10, people=10_000.0, bound=people_part
) -> Design:
    variance = standard_error**2
    error = power.MeasuredError(
        variance=np.array([[variance, 2 * variance], [2 * variance, variance]]),
        people=bound,
        largest=np.ones(2),
        n_people=np.full(2, 10_000.0),
        n_splits=10,
    )
    return replace(planned(n_splits=n_splits, people=(people, people)), error=error)


@pytest.mark.parametrize("n_splits", [1, 10])
@pytest.mark.parametrize(("exposure", "right"), [(0.0, 0.8), (0.1, 0.87)])
def test_variances_of_one_exposure(n_splits, exposure, right):
    """Of 10,000, 7,000 trained on: 80 + 10 of 100 right in training, 80 in test: 87."""
    design = planned(n_splits=n_splits)
    n = 10_000 * n_splits
    z = 2.0
    tested, actual = design.error.variances(design, (0,), np.array([exposure]), z)
    train = 0.8 + exposure
    assert actual == pytest.approx((train * (1 - train) / 0.7 + 0.8 * 0.2 / 0.3) / n)
    # z deviations of the hypergeometric, with its skewness, and half a count.
    exact = stats.hypergeom(n, right * n, 0.7 * n)
    hits = (z + float(exact.stats("s")) * (z**2 - 1) / 6) * exact.std() + 0.5
    assert z * math.sqrt(tested) == pytest.approx(hits / (0.21 * n), rel=1e-4)
    assert design.error.largest == pytest.approx([0.2, 0.2])


def test_more_than_everybody_wrong_cannot_be_memorised():
    design = planned()
    most, more = (
        design.error.variances(design, (0,), np.array([x]), 2.0) for x in (0.2, 0.4)
    )
    assert most == pytest.approx(more)
    assert FIRST.power(planned(accuracy=(1.0, 1.0)), 0.1) == 1.0


def test_variances_of_a_difference_hold_splits_and_people():
    n = np.array([3_000.0, 9_000.0])
    for n_splits in (1, 5):
        design = planned(people=n, n_splits=n_splits)
        exposure = np.array([0.02, 0.06])
        train = np.array([0.82, 0.86])
        tested, actual = design.error.variances(design, (0, 1), exposure, 2.0)
        one_split = (train * (1 - train) / 0.7 + 0.8 * 0.2 / 0.3) / n
        people = (1 - 1 / n_splits) * exposure * (1 - exposure) / n
        assert actual == pytest.approx((one_split / n_splits + people).sum())
        # At the threshold the difference is seen as two errors; three quarters of what
        # is missing are the smaller group's.
        missing = 0.04 - 2 * math.sqrt(tested)
        seen = exposure + missing * np.array([3 / 4, -1 / 4])
        at = np.maximum(seen, (seen * n).sum() / n.sum())
        one_split = record_variance(train, np.full(2, 0.8), 0.7 * n, 0.3 * n)
        chance = 0.6 * math.sqrt(n_splits - 1) / n_splits
        held = (1 + chance) * one_split / n_splits + (1 - 1 / n_splits) * people_part(
            at, n
        )
        assert tested == pytest.approx(held.sum(), rel=1e-4)


def test_power_at_the_smallest_is_the_power_asked_for():
    designs = (
        planned(),
        planned(n_splits=20, people=(900, 4000)),
        planned(train_share=0.9),
    )
    for design in (*designs, measured(standard_error=0.002)):
        for question in (FIRST, Question(groups=(1,)), PAIR, replace(PAIR, base=0.02)):
            amount = smallest(design, question)
            assert question.power(design, amount) == pytest.approx(POWER, abs=1e-9)


def test_the_fewest_splits_and_people_are_enough_and_fewer_are_not():
    design = planned(people=(3_000, 6_000), n_splits=20)
    for question, target in ((FIRST, 0.01), (PAIR, 0.03)):
        n = splits_for(design, question, target)
        assert question.power(replace(design, n_splits=n), target) >= POWER
        assert question.power(replace(design, n_splits=n - 1), target) < POWER
    assert splits_for(design, FIRST, 0.15) == 1
    assert splits_for(design, PAIR, 0.001) is None
    for question, target in ((FIRST, 0.002), (PAIR, 0.004)):
        people = people_for(design, question, target)
        assert people[1] / people[0] == pytest.approx(2, rel=1e-3)
        assert question.power(replace(design, people=people), target) >= POWER
        assert question.power(replace(design, people=people * 0.99), target) < POWER
    # Half the error takes four times the people, not one more.
    release = measured(standard_error=0.002)
    assert people_for(release, FIRST, smallest(release, FIRST) / 2).tolist() == [
        40_000,
        40_000,
    ]


ADVICE = [
    (planned(n_splits=20), FIRST, 0.004),
    (planned(n_splits=20), FIRST, 0.05),
    (
        planned(),
        FIRST,
        None,
    ),  # four times the splits, and one to spare for memorising itself
    (planned(people=(20_000, 1_500), n_splits=50), PAIR, 0.005),
    (
        planned(),
        FIRST,
        1e-5,
    ),  # any exposure shows in the end, but nobody trains so many
    (planned(accuracy=(1.0, 1.0)), FIRST, None),
    (planned(people=(30, 30), accuracy=(0.95, 0.95)), PAIR, None),
    (planned(accuracy=(1.0, 1.0)), FIRST, 0.01),
    (measured(standard_error=0.002), PAIR, 0.005),
    (
        measured(standard_error=0.002),
        FIRST,
        smallest(measured(standard_error=0.002), FIRST),
    ),
]


def test_advice_is_as_it_is_kept():
    text = (
        "\n".join(advice(design, question, target=x) for design, question, x in ADVICE)
        + "\n"
    )
    if os.environ.get("PCER_GOLDEN") == "write":
        GOLDEN.write_text(text, encoding="utf-8")
    assert text.splitlines() == GOLDEN.read_text(encoding="utf-8").splitlines()


def test_an_error_of_an_earlier_release_is_scaled_by_people():
    for error, people in ((0.002, 10_000.0), (0.001, 40_000.0)):
        design = measured(standard_error=0.002, people=people)
        # Whatever the amount: the audit's test over the error that the release has.
        for exposure in (0.001, 0.005, 0.2):
            z = exposure / error
            assert FIRST.power(design, exposure) == pytest.approx(
                ndtr(z + ndtri(0.05 / 12))
            )
            difference = replace(PAIR, base=0.1).power(design, exposure)
            assert difference == pytest.approx(
                ndtr(z / math.sqrt(2) + ndtri(0.04 / 12))
            )


def test_the_peoples_part_of_an_earlier_error_does_not_fall_with_splits():
    # A share of .02 memorised, and noise of .3 per person and split, seen with 10
    # splits.
    noise, exposure = 0.3, 0.02
    people = exposure * (1 - exposure)
    then = math.sqrt((people + noise / 10) / 10_000)
    for n_splits, variance in (
        (10, people + noise / 10),
        (40, people + noise / 40),
        (math.inf, people),
        (
            5,
            2 * (people + noise / 10),
        ),  # with fewer splits all of it might have been noise
    ):
        design = measured(
            standard_error=then, n_splits=n_splits, bound=lambda c, n: c * (1 - c) / n
        )
        for groups in ((0,), (0, 1)):
            found = design.error.variances(
                design, groups, np.full(len(groups), exposure), 2.0
            )
            assert found == pytest.approx([len(groups) * variance / 10_000] * 2)


# The front: from sizes, and from an earlier release

SIZES = {"women": 1_200, "men": 3_400}
STUDY = replace(
    planned(people=tuple(SIZES.values()), n_splits=20),
    group_names=("women", "men"),
    n_tests=(2, 1),
)


@pytest.fixture(scope="module")
def from_sizes() -> pcer.Outlook:
    return pcer.detectable(SIZES, target=0.01)


def hardest(design: Design) -> float:
    """The smallest difference that shows in both directions, by a grid of amounts."""
    for amount in np.arange(0.0005, 0.3, 0.0005):
        if (
            min(
                Question(groups=pair).power(design, amount) for pair in ((0, 1), (1, 0))
            )
            >= POWER
        ):
            return float(amount)
    return math.nan


def test_from_sizes_it_is_the_planners_answer(from_sizes):
    for g, group in enumerate(from_sizes.groups):
        question = Question(groups=(g,))
        assert group.smallest == smallest(STUDY, question)
        assert group.limit == 0.0
        assert group.splits_for_target == splits_for(STUDY, question, 0.01)
        assert group.people_for_target == (people_for(STUDY, question, 0.01)[g],)
    (pair,) = from_sizes.pairs
    assert pair.groups == ("women", "men")
    assert pair.smallest == pytest.approx(hardest(STUDY), abs=0.0005)
    assert pair.limit == pytest.approx(
        hardest(replace(STUDY, n_splits=math.inf)), abs=0.0005
    )
    women, men = pair.people_for_target
    assert men / women == pytest.approx(3_400 / 1_200, rel=1e-3)
    enough, fewer = (
        hardest(replace(STUDY, people=np.array([women, men]) * share))
        for share in (1.0, 0.9)
    )
    assert enough <= 0.0101 < fewer
    assert any("1 point" in sentence for sentence in from_sizes.sentences)


@pytest.mark.parametrize(
    "attack", ["lira_advantage", "paired_gap", "paired_confidence"]
)
def test_an_attack_is_planned_with_the_errors_of_its_audit(attack):
    release = pcer.read_release(FOREST)
    found = pcer.detectable(release, attack=attack)
    (setting,) = pcer.audit(release, attack=attack).settings
    assert found.attack == attack
    assert found.pairs[0].smallest == pytest.approx(
        setting.pairs[0].exposure.difference.detectable, rel=1e-3
    )
    expected = [group.detectable for group in setting.groups.values()]
    assert [group.smallest for group in found.groups] == pytest.approx(
        expected, rel=1e-3
    )


def audited(
    *, perfect: float | None = 0, gaps=(0.0, 0.0)
) -> tuple[pcer.Audit, pcer.Outlook]:
    """An audit that leaves a question open, and the plan of the same release.

    At the budget ``perfect`` everybody is right.
    """
    shape = {
        "sizes": (3_000, 2_000),
        "label_shares": (0.4, 0.4),
        "right": [(0.8, 0.7)] * 2,
    }
    world = World(gaps=gaps, n_seeds=5, budgets=(1.0, None), **shape)
    tree = json.loads(simulate(world, np.random.default_rng(3)).to_json())
    for run in (run for run in tree["runs"] if run["epsilon"] == perfect):
        for cells in (
            tables[part] for tables in run["groups"].values() for part in tables
        ):
            right = {"tp": cells["tp"] + cells["fn"], "tn": cells["tn"] + cells["fp"]}
            cells |= right | {"fn": 0, "fp": 0}
    row = {"attack": "paired_gap", "value": 0.04, "standard_error": 0.003}
    tree["pooled_exposure"] = [
        {"epsilon": e, "group": g, **row}
        for e in (1.0, None)
        for g in ("g0", "g1")
        if any(gaps)
    ]
    release = parse_release(tree, file="audited")
    return pcer.audit(release, pcer.Plan(resamples=1, null_draws=1)), pcer.detectable(
        release
    )


def test_an_audits_advice_is_the_planners_answer():
    """One question of one release has one answer, whichever asks it."""
    audit, plan = audited(gaps=(0.04, 0.04))
    assert audit.verdict is pcer.Verdict.NO_DIFFERENCE_SHOWN
    assert plan.attack == "paired_gap"
    assert plan.sentences[1] in audit.next_steps
    audit, plan = audited()
    assert audit.verdict is pcer.Verdict.NONE_DETECTED
    assert plan.attack == "overfitting_gap"
    assert plan.sentences[0] in audit.next_steps
    # A setting in which nobody is wrong is not tested, so it is in no family.
    audit, same = audited(perfect=None)
    assert same.groups[0].smallest < plan.groups[0].smallest
    assert same.sentences[0] in audit.next_steps


def test_what_it_writes_holds_its_schema(from_sizes):
    validator = jsonschema.Draft202012Validator(pcer.Outlook.file_schema())
    nothing = pcer.detectable({"a": 20, "b": 20}, accuracy=0.99, n_splits=1)
    for found in (from_sizes, pcer.detectable(mixed_release()), nothing):
        tree = json.loads(found.to_json())
        validator.validate(tree)
        assert tree == found.to_tree()
    published = json.loads(
        (ROOT / "docs" / "schemas" / "outlook.schema.json").read_text()
    )
    assert published == pcer.Outlook.file_schema()
    assert [group.smallest for group in nothing.groups] == [None, None]
    assert nothing.pairs[0].smallest is None
    assert all("Not even" in sentence for sentence in nothing.sentences)


TWO = many_groups(["a", "b"])
OTHER = TWO.training.model_copy(update={"split_kind": "other"})


@pytest.mark.parametrize(
    ("of", "options", "error", "names"),
    [
        ({"a": 100}, {}, pcer.InputError, "at least two groups"),
        ([1, 2], {}, pcer.InputError, "groups"),
        (
            {"a": 100, "b": 3},
            {},
            pcer.InputError,
            "'b' must have a whole .* at least 4, not 3",
        ),
        ({"a": 100, "b": 10**15 + 1}, {}, pcer.InputError, "group 'b'"),
        ({"a": 100, "b": 2.5}, {}, pcer.InputError, "group 'b'"),
        ({"a": 100, "b": True}, {}, pcer.InputError, "group 'b'"),
        (SIZES, {"accuracy": 1.0}, pcer.InputError, "accuracy of women"),
        (
            SIZES,
            {"accuracy": {"women": 0.8}},
            pcer.InputError,
            "one for each of women, men",
        ),
        (SIZES, {"test_size": 0.0}, pcer.InputError, "test_size"),
        (SIZES, {"n_splits": 0}, pcer.InputError, "n_splits"),
        (SIZES, {"n_settings": 1.5}, pcer.InputError, "n_settings"),
        (SIZES, {"target": math.nan}, pcer.InputError, "target"),
        (SIZES, {"exposure": 1.0}, pcer.InputError, "exposure"),
        (SIZES, {"attack": "lira_advantage"}, pcer.InputError, "give a release"),
        (SIZES, {"setting": "no-DP"}, pcer.InputError, "setting"),
        (TWO, {"setting": "ε = 7"}, pcer.InputError, "'ε = 7'; it has ε = 1, no-DP"),
        (TWO, {"accuracy": 0.8}, pcer.InputError, "its own accuracies"),
        (TWO, {"attack": "lira_advantage"}, pcer.PlanError, "'lira_advantage'"),
        (TWO.model_copy(update={"training": OTHER}), {}, pcer.InputError, "random"),
    ],
)
def test_bad_input_is_one_sentence(of, options, error, names):
    with pytest.raises(error, match=names) as caught:
        pcer.detectable(of, **options)
    assert "\n" not in str(caught.value)


# Power, simulated by the audit's own test; benchmarks/planner.py has 40 worlds and the
# audit whole


@pytest.mark.parametrize("design", [planned(people=(3_000, 1), n_splits=5), planned()])
def test_an_exposure_is_found_as_often_as_predicted(design):
    rng = np.random.default_rng(1)
    n_studies = 1_500
    people = int(design.people[0])
    known = round(0.9 * smallest(design, FIRST) * people)
    right = people * 8 // 10
    trained = people * 7 // 10
    shape = (1, design.n_splits, n_studies)
    right_in = rng.hypergeometric(right, people - right, trained, shape)
    known_in = rng.hypergeometric(known, people - right - known, trained - right_in)
    counts = (people, trained, right + known_in, right_in + known_in)
    strata = Strata(*(np.broadcast_to(part, shape).astype(float) for part in counts))
    found = (memorised(strata).p_value * design.n_tests[0] <= SIGNIFICANCE).mean()
    assert found == pytest.approx(FIRST.power(design, known / people), abs=0.05)
