"""Sixty edits and omissions of audits and pages, each of which verification finds."""

from __future__ import annotations

import copy
import json
import re
from collections.abc import Callable
from typing import Any

import pytest

import pcer
from pcer.auditing import parse_plan
from pcer.errors import InputError
from pcer.files import parse_json
from pcer.release import parse_release
from pcer.report import to_report, verify_audits, verify_report
from pcer.report.html import script_json
from pcer.report.verify import leaving_links
from tests.conftest import make_plain_release

PLAN = pcer.Plan(resamples=20, null_draws=10, policy=pcer.Policy(min_splits=9))
Audits = list[dict[str, Any]]


def release(attribute: str = "race") -> pcer.Release:
    tree = make_plain_release()
    tree["subject"]["attribute"] = attribute
    tree["provenance"] = {"data_digest": "sha256:00"}
    tree["runs"][0]["groups"]["Other"]["train"]["tn"] += len(attribute)
    tree["runs"][3]["groups"]["Other"]["train"]["tn"] += len(attribute)
    return parse_release(tree, file=attribute)


RELEASES = [release("race"), release("sex"), release("age")]
OTHER = release("country")


@pytest.fixture(scope="module")
def audits() -> Audits:
    return [json.loads(one.to_json()) for one in pcer.audit(RELEASES, PLAN)]


@pytest.fixture(scope="module")
def page() -> str:
    return to_report(pcer.audit(RELEASES[:1], PLAN), RELEASES[:1])


def first(audits: Audits) -> dict[str, Any]:
    return audits[0]


def setting(audits: Audits) -> dict[str, Any]:
    return audits[0]["budgets"][0]


def group(audits: Audits) -> dict[str, Any]:
    return setting(audits)["groups"]["Other"]


def pair(audits: Audits) -> dict[str, Any]:
    return setting(audits)["pairs"][0]


def put(holder: Callable[[Audits], Any], key: Any, value: Any) -> Callable[[Audits], None]:
    def change(audits: Audits) -> None:
        inside = holder(audits)
        inside[key] = value(inside[key]) if callable(value) else value

    return change


def swap_digests(audits: Audits) -> None:
    one, two = audits[0]["release_sha256"], audits[1]["release_sha256"]
    audits[0]["release_sha256"], audits[1]["release_sha256"] = two, one


AUDIT_EDITS: dict[str, Callable[[Audits], Any]] = {
    "the unfavourable audit is dropped": lambda a: a.pop(0),
    "the last audit is dropped": lambda a: a.pop(),
    "all but one are dropped": lambda a: a.__delitem__(slice(1, None)),
    "one audit stands twice": lambda a: a.append(copy.deepcopy(a[0])),
    "one audit stands for another": lambda a: a.__setitem__(1, copy.deepcopy(a[0])),
    "digests of releases are exchanged": swap_digests,
    "another digest of the release": put(first, "release_sha256", "0" * 64),
    "no digest of the release": lambda a: a[0].pop("release_sha256"),
    "another digest of the plan": put(first, "plan_sha256", "0" * 64),
    "a family of one": put(first, "family", lambda f: f[:1]),
    "no family": put(first, "family", []),
    "a better family p": put(first, "family_p", 0.9),
    "another floor": put(lambda a: a[0]["plan"], "floor", 0.01),
    "another seed": put(lambda a: a[0]["plan"], "rng", 7),
    "no policy": put(lambda a: a[0]["plan"], "policy", None),
    "a milder policy": put(lambda a: a[0]["plan"]["policy"], "min_splits", 1),
    "no broken rule": put(first, "broken_rules", []),
    "another verdict": put(first, "verdict", "no_disparity_shown"),
    "another headline": put(first, "headline", "All is well."),
    "a sentence more": put(first, "trust", lambda lines: [*lines, "Certified."]),
    "a sentence less": put(first, "account", lambda lines: lines[:-1]),
    "somebody worse off": put(first, "worse_off", ["Other"]),
    "nothing declared": put(first, "declarations", []),
    "a cost less": put(first, "costs", []),
    "a setting less": put(first, "budgets", lambda rows: rows[:-1]),
    "settings exchanged": put(first, "budgets", lambda rows: rows[::-1]),
    "a verdict of a setting": put(setting, "verdict", "equal_within_margin"),
    "more splits": put(setting, "n_splits", 30),
    "a smaller cost": put(lambda a: group(a)["cost"], "value", lambda v: v * 0.999999),
    "a smaller limit": put(lambda a: group(a)["cost"], "upper_limit", lambda v: v / 2),
    "a larger p": put(group, "p_value", lambda p: 1.0 if p != 1.0 else 0.9),
    "a larger p alone": put(group, "p_value_alone", lambda p: p / 2),
    "a smaller difference": put(lambda a: pair(a)["exposure"], "value", 0.0),
    "groups of a pair exchanged": put(pair, "groups", lambda two: two[::-1]),
    "a field less": lambda a: setting(a).pop("pcer_spread"),
    "a field more": lambda a: a[0].__setitem__("note", "fine"),
    "people made fewer": put(group, "n_test", lambda n: n - 1),
}


@pytest.mark.parametrize("name", AUDIT_EDITS)
def test_an_edit_of_an_audit_is_found(audits, name):
    edited = copy.deepcopy(audits)
    AUDIT_EDITS[name](edited)
    assert edited != audits
    assert verify_audits(edited, RELEASES) is not None


def test_the_audits_themselves_agree(audits):
    assert verify_audits(audits, RELEASES) is None
    assert verify_audits(audits[:1], RELEASES[:1], family=RELEASES[1:]) is None
    plan = audits[0]["plan_sha256"]
    assert verify_audits(audits, RELEASES, plan_sha256=plan.upper()) is None


OMISSIONS: dict[str, Callable[[Audits], object]] = {
    "a release is not named": lambda a: verify_audits(a, RELEASES[:2]),
    "another release is named": lambda a: verify_audits(a, [*RELEASES, OTHER]),
    "a release is named twice": lambda a: verify_audits(a, [*RELEASES, RELEASES[0]]),
    "another plan was agreed": lambda a: verify_audits(a, RELEASES, plan_sha256="0" * 64),
}


@pytest.mark.parametrize("name", OMISSIONS)
def test_an_omission_is_found(audits, name):
    assert OMISSIONS[name](audits) is not None


def replaced(old: str, new: str) -> Callable[[str], str]:
    def change(page: str) -> str:
        assert old in page, old
        return page.replace(old, new, 1)

    return change


def payload(change: Callable[[dict[str, Any]], None]) -> Callable[[str], str]:
    """An edit of what the page carries, which everything in it is made from."""

    def edit(page: str) -> str:
        start, end = '<script type="application/json" id="pcer-report">', "</script>"
        head, _, rest = page.partition(start)
        text, _, tail = rest.partition(end)
        tree = parse_json(text, file="page")
        change(tree)
        return f"{head}{start}{script_json(tree)}{end}{tail}"

    return edit


PAGE_EDITS: dict[str, Callable[[str], str]] = {
    "the generator": lambda p: re.sub(r'(name="generator" content=")[^"]*', r"\1pcer 9", p),
    "no generator": lambda p: re.sub(r'<meta name="generator"[^>]*>', "", p),
    "a link to elsewhere": replaced("</main>", '<a href="https://example.org">more</a></main>'),
    "a link to a file beside": replaced("</main>", '<a href="other.html">more</a></main>'),
    "a link of another protocol": replaced("</main>", '<a href="//example.org">more</a></main>'),
    "a script as a link": replaced("</main>", '<a href="javascript:alert(1)">x</a></main>'),
    "a picture from elsewhere": replaced("</main>", '<img src="https://example.org/x"></main>'),
    "a form to elsewhere": replaced("</main>", '<form action="//x"></form></main>'),
    "a base elsewhere": replaced("<head>", '<head><base href="https://example.org">'),
    "a page that moves on": replaced("<head>", '<head><meta http-equiv="refresh" content="0">'),
    "a style from elsewhere": replaced("</style>", "p{background:url(//x)}</style>"),
    "another title": replaced("<title>", "<title>All is well. "),
    "another policy of content": replaced("default-src 'none'", "default-src *"),
    "a script more": replaced("</body>", "<script>1</script></body>"),
    "a comment": replaced("</body>", "<!-- fine --></body>"),
    "text at the end": lambda p: p + "\n",
    "a byte order mark": lambda p: "\ufeff" + p,
    "Windows' ends of lines": lambda p: p.replace("\n", "\r\n"),
    "the broken policy": replaced("The policy is broken", "The policy is kept"),
    "the broken rule left out": lambda p: re.sub(r'<ul class="policy-lines">.*?</ul>', "", p),
    "the release's digest": lambda p: p.replace(RELEASES[0].sha256, "0" * 64, 1),
    "the plan's digest": lambda p: p.replace(PLAN.sha256, "0" * 64, 1),
    "the plan in it": payload(lambda t: t["plan"].__setitem__("floor", 0.01)),
    "the policy in it": payload(lambda t: t["plan"].__setitem__("policy", None)),
    "a note in its release": payload(
        lambda t: t["releases"][0]["subject"].__setitem__("notes", ["Certified."])
    ),
    "its release twice": payload(lambda t: t["releases"].append(t["releases"][0])),
    "its release in its family": payload(lambda t: t["family"].append(t["releases"][0])),
    "the cut at the end": lambda p: p[: p.rindex("</html>")],
    "the advice": replaced("What can be done", "What need not be done"),
}


@pytest.mark.parametrize("name", PAGE_EDITS)
def test_an_edit_of_a_page_is_found(page, tmp_path, name):
    text = PAGE_EDITS[name](page)
    assert text != page
    path = tmp_path / "report.html"
    path.write_bytes(text.encode())
    assert verify_report(path) is not None


def test_a_second_release_in_a_page_is_found_where_one_is_named(tmp_path):
    path = tmp_path / "report.html"
    path.write_bytes(to_report(pcer.audit(RELEASES[:2], PLAN), RELEASES[:2]).encode())
    assert verify_report(path, RELEASES[:2]) is None
    assert RELEASES[1].sha256 in str(verify_report(path, RELEASES[:1]))
    with pytest.raises(InputError, match="does not carry"):
        verify_report(path, RELEASES)
    plan = PLAN.sha256
    assert verify_report(path, plan_sha256=plan) is None
    assert plan in str(verify_report(path, plan_sha256="0" * 64))


def test_a_page_of_pcer_has_no_way_out(page):
    assert leaving_links(page) == []
    assert len(leaving_links(PAGE_EDITS["a base elsewhere"](page))) >= 1


def test_there_are_at_least_sixty():
    assert len(AUDIT_EDITS) + len(OMISSIONS) + len(PAGE_EDITS) >= 60
    assert parse_plan(PLAN.model_dump(), file="x") == PLAN
