"""How are audits and comparisons written for a test runner?

``pcer audit --junit`` and ``pcer compare --junit`` call this file. A release is a suite
and a rule is a test, which fails where the rule is broken. To add a test: a ``Case`` of
``_cases``; rules of policies come by themselves.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, NamedTuple
from xml.etree import ElementTree as Xml

from pcer import wording
from pcer.auditing.policy import STRICT_RULES, statement_met
from pcer.auditing.record import Audit
from pcer.deciding.compare import Changes, ChangeVerdict, worded
from pcer.files import as_shown
from pcer.measuring.plan import Policy
from pcer.release.attack_kinds import attack_kind
from pcer.report.tables import background
from pcer.report.tables.decisions import quantity

# Units of limits; those without a row are a success or an accuracy.
OF_100 = " of 100"
UNITS = {
    "min_splits": " splits",
    "most_spent": " of epsilon",
    "largest_difference": " points",
    "largest_outcome_gap": " points",
    "largest_odds_gap": " points",
    "largest_disparity": " of PCER",
    "largest_wrongly_gap": " points",
}


class Case(NamedTuple):
    """One test of a suite, which failed where there is a failure."""

    suite: str
    name: str
    failure: str | None
    text: str


class Suite(NamedTuple):
    """The tests of one release or comparison."""

    name: str
    properties: dict[str, str]
    cases: list[Case]


def to_junit(audits: Sequence[Audit], fail_on: Sequence[str]) -> str:
    """One suite per release: a test per rule, or per setting where there is none.

    The rules are the statements of ``fail_on`` and those of the plan's policy.
    """
    suites = []
    for audit in map(as_shown, audits):
        name = f"pcer {background.subject_name(audit)}"
        groups = ", ".join(audit.told.named)
        properties = {"verdict": audit.verdict.value, "groups": groups}
        cases = list(_cases(audit, fail_on, name))
        suites.append(Suite(name, properties, cases))
    return _junit_text(suites)


def _cases(audit: Audit, fail_on: Sequence[str], suite: str) -> Iterator[Case]:
    policy = audit.plan.policy or Policy()
    if policy == Policy() and not fail_on:
        for setting in audit.settings:
            yield Case(suite, setting.name.full, None, setting.headline)
    for statement in dict.fromkeys([*fail_on, *policy.fail_on]):
        failure = statement_met(audit, statement)
        text = failure or wording.say("policy", "not_met")
        yield Case(suite, f"fail_on: {statement}", failure, text)
    limits = policy.model_dump(exclude={"fail_on"}, exclude_defaults=True)
    for rule, limit in limits.items():
        failure = _broken(audit, policy, rule)
        text = failure or _kept(rule, limit)
        yield Case(suite, f"policy: {rule}", failure, text)


def _broken(audit: Audit, policy: Policy, rule: str) -> str | None:
    """How a rule is broken; strictness also by its parts that have no own case."""
    rules = [rule]
    if rule == "strict":
        limits = policy.model_dump(exclude_none=True)
        rules += [part for part in STRICT_RULES if part not in limits]
    sentences = [one.sentence for one in audit.broken_rules if one.rule in rules]
    return " ".join(sentences) or None


def _kept(rule: str, limit: Any) -> str:
    if rule == "strict":
        return wording.say("policy", "kept_strict")
    if rule == "required_attacks":
        names = [attack_kind(attack).phrase for attack in limit]
        return wording.say(
            "policy", "kept_required_attacks", limit=wording.listed(names)
        )
    unit = UNITS.get(rule, OF_100)
    if limit == 1:
        unit = unit.removesuffix("s")
    return wording.say("policy", "kept", rule=rule, limit=f"{limit:g}{unit}")


def changes_to_junit(changes: Changes) -> str:
    """One suite, one test for every exposure and difference; what is worse fails."""
    changes = as_shown(changes)
    properties = {"verdict": changes.verdict.value}
    for name, release in (("old", changes.old), ("new", changes.new)):
        properties[name] = release.title
        properties[f"{name} sha256"] = release.release_sha256
    name = f"pcer compare {changes.old.title} and {changes.new.title}"
    return _junit_text([Suite(name, properties, list(_change_cases(changes)))])


def _change_cases(changes: Changes) -> Iterator[Case]:
    for setting in changes.settings:
        suite = f"pcer compare {setting.name}"
        for row in setting.rows:
            failure = None
            text = row.verdict.words
            if row.verdict is ChangeVerdict.WORSE:
                failure = "worse"
                sentence = worded(row, setting.new, changes.attack_kind, several=False)
                text = f"{wording.capital(sentence)}."
            yield Case(suite, quantity(row.groups, row.axis), failure, text)


def _junit_text(suites: Iterable[Suite]) -> str:
    root = Xml.Element("testsuites")
    for suite in suites:
        _add_suite(root, suite)
    Xml.indent(root)
    written = Xml.tostring(root, "unicode")
    return f'<?xml version="1.0" encoding="UTF-8"?>\n{written}\n'


def _add_suite(root: Xml.Element, suite: Suite) -> None:
    n_failed = sum(case.failure is not None for case in suite.cases)
    counts = {"tests": str(len(suite.cases)), "failures": str(n_failed), "errors": "0"}
    element = Xml.SubElement(root, "testsuite", {"name": suite.name, **counts})
    properties = Xml.SubElement(element, "properties")
    for name, value in suite.properties.items():
        Xml.SubElement(properties, "property", {"name": name, "value": value})
    for case in suite.cases:
        names = {"classname": case.suite, "name": case.name}
        test = Xml.SubElement(element, "testcase", names)
        if case.failure is None:
            Xml.SubElement(test, "system-out").text = case.text
        else:
            failure = Xml.SubElement(test, "failure", {"message": case.failure})
            failure.text = case.text
