"""Several versions: which setting is followed, by which attack, what is compared."""

import json
from pathlib import Path

import jsonschema
import pytest

import pcer
from tests.commands import passed
from tests.deciding.changed import edited
from tests.pages import many_groups

ROOT = Path(__file__).parents[2]


def test_a_trend_compares_the_last_with_the_first_and_describes_the_rest(both, changes):
    found = pcer.trend([both[0], both[1], both[0], both[1]])
    assert (found.change, found.positions, len(found.versions)) == (changes, [0] * 4, 4)
    assert pcer.trend([both[0], both[1], both[0]]).change.verdict == "same_release"
    assert found.versions[:2] == [pcer.audit(release) for release in both]
    assert found.settings[1] is found.versions[1].settings[0]
    tree = json.loads(found.to_json())
    jsonschema.Draft202012Validator(pcer.Trend.file_schema()).validate(tree)
    published = json.loads(
        (ROOT / "docs" / "schemas" / "trend.schema.json").read_text()
    )
    assert published == pcer.Trend.file_schema()
    several = many_groups(["a", "b"])
    least = pcer.trend([several] * 2)
    named = pcer.trend([several] * 2, setting="1")
    assert [each.settings[0].epsilon for each in (least, named)] == [None, 1.0]
    forest = pcer.read_release(ROOT / "examples" / "compas-forest.release.json")
    fewer = edited(forest, lambda tree: tree.update(runs=tree["runs"][:12]))
    mixed = pcer.trend([forest, fewer])  # RMIA is stronger with more splits
    assert (
        {each.attack for each in mixed.versions}
        == {mixed.attack}
        == {"paired_confidence"}
    )
    for releases, more in (
        ([forest], {}),
        ([several] * 2, {"setting": "7"}),
        ([several, forest], {}),
    ):
        with pytest.raises(pcer.InputError):
            pcer.trend(releases, **more)


def test_a_trend_that_loses_its_attacks_has_less_evidence_and_no_improvement():
    paths = [
        ROOT / "examples" / f"compas-{name}.release.json"
        for name in ("forest", "logistic")
    ]
    found = pcer.trend(paths)
    assert found.change.verdict == "less_evidence"
    assert found.change.headline.startswith("Less evidence than before: RMIA, ")
    assert "rmia_advantage" in found.change.missing_attacks
    rows = found.change.settings[0].rows
    assert {row.verdict for row in rows} <= {"less_evidence", "cannot_be_told"}

    command = ["trend", *map(str, paths)]
    told = passed(*command)
    assert "less evidence than before" in told.stdout
    assert "improved" not in told.stdout


def test_the_newest_is_held_to_a_policy_and_less_evidence_breaks_it(tmp_path):
    policy = tmp_path / "policy.toml"
    policy.write_text("largest_exposure = 100\n")
    forest, logistic = (
        ROOT / "examples" / f"compas-{name}.release.json"
        for name in ("forest", "logistic")
    )
    for verb in ("trend", "compare"):
        told = passed(verb, forest, logistic, "--policy", policy, code=1)
        assert "policy: less_evidence: Less evidence than before" in told.stderr
        passed(verb, forest, forest, "--policy", policy)
    broken = pcer.compare(forest, forest, policy=pcer.Policy(largest_exposure=51))
    assert [rule.rule for rule in broken.broken_rules] == ["largest_exposure"]
    by_audit = pcer.audit(forest, pcer.Plan(policy=pcer.Policy(largest_exposure=51)))
    assert broken.broken_rules == by_audit.broken_rules
