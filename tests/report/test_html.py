"""The page without a browser: the audit's words, order, escaping, bytes, size, verification."""

from __future__ import annotations

import base64
import hashlib
import html
import json
import re
import runpy
from html.parser import HTMLParser
from pathlib import Path

import pytest

import pcer
from pcer.auditing import signed
from pcer.errors import InputError, shown
from pcer.report.charts import charts
from pcer.report.glossary import GLOSSARY
from pcer.report.html import read_payload, script_json, to_report
from pcer.report.rows import chart_data
from pcer.report.table import Table, to_html
from pcer.report.verify import verify_report
from tests.pages import HOSTILE, QUICK, many_groups, mixed_release, with_attacks, with_models

ROOT = Path(__file__).parents[2]
READABLE = ("by-hand", "counts", "rates")
MAX_PAGE_BYTES = 1_500_000


class Outline(HTMLParser):
    """Headings, script elements and visible text of a page, as a browser's parser sees them."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.headings: list[str] = []
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.text: list[str] = []
        self._inside: list[str] = []
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Note an element."""
        self.tags.append((tag, dict(attrs)))
        if tag in ("h1", "h2", "h3", "h4", "script", "style"):
            self._inside.append(tag)
            if tag.startswith("h"):
                self.headings.append("")

    def handle_endtag(self, tag: str) -> None:
        """Leave an element."""
        if self._inside and tag == self._inside[-1]:
            self._inside.pop()

    def handle_data(self, data: str) -> None:
        """Keep headings and visible text."""
        inside = self._inside[-1] if self._inside else ""
        if inside.startswith("h"):
            self.headings[-1] += data.strip("\n")
        if inside not in ("script", "style"):
            self.text.append(data)


def render(*releases: pcer.Release) -> str:
    return to_report([pcer.audit(release, QUICK) for release in releases], releases)


@pytest.fixture(scope="module")
def release():
    """Six budgets, two groups, attack results."""
    return with_attacks(mixed_release())


@pytest.fixture(scope="module")
def page(release):
    """Its page."""
    return render(release)


def test_the_parts_stand_in_order(page, release):
    audit = pcer.audit(release, QUICK)
    titles = {chart.name: chart.title for chart in charts(audit, chart_data(audit, release))}
    assert Outline(page).headings == [
        audit.headline,
        "In plain words",
        "Can it be trusted?",
        "What can be done",
        "Card",
        "What was audited",
        "Advice by setting",
        "Every test",
        "Every cost",
        "Charts",
        titles["outcomes"],
        titles["gaps"],
        titles["costs"],
        titles["balance"],
        "The floor",
        titles["disparity"],
        titles["floors"],
        "Method and plan",
        "Limits",
        "Glossary",
        "Provenance and digests",
    ]


def test_everything_but_the_two_screens_is_folded(page):
    before, _, after = page.partition('<details class="appendix">')
    assert "<table" not in before
    for part in ("Every test", "The floor", "As published"):
        assert part in after
    assert "<details open" not in page
    assert page.count("<details") == page.count("</details>") == 3


def test_without_attacks_there_is_one_cost():
    page = render(mixed_release(n_seeds=2))
    assert "Every cost" not in Outline(page).headings
    assert "choose-cost" not in page.partition("<body")[2].partition("<script")[0]


def text_of(part: str, name: str) -> list[str]:
    """Texts of the elements of a class, or of the lines of a list, without their marks."""
    found = re.search(rf'<(\w+)[^>]* class="{name}[" ][^>]*>(.*?)</\1>', part, flags=re.DOTALL)
    assert found is not None, name
    lines = re.findall(r"<li>(.*?)</li>", found[2]) or [found[2]]
    turned = str.maketrans("", "", "\u2068\u2069")
    return [html.unescape(re.sub(r"<[^>]+>", "", line)).translate(turned) for line in lines]


REPOSITORY = [
    *sorted((ROOT / "examples").glob("*.release.json")),
    *sorted((ROOT / "studies" / "paper").glob("*.release.json")),
    *(ROOT / "tests" / "releases" / f"{name}.release.json" for name in READABLE),
]


@pytest.fixture(scope="module")
def everything():
    """Every release in the repository: its audit, and its part of one page."""
    releases = [pcer.read_release(path) for path in REPOSITORY]
    audits = pcer.audit(releases, QUICK)
    page = to_report(audits, releases)
    parts = re.split(r'<section id="release-\d+"', page)[1:]
    return list(zip(audits, parts, strict=True))


def test_the_words_of_the_page_are_the_audits(everything):
    for audit, part in everything:
        assert text_of(part, "headline") == [audit.headline]
        assert text_of(part, "badge verdict-words") == [audit.verdict.words]
        assert text_of(part, "account-lines") == audit.account
        assert text_of(part, "trust-lines") == audit.trust
        assert text_of(part, "next-lines") == audit.next_steps
        assert text_of(part, "badge setting-words") == [audit.told.verdict.words]


def test_the_first_screen_answers_five_questions(everything):
    """Who, how much received, how exposed, shown or not, how sure: from headline and picture."""
    for audit, part in everything:
        first = part.partition('<figure class="exposures"')[0].partition('<div class="told"')[0]
        marks = re.findall(r'<g role="img" tabindex="0"><title>(.*?)</title>', first)
        rows = [html.unescape(mark) for mark in marks]
        n = len(audit.subject.groups)
        assert len(rows) == 2 * n
        for name, received, exposed in zip(audit.subject.groups, rows[:n], rows[n:], strict=True):
            group = audit.told.groups[name]
            assert received.startswith(f"{name}: {round(100 * group.benefit.mean)} of 100")
            number = audit.proxy.scale.hundredths
            if group.resolved:
                low, high = (number(end).replace("-", "−") for end in group.cost.interval)
                assert exposed.startswith(f"{name}: {number(group.cost.value)} ({low} to {high})")
            else:
                assert exposed == f"{name}: not shown; at most " + number(
                    group.cost.upper_limit_together
                )
        assert f">{audit.verdict.words}</span>" in first
        assert all(html.escape(name) in first for name in audit.worse_off)
        assert "95 % interval, for people like these" in first


def test_words_that_only_the_writers_understand_are_not_there(everything, page):
    for text in [page, *(part for _, part in everything)]:
        shown = re.sub(r"<script.*?</script>", "", text, flags=re.DOTALL)
        for words in ("luck of the split", "what is at hand", "stands beside it", "split luck"):
            assert words not in shown


def test_a_reader_of_the_docs_finds_the_same_glossary():
    table = (ROOT / "docs" / "verdicts.md").read_text(encoding="utf-8").partition("## Words")[2]
    rows = [line for line in table.splitlines() if line.startswith("| ")][1:]
    assert rows == [f"| {term.name} | {term.meaning} |" for term in GLOSSARY]


def test_every_disparity_stands_beside_its_label(page):
    for row in re.findall(r"<tr data-budget=.*?</tr>", page):
        assert 'class="badge' in row
        assert "[" in row
    for title in (
        "The paper&#x27;s table",
        "The paper&#x27;s disparity by floor",
        "Disparity at every floor",
        "Is there a disparity?",
    ):
        table = page.partition(f">{title}")[2].partition("</table>")[0]
        rows = re.findall(r"<tr><th scope=.row.>.*?</tr>", table)
        assert len(rows) == 6
        assert all('class="badge' in row for row in rows), title


def test_no_group_is_named_because_intervals_do_not_overlap(page):
    costs = page[page.index("Cost by every proxy") :]
    assert "Intervals do not tell who is more exposed" in costs
    assert "highest cost" not in page


def test_as_published_is_the_gap_whatever_the_cost(release):
    audit = pcer.audit(release, QUICK, cost="attack_advantage")
    page = to_report([audit], [release])
    table = page.partition(">The paper&#x27;s table")[2].partition("</table>")[0]
    found = audit.published[0].budgets[-1].pairs[0].pcer_disparity
    assert signed(found.mean) in table
    assert found.mean != pytest.approx(audit.budgets[-1].pairs[0].pcer_disparity.mean)


def test_terms_point_to_the_glossary(page):
    used = set(re.findall(r'<dfn tabindex="0" aria-describedby="([^"]+)"', page))
    assert len(used) >= 5
    for term in used:
        assert page.count(f'<dd id="{term}">') == 1


def test_same_input_same_bytes(page, release):
    assert render(pcer.release.parse_release(json.loads(release.to_json()), file="x")) == page


def test_size_of_the_largest_release_of_the_study():
    """Six budgets, fifty seeds, ten costs."""
    path = max((ROOT / "studies" / "paper").glob("*.release.json"), key=lambda p: p.stat().st_size)
    release = pcer.read_release(path)
    assert len(release.runs) == 300
    assert len(render(release).encode()) <= MAX_PAGE_BYTES


def test_size_of_36_settings_in_one_release():
    names = [f"model {k}" for k in range(6)]
    release = with_models(with_attacks(mixed_release(n_seeds=2)), names)
    page = render(release)
    assert page.count("<option") == 36 + 3
    assert len(page.encode()) <= MAX_PAGE_BYTES


def test_nothing_is_fetched(page):
    for tag, attributes in Outline(page).tags:
        assert tag not in ("link", "img", "iframe", "object", "embed"), tag
        for name in ("src", "href", "action", "srcset"):
            assert not (attributes.get(name) or "#").lstrip("#").count(":"), (tag, attributes)
    assert not re.search(r"@import|url\(", page.partition("<style>")[2].partition("</style>")[0])


def test_the_policy_names_exactly_the_scripts(page):
    scripts = re.findall(r"<script>(.*?)</script>", page, flags=re.DOTALL)
    assert len(scripts) == 2
    for script in scripts:
        digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
        assert f"'sha256-{digest}'" in page
    policy = re.search(r'Content-Security-Policy" content="([^"]+)"', page)
    assert policy is not None
    assert html.unescape(policy[1]).startswith("default-src 'none'; script-src 'sha256-")
    assert "unsafe-eval" not in policy[1]


def test_the_kept_bundle_is_what_vl_convert_makes(page):
    bundle = runpy.run_path(str(ROOT / "scripts" / "bundle-vega"))["make_bundle"]()
    assert page.count(bundle) == 1


def test_hostile_names_are_text():
    page = render(many_groups(HOSTILE, dataset=HOSTILE[3], attribute=HOSTILE[1]))
    outline = Outline(page)
    text = " ".join(outline.text)
    for name in HOSTILE:
        assert shown(name) in text, name
    assert [tag for tag, _ in outline.tags if tag == "script"] == ["script"] * 5
    assert not any(key.startswith("on") for _, keys in outline.tags for key in keys)
    assert "49" not in "".join(outline.headings)


def test_script_json_cannot_end_its_element():
    text = script_json({"a": "</script><!-- & \u2028\u2029"})
    assert not set("<>&\u2028\u2029") & set(text)
    assert json.loads(text) == {"a": "</script><!-- & \u2028\u2029"}


def test_html_table():
    table = Table("A & B", ("ε", "group", "x\ny"), (("1", "<b>", "not resolved"),), 2, "n < 3")
    assert to_html(table, id="t", marks={"not resolved": "badge"}) == (
        '<div class="table" role="region" tabindex="0" aria-labelledby="t">\n'
        '<table><caption id="t">A &amp; B</caption>\n'
        '<thead><tr><th scope="col" class="label">ε</th><th scope="col" class="label">group</th>'
        '<th scope="col">x<br>y</th></tr></thead>\n'
        '<tbody>\n<tr><th scope="row">1</th><td class="label">&lt;b&gt;</td>'
        '<td><span class="badge">not resolved</span></td></tr>\n</tbody></table>\n'
        '</div>\n<p class="note">n &lt; 3</p>'
    )


def test_many_releases_have_a_matrix_that_links_to_each():
    page = render(mixed_release(n_seeds=2), many_groups(["a", "b", "c"], dataset="Other data"))
    assert page.index('class="matrix"') < page.index('<section id="release-1"')
    matrix = page.partition('<table class="matrix">')[2].partition("</table>")[0]
    links = re.findall(r'<a class="badge (\w+)" href="#(release-\d)">([a-z ]+)</a>', matrix)
    assert len(links) == (1 + 6) + (1 + 2)
    assert all(verdict.replace("_", " ") == words for verdict, _, words in links)
    for target in ("release-1", "release-2"):
        assert page.count(f'<section id="{target}"') == 1
    ids = re.findall(r'\bid="([^"]+)"', re.sub(r"<script>.*?</script>", "", page, flags=re.DOTALL))
    assert len(ids) == len(set(ids))


def test_one_page_is_of_one_plan():
    release = mixed_release(n_seeds=2)
    audits = [pcer.audit(release, QUICK), pcer.audit(release, QUICK.model_copy(update={"rng": 1}))]
    with pytest.raises(ValueError, match="single plan"):
        to_report(audits, [release, release])


def edited(page: str, old: str, new: str, *, after: str = "") -> str:
    head, mark, tail = page.partition(after) if after else ("", "", page)
    assert old in tail, old
    return head + mark + tail.replace(old, new, 1)


def test_a_report_verifies_alone(page, release, tmp_path):
    path = tmp_path / "report.html"
    path.write_bytes(page.encode())
    assert verify_report(path) is None
    assert verify_report(path, [release]) is None
    assert read_payload(page, file="x") == (QUICK, [release], [])
    with pytest.raises(InputError, match="does not carry the release"):
        verify_report(path, [mixed_release(n_seeds=3)])


def test_a_page_of_an_earlier_version_is_sent_to_it(page, tmp_path):
    """Pages could link to the paper's study once, and carried the link."""
    old = '"version":3,"study":"../studies/paper/README.md","plan"'
    path = tmp_path / "report.html"
    path.write_bytes(edited(page, '"version":3,"plan"', old, after='id="pcer-report"').encode())
    with pytest.raises(InputError, match=r"holds 'study'.*the version that wrote it"):
        verify_report(path)
    sentence = "<p>How the paper's own study comes out, is in studies/paper.</p>"
    path.write_bytes(edited(page, '<div class="table"', f'{sentence}<div class="table"').encode())
    assert sentence[:20] in str(verify_report(path))


def test_a_page_of_another_version_differs(page, tmp_path):
    path = tmp_path / "report.html"
    path.write_bytes(edited(page, f'content="pcer {pcer.__version__}"', 'content="x 1"').encode())
    found = verify_report(path)
    assert (found.found, found.expected) == ("x 1", f"pcer {pcer.__version__}")


def test_a_page_links_to_no_other_page(page):
    targets = re.findall(r'<a [^>]*href="([^"]*)"', page)
    assert all(target.startswith("#") for target in targets)


def _first_number(page: str, after: str) -> tuple[str, str]:
    found = re.search(r"\d\.\d+|\.\d{3}|\d{3,}", page.partition(after)[2])
    assert found is not None
    digit = str((int(found[0][-1]) + 1) % 10)
    return found[0], found[0][:-1] + digit


@pytest.mark.parametrize(
    "after",
    [
        '<tr><th scope="row">0.1</th>',
        '<data value="',
        '"datasets":{"runs":',
        '"charts":{"outcomes":',
        '"plan":{"floors":',
        '"resamples":',
        '"pooled_exposure":',
        '"story":{"columns":',
        '<h2 id="provenance">',
        '<h1 id="release-1-title"',
        '<figure class="hero"',
        '<figure class="exposures"',
        '<dl class="card">',
        "<script>/* Vega",
    ],
)
def test_every_edited_number_is_found(page, tmp_path, after):
    old, new = _first_number(page, after)
    path = tmp_path / "report.html"
    path.write_bytes(edited(page, old, new, after=after).encode())
    found = verify_report(path)
    assert found is not None
    assert found.found != found.expected
    assert f"at line {found.line}, in {found.place}" in str(found)


def test_an_edited_count_that_contradicts_another_is_refused(page, tmp_path):
    row = re.search(r'"pcer:rows":\[\[0,0.1,0,"[^"]*",', page)
    assert row is not None
    old, new = _first_number(page, row[0])
    path = tmp_path / "report.html"
    path.write_bytes(edited(page, old, new, after=row[0]).encode())
    with pytest.raises(InputError, match="other sizes or labels"):
        verify_report(path)


def test_edited_words_and_marks_are_found(page, tmp_path):
    path = tmp_path / "report.html"
    path.write_bytes(edited(page, "disparity shown", "all is well").encode())
    assert verify_report(path) is not None
    path.write_bytes(edited(page, "<title>", "<title>All is well: ").encode())
    assert verify_report(path).place == "the head of the page"
    path.write_bytes(b"\xef\xbb\xbf" + page.encode())
    assert "byte order mark" in str(verify_report(path))
    path.write_bytes((page + "<p>more</p>").encode())
    assert verify_report(path).found == "<p>more</p>"


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ('id="pcer-report"', 'id="other"', "not a report of pcer"),
        ('"format":"pcer-report","version":3', '"format":"pcer-report","version":4', "upgrade"),
        ('"releases":[{', '"releases":[{"x":1,', "not a field of this format"),
        ('"pcer:rows":[[0,', '"pcer:rows":[[0,0,0,0,', "is damaged"),
        ('"pcer:rows":[[0,', '"pcer:rows":[[77,', "is damaged"),
        ('"floor":0.001,"conf', '"floor":-1,"conf', "plan: field floor"),
    ],
)
def test_a_page_that_cannot_be_checked(page, tmp_path, old, new, message):
    path = tmp_path / "report.html"
    path.write_bytes(edited(page, old, new).encode())
    with pytest.raises(InputError, match=message) as error:
        verify_report(path)
    assert "report.html" in str(error.value)
