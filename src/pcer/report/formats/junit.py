"""How are audits and comparisons written for a test runner?"""

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
from pcer.release.attack_kinds import proxy_named
from pcer.report.formats.terminal import UNBROKEN, terminal_text
from pcer.report.tables import background
from pcer.report.tables.decisions import change_view, quantity
from pcer.report.views import view_of

# Of limits that are no success or accuracy of 100.
UNITS = {"min_splits": " splits", "most_spent": " of epsilon"}


UNITS |= dict.fromkeys(("largest_difference", "largest_outcome_gap"), " points")


def to_junit(audits: Sequence[Audit], fail_on: Sequence[str]) -> str:
    """One suite per release, one test for every rule, ``fail_on`` among them, or per setting."""
    suites = []
    for audit in map(as_shown, audits):
        properties = {
            "verdict": audit.verdict.value,
            "groups": ", ".join(audit.told.named),
        }
        name = f"pcer {background.subject_name(audit)}"
        output = terminal_text(view_of(audit, "full"), UNBROKEN)
        suites.append((name, properties, list(_cases(audit, fail_on, name)), output))
    return junit_text(suites)


class Case(NamedTuple):
    """One test of a suite; it failed where there is a failure."""

    suite: str
    name: str
    failure: str | None
    text: str


def junit_text(suites: Iterable[tuple[str, dict[str, str], list[Case], str]]) -> str:
    """JUnit XML of suites: name, properties, tests, and what a person would read."""
    root = Xml.Element("testsuites")
    for name, properties, cases, output in suites:
        failed = sum(case.failure is not None for case in cases)
        counts = {"tests": str(len(cases)), "failures": str(failed), "errors": "0"}
        suite = Xml.SubElement(root, "testsuite", {"name": name, **counts})
        holder = Xml.SubElement(suite, "properties")
        for key, value in properties.items():
            Xml.SubElement(holder, "property", {"name": key, "value": value})
        for case in cases:
            found = Xml.SubElement(
                suite, "testcase", {"classname": case.suite, "name": case.name}
            )
            if case.failure:
                Xml.SubElement(
                    found, "failure", {"message": case.failure}
                ).text = case.text
            else:
                Xml.SubElement(found, "system-out").text = case.text
        Xml.SubElement(suite, "system-out").text = output
    Xml.indent(root)
    return (
        '<?xml version="1.0" encoding="UTF-8"?>\n'
        + Xml.tostring(root, "unicode")
        + "\n"
    )


def _cases(audit: Audit, fail_on: Sequence[str], suite: str) -> Iterator[Case]:
    """Every rule, which fails where it is broken; without rules every setting with both answers."""
    policy = audit.plan.policy or Policy()
    for budget in audit.budgets if policy == Policy() and not fail_on else ():
        yield Case(suite, background.setting_of(budget), None, budget.headline)
    for statement in dict.fromkeys([*fail_on, *policy.fail_on]):
        met = statement_met(audit, statement)
        yield Case(
            suite, f"fail_on: {statement}", met, met or wording.say("policy", "not_met")
        )
    for key, limit in policy.model_dump(
        exclude={"fail_on"}, exclude_defaults=True
    ).items():
        # what has a case of its own is not part of strictness
        parts = [part for part in STRICT_RULES if getattr(policy, part, None) is None]
        rules = [key, *parts] if key == "strict" else [key]
        broken = [each.sentence for each in audit.broken_rules if each.rule in rules]
        text = " ".join(broken) or _kept(key, limit)
        yield Case(suite, f"policy: {key}", text if broken else None, text)


def _kept(rule: str, limit: Any) -> str:
    """A rule that holds, its limit in the page's units."""
    if rule == "strict":
        return wording.say("policy", "kept_strict")
    if rule == "required_costs":
        names = [proxy_named(attack).phrase for attack in limit]
        return wording.say("policy", "kept_required_costs", limit=wording.listed(names))
    unit = UNITS.get(rule, " of 100").removesuffix("s" * (limit == 1))
    return wording.say("policy", "kept", rule=rule, limit=f"{limit:g}{unit}")


def changes_to_junit(changes: Changes) -> str:
    """One suite, one test for every exposure and difference; what is worse fails."""
    changes = as_shown(changes)
    properties = {"verdict": changes.verdict.value}
    for name, release in (("old", changes.old), ("new", changes.new)):
        properties |= {name: release.title, f"{name} sha256": release.release_sha256}
    cases = []
    for setting in changes.settings:
        for row in setting.rows:
            failure = "worse" if row.verdict is ChangeVerdict.WORSE else None
            suite = f"pcer compare {setting.name}"
            text = row.verdict.words
            if failure:
                text = f"{wording.capital(worded(row, setting.new, changes.proxy, False))}."
            cases.append(Case(suite, quantity(row.groups, row.axis), failure, text))
    name = f"pcer compare {changes.old.title} and {changes.new.title}"
    return junit_text(
        [(name, properties, cases, terminal_text(change_view(changes), UNBROKEN))]
    )
