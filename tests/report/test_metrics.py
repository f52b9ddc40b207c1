"""Flat numbers: names that other programs take, values that the audit's file has."""

import hashlib
import itertools
import math
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st
from prometheus_client import CollectorRegistry, Gauge, generate_latest
from prometheus_client.parser import text_string_to_metric_families

import pcer
from pcer.auditing.sentences.certainty import paper_words
from pcer.measuring.verdict import Verdict
from pcer.report.formats.metrics import by_release, slugs
from tests.pages import (
    QUICK,
    SAMPLES,
    audited,
    hostile_audit,
    many_groups,
    mixed_audit,
    with_models,
)

PROMETHEUS = re.compile("[a-zA-Z_:][a-zA-Z0-9_:]*")
MLFLOW = re.compile(r"[/\w.\- :]{1,250}", re.ASCII)
SLUG = re.compile("[a-z0-9]+(_[a-z0-9]+)*")


def by_hand(setting, published, per_success, slug_of) -> dict[str, float | None]:
    """The numbers of a setting from the audit's file, one by one."""
    found = {}
    for name, group in setting["groups"].items():
        value, bound, rate = (
            group["cost"]["value"],
            group["cost"]["upper_bound"],
            group["benefit"],
        )
        found[f"exposure_{slug_of[name]}"] = (
            None if value is None else 50 + per_success * value
        )
        found[f"exposure_{slug_of[name]}_at_most"] = (
            None if bound is None else 50 + per_success * bound
        )
        found[f"outcome_{slug_of[name]}"] = (
            None if rate["mean"] is None else 100 * rate["mean"]
        )
    for end in ("", "_at_most"):
        values = [
            found[f"exposure_{slug_of[name]}{end}"]
            for name, group in setting["groups"].items()
            if not group["too_few"]
        ]
        found[f"exposure_max{end}"] = (
            None if None in values or not values else max(values)
        )
        for axis, key, unit in (
            ("exposure", "exposure_gap", per_success),
            ("outcomes", "outcome_gap", 100),
        ):
            field = "upper_bound" if end else "value"
            tested = [
                pair[axis]
                for pair in setting["pairs"]
                if pair[axis]["p_value"] is not None
            ]
            sizes = [answer["difference"][field] for answer in tested]
            known = sizes and None not in sizes
            found[f"{key}{end}"] = (
                max(abs(size) * unit for size in sizes) if known else None
            )
    pairs = [pair["pcer_disparity"] for pair in published["pairs"]]
    widest = sorted(pairs, key=lambda pair: -abs(pair["mean"] or 0))[0]
    if widest["null_mean"] is not None:
        found |= {"disparity": widest["mean"], "disparity_null": widest["null_mean"]}
    accuracy = setting["accuracy"]["mean"]
    return found | {"accuracy": None if accuracy is None else 100 * accuracy}


@pytest.mark.parametrize("case", [*SAMPLES, mixed_audit, hostile_audit])
def test_the_numbers_are_the_audits_in_units_of_100_under_names_that_others_take(case):
    audit = case() if callable(case) else audited(case)
    found, tree, names = audit.metrics(), audit.to_tree(), slugs(audit.subject.groups)
    assert all(PROMETHEUS.fullmatch(name) and MLFLOW.fullmatch(name) for name in found)
    assert all(
        type(value) in (int, float) and math.isfinite(value) for value in found.values()
    )
    per_success = {"accuracies": 50, "probabilities": 50}.get(
        audit.proxy.scale.unit.split()[-1], 100
    )
    paper = [one for published in tree["published"] for one in published["budgets"]]
    expected = by_hand(
        tree["budgets"][tree["telling"]], paper[tree["telling"]], per_success, names
    )
    said = paper_words(audit).partition(" (")[0]
    if "disparity" in expected:
        expected["disparity_is_evidence"] = int("shows memorisation" in said)
    red = ("double_disadvantage", "exposure_differs")
    expected["alarm"] = int(tree["verdict"] in red)
    expected["left_out"] = tree["subject"]["n_missing_group"]
    known = {
        f"pcer_{name}": value for name, value in expected.items() if value is not None
    }
    plain = {name: value for name, value in found.items() if "__" not in name}
    assert plain == pytest.approx(known, rel=1e-9)
    ends = {name.partition("__")[2] for name in found} - {""}
    assert len(ends) == (len(audit.budgets) if len(audit.budgets) > 1 else 0)
    shown = {
        f"epsilon_{epsilon.replace('.', '_')}"
        for epsilon in re.findall(r"\d[\d.]*", said)
    }
    shown |= {"no_dp"} if "without privacy" in said else set()
    marked = [
        name for name, value in found.items() if "is_evidence__" in name and value
    ]
    assert {name.partition("__")[2] for name in marked} == shown
    untold = audit.model_copy(update={"verdict": Verdict.INSUFFICIENT_DATA}).metrics()
    assert not [
        name for name, value in untold.items() if "is_evidence" in name and value
    ]


def test_prometheus_writes_and_reads_them():
    found, registry = hostile_audit().metrics(), CollectorRegistry()
    for name, value in found.items():
        Gauge(name, "of an audit", registry=registry).set(value)
    families = text_string_to_metric_families(generate_latest(registry).decode())
    assert {
        one.name: one.value for family in families for one in family.samples
    } == found


def test_settings_models_policies_and_several_releases_have_their_names():
    policy = pcer.Policy(min_splits=9, largest_exposure=51)
    release = with_models(many_groups(["a", "b"]), ["max", "net 2"])
    judged = pcer.audit(release, QUICK.model_copy(update={"policy": policy}))
    found = judged.metrics()
    assert found["pcer_broken_rules"] == len(judged.broken_rules) == 2
    assert {
        "pcer_exposure_max__max_epsilon_1",
        "pcer_exposure_b__net_2_no_dp",
    } <= found.keys()
    other = pcer.audit(many_groups(["a", "b"], dataset="other"), QUICK)
    third = pcer.audit(many_groups(["a", "c"], dataset="other"), QUICK)
    several = by_release([judged, other, third, third])
    assert len(several) == 3
    assert several[next(iter(several))] == found
    with_epsilon = pcer.audit(release, QUICK, cost="overfitting_gap").metrics()
    assert with_epsilon.keys() - found.keys() == set()


def test_an_attack_of_another_unit_has_names_of_its_own():
    tree = many_groups(["a", "b"]).to_tree()
    for run in tree["runs"]:
        for cell in run["groups"].values():
            cell["exposure"] = {"their_attack": {"value": 0.2, "standard_error": 0.01}}
    release = pcer.Release.model_validate(tree)
    found = pcer.audit(release, QUICK, cost="their_attack").metrics()
    assert found["pcer_other_exposure_max"] == pytest.approx(20)
    assert "pcer_exposure_max" not in found


TEXTS = st.text(
    st.sampled_from("aA1 _+-ß\u00e9\u0301女½\u202eмx"), min_size=1, max_size=70
)


@given(st.lists(TEXTS, unique=True, max_size=6))
def test_slugs_are_distinct_and_do_not_depend_on_the_order(names):
    found = slugs(names)
    assert len({*found.values()}) == len(names)
    assert all(SLUG.fullmatch(slug) for slug in found.values())
    assert slugs(names[::-1]) == found


def test_names_that_would_hide_another_are_told_apart():
    assert slugs(["Asian + Native American + Other"]) == {
        "Asian + Native American + Other": "asian_native_american_other"
    }
    for name in (
        "max",
        "gap",
        "at most",
        "x at most",
        "a_1234abcd",
        "女性",
        "½",
        "y" * 61,
    ):
        digest = hashlib.sha256(name.encode()).hexdigest()[:8]
        assert slugs([name, "x", "a"])[name].endswith(digest)
    seen: dict[str, str] = {}
    for marks in itertools.product(
        "!?+-*/=&", repeat=6
    ):  # two names, one slug, one short digest
        name = "a" + "".join(marks)
        other = seen.setdefault(hashlib.sha256(name.encode()).hexdigest()[:8], name)
        if other != name:
            break
    assert other != name
    assert len({*slugs([name, other]).values()}) == 2
