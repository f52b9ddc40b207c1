"""Choosing a setting: bounds by hand, ties, what would decide, refusals."""

import json
import math
import re
from pathlib import Path

import jsonschema
import numpy as np
import pytest
from scipy import stats

import pcer
from pcer.deciding.recommend import Recommendation
from pcer.errors import InputError
from pcer.measuring.power import Design, MeasuredError
from pcer.measuring.variances import benefit_variance, people_part
from tests.commands import passed, refusal, run
from tests.deciding.grid import GRID, SPLITS, TESTED, N, released, tree
from tests.pages import HOSTILE, Html

ROOT = Path(__file__).parents[2]


def lists(found: Recommendation) -> dict[str, str]:
    return {setting.model: setting.answer for setting in found.settings}


def chosen(found: Recommendation) -> str | None:
    return None if found.choice is None else found.choice.model


def test_bounds_are_at_five_percent_over_settings_and_over_settings_groups_and_limits():
    found = pcer.recommend(released(), largest_exposure=52.8, least_accuracy=70)
    z_hold, z_break = (
        stats.norm.isf(0.05 / n) for n in (4, 4 * 2 * 3)
    )  # exposure: two attacks
    t_hold, t_break = (stats.t.isf(0.05 / n, SPLITS - 1) for n in (4, 4 * 2 * 3))
    for setting in found.settings:
        _, _, _, _, exposures, error = GRID[setting.model]
        own = [x for x in setting.numbers if x.what == "largest_exposure"]
        for x, (attack, g) in zip(
            own, [(a, g) for a in (1, 0) for g in (0, 1)], strict=True
        ):
            value = 100 * exposures[g] * (1 if attack else 0.25)
            reach = 100 * error * (1 if attack else 0.5)
            assert x.value == pytest.approx(50 + value)
            assert x.upper == pytest.approx(50 + value + z_hold * reach)
            assert x.lower == pytest.approx(50 + value - z_break * reach)
        right = by_split(setting.model)
        mean = right.mean()
        error = right.std(ddof=1) / math.sqrt(SPLITS)
        x = setting.numbers[-1]
        assert [x.value, x.standard_error] == pytest.approx([mean, error])
        assert [x.lower, x.upper] == pytest.approx(
            [mean - t_hold * error, mean + t_break * error]
        )
    # a and b have every bound inside, c has one outside, d is neither
    assert lists(found) == {"a": "holds", "b": "holds", "c": "breaks", "d": "open"}
    assert chosen(found) == "b"  # tied with a, and of the smaller epsilon
    assert [found.settings[3].splits, found.nearest] == [None, None]
    assert found.settings[3].people > N


def by_split(model: str, made: dict | None = None) -> np.ndarray:
    runs = [r for r in (made or tree())["runs"] if r["model"] == model]
    return np.array([100 * r["groups"]["men"]["test"]["accuracy"] for r in runs])


def test_ties_are_by_paired_differences_and_the_first_setting_is_the_yardstick():
    """What splits share cancels: 2 points lower is not tied although errors overlap."""
    changes = {"b": (1.0, 4.7, 234, 6, (0.002, 0.005), 0.004)}
    found = pcer.recommend(released(tree(**changes)), largest_exposure=53)
    apart = by_split("a", tree(**changes)) - by_split("b", tree(**changes))
    error = apart.std(ddof=1) / math.sqrt(SPLITS)
    assert apart.mean() > 1.64 * error
    assert apart.mean() < 1.64 * math.hypot(*(by_split(m).std(ddof=1) for m in "ab"))
    assert chosen(found) == "a"
    wide = tree(b=(1.0, 4.7, 240, 10, (0.002, 0.005), 0.004))
    best = pcer.recommend(released(wide), largest_exposure=53, least_accuracy=70)
    apart = by_split("a", wide) - by_split("b", wide)
    most = apart.mean() + stats.t.isf(0.05, SPLITS - 1) * apart.std(ddof=1) / math.sqrt(
        SPLITS
    )
    said = float(
        re.search(r"at most (\S+) points lower than that of a, ", best.account[0])[1]
    )
    assert 1 < most <= said < most + 0.01  # a bound is rounded away from what it bounds
    # of one epsilon, the one whose people spend less
    same = tree(
        a=(5.0, 3.0, 238, 6, (0.01, 0.012), 0.004),
        d=(5.0, 3.0, 238, 6, (0.01, 0.01), 0.004),
    )
    same["runs"] = [run for run in same["runs"] if run["model"] in "ad"]
    same["pooled_exposure"] = [
        row for row in same["pooled_exposure"] if row["model"] in "ad"
    ]
    same["bounds"] = bounds(a=1.9, d=1.2)
    assert "its people spend least" in chosen_in(same, "d")
    same["bounds"] = bounds(
        a=1.2, d=1.2
    )  # then the more accurate one, wherever it stands
    for order in (1, -1):
        same["runs"] = same["runs"][::order]
        best = max("ad", key=lambda model: by_split(model, same).mean())
        assert "it is the most accurate" in chosen_in(same, best)


def chosen_in(made: dict, model: str) -> str:
    found = pcer.recommend(released(made), largest_exposure=53)
    assert chosen(found) == model
    return found.headline


def test_settings_of_exactly_one_accuracy_are_tied():
    made = tree()
    tables = {r["seed"]: r["groups"]["men"] for r in made["runs"] if r["model"] == "a"}
    for r in made["runs"]:
        if r["model"] == "b":  # one more is right in training
            own = tables[r["seed"]]
            train = {
                "accuracy": own["train"]["accuracy"] + 1 / (7 * TESTED),
                "n": 7 * TESTED,
            }
            r["groups"] = {
                name: {"train": train, "test": own["test"]} for name in r["groups"]
            }
    assert "it has the smallest epsilon" in chosen_in(made, "b")


def bounds(mode: str = "held", **spent: float) -> list[dict]:
    common = {
        "kind": "receipt",
        "mode": mode,
        "accountant": "rdp",
        "standard_error": 0.01,
    }
    return [
        {
            **common,
            "model": model,
            "epsilon": GRID[model][0],
            "group": name,
            "mean": mean,
        }
        for model, mean in spent.items()
        for name in ("men", "women")
    ]


def test_most_spent_reads_receipts_then_promises_and_believes_no_estimate():
    made = tree(c=(None, None, 246, 3, (0.05, 0.045), 0.004))
    made["bounds"] = bounds(a=1.9, d=2.5)
    found = pcer.recommend(released(made), most_spent=2)
    assert lists(found) == {"a": "holds", "b": "holds", "c": "breaks", "d": "breaks"}
    made["bounds"] = bounds(
        a=1.99
    )  # both parts of an error fall, as a release states their sum
    one = pcer.recommend(released(made), most_spent=2).settings[0]
    enough = (stats.norm.isf(0.05 / 4) + 0.84) ** 2
    assert (one.answer, one.splits) == ("open", math.ceil(SPLITS * enough))
    assert one.people == pytest.approx(N * enough)
    assert f"people with {one.splits} splits would decide it" in one.sentence
    made["bounds"] = bounds(
        a=5.2
    )  # receipts by another accountant than the promise, which holds
    answers = [
        lists(pcer.recommend(released(made), most_spent=x))["a"] for x in (5, 4.9)
    ]
    assert answers == ["holds", "breaks"]
    made["bounds"] += [
        row | {"kind": "promise", "standard_error": None} for row in bounds(a=4.8)
    ]
    assert lists(pcer.recommend(released(made), most_spent=4.9))["a"] == "holds"
    made["bounds"] = bounds("refreshed", a=1.9, d=2.5)
    assert lists(pcer.recommend(released(made), most_spent=2))["a"] == "open"
    made["bounds"] = [
        row | {"kind": "promise", "standard_error": None} for row in bounds(a=3)
    ]
    assert lists(pcer.recommend(released(made), most_spent=2))["a"] == "open"
    del made[
        "bounds"
    ]  # the epsilons bound what is spent, and nothing does without privacy
    found = pcer.recommend(released(made), most_spent=2)
    assert lists(found) == {"a": "open", "b": "holds", "c": "breaks", "d": "open"}
    said = [found.settings[k].sentence for k in (0, 2)]
    assert ["as promised" in said[0], "without privacy" in said[1]] == [True, True]
    assert pcer.recommend(released(made), most_spent=0.5).nearest.model == "b"
    policy = pcer.Policy(most_spent=2, least_accuracy=99)
    again = pcer.recommend(released(made), policy=policy, least_accuracy=50)
    assert again.limits == {"most_spent": 2, "least_accuracy": 50}


def test_differences_and_outcome_gaps_are_held_and_what_would_decide_is_said():
    found = pcer.recommend(released(), largest_difference=1.5, largest_outcome_gap=9)
    gaps = {
        x.what: x for x in found.settings[0].numbers if x.what.startswith("largest_")
    }
    apart = gaps["largest_difference"]
    z = stats.norm.isf(0.05 / 4)
    assert apart.attack == "paired_confidence"
    assert apart.upper == pytest.approx(50 * (0.001 + z * 0.004 * math.sqrt(2)))
    assert gaps["largest_outcome_gap"].value == 0
    near = pcer.recommend(released(), largest_exposure=50.5)
    assert (near.choice, near.nearest.model) == (None, "b")
    assert "The nearest is b, ε = 1." in near.headline
    tight = by_split("a").mean() - 0.5
    one = pcer.recommend(released(), least_accuracy=tight).settings[0]
    error = by_split("a").std(ddof=1) / math.sqrt(SPLITS)
    enough = (stats.norm.isf(0.05 / 4) + 0.84) * error / 0.5
    assert (one.answer, one.splits) == (
        "open",
        max(SPLITS + 1, math.ceil(SPLITS * enough**2)),
    )


def test_every_two_groups_are_held_against_a_limit_of_gaps():
    groups = "ABCD"
    changes = {m: (*own[:3], 30, (0.01,) * 4, own[5]) for m, own in GRID.items()}
    made = tree(groups, **changes)
    rates = dict(zip(groups, (150, 124, 174, 150), strict=True))
    for r in made["runs"]:
        for name, table in r["groups"].items():
            table["test"] = table["test"] | {
                "positive_rate": (rates[name] + r["seed"]) / TESTED
            }
    found = pcer.recommend(released(made), largest_outcome_gap=15)
    gaps = [x for x in found.settings[0].numbers if x.what == "largest_outcome_gap"]
    assert [x.groups for x in gaps] == [
        tuple(pair) for pair in ("AB", "AC", "AD", "BC", "BD", "CD")
    ]
    # settings, pairs
    widest = gaps[3]
    z = stats.norm.isf(0.05 / (4 * 6))
    assert widest.value == pytest.approx(100 * 50 / TESTED)
    assert widest.lower == pytest.approx(widest.value - z * widest.standard_error)
    assert {*lists(found).values()} == {"open"}
    assert "between B and C" in found.headline


def test_a_group_of_too_few_people_is_named_and_does_not_decide_which_is_nearest():
    made = tree()
    for row in made["pooled_exposure"]:
        row["n_records"] = 40 if row["group"] == "women" else N
    found = pcer.recommend(released(made), largest_exposure=54)
    assert {*lists(found).values()} == {"open"}
    assert (
        "too few people in women to tell (fewer than 50)" in found.settings[0].sentence
    )
    assert found.nearest.model == "b"
    assert not any(
        "pcer recommend RELEASE" in step
        for step in pcer.audit(released(made)).next_steps
    )


def test_more_splits_decide_an_outcome_gap_as_far_as_they_lower_its_error():
    made = tree()
    made["runs"] = [run for run in made["runs"] if run["seed"] < 2]
    one = pcer.recommend(released(made), largest_outcome_gap=5.5).settings[0]

    def power(n_splits: int) -> float:
        each = benefit_variance(np.array(0.5), n=N, n_test=TESTED, n_splits=n_splits)
        return stats.norm.cdf(0.055 / math.sqrt(2 * each) - stats.norm.isf(0.05 / 4))

    assert (one.answer, one.people) == ("open", None)
    assert power(one.splits - 1) < 0.8 <= power(one.splits) + 1e-3


@pytest.mark.parametrize(("errors", "end"), [(0.5, "lower"), (-0.5, "upper")])
def test_an_open_number_is_told_with_the_bound_beyond_its_limit(errors, end):
    right = by_split("a")
    limit = right.mean() - errors * right.std(ddof=1) / math.sqrt(SPLITS)
    one = pcer.recommend(released(), least_accuracy=limit).settings[0]
    may_be = getattr(one.numbers[-1], end)
    assert one.answer == "open"
    assert f"is {right.mean():.1f} and may be {may_be:.1f} (limit" in one.sentence


def test_what_would_decide_a_setting_decides_all_numbers_inside_or_one_outside():
    made = tree(a=(5.0, 3.0, 240, 6, (0.026, 0.012), 0.004))
    right = by_split("a", made)
    error = by_split("a", made).std(ddof=1) / math.sqrt(SPLITS)

    def needed(exposure: float, errors: float) -> tuple[int | None, float | None]:
        limits = {
            "largest_exposure": exposure,
            "least_accuracy": right.mean() - errors * error,
        }
        one = pcer.recommend(released(made), **limits).settings[0]
        assert one.answer == "open"
        return one.splits, one.people

    # No number of splits decides the exposure, which is 1 error inside, or outside, its
    # limit.
    assert needed(53, 0.3) == needed(53, 10)
    assert needed(53, 10)[1] > N
    assert needed(52.2, -0.9) == needed(60, -0.9)
    assert needed(60, -0.9)[0] > SPLITS


def test_the_next_step_has_a_command_that_some_setting_answers():
    step, *_ = pcer.audit(COMPAS).next_steps
    limit = re.search(r"pcer recommend RELEASE --largest-exposure ([0-9.]+)$", step)[1]
    assert pcer.recommend(COMPAS, largest_exposure=float(limit)).choice is not None


@pytest.mark.parametrize(("limit", "is_splits"), [(54.5, True), (52.7, False)])
def test_what_would_decide_an_exposure_is_what_the_planner_needs(limit, is_splits):
    """With so many splits or people the planner's power is 4 in 5, less with fewer."""
    changes = {
        "a": (5.0, 3.0, 240, 6, (0.026, 0.012), 0.02),
        "b": (1.0, 3.0, 240, 6, (0, 0), 0.02),
    }
    error = 0.02 if is_splits else 0.004
    changes["a"] = (*changes["a"][:5], error)
    one = pcer.recommend(released(tree(**changes)), largest_exposure=limit).settings[0]
    assert (one.answer, one.splits is not None) == ("open", is_splits)
    known = MeasuredError(
        variance=np.full((2, 2), error**2),
        people=lambda a, n: people_part(2 * a, n),
        largest=np.ones(2),
        n_people=np.full(2, float(N)),
        n_splits=SPLITS,
    )
    away = (limit - 52.6) / 100
    z = stats.norm.isf(0.05 / 4)

    def power(splits: float, people: float) -> float:
        names = {"group_names": ("men", "women"), "n_tests": (1, 1), "error": known}
        design = Design(**names, people=np.full(2, people), n_splits=splits)
        variance, _ = known.variances(design, (0,), np.array([0.026]), z)
        return stats.norm.cdf(away / math.sqrt(variance) - z)

    enough = one.splits or SPLITS, one.people or N
    fewer = (enough[0] - 1, N) if is_splits else (SPLITS, 0.99 * enough[1])
    assert power(*fewer) < 0.7996 <= power(*enough) + 1e-3


# Refusals, files, displays


def one_setting(made: dict) -> None:
    for rows in ("runs", "pooled_exposure"):
        made[rows] = [row for row in made[rows] if row["model"] == "a"]


def no_accuracy(made: dict) -> None:
    for r in made["runs"]:
        r["groups"]["men"]["test"] = {"n": TESTED, "positive_rate": 0.5}


def no_rates(made: dict) -> None:
    for r in made["runs"]:
        for table in r["groups"].values():
            table["test"] = {"n": TESTED, "accuracy": 0.75}
            table["train"] = {"n": 700, "accuracy": 0.75}


def one_split(made: dict) -> None:
    made["runs"] = [r for r in made["runs"] if r["seed"] == 0]


def without_privacy(made: dict) -> None:
    for row in (*made["runs"], *made["pooled_exposure"]):
        row["epsilon"] = None


def not_random(made: dict) -> None:
    made["training"]["split_kind"] = "other"


@pytest.mark.parametrize(
    ("edit", "limits", "field"),
    [
        (one_setting, {"largest_exposure": 52}, "runs"),
        (no_accuracy, {"largest_exposure": 52}, "runs.groups.test.accuracy"),
        (no_rates, {"largest_outcome_gap": 5}, "largest_outcome_gap"),
        (one_split, {"largest_exposure": 52}, "runs.split"),
        (not_random, {"largest_exposure": 52}, None),
        (without_privacy, {"most_spent": 2}, "most_spent"),
        (len, {}, "limits"),
        (len, {"largest_exposure": 0.02}, "largest_exposure"),
        (len, {"least_accuracy": 0.67}, "least_accuracy"),
        (len, {"most_spent": -1}, "most_spent"),
    ],
)
def test_what_cannot_be_answered_is_one_sentence(edit, limits, field):
    made = tree()
    edit(made)
    with pytest.raises(InputError) as caught:
        pcer.recommend(released(made), **limits)
    assert caught.value.field == field
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("limits", "remedy"),
    [
        ({}, "such as largest_exposure=52"),
        ({"largest_exposure": 0.52}, "(52 for 0.52)"),
        ({"largest_exposure": 0.02}, "(52 for an advantage of 0.02)"),
        ({"least_accuracy": 0.67}, "(67 for 0.67)"),
    ],
)
def test_a_limit_in_the_wrong_unit_is_answered_with_one_that_is_taken(limits, remedy):
    with pytest.raises(InputError, match=re.escape(remedy)):
        pcer.recommend(released(), **limits)


def test_several_releases_are_one_grid_unless_they_contradict_each_other():
    parts = []
    for models in ("ab", "cd"):
        part = tree()
        for rows in ("runs", "pooled_exposure"):
            part[rows] = [row for row in part[rows] if row["model"] in models]
        parts.append(part)
    whole = released()
    apart = [released(part) for part in parts]
    both = pcer.recommend(apart, largest_exposure=53)
    one = pcer.recommend(whole, largest_exposure=53)
    assert (both.choice, both.settings, both.price) == (
        one.choice,
        one.settings,
        one.price,
    )
    parts[1]["subject"]["attribute"] = "age"
    for others in ([apart[0], apart[0]], [apart[0], released(parts[1])]):
        with pytest.raises(InputError):
            pcer.recommend(others, largest_exposure=53)


@pytest.fixture
def hostile_path(tmp_path) -> Path:
    """A release whose model and groups have names that break pages."""
    groups = (HOSTILE[0], HOSTILE[3])
    made = tree(groups=groups)
    for row in (*made["runs"], *made["pooled_exposure"]):
        row["model"] = HOSTILE[1] if row["model"] == "a" else row["model"]
    made["bounds"] = [
        {**row, "model": HOSTILE[1], "group": name, "allowed_advantage": 0.1}
        for row, name in zip(bounds(a=1.9), groups, strict=True)
    ]
    path = tmp_path / "m.release.json"
    path.write_text(released(made).to_json())
    return path


LIMITS = ("--largest-exposure", 53, "--least-accuracy", 70)


def test_the_verb_writes_json_that_holds_its_schema(hostile_path, tmp_path):
    file = tmp_path / "c.json"
    done = passed("recommend", hostile_path, *LIMITS, "--json", file)
    assert "Train b, ε = 1" in done.stdout
    assert max(map(len, done.stdout.splitlines())) <= 80
    written = json.loads(file.read_text())
    assert [*written][:4] == ["format", "version", "choice", "settings"]
    assert written["choice"] == {"model": "b", "epsilon": 1.0}
    schema = json.loads(
        (ROOT / "docs" / "schemas" / "recommendation.schema.json").read_text()
    )
    assert schema == json.loads(passed("schema", "recommendation").stdout)
    jsonschema.validate(written, schema)
    # A release is taken as by every other function.
    release = pcer.read_release(hostile_path)
    for given in (release, hostile_path, str(hostile_path), [hostile_path], tmp_path):
        found = pcer.recommend(given, largest_exposure=53, least_accuracy=70)
        assert found.to_json() == file.read_text()


def test_the_page_of_a_choice_runs_nothing_and_marks_every_setting(
    hostile_path, tmp_path
):
    page = tmp_path / "c.html"
    passed("recommend", hostile_path, *LIMITS, "--html", page)
    elements = Html(page.read_text()).elements
    tags = {tag for tag, _ in elements}
    assert tags & {"script", "img"} == set()
    marks = [values for tag, values in elements if tag == "g"]
    n_marks = sum(values.get("tabindex") == "0" for values in marks)
    # Four settings by exposure found, one of them by exposure allowed.
    assert n_marks == 5
    found = pcer.recommend(hostile_path, largest_exposure=53, least_accuracy=70)
    assert Html(found._repr_html_()).text.count("The price of choosing") == 1


def test_the_verb_exits_by_the_choice_and_takes_limits_of_a_policy(
    hostile_path, tmp_path
):
    nothing = run(
        "recommend", hostile_path, "--largest-exposure", "50.1", "--json", "-"
    )
    assert (nothing.returncode, json.loads(nothing.stdout)["choice"]) == (1, None)
    policy = tmp_path / "pcer.toml"
    policy.write_text("largest_exposure = 53\nleast_accuracy = 70\n")
    assert "Train b" in passed("recommend", tmp_path, "--policy", policy).stdout
    least = refusal("recommend", hostile_path, "--least-accuracy", "-1")
    assert "least_accuracy" in least


COMPAS = Path(__file__).parents[2] / "studies/paper/compas.race.release.json"


def test_odds_gaps_are_the_larger_of_two_rates_and_break_at_both():
    found = pcer.recommend(COMPAS, largest_odds_gap=10)
    (odds,) = [x for x in found.settings[-1].numbers if x.what == "largest_odds_gap"]
    audit = pcer.audit(COMPAS, pcer.Plan(resamples=20, null_draws=20))
    (norm,) = [norm for norm in audit.norms() if norm.key == "odds"]
    assert odds.value == pytest.approx(100 * abs(norm.numbers[-1].value))
    assert odds.standard_error == pytest.approx(100 * norm.numbers[-1].error)
    assert odds.lower < odds.value < odds.upper
    assert found.settings[-1].answer == "breaks"


def test_a_disparity_is_held_only_where_both_exposures_are_detected():
    found = pcer.recommend(COMPAS, largest_disparity=400)
    audit = pcer.audit(COMPAS, pcer.Plan(resamples=20, null_draws=20))
    (norm,) = [norm for norm in audit.norms() if norm.key == "compensation"]
    for setting, number in zip(found.settings, norm.numbers, strict=True):
        (size,) = [x for x in setting.numbers if x.what == "largest_disparity"]
        if size.value is None:
            assert "does not detect" in setting.sentence
            assert setting.answer == "open"
        else:
            assert size.value == pytest.approx(abs(number.value))
            assert size.standard_error == pytest.approx(number.error)
            assert setting.answer == "holds"
    values = {x.answer for x in found.settings}
    assert values == {"holds", "open"}
