"""The page without a browser: the audit's words, order, escaping, bytes, payload."""

import base64
import hashlib
import html
import re

import pytest

import pcer
from pcer.auditing import sentences
from pcer.errors import printable
from pcer.report.page import explained, glossary, to_report
from pcer.report.table import template
from pcer.report.tables import finding
from pcer.report.tables.background import least_private_first
from tests import pages
from tests.pages import HOSTILE, QUICK, ROOT, Html, audited

MAX_PAGE_BYTES = 450_000


def render(*audits: pcer.Audit) -> str:
    return to_report(audits, [audit.sources[0] for audit in audits])


def words_of(part: str) -> str:
    """What a part of a page says."""
    return html.unescape(re.sub("<[^>]*>", "", part))


@pytest.fixture(scope="module")
def page():
    """Of six budgets, two groups, attack results."""
    return render(pages.mixed_audit())


def test_every_disparity_stands_beside_what_it_is_worth(page):
    """The verdict of its setting, or whether it is beyond its null."""
    evidence = set(finding.EVIDENCE.values())
    verdicts = {setting.verdict.words for setting in pages.mixed_audit().settings}
    worth = {
        "Do the ratios differ?": "|".join(map(re.escape, verdicts)),
        "As published": "|".join(text.replace("\n", "<br>") for text in evidence),
    }
    for title, mark in worth.items():
        table = page.partition(f'">{title}')[2].partition("</table>")[0]
        rows = re.findall(r"<tr><th scope=.row.>.*?</tr>", table)
        assert len(rows) == 6
        assert all(re.search(mark, row) for row in rows), title


def test_every_setting_has_its_six_answers_and_one_setting_is_shown(page):
    """Also without a script: all are in the page, and the strongest is not hidden."""
    audit = pages.mixed_audit()
    views = re.findall(
        r'<div class="finding" data-setting="(\d)"[^>]*?( hidden)?>', page
    )
    assert [int(number) for number, _ in views] == [5, 4, 3, 2, 1, 0]
    shown = [number for number, hidden in views if not hidden]
    assert shown == [str(audit.main_setting)]
    parts = page.split('<div class="finding"')[1:]
    for (number, _), part in zip(views, parts, strict=True):
        setting = audit.settings[int(number)]
        said = sentences.of(audit, setting)
        text = words_of(part)
        assert setting.headline in text
        for row in said.rows:
            assert row.question in text
            assert row.answer in text


def test_no_figure_is_left_out_or_said_twice(page):
    audit = pages.mixed_audit()
    text = Html(page).text
    for row in sentences.of(audit, audit.told).rows:
        for figure in row.figures:
            assert figure in text
    shown = words_of(page.partition('<details class="detail">')[0])
    for line in (*audit.account, *audit.trust):
        assert line not in shown


def test_tabs_and_links_carry_the_headline(page):
    audit = pages.mixed_audit()
    headline = html.escape(audit.headline, quote=False)
    assert f"<title>{headline}</title>" in html.unescape(page)
    heads = dict(
        re.findall(r'<meta (?:name|property)="([a-z:]+)" content="([^"]*)"', page)
    )
    assert html.unescape(heads["og:title"]) == audit.headline
    assert heads["description"] == heads["og:description"]
    for row in sentences.of(audit, audit.told).rows:
        assert row.answer in html.unescape(heads["description"])


def test_the_alarm_colour_is_for_what_alarms_and_for_nothing_else():
    """A rate beside an alarming error has none, and no badge, table or group has it."""
    audit = audited(ROOT / "studies" / "paper" / "compas.race.release.json")
    page = render(audit)
    said = []
    for setting in least_private_first(audit):
        for row in sentences.of(audit, setting).rows:
            said += [row.main] * row.is_alarm
    body = page.partition("<main")[2]
    assert re.findall(r'<span class="alarm">([^<]*)</span>', body) == said
    assert 0 < len(said) < len(audit.settings) * 6
    assert not any("Predicted" in text for text in said)
    assert len(re.findall(r'class="[^"]*alarm', body)) == len(said)
    assert "--alarm" not in body


def test_the_papers_numbers_are_unfolded_up_to_twelve_rows(page):
    several = render(pcer.audit(pages.many_groups([*"abcdefg"]), QUICK))
    for text, n_rows, is_folded in ((page, 12, False), (several, 14, True)):
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


def test_many_releases_begin_with_three_answers_about_each():
    other = pcer.audit(pages.many_groups(["a", "b", "c"], dataset="Other data"), QUICK)
    audits = (pages.mixed_audit(), other)
    page = render(*audits)
    assert page.index('class="every"') < page.index('<section id="release-1"')
    table = page.partition('<table class="every">')[2].partition("</table>")[0]
    rows = re.findall(r"<tr><th scope=.row.>.*?</tr>", table)
    for number, (audit, row) in enumerate(zip(audits, rows, strict=True), start=1):
        assert f'<a href="#release-{number}">' in row
        assert page.count(f'<section id="release-{number}"') == 1
        answers = sentences.of(audit, audit.told).rows[:3]
        for answer in answers:
            assert answer.answer in words_of(row)
        n_alarming = sum(answer.is_alarm for answer in answers)
        assert row.count('class="alarm"') == n_alarming
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
