"""Audits as text: for a terminal, as Markdown, LaTeX and JUnit.

A view lists what is shown in reading order, and each format renders that list. The
sentences are the audit's: both answers first, then one table, the paper's numbers, how
sure, what can be done.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import repeat
from typing import Any, Literal, NamedTuple
from xml.etree import ElementTree as Xml

from pcer.auditing import words
from pcer.auditing.file import Audit
from pcer.auditing.plan import Policy
from pcer.auditing.policy import STRICT_RULES, statement_met
from pcer.errors import InputError
from pcer.files import as_shown
from pcer.release.proxies import proxy_named
from pcer.report import tables
from pcer.report.table import (
    Table,
    latex_text,
    markdown_text,
    table_body,
    to_latex,
    to_markdown,
    wrapped,
)

WIDTH = 80
NARROWEST = 24  # in fewer columns the terminal itself breaks lines
UNBROKEN = 10_000  # columns where lines are not to be broken
# Of limits that are no success or accuracy of 100.
UNITS = {"min_splits": " splits", "most_spent": " of epsilon"}
UNITS |= dict.fromkeys(("largest_difference", "largest_outcome_gap"), " points")
View = Literal["summary", "brief", "short", "full", "paper"]


class Lines(NamedTuple):
    """Sentences under a title."""

    title: str
    sentences: list[str]


def view_of(
    audit: Audit, view: View = "short", also: Sequence[str] = ()
) -> list[Lines | Table]:
    """What a view of an audit shows, in reading order; what has nothing to say is left out.

    The short one stands wherever nobody asked for more. ``brief`` is a short one of few
    words, with bars for formats that have no picture; the paper's has the gap as
    exposure. ``also`` is said after the headline.
    """
    if view == "summary":
        return [Lines(tables.subject_name(audit), [summary_line(audit)])]
    told = audit.told
    is_full = view == "full"
    is_brief = view == "brief"
    if view == "paper":
        above = [words.paper_words(audit), *tables.left_out(audit), *also]
        first = Lines(f"The paper's view: {tables.subject_name(audit)}", above)
        return [first, *tables.paper_tables(audit)]
    about = [
        *words.subject_line(audit, told),
        words.in_setting(told.model, told.epsilon),
    ]
    most_rows = tables.FEW_ROWS if is_brief else None if is_full else tables.MOST_ROWS
    against = [each.sentence for each in audit.declarations if each.caps_verdict]
    sure = [
        *words.how_sure_card(audit, told).sentences,
        *against,
        *tables.left_out(audit),
    ]
    shown: list[Lines | Table] = [
        Lines(
            " · ".join(about),
            [audit.headline, verdict_line(audit), *audit.policy_lines, *also],
        ),
        tables.finding_table(audit, most_rows=most_rows, bars=is_brief),
        tables.paper_strip(
            audit, most_rows=most_rows and min(most_rows, tables.MOST_STRIP_ROWS)
        ),
        Lines("How sure", sure if is_brief else [*audit.trust, audit.choice]),
        Lines("What can be done", audit.next_steps),
    ]
    if is_full:
        shown += [
            Lines("In plain words", audit.account),
            Lines("Every setting", tables.advice(audit)),
            Lines("What was audited", tables.facts(audit)),
            *tables.tables(audit),
        ]
    return [each for each in shown if isinstance(each, Table) or each.sentences]


def verdict_line(audit: Audit) -> str:
    """The verdict in words, and its name for ``--fail-on`` and the docs."""
    return f"{words.badge(audit, audit.told)} [{audit.verdict.value}]"


def summary_line(audit: Audit) -> str:
    """One line for chats: what was audited, both answers, the verdict."""
    where = words.in_setting(audit.told.model, audit.told.epsilon)
    found = [audit.headline, *tables.left_out(audit), verdict_line(audit)]
    return f"{tables.subject_name(audit)}, {where}: {' '.join(found)}"


def setting_line(audit: Audit, called: str) -> str:
    """Both answers in one setting, which a user calls by any of its names."""
    settings = [(each.model, each.epsilon) for each in audit.budgets]
    if (place := words.setting_called(called, settings)) is None:
        has = words.listed(
            [repr(words.short_setting(*setting)) for setting in settings]
        )
        what = f"{tables.subject_name(audit)} has no single setting called {called!r}"
        raise InputError(f"{what}; it has {has}.", field="setting")
    at = audit.budgets[place]
    where = words.capital(words.in_setting(*settings[place]))
    return as_shown(
        f"{where}: {at.headline} {words.badge(audit, at)} [{at.verdict.value}]"
    )


def terminal_parts(
    shown: Iterable[Lines | Table], width: int
) -> Iterator[tuple[str, str]]:
    """Title and body of each, which fit; of sentences only the first are not indented."""
    for k, each in enumerate(shown):
        if isinstance(each, Table):
            body = table_body(each, width)
        else:
            body = "\n".join(
                wrapped(line, width, indent=2 * (k > 0)) for line in each.sentences
            )
        yield wrapped(each.title, width), body


def terminal_text(shown: Iterable[Lines | Table], width: int = WIDTH) -> str:
    """What a terminal shows, as text."""
    parts = terminal_parts(shown, width)
    return "\n\n".join(f"{title}\n{body}".strip("\n") for title, body in parts)


def to_markdown_page(
    audits: Sequence[Audit], view: View = "brief", also: Sequence[Sequence[str]] = ()
) -> str:
    """Audits as one Markdown page that GitHub shows; in the brief view at most 400 words each."""
    parts = []
    for audit, lines in zip(map(as_shown, audits), also or repeat(()), strict=False):
        first, *rest = view_of(audit, view, lines)
        head, *more = map(markdown_text, first.sentences)  # type: ignore[union-attr]
        parts += [
            f"## {markdown_text(first.title)}\n",
            f"**{head}**\n",
            *(f"{m}\n" for m in more),
        ]
        for shown in rest:
            if isinstance(shown, Table):
                parts.append(to_markdown(shown))
                continue
            items = "\n".join(f"- {markdown_text(line)}" for line in shown.sentences)
            parts.append(f"### {shown.title}\n\n{items}\n")
        parts.append(f"Release digest (SHA-256): `{audit.release_sha256}`\n")
    return "\n".join(parts)


def to_latex_tables(audits: Sequence[Audit], view: View = "full") -> str:
    """Audits as LaTeX: sentences as paragraphs, booktabs tables."""
    parts = ["% Needs \\usepackage[T1]{fontenc} and \\usepackage{booktabs,graphicx}.\n"]
    for shown in (
        each for audit in map(as_shown, audits) for each in view_of(audit, view)
    ):
        if isinstance(shown, Table):
            parts.append(to_latex(shown))
        else:
            parts.append(rf"\paragraph{{{latex_text(shown.title)}.}}")
            parts.append(latex_text(" ".join(shown.sentences)) + "\n")
    return "\n".join(parts)


def to_junit(audits: Sequence[Audit], fail_on: Sequence[str]) -> str:
    """One suite per release, one test for every rule, ``fail_on`` among them, or per setting."""
    suites = []
    for audit in map(as_shown, audits):
        properties = {
            "verdict": audit.verdict.value,
            "groups": ", ".join(audit.told.named),
        }
        name = f"pcer {tables.subject_name(audit)}"
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
        yield Case(suite, tables.setting_of(budget), None, budget.headline)
    for statement in dict.fromkeys([*fail_on, *policy.fail_on]):
        met = statement_met(audit, statement)
        yield Case(
            suite, f"fail_on: {statement}", met, met or words.say("policy", "not_met")
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
        return words.say("policy", "kept_strict")
    if rule == "required_costs":
        names = [proxy_named(attack).phrase for attack in limit]
        return words.say("policy", "kept_required_costs", limit=words.listed(names))
    unit = UNITS.get(rule, " of 100").removesuffix("s" * (limit == 1))
    return words.say("policy", "kept", rule=rule, limit=f"{limit:g}{unit}")
