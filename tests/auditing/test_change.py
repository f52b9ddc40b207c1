"""Two releases beside each other: who is matched with whom, what is refused, what is said."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import jsonschema
import numpy as np
import pytest

import pcer
from pcer.auditing import ChangeVerdict, comparison_schema
from pcer.release import Release, parse_release
from tests.pages import many_groups, with_models
from tests.simulate_changes import TwoModels, draw_both

ROOT = Path(__file__).parents[2]
WORLD = TwoModels(people=(400, 700), old=(0.05, 0.05), new=(0.05, 0.2), n_splits=10)


def edited(release: Release, **subject) -> Release:
    tree = json.loads(release.to_json())
    tree["subject"] |= subject
    return parse_release(tree, file="edited")


def with_digest(release: Release, digest: str | None) -> Release:
    tree = json.loads(release.to_json())
    tree["provenance"] = {} if digest is None else {"data_digest": digest}
    return parse_release(tree, file="edited")


@pytest.fixture(scope="module")
def both() -> tuple[Release, Release]:
    return draw_both(WORLD, np.random.default_rng(3))


@pytest.fixture(scope="module")
def changes(both) -> pcer.Changes:
    return pcer.compare(*both)


def test_a_planted_worsening_is_found_and_named(both, changes):
    assert changes.verdict is ChangeVerdict.WORSE
    (setting,) = changes.settings
    assert setting.n_paired == 10
    assert [row.verdict.value for row in setting.groups] == ["cannot_be_told", "worse"]
    assert setting.pairs[0].verdict is ChangeVerdict.WORSE
    audits = [pcer.audit(one, cost="overfitting_gap").budgets[0] for one in both]
    for row in setting.groups:
        old, new = (audit.groups[row.group].cost.value for audit in audits)
        assert (row.old, row.new) == (pytest.approx(old), pytest.approx(new))
        assert row.change == pytest.approx(new - old)
        assert row.change <= row.most
    assert "in g1" in changes.headline
    assert "the difference between g0 and g1 grew" in changes.headline
    assert changes.old.release_sha256 == both[0].sha256
    assert changes.new.title == both[1].title


def test_the_other_way_round_it_has_improved(both):
    back = pcer.compare(both[1], both[0])
    assert back.verdict is ChangeVerdict.IMPROVED
    assert back.headline.startswith("Improved: in g1")
    assert "shrank" in back.headline


def test_the_same_release_cannot_be_told_with_a_limit(both):
    same = pcer.compare(both[0], both[0])
    assert same.verdict is ChangeVerdict.CANNOT_BE_TOLD
    rows = same.settings[0].rows
    assert all(row.change == 0 and row.p_worse == 1 and row.most > 0 for row in rows)
    assert same.headline.startswith("Not shown to be worse or better: no group's exposure has")
    assert f"{100 * max(row.most for row in same.settings[0].groups):.2g} in 100" in same.headline


def test_holm_counts_every_group_and_pair(changes):
    rows = changes.settings[0].rows
    alone = sorted((row.p_worse_alone, row.p_worse) for row in rows)
    steps = [p * (len(alone) - k) for k, (p, _) in enumerate(alone)]
    expected = np.minimum(1, np.maximum.accumulate(steps))
    assert [p for _, p in alone] == pytest.approx(expected)


def test_splits_are_paired_only_where_the_data_are_the_same(both):
    old, new = both
    for digest in (None, "sha256:other"):
        apart = pcer.compare(old, with_digest(new, digest))
        assert apart.settings[0].n_paired is None
        assert not apart.same_people
        paired = pcer.compare(old, new)
        pairs = zip(apart.settings[0].groups, paired.settings[0].groups, strict=True)
        assert all(one.standard_error > two.standard_error for one, two in pairs)


def test_splits_of_the_same_name_and_other_sizes_are_others(both):
    old, new = both
    tree = json.loads(new.to_json())
    names = [run["split"] for run in tree["runs"]]
    for run, name in zip(tree["runs"], [*names[1:], names[0]], strict=True):
        run["split"] = name
    found = pcer.compare(old, parse_release(tree, file="turned"))
    assert found.same_people
    assert found.settings[0].n_paired is None


def test_groups_in_another_order_are_matched_by_name(both, changes):
    old, new = both
    turned = edited(new, groups=["g1", "g0"])
    found = pcer.compare(old, turned)
    assert found.settings == changes.settings


@pytest.mark.parametrize(
    ("subject", "sentence"),
    [
        ({"attribute": "age"}, "their attribute differ: the old one has group, the new one age"),
        ({"outcome": "harm"}, "their outcome differ"),
    ],
)
def test_what_cannot_be_compared_is_one_sentence(both, subject, sentence):
    with pytest.raises(pcer.InputError, match=sentence):
        pcer.compare(both[0], edited(both[1], **subject))


def test_other_groups_costs_and_splits_are_refused(both):
    old, new = both
    with pytest.raises(pcer.InputError, match="their groups differ: the old one has g0 and g1"):
        pcer.compare(old, many_groups(["g0", "g2"], attribute="group", dataset="d"))
    with pytest.raises(pcer.PlanError, match="the old release does not carry lira_advantage"):
        pcer.compare(old, new, cost="lira_advantage")
    with pytest.raises(pcer.InputError, match="compare takes two releases, not this str"):
        pcer.compare("old.release.json", new)
    training = new.training.model_copy(update={"split_kind": "other"})
    with pytest.raises(pcer.InputError, match="the new release does not say that its splits"):
        pcer.compare(old, new.model_copy(update={"training": training}))


def test_a_contradicted_release_is_refused(both):
    tree = json.loads(both[1].to_json())
    for run in tree["runs"]:  # every split the same tables: no random split gives that
        run["groups"] = tree["runs"][0]["groups"]
    with pytest.raises(pcer.InputError, match="the counts of the new release contradict"):
        pcer.compare(both[0], parse_release(tree, file="edited"))


def test_attacks_by_shadow_models_need_as_many_splits():
    release = pcer.read_release(ROOT / "examples" / "compas-forest.release.json")
    assert pcer.compare(release, release).cost == "rmia_advantage"
    fewer = json.loads(release.to_json())
    fewer["runs"] = fewer["runs"][:12]
    new = parse_release(fewer, file="fewer")
    assert pcer.compare(release, new).cost == "paired_confidence"
    with pytest.raises(pcer.PlanError, match="more splits make a stronger attack"):
        pcer.compare(release, new, cost="lira_advantage")


def test_settings_are_matched_by_model_and_budget():
    old = with_models(many_groups(["a", "b"]), ["forest", "logistic"])
    new = with_models(many_groups(["a", "b"]), ["forest"])
    found = pcer.compare(old, new)
    assert [one.name for one in found.settings] == ["forest, ε = 1", "forest, no-DP"]
    assert found.left_out == ["old: logistic, 1", "old: logistic, no-DP"]
    chosen = pcer.compare(old, new, settings="logistic, none=forest, none")
    assert [one.name for one in chosen.settings] == ["logistic, no-DP → forest, no-DP"]
    assert len(pcer.compare(old, new, settings=["forest, 1"]).settings) == 1
    with pytest.raises(pcer.InputError, match="the setting 'tree' is not in both releases"):
        pcer.compare(old, new, settings="tree")
    with pytest.raises(pcer.InputError, match="no setting is in both releases"):
        pcer.compare(old, with_models(many_groups(["a", "b"]), ["tree"]))


def test_the_only_setting_of_each_is_compared_whatever_its_name(both):
    named = with_models(both[1], ["new net"])
    found = pcer.compare(both[0], named)
    assert [one.name for one in found.settings] == ["no-DP → new net, no-DP"]


def test_what_it_writes_holds_its_schema(both, changes):
    validator = jsonschema.Draft202012Validator(comparison_schema())
    for one in (changes, pcer.compare(both[0], both[0])):
        tree = json.loads(one.to_json())
        validator.validate(tree)
        assert tree == one.to_tree()
    published = json.loads((ROOT / "docs" / "schemas" / "comparison.schema.json").read_text())
    assert published == comparison_schema()


def test_models_trained_on_another_share_are_told():
    nothing = replace(WORLD, old=(0.0, 0.0), new=(0.0, 0.0))
    both = draw_both(nothing, np.random.default_rng(4))
    tree = json.loads(both[1].to_json())
    for run in tree["runs"]:
        for tables in run["groups"].values():
            tables["train"], tables["test"] = tables["test"], tables["train"]
    found = pcer.compare(both[0], parse_release(tree, file="turned"))
    assert any("trained on 70 of 100 records and the new ones on 30" in x for x in found.account)
