"""The page without a browser: the audit's words, order, escaping, bytes, payload."""

import base64
import hashlib
import html
import re

import pytest

import pcer
from pcer.auditing.sentences import cards
from pcer.errors import printable
from pcer.report.page import explained, glossary, to_report
from pcer.report.table import template
from tests import pages
from tests.pages import HOSTILE, QUICK, ROOT, Html, audited

MAX_PAGE_BYTES = 450_000


def render(*audits: pcer.Audit) -> str:
    return to_report(audits, [audit.sources[0] for audit in audits])


@pytest.fixture(scope="module")
def page():
    """Of six budgets, two groups, attack results."""
    return render(pages.mixed_audit())


def test_every_disparity_stands_beside_what_it_is_worth(page):
    """The verdict of its setting, or what it adds about privacy."""
    worth = {
        "Do the ratios differ?": 'class="badge',
        "As published": r">(none|memorised,<br>not whose)<",
    }
    for title, mark in worth.items():
        table = page.partition(f'">{title}')[2].partition("</table>")[0]
        rows = re.findall(r"<tr><th scope=.row.>.*?</tr>", table)
        assert len(rows) == 6
        assert all(re.search(mark, row) for row in rows), title


def test_every_setting_has_its_own_finding_and_one_is_shown(page):
    """Also without a script: all are in the page, and the strongest is not hidden."""
    audit = pages.mixed_audit()
    views = re.findall(
        r'<div class="finding (\w+)" data-setting="(\d)"[^>]*?( hidden)?>', page
    )
    assert [int(number) for _, number, _ in views] == [5, 4, 3, 2, 1, 0]
    assert [number for _, number, hidden in views if not hidden] == [
        str(audit.main_setting)
    ]
    text = Html(page).text
    _, *parts = text.split("Exposure: can an")
    for (severity, number, _), part in zip(views, parts, strict=True):
        setting = audit.settings[int(number)]
        assert severity == setting.verdict.severity
        assert setting.headline in text
        assert cards.outcomes_card(audit, setting).answer in part
        assert cards.how_sure_card(audit, setting).answer in part


def test_the_papers_numbers_are_folded_beyond_six_rows(page):
    assert re.search(r'<p class="evidence">Δ PCER [^<]+minus: for women', page)
    several = render(pcer.audit(pages.many_groups([*"abcdefg"]), QUICK))
    for text, n_rows, is_folded in ((page, 12, True), (several, 14, True)):
        part = text.partition('<div class="paper">')[2].partition("</table>")[0]
        assert part.count("<tr>") == 1 + n_rows
        assert ("<details>" in part) == is_folded


def test_the_largest_study_and_many_settings_stay_below_the_size_of_a_page():
    """The study's largest (six budgets, fifty seeds, ten costs); one of 36 settings."""
    paths = (ROOT / "studies" / "paper").glob("*.release.json")
    path = max(paths, key=lambda path: path.stat().st_size)
    assert len(audited(path).sources[0].runs) == 300
    names = [f"model {k}" for k in range(6)]
    release = pages.with_models(pages.mixed_release(n_seeds=2), names)
    many = render(pcer.audit(release, QUICK))
    assert many.count("<option") == 36
    for page in (render(audited(path)), many):
        assert len(page.encode()) <= MAX_PAGE_BYTES


def test_the_page_fetches_nothing(page):
    for tag, attributes in Html(page).elements:
        assert tag not in ("link", "img", "iframe", "object", "embed"), tag
        for name in ("src", "href", "action", "srcset"):
            address = attributes.get(name) or "#"
            assert ":" not in address.lstrip("#"), (tag, attributes)
    style = page.partition("<style>")[2].partition("</style>")[0]
    assert not re.search(r"@import|url\(", style)


def test_the_policy_names_exactly_the_scripts(page):
    (script,) = re.findall(r"<script>(.*?)</script>", page, flags=re.DOTALL)
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    policy = re.search(r'Content-Security-Policy" content="([^"]+)"', page)
    assert policy is not None
    start = f"default-src 'none'; script-src 'sha256-{digest}'; style-src"
    assert html.unescape(policy[1]).startswith(start)


def test_hostile_names_are_text():
    page = Html(render(pages.hostile_audit()))
    for name in HOSTILE:
        assert printable(name) in page.text, name
    tags = [tag for tag, _ in page.elements]
    assert tags.count("script") == 2
    for _, attributes in page.elements:
        assert not any(name.startswith("on") for name in attributes)


def test_many_releases_have_a_matrix_that_links_to_each():
    other = pages.many_groups(["a", "b", "c"], dataset="Other data")
    page = render(pages.mixed_audit(), pcer.audit(other, QUICK))
    assert page.index('class="matrix"') < page.index('<section id="release-1"')
    matrix = page.partition('<table class="matrix">')[2].partition("</table>")[0]
    links = re.findall(
        r'<a class="cell (\w+)( strongest)?" href="#(release-\d)">(.+?)</a>', matrix
    )
    assert len(links) == 6 + 2
    severities = [severity for severity, strongest, *_ in links if strongest]
    assert severities == ["red", "blue"]
    for _, _, _, answers in links:  # both, and nothing else
        assert re.fullmatch("<span>[^<]+</span>" * 2, answers)
    for target in ("release-1", "release-2"):
        assert page.count(f'<section id="{target}"') == 1
    without_script = re.sub(r"<script>.*?</script>", "", page, flags=re.DOTALL)
    ids = re.findall(r'\bid="([^"]+)"', without_script)
    assert len(ids) == len(set(ids))


def test_one_page_is_of_one_plan():
    release = pages.mixed_audit().sources[0]
    other = pcer.audit(release, QUICK.model_copy(update={"rng": 1}))
    with pytest.raises(ValueError, match="single plan"):
        to_report([pages.mixed_audit(), other], [release, release])


def test_every_term_finds_itself_where_it_is_not_known():
    assert len(glossary()) == template("glossary.toml").count("[[term]]")
    for id, term in glossary().items():
        text = "p = 0.03" if term["name"] == "p" else term["name"]
        assert f'aria-describedby="{id}"' in explained(text, set())
        assert "<dfn" not in explained(text, {*glossary()})
