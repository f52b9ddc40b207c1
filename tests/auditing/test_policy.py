"""Policies: each rule holds, and each is broken, in one sentence that every output repeats."""

from pathlib import Path
from xml.etree import ElementTree as Xml

import numpy as np
import pytest

import pcer
from pcer.auditing.policy import read_policy
from pcer.cli.audit import print_audits
from pcer.errors import InputError
from pcer.release.format import parse_release
from pcer.report import to_junit, to_latex_tables
from tests.worlds.lies import honest, told

QUICK = {"resamples": 20, "null_draws": 20}


def careful() -> dict:
    return honest(np.random.default_rng(1))


def release(tree: dict | None = None) -> pcer.Release:
    return parse_release(tree or careful(), file="x")


def broken(policy: dict, tree: dict | None = None) -> dict[str, str]:
    """Rules that are broken, with their sentences."""
    plan = pcer.Plan(**QUICK, policy=pcer.Policy(**policy))
    return {one.rule: one.sentence for one in pcer.audit(release(tree), plan).broken_rules}


@pytest.fixture(scope="module")
def plain() -> pcer.Audit:
    return pcer.audit(release(), pcer.Plan(**QUICK))


def test_what_is_not_asked_for_is_not_broken_and_a_careful_release_is_strict_enough(plain):
    assert broken({}) == {}
    assert plain.policy_lines == []
    assert broken({"strict": True, "required_costs": ["paired_gap", "overfitting_gap"]}) == {}


def test_strictness_asks_for_what_a_reader_needs():
    tree = careful()
    tree["training"]["split_kind"] = "other"
    for run in tree["runs"][:3]:
        del run["split"]
    tree["runs"][5]["split"] = "its own"
    tree["runs"][5]["groups"]["g0"]["train"] = {"accuracy": 0.9}
    found = broken({"strict": True, "min_splits": 30, "required_costs": ["lira_advantage"]}, tree)
    assert found.pop("min_splits").startswith("It asks for 30 splits, and ε = 2.54 has ")
    assert found == {
        "split_kind": 'It asks for random splits, and the release says "other".',
        "split_ids": "It asks for the name of every run's split, and 3 of 20 runs name none.",
        "sizes": "It asks for the number of records of every rate, and 1 have none.",
        "required_costs": "It asks for LiRA, which the release does not carry.",
    }
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


def test_limits_are_held_against_the_most_that_the_data_allow(plain):
    groups = [group for one in plain.budgets for group in one.groups.values()]
    pairs = [pair for one in plain.budgets for pair in one.pairs]
    for rule, most in (
        ("largest_exposure", max(group.cost.upper_limit_together for group in groups)),
        ("largest_difference", max(pair.exposure.upper_limit_together for pair in pairs)),
        ("largest_detectable", max(group.detectable_cost for group in groups)),
    ):
        assert broken({rule: most}) == {}  # a limit is still tolerated
        assert set(broken({rule: most * 0.999})) == {rule}


def test_what_cannot_be_told_is_not_tolerated():
    tree = careful()
    tree["pooled_exposure"] = []
    unsized = {"train": {"accuracy": 0.5}, "test": {"accuracy": 0.5, "positive_rate": 0.5}}
    for run in tree["runs"]:
        run["groups"] = dict.fromkeys(run["groups"], unsized)
    found = broken({"largest_exposure": 0.5, "largest_detectable": 0.5}, tree)
    assert set(found) == {"largest_exposure", "largest_detectable"}
    assert "for g0 at ε = 2.54 it cannot be told" in found["largest_exposure"]


def test_verdicts_fail(plain):
    found = broken({"fail_on": [plain.budgets[0].verdict.value]})
    assert found["fail_on"].startswith(f'The verdict "{plain.budgets[0].verdict.words}" is given')
    missing = next(v for v in ("insufficient_data", "not_resolved") if v not in plain.outcomes())
    assert broken({"fail_on": [missing]}) == {}


@pytest.mark.parametrize(
    ("policy", "n"), [({"min_splits": 99, "largest_exposure": 0.0}, 2), ({"min_splits": 2}, 0)]
)
def test_outputs_say_whether_it_holds_and_each_broken_rule(policy, n, capsys, plain):
    """Pages, Markdown and edited audits: the golden files and verification of the report."""
    audit = pcer.audit(release(), pcer.Plan(**QUICK, policy=pcer.Policy(**policy)))
    first, *sentences = audit.policy_lines
    assert first == (f"The policy is broken: {n} of its rules." if n else "The policy holds.")
    assert sentences == [one.sentence for one in audit.broken_rules]
    print_audits([audit])
    terminal = " ".join(capsys.readouterr().out.split())
    assert all(line in terminal for line in (first, *sentences))
    assert first in to_latex_tables([audit])
    failures = [one.get("message") for one in Xml.fromstring(to_junit([audit], [])).iter("failure")]
    assert failures == sentences
    assert len(sentences) == n
    assert audit.plan_sha256 != plain.plan_sha256


@pytest.mark.parametrize(
    ("text", "field"),
    [
        ("stict = true", "stict"),
        ('fail_on = ["disparity"]', "fail_on[0]"),
        ("min_splits = 0", "min_splits"),
        ("strict = 1", "strict"),
        ("strict = ", None),
        ("largest_exposure = nan", "largest_exposure"),
    ],
)
def test_a_bad_file_is_one_sentence(tmp_path, text, field):
    path = tmp_path / "pcer.toml"
    path.write_text(text)
    with pytest.raises(InputError) as error:
        read_policy(path)
    assert error.value.field == field
    assert str(path) in str(error.value)


def test_the_example_of_the_page_is_a_policy(tmp_path):
    page = (Path(__file__).parents[2] / "docs" / "reports.md").read_text()
    (tmp_path / "pcer.toml").write_text(page.partition("```toml\n")[2].partition("```")[0])
    policy = read_policy(tmp_path / "pcer.toml")
    assert policy.strict
    assert policy.required_costs == ["lira_advantage"]
    assert set(pcer.Policy.model_fields) == set(policy.model_dump(exclude_none=True))
