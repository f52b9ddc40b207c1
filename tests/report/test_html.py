"""The page without a browser: order, escaping, bytes, size, verification."""

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
from pcer.errors import InputError
from pcer.report.answers import answers, verdict_sentence
from pcer.report.html import read_payload, script_json, to_report
from pcer.report.table import Table, to_html
from pcer.report.verify import verify_report
from tests.pages import HOSTILE, QUICK, many_groups, mixed_release, with_attacks

ROOT = Path(__file__).parents[2]
MAX_PAGE_BYTES = 1_600_000


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
        if tag in ("h1", "h2", "h3", "script", "style"):
            self._inside.append(tag)

    def handle_endtag(self, tag: str) -> None:
        """Leave an element."""
        if self._inside and tag == self._inside[-1]:
            self._inside.pop()

    def handle_data(self, data: str) -> None:
        """Keep headings and visible text."""
        inside = self._inside[-1] if self._inside else ""
        if inside in ("h1", "h2", "h3"):
            self.headings.append(data.strip())
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


def test_the_parts_stand_in_order(page):
    assert [text for text in Outline(page).headings if text] == [
        "Loans (sex)",
        "Advice",
        "In plain words",
        "Every budget",
        "Charts",
        "Disparity against budget",
        "Outcome gaps against budget",
        "Is there signal? Gap against noise level",
        "Cost estimates",
        "Benefit against cost",
        "Floor sensitivity",
        "Disparity against floor",
        "Beside demographic parity and equalized odds",
        "Double disadvantage",
        "Attack agreement",
        "Limits",
        "Method and plan",
        "Provenance and digests",
    ]


def test_without_attacks_there_is_no_agreement():
    assert "Attack agreement" not in Outline(render(mixed_release(n_seeds=2))).headings


def test_every_disparity_stands_beside_its_label(page):
    for row in re.findall(r"<tr data-budget=.*?</tr>", page):
        assert 'class="badge' in row
        assert "[" in row
    for title in (
        "As published, and resolved",
        "Disparity at every floor",
        "Is there a disparity?",
    ):
        table = page.partition(f">{title}")[2].partition("</table>")[0]
        rows = re.findall(r"<tr><th scope=.row.>.*?</tr>", table)
        assert len(rows) == 6
        assert all('class="badge' in row for row in rows), title


def test_same_input_same_bytes(page, release):
    assert render(pcer.release.parse_release(json.loads(release.to_json()), file="x")) == page


def test_size_of_six_budgets_fifty_seeds_two_groups():
    release = mixed_release(n_seeds=50)
    assert len(release.runs) == 300
    assert len(render(release).encode()) <= MAX_PAGE_BYTES


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
        assert name in text, name
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
    assert read_payload(page, file="x") == (QUICK, [release])
    with pytest.raises(InputError, match="does not carry the release"):
        verify_report(path, [mixed_release(n_seeds=3)])


def test_a_page_of_an_earlier_version_is_sent_to_it(page, tmp_path):
    """Pages could link to the paper's study once, and carried the link."""
    old = '"version":1,"study":"../studies/paper/README.md","plan"'
    path = tmp_path / "report.html"
    path.write_bytes(edited(page, '"version":1,"plan"', old, after='id="pcer-report"').encode())
    with pytest.raises(InputError, match=r"holds 'study'.*the version that wrote it"):
        verify_report(path)
    sentence = "<p>How the paper's own study comes out, is in studies/paper.</p>"
    path.write_bytes(edited(page, '<div class="table"', f'{sentence}<div class="table"').encode())
    assert sentence[:20] in str(verify_report(path))


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
        '"charts":{"disparity":',
        '"plan":{"floors":',
        '"resamples":',
        '"runs":[{"epsilon":',
        '"exposure":{"attack_advantage":{"value":',
        '<h2 id="provenance">',
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
    old, new = _first_number(page, '"train":{"tp":')
    path = tmp_path / "report.html"
    path.write_bytes(edited(page, old, new, after='"train":{"tp":').encode())
    with pytest.raises(InputError, match="other sizes or labels"):
        verify_report(path)


def test_edited_words_and_marks_are_found(page, tmp_path):
    path = tmp_path / "report.html"
    path.write_bytes(edited(page, "disparity shown", "all is well").encode())
    assert verify_report(path).place == "the head of the page"
    path.write_bytes(b"\xef\xbb\xbf" + page.encode())
    assert "byte order mark" in str(verify_report(path))
    path.write_bytes((page + "<p>more</p>").encode())
    assert verify_report(path).found == "<p>more</p>"


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ('id="pcer-report"', 'id="other"', "not a report of pcer"),
        ('"format":"pcer-report","version":1', '"format":"pcer-report","version":2', "upgrade"),
        ('"releases":[{', '"releases":[{"x":1,', "not a field of this format"),
        ('"floor":0.001,"conf', '"floor":-1,"conf', "plan: field floor"),
        (f'content="pcer {pcer.__version__}"', 'content="pcer 0.0.1"', "was not written by"),
    ],
)
def test_a_page_that_cannot_be_checked(page, tmp_path, old, new, message):
    path = tmp_path / "report.html"
    path.write_bytes(edited(page, old, new).encode())
    with pytest.raises(InputError, match=message) as error:
        verify_report(path)
    assert "report.html" in str(error.value)


def test_the_three_questions():
    loud = pcer.audit(mixed_release(), QUICK)
    assert verdict_sentence(loud) == "A disparity is shown at ε = 5, ε = 10 and no-DP."
    assert [answer.short for answer in answers(loud)] == [
        "Yes, a disparity is shown",
        "women",
        "Beyond split luck, yes",
    ]
    harm = pcer.audit(mixed_release(outcome="harm"), QUICK)
    whom = answers(harm)[1]
    assert "a lower ratio alone is no disadvantage" in whom.long


def test_not_resolved_and_insufficient_say_that_they_cannot_tell():
    root = Path(__file__).parents[1] / "releases"
    for name in ("counts", "rates"):
        audit = pcer.audit(pcer.read_release(root / f"{name}.release.json"), QUICK)
        first, second, third = answers(audit)
        assert first.short.startswith("It cannot be told")
        assert second.short == "No group can be named"
        assert third.short == "No number here is evidence of a disparity"


def test_sample_releases_can_be_rendered():
    for path in sorted((Path(__file__).parents[1] / "releases").glob("*.release.json")):
        if path.name.split(".")[0] in ("counts", "rates", "by-hand"):
            assert render(pcer.read_release(path)).endswith("</html>\n")
