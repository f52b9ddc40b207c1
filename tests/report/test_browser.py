"""The page in a real browser: opened from a file, with the network off and the policy on."""

from __future__ import annotations

import os
import shutil
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import pcer
from pcer.report.html import to_report
from pcer_studies import BUDGETS, CONFIGURATIONS, Study
from pcer_studies.files import study_files
from tests.pages import HOSTILE, QUICK, many_groups, mixed_release, with_attacks
from tests.study_folder import write_study

ARGUMENTS = [
    "--no-sandbox",
    "--disable-gpu",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]
WIDTHS = (400, 900, 1400)
N_CHARTS = 6
PATIENCE = 60.0
"""Seconds to wait for charts on a busy machine."""


MEASURE = """() => {
    const box = (e) => {
        const r = e.getBoundingClientRect();
        return [r.left, r.top, r.right, r.bottom];
    };
    const all = (selector) => [...document.querySelectorAll(selector)];
    const loose = all("main *").filter((e) => !e.closest(".table") && !e.closest("svg"));
    return {
        page: document.documentElement.scrollWidth,
        wide: loose.filter((e) => box(e)[2] > innerWidth + 1).map((e) => e.className),
        charts: all(".chart svg").map((e) => [...box(e), ...box(e.parentElement)]),
        blocks: all("figure, .table, .verdict, h1, h2, h3").map(box),
    };
}"""


def _missing() -> str | None:
    try:
        import axe_playwright_python  # noqa: F401
        import playwright  # noqa: F401
    except ImportError as error:
        return f"{error.name} is not installed"
    return None if shutil.which("chromium") else "no chromium on the path"


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    """Debian's chromium; its absence is a failure in CI and a reason to skip elsewhere."""
    reason = _missing()
    if reason and "PCER_CI" in os.environ:
        pytest.fail(f"CI must run the browser tests, but {reason}")
    if reason:
        pytest.skip(reason)
    from playwright.sync_api import sync_playwright

    with sync_playwright() as driver:
        chromium = driver.chromium.launch(executable_path=shutil.which("chromium"), args=ARGUMENTS)
        yield chromium
        chromium.close()


class Opened:
    """A page opened offline, with everything that it said or asked for."""

    def __init__(self, browser: Any, path: Path, **options: Any) -> None:
        self.context = browser.new_context(offline=True, **options)
        self.page = self.context.new_page()
        self.said: list[str] = []
        self.asked: list[str] = []
        self.page.on("console", lambda message: self.said.append(message.text))
        self.page.on("pageerror", lambda error: self.said.append(str(error)))
        self.page.on("dialog", lambda dialog: (self.said.append("dialog"), dialog.dismiss()))
        self.page.on("request", lambda request: self.asked.append(request.url))
        self.page.goto(path.as_uri())

    def wait_for_charts(self, count: int, inside: str = "body") -> None:
        """Wait until so many charts are drawn."""
        until = time.monotonic() + PATIENCE
        while self.count(f"{inside} .chart[data-drawn] svg") < count:
            assert time.monotonic() < until, self.said
            self.page.wait_for_timeout(100)

    def count(self, selector: str) -> int:
        """How many elements a selector finds."""
        return self.page.locator(selector).count()

    def set_floor(self, floor: float) -> None:
        """Move the slider with the keyboard until it reads a floor."""
        slider = self.page.locator("#floor")
        slider.focus()
        slider.press("End")
        self.page.wait_for_timeout(500)  # the page tells its floor a moment after the key
        for _ in range(200):
            if float(slider.get_attribute("aria-valuetext")) == pytest.approx(floor):
                return
            slider.press("ArrowLeft")
            self.page.wait_for_timeout(40)
        raise AssertionError(f"the slider has no place for {floor}")


@pytest.fixture
def opened(browser):
    """Open pages with given options; all are closed in the end."""
    pages: list[Opened] = []

    def open_page(path: Path, **options: Any) -> Opened:
        pages.append(Opened(browser, path, **options))
        return pages[-1]

    yield open_page
    for one in pages:
        one.context.close()


@pytest.fixture(scope="module")
def audit() -> pcer.Audit:
    """Of the release with six budgets and attack results."""
    return pcer.audit(with_attacks(mixed_release()), QUICK)


@pytest.fixture(scope="module")
def one(audit, tmp_path_factory) -> Path:
    """Its page."""
    path: Path = tmp_path_factory.mktemp("one") / "report.html"
    path.write_text(to_report([audit], [with_attacks(mixed_release())]), encoding="utf-8")
    return path


def write_many(path: Path, count: int) -> Path:
    """A page of many releases, all but the last alike."""
    release, last = mixed_release(n_seeds=2), many_groups(["a", "b", "c"])
    audit = pcer.audit(release, QUICK)
    audits = [*([audit] * (count - 1)), pcer.audit(last, QUICK)]
    path.write_text(to_report(audits, [*([release] * (count - 1)), last]), encoding="utf-8")
    return path


@pytest.fixture(scope="module")
def many(tmp_path_factory) -> Path:
    """A page of six releases: more than are drawn at once."""
    return write_many(tmp_path_factory.mktemp("many") / "report.html", 6)


@pytest.fixture(scope="module")
def whole_study(tmp_path_factory) -> Path:
    """The report of the paper's six configurations."""
    folder = write_study(tmp_path_factory.mktemp("study"), n_seeds=2)
    path: Path = folder / "report.html"
    path.write_text(str(study_files(Study.read(folder))["report.html"]), encoding="utf-8")
    return path


def test_the_whole_study_shows_every_configuration_and_budget(opened, whole_study):
    page = opened(whole_study, viewport={"width": 1_200, "height": 900})
    rows = page.page.locator(".matrix tbody tr").all()
    assert [row.locator("th, td.label").all_inner_texts() for row in rows] == [
        [one.dataset, one.attribute] for one in CONFIGURATIONS
    ]
    verdicts = [row.locator("td:not(.label) a").all() for row in rows]
    shown = [one for row in verdicts for one in row[1:]]  # the first is the overall verdict
    assert len(shown) == len(CONFIGURATIONS) * len(BUDGETS) == 36
    assert all(one.is_visible() and one.inner_text() for one in shown)
    assert page.page.locator(".matrix thead th").all_inner_texts()[3:] == [
        *(f"ε = {epsilon:g}" for epsilon in sorted(BUDGETS)[:-1]),
        "no-DP",
    ]
    page.page.locator('.matrix a[href="#release-6"]').first.click()
    page.page.locator("#release-6-charts").scroll_into_view_if_needed()
    page.wait_for_charts(1, inside="#release-6")
    assert page.said == []


def test_opens_from_a_file_without_network_and_says_nothing(opened, one):
    page = opened(one)
    page.wait_for_charts(N_CHARTS)
    assert page.count(".chart") == N_CHARTS
    assert page.said == []
    assert page.asked == [one.as_uri()]
    for chart in page.page.locator(".chart").all():
        assert chart.locator("svg path").count() > 10
        assert len(chart.get_attribute("aria-label")) > 30


def test_nothing_but_the_pages_own_scripts_can_run(opened, one):
    page = opened(one)
    added = """() => { const s = document.createElement("script");
        s.textContent = "window.intruder = 1"; document.body.append(s);
        return window.intruder === undefined; }"""
    assert page.page.evaluate(added)
    assert any("Content Security Policy" in text for text in page.said)


@pytest.mark.parametrize("floor", [0.01, 0.0001, 0.1])
def test_the_slider_shows_the_audits_means_and_intervals(opened, one, audit, floor):
    page = opened(one)
    page.wait_for_charts(N_CHARTS)
    page.set_floor(floor)
    rows = page.page.locator("table.live tbody tr").all()
    assert len(rows) == len(audit.budgets)
    for row, budget in zip(rows, audit.budgets, strict=True):
        expected = next(f for f in budget.pairs[0].floors if f.floor == floor)
        shown = float(row.locator("data").get_attribute("value"))
        assert shown == pytest.approx(expected.mean, rel=1e-6, abs=1e-6)
        assert (
            row.locator(".floored").inner_text() == f"{100 * expected.floor_dominated_share:.0f} %"
        )
        assert row.locator(".interval").inner_text().startswith("[")
    assert page.said == []


def test_the_charts_follow_the_slider(opened, one):
    page = opened(one)
    page.wait_for_charts(N_CHARTS)
    chart = page.page.locator('[data-chart="disparity"]')
    before = chart.inner_html()
    page.set_floor(0.1)
    page.page.wait_for_timeout(500)
    assert chart.inner_html() != before
    slider = page.page.locator("#floor")
    slider.press("ArrowLeft")
    page.page.wait_for_timeout(300)
    assert page.page.locator("table.live .interval").first.inner_text() == "none at this floor"
    assert page.page.locator("#floor-hint").inner_text() == "between: means only"


def test_the_keyboard_reaches_everything(opened, one):
    page = opened(one)
    wanted = page.page.evaluate(
        """() => [...document.querySelectorAll('a[href], summary, input, button, [tabindex="0"]')]
        .map((e, k) => { e.dataset.stop = k; return k; })"""
    )
    reached = set()
    for _ in range(len(wanted) + 5):
        page.page.keyboard.press("Tab")
        reached.add(page.page.evaluate("document.activeElement.dataset.stop"))
    assert {str(stop) for stop in wanted} <= reached


def serious(page: Opened, context: str) -> list[Any]:
    """What axe-core calls serious or critical inside a part of the page."""
    import axe_playwright_python

    script = Path(axe_playwright_python.__file__).parent / "axe.min.js"
    page.page.evaluate(script.read_text(encoding="utf-8"))
    found = page.page.evaluate("(context) => axe.run(context)", context)
    assert len(found["passes"]) > 5
    return [
        (rule["id"], [node["html"][:120] for node in rule["nodes"][:3]])
        for rule in found["violations"]
        if rule["impact"] in ("serious", "critical")
    ]


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_axe_finds_nothing_serious(opened, one, many, scheme):
    page = opened(one, color_scheme=scheme)
    page.wait_for_charts(N_CHARTS)
    assert serious(page, "html") == []
    assert serious(opened(many, color_scheme=scheme), ".all") == []


@pytest.mark.parametrize("width", WIDTHS)
def test_nothing_is_cut_or_overlaps(opened, one, width):
    page = opened(one, viewport={"width": width, "height": 900})
    page.wait_for_charts(N_CHARTS)
    measured = page.page.evaluate(MEASURE)
    assert measured["page"] <= width
    assert measured["wide"] == []
    for left, _, right, _, outer_left, _, outer_right, _ in measured["charts"]:
        assert outer_left - 1 <= left < right <= outer_right + 1
    blocks = measured["blocks"]
    for k, (left, top, right, bottom) in enumerate(blocks):
        for other_left, other_top, other_right, other_bottom in blocks[k + 1 :]:
            apart = other_left >= right - 1 or left >= other_right - 1
            below = other_top >= bottom - 1 or top >= other_bottom - 1
            inside = other_top >= top - 1 and other_bottom <= bottom + 1
            assert apart or below or inside


def test_the_first_screen_answers_the_three_questions(opened, one):
    page = opened(one, viewport={"width": 900, "height": 900})
    bar = page.page.locator(".floorbar").bounding_box()["y"]
    assert page.count(".answers dt") == 3
    for answer in page.page.locator(".answers > div").all():
        box = answer.bounding_box()
        assert box["y"] + box["height"] < bar


def test_hostile_names_are_shown_and_run_nothing(opened, tmp_path):
    release = many_groups(HOSTILE, dataset=HOSTILE[3], attribute=HOSTILE[1])
    path = tmp_path / "hostile.html"
    path.write_text(to_report([pcer.audit(release, QUICK)], [release]), encoding="utf-8")
    page = opened(path)
    page.wait_for_charts(N_CHARTS)
    text = page.page.locator("body").inner_text()
    for name in HOSTILE[:4]:
        assert name in text, name
    drawn = page.page.locator('[data-chart="gaps"] svg').text_content()
    for name in HOSTILE[:4]:
        assert name[:18] in drawn, name  # a legend may shorten the rest
    assert "مجموعة" in drawn
    assert "🙂" in drawn
    assert page.said == []
    assert page.count("script") == 5
    assert page.count("img") == 0


def check_laziness(page: Opened, count: int) -> None:
    """Few charts are drawn at first; following the matrix draws those of its target."""
    page.page.wait_for_timeout(500)
    assert page.count(".chart") == count * N_CHARTS
    assert page.count(".matrix a") == (count - 1) * 7 + 3
    assert page.count(".chart[data-drawn]") < 2 * N_CHARTS
    page.page.locator(f'.matrix a[href="#release-{count}"]').first.click()
    page.page.locator(f"#release-{count}-charts").scroll_into_view_if_needed()
    page.wait_for_charts(2, inside=f"#release-{count}")
    assert page.count(".chart[data-drawn]") < 4 * N_CHARTS
    assert page.said == []


def test_a_page_of_many_releases_draws_only_what_is_near(opened, many):
    check_laziness(opened(many, viewport={"width": 900, "height": 900}), 6)


@pytest.mark.slow
def test_a_page_of_36_releases_opens_and_scrolls(opened, tmp_path):
    path = write_many(tmp_path / "report.html", 36)
    start = time.monotonic()
    page = opened(path, viewport={"width": 900, "height": 900})
    check_laziness(page, 36)
    assert time.monotonic() - start < PATIENCE


def test_print_shows_light_colours_and_no_controls(opened, one):
    page = opened(one, color_scheme="dark")
    page.wait_for_charts(N_CHARTS)
    page.page.emulate_media(media="print", color_scheme="dark")
    assert not page.page.locator(".floorbar").is_visible()
    style = "() => getComputedStyle(document.body).backgroundColor"
    assert page.page.evaluate(style) == "rgb(255, 255, 255)"
    assert page.page.locator(".facts li").first.is_visible()
