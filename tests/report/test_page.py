"""The page without a browser: the audit's words, order, escaping, bytes, size, payload."""

from __future__ import annotations

import base64
import hashlib
import html
import json
import re
from html.parser import HTMLParser

import pytest
from hypothesis import given
from hypothesis import strategies as st

import pcer
from pcer.errors import shown
from pcer.report.page import (
    FORMS,
    ROWS,
    explained,
    glossary,
    pack,
    script_json,
    to_report,
    unpack,
)
from tests.pages import (
    HOSTILE,
    QUICK,
    ROOT,
    SAMPLES,
    audited,
    hostile_audit,
    many_groups,
    mixed_audit,
    mixed_release,
    with_models,
)

MAX_PAGE_BYTES = 450_000


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


def render(*audits: pcer.Audit) -> str:
    return to_report(audits, [audit.sources[0] for audit in audits])


@pytest.fixture(scope="module")
def page():
    """Of six budgets, two groups, attack results."""
    return render(mixed_audit())


def test_everything_but_the_two_screens_is_folded(page):
    before, _, after = page.partition('<details class="appendix">')
    assert "<table" not in re.sub(r"<details.*?</details>", "", before, flags=re.DOTALL)
    assert "As published" in after
    assert "<details open" not in page
    assert page.count("<details") == page.count("</details>") == 4


def text_of(part: str, name: str) -> list[str]:
    """Texts of the elements of a class, or of the lines of a list, without their marks."""
    found = re.search(rf'<(\w+)[^>]* class="{name}[" ][^>]*>(.*?)</\1>', part, flags=re.DOTALL)
    assert found is not None, name
    lines = re.findall(r"<li>(.*?)</li>", found[2]) or [found[2]]
    turned = str.maketrans("", "", "\u2068\u2069")
    return [html.unescape(re.sub(r"<[^>]+>", "", line)).translate(turned) for line in lines]


@pytest.fixture(scope="module")
def everything():
    """Every release in the repository: its audit, and its part of one page."""
    audits = [audited(path) for path in SAMPLES]
    parts = re.split(r'<section id="release-\d+"', render(*audits))[1:]
    return list(zip(audits, parts, strict=True))


def test_the_words_of_the_page_are_the_audits(everything):
    for audit, part in everything:
        assert text_of(part, "headline") == [audit.headline]
        assert text_of(part, "badge verdict-words") == [audit.verdict.words]
        assert text_of(part, "account-lines") == audit.account
        assert text_of(part, "trust-lines") == audit.trust
        assert text_of(part, "next-lines") == audit.next_steps
        for name, view in zip(audit.budgets, part.split('<div class="setting"')[1:], strict=True):
            assert text_of(view, "badge setting-words") == [name.verdict.words]


def test_every_disparity_stands_beside_its_label(page):
    titles = ("As published", "Floor sensitivity, by", "Is there a disparity?")
    for title in titles:
        table = page.partition(f'">{title}')[2].partition("</table>")[0]
        rows = re.findall(r"<tr><th scope=.row.>.*?</tr>", table)
        assert len(rows) == 6
        assert all('class="badge' in row for row in rows), title


def test_same_input_same_bytes(page):
    tree = json.loads(mixed_audit().sources[0].to_json())
    assert render(pcer.audit(pcer.release.parse_release(tree, file="x"), QUICK)) == page


def test_size():
    """The largest of the study: six budgets, fifty seeds, ten costs; and one of 36 settings."""
    path = max((ROOT / "studies" / "paper").glob("*.release.json"), key=lambda p: p.stat().st_size)
    assert len(audited(path).sources[0].runs) == 300
    names = [f"model {k}" for k in range(6)]
    many = render(pcer.audit(with_models(mixed_release(n_seeds=2), names), QUICK))
    assert many.count("<option") == 36
    for page in (render(audited(path)), many):
        assert len(page.encode()) <= MAX_PAGE_BYTES


def test_nothing_is_fetched(page):
    for tag, attributes in Outline(page).tags:
        assert tag not in ("link", "img", "iframe", "object", "embed"), tag
        for name in ("src", "href", "action", "srcset"):
            assert not (attributes.get(name) or "#").lstrip("#").count(":"), (tag, attributes)
    assert not re.search(r"@import|url\(", page.partition("<style>")[2].partition("</style>")[0])


def test_the_policy_names_exactly_the_scripts(page):
    scripts = re.findall(r"<script>(.*?)</script>", page, flags=re.DOTALL)
    assert len(scripts) == 1
    for script in scripts:
        digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
        assert f"'sha256-{digest}'" in page
    policy = re.search(r'Content-Security-Policy" content="([^"]+)"', page)
    assert policy is not None
    assert html.unescape(policy[1]).startswith("default-src 'none'; script-src 'sha256-")
    assert "unsafe-eval" not in policy[1]


def test_hostile_names_are_text():
    outline = Outline(render(hostile_audit()))
    text = " ".join(outline.text)
    for name in HOSTILE:
        assert shown(name) in text, name
    assert [tag for tag, _ in outline.tags if tag == "script"] == ["script"] * 2
    assert not any(key.startswith("on") for _, keys in outline.tags for key in keys)
    assert "49" not in "".join(outline.headings)


def test_script_json_cannot_end_its_element():
    text = script_json({"a": "</script><!-- & \u2028\u2029"})
    assert not set("<>&\u2028\u2029") & set(text)
    assert json.loads(text) == {"a": "</script><!-- & \u2028\u2029"}


def test_many_releases_have_a_matrix_that_links_to_each():
    other = many_groups(["a", "b", "c"], dataset="Other data")
    page = render(mixed_audit(), pcer.audit(other, QUICK))
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
    release = mixed_audit().sources[0]
    other = pcer.audit(release, QUICK.model_copy(update={"rng": 1}))
    with pytest.raises(ValueError, match="single plan"):
        to_report([mixed_audit(), other], [release, release])


def test_a_term_is_explained_where_it_first_stands():
    known: set[str] = set()
    text = explained("Of 3 splits, one split at ε = 0.5 <b>", known)
    assert text.count("<dfn") == 2
    assert html.unescape(re.sub(r"<[^>]+>", "", text)) == "Of 3 splits, one split at ε = 0.5 <b>"
    assert "&lt;b&gt;" in text
    assert "<dfn" not in explained("splits", known)


def test_every_term_has_a_name_of_its_own_and_finds_itself():
    assert len({term.id for term in glossary()}) == len(glossary())
    for term in glossary():
        words = "p = 0.03" if term.name == "p" else term.name
        found = re.search(r'aria-describedby="([^"]+)"', explained(words, set()))
        assert found is not None, term.name
        assert found[1] == term.id


NAMES = st.sampled_from(["a", "b", "c", FORMS, ROWS, "pcer:", "pcer:pcer:forms", ""])
LEAVES = st.none() | st.booleans() | st.integers(-9, 9) | st.text(max_size=3)
TREES = st.recursive(
    LEAVES,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(NAMES, inner, max_size=3),
    max_leaves=20,
)


@given(TREES)
def test_what_is_packed_comes_back(tree):
    assert json.dumps(unpack(json.loads(json.dumps(pack(tree))))) == json.dumps(tree)


@pytest.mark.parametrize("row", [[0], [0, 1, 2], [1, 1], []])
def test_a_row_that_does_not_fit_is_refused(row):
    with pytest.raises((ValueError, LookupError)):
        unpack({FORMS: [{"a": 0}], ROWS: [row]})


@pytest.mark.parametrize(
    "form", [{str(k): {} for k in range(5_000)}, {"a": {"b": {"c": {"d": {"e": 0}}}}}]
)
def test_what_would_unpack_to_far_more_than_it_is_refused_before(form):
    """Two thousand rows of a few bytes, each of thousands of empty objects."""
    rows = [[0]] * 2_000 if len(form) > 1 else [[0, 1]] * 400_000
    with pytest.raises(ValueError, match="more values than are read"):
        unpack({FORMS: [form], ROWS: rows})
