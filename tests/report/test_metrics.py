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
from pcer.auditing import sentences
from pcer.measuring.plan import Verdict
from pcer.report.formats.numbers import by_release, slugs
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


def times(per_one: float, value: float | None, start: float = 0) -> float | None:
    return None if value is None else start + per_one * value


def largest(values: list[float | None]) -> float | None:
    """Not known where one is not, or there is none."""
    return max(values) if values and None not in values else None


def groups_by_hand(setting, per_success, slug_of) -> dict[str, float | None]:
    """The numbers of groups from the audit's file, and the largest of them."""
    found = {}
    of_large_groups: dict[str, list[float | None]] = {"value": [], "upper_bound": []}
    for name, group in setting["groups"].items():
        for field, end in (("value", ""), ("upper_bound", "_at_most")):
            exposure = times(per_success, group["exposure"][field], 50)
            found[f"exposure_{slug_of[name]}{end}"] = exposure
            if not group["too_few"]:
                of_large_groups[field].append(exposure)
        found[f"outcome_{slug_of[name]}"] = times(100, group["benefit"]["mean"])
    found["exposure_max"] = largest(of_large_groups["value"])
    found["exposure_max_at_most"] = largest(of_large_groups["upper_bound"])
    return found


def gap_by_hand(setting, axis: str, per_one: float) -> tuple[float | None, ...]:
    """The largest difference of a setting's pairs, and the most that it may be."""
    answers = [pair[axis] for pair in setting["pairs"]]
    tested = [
        answer["difference"] for answer in answers if answer["p_value"] is not None
    ]
    values = [difference["value"] for difference in tested]
    sizes = [None if value is None else abs(value) for value in values]
    bounds = [difference["upper_bound"] for difference in tested]
    return times(per_one, largest(sizes)), times(per_one, largest(bounds))


def by_hand(setting, published, per_success, slug_of) -> dict[str, float | None]:
    """The numbers of a setting from the audit's file, one by one."""
    found = groups_by_hand(setting, per_success, slug_of)
    gap, gap_at_most = gap_by_hand(setting, "exposure", per_success)
    found |= {"exposure_gap": gap, "exposure_gap_at_most": gap_at_most}
    gap, gap_at_most = gap_by_hand(setting, "outcomes", 100)
    found |= {"outcome_gap": gap, "outcome_gap_at_most": gap_at_most}
    pairs = [pair["pcer_disparity"] for pair in published["pairs"]]
    widest = sorted(pairs, key=lambda pair: -abs(pair["mean"] or 0))[0]
    if widest["null_mean"] is not None:
        found |= {"disparity": widest["mean"], "disparity_null": widest["null_mean"]}
    found["accuracy"] = times(100, setting["accuracy"]["mean"])
    return found


EVERY_AUDIT = pytest.mark.parametrize("case", [*SAMPLES, mixed_audit, hostile_audit])


def audit_of(case):
    return case() if callable(case) else audited(case)


def is_evidence(audit, setting) -> bool:
    """Whether the row of a setting says that records are memorised."""
    return sentences.of(audit, setting).rows[4].answer.startswith("Only that records")


@EVERY_AUDIT
def test_names_are_those_that_others_take_and_values_are_numbers(case):
    audit = audit_of(case)
    found = audit.metrics()
    for name, value in found.items():
        assert PROMETHEUS.fullmatch(name)
        assert MLFLOW.fullmatch(name)
        assert type(value) in (int, float)
        assert math.isfinite(value)
    settings = {name.partition("__")[2] for name in found} - {""}
    assert len(settings) == (len(audit.settings) if len(audit.settings) > 1 else 0)


@EVERY_AUDIT
def test_the_numbers_are_the_audits_in_units_of_100(case):
    audit = audit_of(case)
    tree = audit.to_tree()
    is_gain = audit.attack_kind.scale.unit.endswith(("accuracies", "probabilities"))
    published = []
    for model in tree["published"]:
        published += model["settings"]
    main = tree["main_setting"]
    expected = by_hand(
        tree["settings"][main],
        published[main],
        50 if is_gain else 100,
        slugs(audit.subject.groups),
    )
    if "disparity" in expected:
        expected["disparity_is_evidence"] = int(is_evidence(audit, audit.told))
    found = tree["settings"][main]["answers"]["found"]
    expected["alarm"] = int(any(one["is_alarm"] for one in found))
    expected["left_out"] = tree["subject"]["n_missing_group"]
    known = {}
    for name, value in expected.items():
        if value is not None:
            known[f"pcer_{name}"] = value
    found = audit.metrics()
    main_numbers = {name: value for name, value in found.items() if "__" not in name}
    assert main_numbers == pytest.approx(known, rel=1e-9)


@EVERY_AUDIT
def test_a_disparity_is_evidence_where_the_sentence_says_so(case):
    audit = audit_of(case)
    n_marked = 0
    for name, value in audit.metrics().items():
        n_marked += "is_evidence__" in name and value == 1
    n_said = sum(is_evidence(audit, setting) for setting in audit.settings)
    assert n_marked == (n_said if len(audit.settings) > 1 else 0)


@EVERY_AUDIT
def test_without_enough_data_no_disparity_is_evidence(case):
    audit = audit_of(case)
    unclear = audit.model_copy(update={"verdict": Verdict.INSUFFICIENT_DATA})
    for name, value in unclear.metrics().items():
        assert not ("is_evidence" in name and value)


def test_prometheus_writes_and_reads_them():
    found = hostile_audit().metrics()
    registry = CollectorRegistry()
    for name, value in found.items():
        Gauge(name, "of an audit", registry=registry).set(value)
    read = {}
    for family in text_string_to_metric_families(generate_latest(registry).decode()):
        for sample in family.samples:
            read[sample.name] = sample.value
    assert read == found


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
    with_epsilon = pcer.audit(release, QUICK, attack="overfitting_gap").metrics()
    assert with_epsilon.keys() - found.keys() == set()


def test_an_attack_of_another_unit_has_names_of_its_own():
    tree = many_groups(["a", "b"]).to_tree()
    for run in tree["runs"]:
        for cell in run["groups"].values():
            cell["exposure"] = {"their_attack": {"value": 0.2, "standard_error": 0.01}}
    release = pcer.Release.model_validate(tree)
    found = pcer.audit(release, QUICK, attack="their_attack").metrics()
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
