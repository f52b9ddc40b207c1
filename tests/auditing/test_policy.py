"""Policies: each rule holds, and each is broken, in one sentence for every output."""

import re
from itertools import chain
from pathlib import Path
from xml.etree import ElementTree as Xml

import numpy as np
import pytest
from scipy import stats

import pcer
from pcer.auditing.policy import read_policy
from pcer.cli.audit import print_audits
from pcer.errors import InputError
from pcer.files import parse_record
from pcer.measuring.plan import GUARDED, RENAMED
from pcer.release.file import parse_release
from pcer.report import to_junit, to_latex_tables
from tests.deciding.grid import GRID, SPLITS, released, tree
from tests.worlds.lies import EDITS, FOREST, P_VALUES, Edit, edited, honest, sold, told

QUICK = {"resamples": 20, "null_draws": 20}


def careful() -> dict:
    return honest(np.random.default_rng(1))


def release(tree: dict | None = None) -> pcer.Release:
    return parse_release(tree or careful(), file="x")


def broken(policy: dict, tree: dict | None = None) -> dict[str, str]:
    """Rules that are broken, with their sentences."""
    plan = pcer.Plan(**QUICK, policy=pcer.Policy(**policy))
    return {
        one.rule: one.sentence for one in pcer.audit(release(tree), plan).broken_rules
    }


@pytest.fixture(scope="module")
def plain() -> pcer.Audit:
    return pcer.audit(release(), pcer.Plan(**QUICK))


def test_what_is_not_asked_for_is_not_broken_and_a_careful_release_is_strict_enough(
    plain,
):
    assert broken({}) == {}
    assert plain.policy_lines == []
    assert (
        broken({"strict": True, "required_attacks": ["paired_gap", "overfitting_gap"]})
        == {}
    )


def test_strictness_asks_for_what_a_reader_needs():
    tree = careful()
    tree["training"]["split_kind"] = "other"
    for run in tree["runs"][:3]:
        del run["split"]
    tree["runs"][5]["split"] = "its own"
    tree["runs"][5]["groups"]["g0"]["train"] = {"accuracy": 0.9}
    found = broken(
        {"strict": True, "min_splits": 30, "required_attacks": ["lira_advantage"]}, tree
    )
    assert found.pop("min_splits").startswith("min_splits: limit 30; ε = 2.54 has ")
    expected = {
        "split_kind": 'random splits are required; the release says "other".',
        "split_ids": "every run needs the name of its split; 3 of 20 have none.",
        "sizes": "every rate needs its number of records; 1 lack it.",
        "required_attacks": "LiRA is not released.",
    }
    assert found == {rule: f"{rule}: {said}" for rule, said in expected.items()}
    assert set(broken({"min_splits": 30}, tree)) == {"min_splits"}


def test_strictness_alone_asks_for_eight_splits_and_no_contradiction():
    tree = careful()
    for n_splits, rules in ((7, {"min_splits"}), (8, set())):
        few = {**tree, "runs": [run for run in tree["runs"] if run["seed"] < n_splits]}
        assert set(broken({"strict": True}, few)) == rules
        assert broken({"strict": True, "min_splits": 7}, few) == {}
    tree = told("parts exchanged", np.random.default_rng(2))
    assert "contradiction" in broken({"strict": True}, tree)
    assert "contradiction" not in broken({"min_splits": 2}, tree)


def test_limits_are_held_against_the_most_that_the_data_allow_by_any_attack(plain):
    by_gap = pcer.audit(release(), pcer.Plan(**QUICK, attack="overfitting_gap"))
    exposures = []
    differences = []
    for setting in [*plain.settings, *by_gap.settings]:
        exposures += [group.exposure.upper_bound for group in setting.groups.values()]
        differences += [p.exposure.difference.upper_bound for p in setting.pairs]
    for rule, start, least in (
        ("largest_exposure", 50, max(exposures)),
        ("largest_difference", 0, max(differences)),
    ):
        sentence = broken({rule: start})[rule]
        most = float(re.search(r"as (?:high|much) as ([\d.]+) \(ε = ", sentence)[1])
        found = (most - start) / 50  # both attacks are differences of accuracies
        assert found == pytest.approx(least, abs=0.001)  # what tables print
        assert sentence.startswith(f"{rule}: limit {start} ")
        assert "by the overfitting gap" in sentence
        assert broken({rule: most + 0.06}) == {}
        assert set(broken({rule: most - 0.06})) == {rule}


def test_the_smallest_detectable_exposure_has_a_limit_that_is_itself_tolerated(plain):
    groups = chain.from_iterable(one.groups.values() for one in plain.settings)
    most = max(group.detectable for group in groups)
    assert broken({"largest_detectable": 50 + 50 * most}) == {}
    found = broken({"largest_detectable": 50 + 49.9 * most})
    assert "is detected only from" in found["largest_detectable"]


def test_what_cannot_be_told_is_not_tolerated():
    tree = careful()
    tree["pooled_exposure"] = []
    unsized = {
        "train": {"accuracy": 0.5},
        "test": {"accuracy": 0.5, "positive_rate": 0.5},
    }
    for run in tree["runs"]:
        run["groups"] = dict.fromkeys(run["groups"], unsized)
    found = broken({"largest_exposure": 90, "largest_detectable": 90}, tree)
    assert set(found) == {"largest_exposure", "largest_detectable"}
    assert "limit 90 of 100; g0 is not known (ε = 2.54)" in found["largest_exposure"]


def test_statements_fail_also_behind_a_stronger_verdict(plain):
    forest = pcer.read_release(FOREST)
    stronger = {
        "double_disadvantage",
        "exposure_differs",
        "ratio_differs",
        "outcomes_differ",
        "wrongly_differs",
    }
    for statement in GUARDED:
        plan = pcer.Plan(**QUICK, policy=pcer.Policy(fail_on=[statement]))
        found = [rule.sentence for rule in pcer.audit(forest, plan).broken_rules]
        assert bool(found) == (statement in stronger)
        words = f"fail_on: {statement.replace('_', ' ')} found (no DP"
        assert all(sentence.startswith(words) for sentence in found)
    for statement in GUARDED:
        assert bool(broken({"fail_on": [statement]})) == (
            statement in plain.statements()
        )


@pytest.mark.parametrize(
    ("policy", "n"),
    [({"min_splits": 99, "largest_exposure": 50}, 2), ({"min_splits": 2}, 0)],
)
def test_outputs_say_whether_it_holds_and_each_broken_rule(policy, n, capsys, plain):
    """For pages, Markdown and edited audits see the golden files and verification."""
    audit = pcer.audit(release(), pcer.Plan(**QUICK, policy=pcer.Policy(**policy)))
    first, *sentences = audit.policy_lines
    assert first == (
        f"The policy is broken: {n} of its rules." if n else "The policy holds."
    )
    assert sentences == [one.sentence for one in audit.broken_rules]
    print_audits([audit])
    terminal = " ".join(capsys.readouterr().out.split())
    assert all(line in terminal for line in (first, *sentences))
    assert first in to_latex_tables([audit])
    failures = [
        one.get("message")
        for one in Xml.fromstring(to_junit([audit], [])).iter("failure")
    ]
    assert failures == sentences
    assert len(sentences) == n
    assert audit.plan_sha256 != plain.plan_sha256


@pytest.mark.parametrize(
    ("text", "field"),
    [
        ("stict = true", "stict"),
        ('fail_on = ["disparity"]', "fail_on[0]"),
        ('fail_on = ["disparity_shown"]', "fail_on[0]"),
        ("largest_exposure = 0.02", "largest_exposure"),
        ("largest_exposure = 101", "largest_exposure"),
        ("largest_detectable = 2", "largest_detectable"),
        ("largest_difference = 0.02", "largest_difference"),
        ("min_splits = 0", "min_splits"),
        ("strict = 1", "strict"),
        ("strict = ", None),
        ("largest_exposure = nan", "largest_exposure"),
        *(
            (nothing, None)
            for nothing in ("", "# rules follow\n", "strict = false\nfail_on = []")
        ),
    ],
)
def test_a_bad_file_is_one_sentence(tmp_path, text, field):
    path = tmp_path / "pcer.toml"
    path.write_text(text)
    with pytest.raises(InputError) as error:
        read_policy(path)
    assert error.value.field == field
    assert str(path) in str(error.value)


@pytest.mark.parametrize(
    ("fields", "remedy"),
    [
        *(({"fail_on": [old]}, f"must be '{new}'") for old, new in RENAMED.items()),
        (
            {"largest_exposure": 0.02},
            "at least a coin's 50 (52 for an advantage of 0.02)",
        ),
        ({"largest_difference": 0.02}, "success of 100 (2 for an advantage of 0.02)"),
    ],
)
def test_what_an_earlier_version_wrote_is_refused_with_what_to_write(fields, remedy):
    with pytest.raises(InputError, match=re.escape(remedy)):
        parse_record(pcer.Policy, fields, file="pcer.toml")


@pytest.fixture(scope="module")
def documented(tmp_path_factory) -> pcer.Policy:
    page = (Path(__file__).parents[2] / "docs" / "reports.md").read_text()
    path = tmp_path_factory.mktemp("policy") / "pcer.toml"
    path.write_text(page.partition("```toml\n")[2].partition("```")[0])
    return read_policy(path)


def test_the_example_of_the_page_is_a_policy(documented):
    policy = documented
    assert policy.strict
    assert policy.required_attacks == ["lira_advantage"]
    assert policy.model_fields_set >= {"fail_on", "largest_exposure", "least_accuracy"}


# A trainer edits a release that breaks the documented policy


def after(policy: pcer.Policy, *edits: Edit) -> set[str]:
    """Rules that are still broken; a release that is refused has exit code 2."""
    try:
        return set(broken(policy.model_dump(exclude_none=True), edited(*edits)))
    except InputError:
        return {"refused"}


LOWERED = ("pooled_exposure", "lira_advantage", ("value",), 0.01)


@pytest.mark.parametrize(
    "edits",
    [
        (),
        (("pooled_exposure", "lira_advantage", ("value",), -100),),
        (LOWERED, ("placebo", "", P_VALUES, 1000)),
        (LOWERED, ("pooled_exposure", "paired_confidence", ("value",), 0.01)),
        (
            LOWERED,
            (
                "pooled_exposure",
                "paired_confidence",
                ("standard_error", "null_error"),
                100,
            ),
        ),
    ],
)
def test_two_edited_numbers_leave_the_documented_policy_broken(documented, edits):
    rules = after(documented, *edits)
    assert {"largest_exposure", "largest_difference"} <= rules
    assert ("contradiction" in rules) == bool(edits)


@pytest.mark.slow
def test_no_edit_and_no_pair_of_edits_makes_a_red_release_green(documented):
    pairs = np.random.default_rng(26).choice(len(EDITS), (500, 2))
    chosen = [(one,) for one in EDITS]
    chosen += [(EDITS[first], EDITS[second]) for first, second in pairs.tolist()]
    # rules that no edit touches would stay broken whatever becomes of the others
    others = dict.fromkeys(("largest_outcome_gap", "least_accuracy", "most_spent"))
    policy = documented.model_copy(update=others)
    assert [edits for edits in chosen if not after(policy, *edits)] == []


def test_a_required_attack_needs_its_error():
    without = (
        "pooled_exposure",
        "lira_advantage",
        ("standard_error", "null_error"),
        None,
    )
    found = broken({"required_attacks": ["lira_advantage"]}, edited(without))
    assert (
        found["required_attacks"] == "required_attacks: LiRA lacks some value or error."
    )
    found = broken({"largest_exposure": 100}, edited(without))
    assert "is not known (ε = 12, by LiRA)" in found["largest_exposure"]


def test_under_strictness_made_up_groups_lower_no_verdict_and_every_attack_can_fail():
    refuted = edited(("placebo", "", P_VALUES, 1000))
    alarms = ["double_disadvantage", "exposure_differs", "ratio_differs"]
    assert broken({"fail_on": alarms}, edited()) != {}
    assert broken({"fail_on": alarms}, refuted) == {}
    assert set(broken({"fail_on": alarms, "strict": True}, refuted)) == {"fail_on"}
    lowered = ("pooled_exposure", "paired_confidence", ("value",), 0.01)
    found = broken({"fail_on": alarms, "strict": True}, edited(LOWERED, lowered))
    assert re.search(r" found \(\w+", found["fail_on"])


@pytest.mark.parametrize(
    ("promise", "fields", "said"),
    [
        (0.1, {"noise_multiplier": 0.0}, "the noise multiplier is 0"),
        (0.1, {"dp_delta": 0.999}, "more than one over the"),
        (0.01, {}, "finds more than such an epsilon allows"),
        (
            0.3,
            {},
            "finds more than such an epsilon allows",
        ),  # splits balanced on nothing
        (12.0, {}, None),
    ],
)
def test_a_false_epsilon_breaks_strictness(promise, fields, said):
    policy = pcer.Plan(**QUICK, policy=pcer.Policy(strict=True))
    audit = pcer.audit(release(sold(edited(), promise, **fields)), policy)
    assert {one.rule for one in audit.broken_rules} == (
        {"contradiction"} if said else set()
    )
    assert said is None or any(said in one.sentence for one in audit.broken_rules)


COMPAS = Path(__file__).parents[2] / "studies/paper/compas.race.release.json"


def test_odds_gaps_and_disparities_are_held_and_unknown_ones_break():
    broken_by = {}
    for policy in ({"largest_odds_gap": 99}, {"largest_odds_gap": 0}):
        audit = pcer.audit(COMPAS, pcer.Plan(**QUICK, policy=pcer.Policy(**policy)))
        broken_by[policy["largest_odds_gap"]] = audit.broken_rules
    assert broken_by[99] == []
    assert "may differ by as much as" in broken_by[0][0].sentence
    never = pcer.Policy(
        largest_disparity=1e9
    )  # gaps of private models are not detected
    audit = pcer.audit(COMPAS, pcer.Plan(**QUICK, policy=never))
    assert "not known" in audit.broken_rules[0].sentence


def test_outcome_gaps_receipts_and_accuracy_are_held_by_their_bounds(plain):
    rules = {"largest_outcome_gap": 0, "most_spent": 0.01, "least_accuracy": 100}
    assert broken(rules).keys() == rules.keys()
    setting = plain.settings[0]
    right = setting.accuracy
    n = setting.n_splits
    tail = 0.05 / len(plain.settings)
    least = 100 * (right.mean - stats.t.isf(tail, n - 1) * right.std / np.sqrt(n))
    assert (
        f"accuracy may be as low as {least:.1f} ("
        in broken({"least_accuracy": 100})["least_accuracy"]
    )
    pairs = chain.from_iterable(one.pairs for one in plain.settings)
    gap = 100 * max(pair.outcomes.difference.upper_bound for pair in pairs)
    assert broken({"largest_outcome_gap": gap + 0.1, "least_accuracy": 1}) == {}
    assert "is not known (no DP)" in broken({"most_spent": 10_000})["most_spent"]
    assert broken({"largest_outcome_gap": gap - 0.1})
    pairs = chain.from_iterable(one.pairs for one in plain.settings)
    wrong = 100 * max(pair.wrongly.difference.upper_bound for pair in pairs)
    assert broken({"largest_wrongly_gap": wrong + 0.1}) == {}
    sentence = broken({"largest_wrongly_gap": wrong - 0.1})["largest_wrongly_gap"]
    assert f"apart by as much as {wrong:.1f} (" in sentence


def test_a_test_of_one_s_own_holds_a_release_within_limits(plain):
    pcer.assert_within(release(), largest_exposure=99)
    with pytest.raises(AssertionError) as one:
        pcer.assert_within(release(), largest_exposure=50)
    assert str(one.value).startswith("largest_exposure: limit 50 of 100; ")
    with pytest.raises(AssertionError, match=r"; 1 more\.$"):
        pcer.assert_within(release(), largest_exposure=50, largest_difference=0.1)
    with pytest.raises(pcer.InputError, match="needs a limit"):
        pcer.assert_within(release())


def test_what_a_rule_promises_to_groups_is_held_as_in_a_recommendation():
    """Setting a has epsilon 5, of which a rule promises everybody .2, the others 1."""
    made = tree()
    promise = {"kind": "promise", "mode": "exact", "accountant": "rdp"}
    made["bounds"] = [
        {
            **promise,
            "model": model,
            "epsilon": GRID[model][0],
            "group": name,
            "mean": 0.2,
        }
        for model in GRID
        for name in ("men", "women")
    ]
    settings = pcer.recommend(released(made), most_spent=0.3).settings
    assert {setting.answer for setting in settings} == {"holds"}
    assert broken({"most_spent": 0.3}, made) == {}
    assert "may have spent 0.2" in broken({"most_spent": 0.1}, made)["most_spent"]
    for row in made["bounds"]:
        if (row["model"], row["group"]) == ("c", "women"):
            row["mean"] = 0.4
    found = broken({"most_spent": 0.3}, made)["most_spent"]
    assert "women may have spent 0.4 (c, ε = 10)" in found
    assert "men may have" not in found.replace("women", "")


def test_least_accuracy_varies_over_splits_as_in_a_recommendation():
    """Two seeds of each split: the runs of one split are averaged first."""
    made = tree()
    right = np.array([run["groups"]["men"]["test"]["accuracy"] for run in made["runs"]])
    by_setting = 100 * right.reshape(len(GRID), SPLITS)
    made["runs"] += [{**run, "seed": run["seed"] + SPLITS} for run in made["runs"]]
    error = by_setting.std(axis=1, ddof=1) / np.sqrt(SPLITS)
    tail = 0.05 / len(GRID)
    least = (by_setting.mean(axis=1) - stats.t.isf(tail, SPLITS - 1) * error).min()
    assert broken({"least_accuracy": least - 0.001}, made) == {}
    assert broken({"least_accuracy": least + 0.001}, made)
    settings = pcer.recommend(released(made), least_accuracy=50).settings
    lowest = min(setting.numbers[-1].lower for setting in settings)
    assert lowest == pytest.approx(least)
