"""The page in a real browser: opened from a file, the network off, the policy on."""

import csv
import importlib.util
import io
import os
import re
import shutil
from collections.abc import Iterator
from itertools import combinations
from pathlib import Path
from typing import Any

import pytest

import pcer
from pcer.auditing import sentences
from pcer.data.bundled import COMPAS
from pcer.report.page import to_report
from tests import pages
from tests.pages import HOSTILE, QUICK, ROOT, audited

ARGUMENTS = [
    "--no-sandbox",
    "--disable-gpu",
    "--no-first-run",
    "--disable-background-networking",
]
MEASURE = """() => {
    const box = (e) => {
        const r = e.getBoundingClientRect();
        return [r.left, r.top, r.right, r.bottom];
    };
    const all = (selector) => [...document.querySelectorAll(selector)]
        .filter((e) => e.checkVisibility());
    const loose = all("main *")
        .filter((e) => !e.closest(".table") && !e.closest("svg"));
    return {
        page: document.documentElement.scrollWidth,
        wide: loose.filter((e) => box(e)[2] > innerWidth + 1).map((e) => e.className),
        pictures: all("figure svg").map((e) => [...box(e), ...box(e.parentElement)]),
        blocks: all("figure, .table, .row, .header, h1, h2, h3").map(box),
    };
}"""


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    """Debian's chromium; if it is missing CI fails, and others skip these tests."""
    packages = map(importlib.util.find_spec, ("playwright", "axe_playwright_python"))
    if not all(packages) or shutil.which("chromium") is None:
        assert "PCER_CI" not in os.environ, "CI must run the browser tests"
        pytest.skip("no playwright, axe or chromium")
    from playwright.sync_api import sync_playwright

    with sync_playwright() as driver:
        chromium = driver.chromium.launch(
            executable_path=shutil.which("chromium"), args=ARGUMENTS
        )
        yield chromium
        chromium.close()


@pytest.fixture
def opened(browser):
    """Open pages offline, noting everything that they say or ask for."""
    contexts = []

    def open_page(path: Path, *, unfolded: bool = False, **options: Any) -> Any:
        contexts.append(browser.new_context(offline=True, **options))
        page = contexts[-1].new_page()
        page.said = list[str]()
        page.asked = list[str]()
        page.on("console", lambda message: page.said.append(message.text))
        page.on("pageerror", lambda error: page.said.append(str(error)))
        page.on("dialog", lambda dialog: (page.said.append("dialog"), dialog.dismiss()))
        page.on("request", lambda request: page.asked.append(request.url))
        page.goto(path.as_uri())
        if unfolded:
            page.evaluate(
                "() => document.querySelectorAll('details').forEach(d => d.open = true)"
            )
        return page

    yield open_page
    for context in contexts:
        context.close()


def write_page(folder: Path, *audits: pcer.Audit) -> Path:
    path = folder / "report.html"
    path.write_text(
        to_report(audits, [one.sources[0] for one in audits]), encoding="utf-8"
    )
    return path


@pytest.fixture(scope="module")
def one(tmp_path_factory) -> Path:
    """A page of six budgets with attack results."""
    return write_page(tmp_path_factory.mktemp("one"), pages.mixed_audit())


@pytest.fixture(scope="module")
def samples(tmp_path_factory) -> list[Path]:
    """Pages of releases in the repository: one setting and six, shown and not."""
    paths = [*(ROOT / "examples").glob("*.release.json")]
    paths.append(ROOT / "studies" / "paper" / "bios.gender.release.json")
    return [
        write_page(tmp_path_factory.mktemp(path.name), audited(path)) for path in paths
    ]


@pytest.fixture(scope="module")
def many(tmp_path_factory) -> Path:
    """A page of six releases, all but the last alike."""
    alike = pcer.audit(pages.mixed_release(n_seeds=2), QUICK)
    last = pcer.audit(pages.many_groups(["a", "b", "c"]), QUICK)
    return write_page(tmp_path_factory.mktemp("many"), *([alike] * 5), last)


def printed(page: Any) -> int:
    """How many pages a printer would give."""
    data = page.pdf(prefer_css_page_size=True, print_background=True)
    return len(re.findall(rb"/Type\s*/Page\b", data))


# Of the demo's page while it is folded: its height by width of screen, its words.
MOST_PIXELS = {1_400: 1_500, 400: 2_800}
MOST_WORDS = 560


def test_the_first_screen_has_the_six_answers(opened, one, samples):
    for path in (one, *samples):
        page = opened(path, viewport={"width": 1_400, "height": 900})
        assert page.locator(".row:visible").count() == 6
        for part in (".header", ".choose", ".headline", ".row"):
            for element in page.locator(f"{part}:visible").all():
                box = element.bounding_box()
                assert box["x"] >= 0
                assert box["x"] + box["width"] <= 1_400
                assert box["y"] + box["height"] <= 900, (path, part)
        assert printed(page) <= 2, path


def demo_audit() -> pcer.Audit:
    """The study's networks in the words of ``pcer demo``, which are longer."""
    release = pcer.read_release(ROOT / "studies" / "paper" / "compas.race.release.json")
    words = {
        "model": f"A network trained by the demo {COMPAS.trained}",
        "membership_means": COMPAS.membership_means,
    }
    subject = release.subject.model_copy(update=words)
    return pcer.audit(release.model_copy(update={"subject": subject}))


def test_the_demos_page_is_short(opened, tmp_path):
    path = write_page(tmp_path, demo_audit())
    for width, most in MOST_PIXELS.items():
        page = opened(path, viewport={"width": width, "height": 800})
        assert page.evaluate("document.documentElement.scrollHeight") <= most
        words = page.locator("body").inner_text().split()
        assert 200 < len(words) <= MOST_WORDS


def test_no_table_is_cut_on_a_telephone(opened, one, samples):
    for path in (one, *samples):
        page = opened(path, viewport={"width": 400, "height": 800})
        cut = page.evaluate(
            """() => [...document.querySelectorAll(".table")]
            .filter((e) => e.checkVisibility() && e.scrollWidth > e.clientWidth + 1)
            .map((e) => e.textContent)"""
        )
        assert cut == [], path


def test_print_is_light_and_has_the_details_only_where_they_are_open(opened, one):
    page = opened(one, color_scheme="dark")
    page.emulate_media(media="print", color_scheme="dark")
    for hidden in (".choose", "#print", "#release-1-every-test", ".detail"):
        assert not page.locator(hidden).first.is_visible()
    style = "() => getComputedStyle(document.body).backgroundColor"
    assert page.evaluate(style) == "rgb(255, 255, 255)"
    for shown in (".header", ".row figure", ".given table", ".paper table"):
        assert page.locator(f"{shown}:visible").count(), shown
    assert page.locator(".paper tbody tr:visible").count() == 6 * 2
    page.evaluate("() => { window.print = () => { window.printed = true; }; }")
    page.emulate_media(media="screen")
    page.locator(".detail > summary").click()
    page.locator("#print").click()
    page.wait_for_function("() => window.printed")
    page.emulate_media(media="print")
    for shown in ("#release-1-every-test", "#glossary"):
        assert page.locator(shown).is_visible()


def test_opens_from_a_file_without_network_and_runs_no_script_but_its_own(opened, one):
    page = opened(one, unfolded=True)
    page.wait_for_timeout(300)
    assert page.said == []
    assert page.asked == [one.as_uri()]
    added = """() => { const s = document.createElement("script");
        s.textContent = "window.intruder = 1"; document.body.append(s);
        return window.intruder === undefined; }"""
    assert page.evaluate(added)
    assert any("Content Security Policy" in text for text in page.said)


def test_a_chosen_setting_changes_everything(opened, one):
    audit = pages.mixed_audit()
    page = opened(one)
    menu = page.locator(".choose-setting")
    assert menu.input_value() == str(audit.main_setting)
    for number, setting in enumerate(audit.settings):
        menu.select_option(str(number))
        require_finding(page.locator(".finding:visible"), audit, setting)
        require_chosen(page, setting)
    assert page.said == []


def require_finding(view: Any, audit: pcer.Audit, setting: Any) -> None:
    """The finding that is shown is of this setting."""
    said = sentences.of(audit, setting)
    assert view.locator(".headline").inner_text() == setting.headline
    for shown, row in zip(view.locator(".row").all(), said.rows, strict=True):
        assert shown.locator(".question").inner_text() == row.question
        assert shown.locator(".answer").inner_text() == row.answer
        assert shown.locator(".alarm").all_inner_texts() == [row.main] * row.is_alarm


def require_chosen(page: Any, setting: Any) -> None:
    """Tables mark this setting; of the paper's numbers it alone is shown."""
    names = {setting.name.full, setting.name.short, setting.name.paper}
    rows = page.locator("tr.chosen th:first-child").all_text_contents()
    assert set(rows) <= names | {name.replace(" ", "") for name in names}
    assert len(set(rows)) >= 2
    shown = page.locator(".paper tbody tr:visible th").all_text_contents()
    assert shown == [setting.name.paper] * 2


def test_without_a_script_the_strongest_setting_is_shown(opened, one):
    audit = pages.mixed_audit()
    page = opened(one, java_script_enabled=False)
    assert page.locator(".headline:visible").all_inner_texts() == [audit.headline]
    assert not page.locator(".choose").is_visible()


def test_terms_explain_themselves_to_pointer_and_keyboard(opened, one):
    page = opened(one, unfolded=True)
    tip = "(e) => getComputedStyle(e, '::after').content"
    terms = page.locator("dfn:visible").all()
    assert len(terms) >= 5
    for term in terms:
        assert term.evaluate(tip) == "none"
        term.focus()
        meaning = page.locator(
            f"#{term.get_attribute('aria-describedby')}"
        ).text_content()
        assert term.evaluate(tip).strip('"').replace('\\"', '"') == meaning
    terms[0].hover()
    assert terms[0].evaluate(tip) != "none"


def downloaded(page: Any) -> list[list[str]]:
    """The numbers of the pictures as the page saves them."""
    page.locator(".detail > summary").first.click()
    with page.expect_download() as download:
        page.locator("[data-csv]").click()
    assert download.value.suggested_filename == "release-1-numbers.csv"
    return list(csv.reader(io.StringIO(Path(download.value.path()).read_text("utf-8"))))


def test_numbers_of_the_pictures_are_a_table_and_a_file(opened, one, tmp_path):
    """In which a name that a spreadsheet would run is text."""
    audit = pages.mixed_audit()
    page = opened(one)
    rows = downloaded(page)
    assert (
        page.locator("table:has(#release-1-numbers) tbody tr").count()
        == len(rows) - 1
        == 6 * 2
    )
    group = audit.settings[0].groups["men"]
    base = 50 if audit.attack_kind.scale.is_advantage else 0
    setting, name, *numbers, detected = rows[1]
    assert setting == "ε = 0.1"
    assert name == "men"
    assert detected == ("yes" if group.detected else "no")
    exposures = (
        group.exposure.value,
        *group.exposure.interval,
        group.exposure.upper_bound,
    )
    expected = [
        100 * group.benefit.mean,
        *(base + 100 * exposure for exposure in exposures),
    ]
    assert [float(number) for number in numbers] == pytest.approx(expected, abs=1e-4)
    assert page.said == []
    run = write_page(tmp_path, pcer.audit(pages.many_groups(["=1+1", "+b"]), QUICK))
    assert {row[1] for row in downloaded(opened(run))[1:]} == {"'=1+1", "'+b"}


def test_the_keyboard_reaches_everything(opened, one):
    page = opened(one, unfolded=True)
    stops = page.evaluate(
        """() => [...document.querySelectorAll(
            'a[href], summary, input, select, button, [tabindex="0"]')]
        .filter((e) => e.checkVisibility()).map((e) => { e.focus(); return [
            e.tagName, e.tabIndex, document.activeElement === e]; })"""
    )
    assert [stop for stop in stops if stop[1:] != [0, True]] == []
    assert page.locator(".floors g[tabindex]:visible").count() == 6 * 4


@pytest.mark.slow
def test_axe_finds_nothing(opened, one, many):
    """Of any severity, in light and in dark."""
    import axe_playwright_python

    script = (Path(axe_playwright_python.__file__).parent / "axe.min.js").read_text(
        "utf-8"
    )
    for path, scheme in ((one, "light"), (many, "dark")):
        page = opened(path, color_scheme=scheme, unfolded=True)
        page.evaluate(script)
        found = page.evaluate("() => axe.run('html')")
        assert len(found["passes"]) > 5
        assert [
            (rule["id"], rule["nodes"][0]["html"][:120]) for rule in found["violations"]
        ] == []


@pytest.mark.parametrize("width", [400, 1400])
def test_nothing_is_cut_or_overlaps(opened, one, width):
    page = opened(one, viewport={"width": width, "height": 900}, unfolded=True)
    measured = page.evaluate(MEASURE)
    assert measured["page"] <= width
    assert measured["wide"] == []
    for left, _, right, _, outer_left, _, outer_right, _ in measured["pictures"]:
        assert outer_left - 1 <= left <= right <= outer_right + 1
    blocks = measured["blocks"]
    for first, second in combinations(blocks, 2):
        assert stand_apart(first, second) or is_within(second, first)


def stand_apart(first: list[float], second: list[float]) -> bool:
    """Whether two boxes (left, top, right, bottom) share at most a pixel's edge."""
    left, top, right, bottom = first
    other_left, other_top, other_right, other_bottom = second
    beside = other_left >= right - 1 or left >= other_right - 1
    return beside or other_top >= bottom - 1 or top >= other_bottom - 1


def is_within(inner: list[float], outer: list[float]) -> bool:
    """Whether a box is no higher and no lower than another."""
    return inner[1] >= outer[1] - 1 and inner[3] <= outer[3] + 1


def test_on_a_telephone_the_first_column_of_a_table_stays(opened, one):
    page = opened(one, viewport={"width": 400, "height": 800}, unfolded=True)
    table = page.locator("#release-1-every-test-0").locator("xpath=../..")
    table.evaluate("(e) => { e.scrollLeft = 150; }")
    left = pytest.approx(table.bounding_box()["x"], abs=1)
    for cell in ("thead th", "tbody th"):
        assert table.locator(cell).first.bounding_box()["x"] == left
    assert (
        table.evaluate("(e) => getComputedStyle(e).backgroundImage").count("gradient")
        == 4
    )


def test_hostile_names_are_shown_and_run_nothing(opened, tmp_path):
    page = opened(write_page(tmp_path, pages.hostile_audit()), unfolded=True)
    text = page.locator("body").inner_text()
    drawn = page.locator(".marks:visible").inner_text()
    for name in HOSTILE[:4]:
        assert name in text, name
    # Of many groups some are drawn.
    assert sum(name[:18] in drawn for name in HOSTILE[:4]) >= 3
    page.locator(".choose-setting").select_option("0")
    tags = [page.locator(tag).count() for tag in ("script", "img")]
    assert (page.said, tags) == ([], [2, 0])


def play(page: Any, chosen: int) -> list[list[str]]:
    """The scores, as text, of a game in which the keys choose always the same side."""
    for _ in range(10):
        assert page.locator("#next").is_hidden()
        page.keyboard.press(str(chosen))
        page.keyboard.press(str(3 - chosen))  # a second guess does not count
        page.keyboard.press("Enter")  # the button for the next round has the focus
    rows = page.locator("#scores tr").all()
    return [row.locator("td").all_inner_texts() for row in rows]


def test_the_game_is_played_by_keys_on_a_telephone_and_counts_right(opened):
    game = ROOT / "docs" / "play.html"
    games = []
    for chosen in (1, 2):
        page = opened(game, viewport={"width": 360, "height": 640})
        page.keyboard.press("3")  # no key of the game
        assert "Round 1 of 10" in page.locator("#round").inner_text()
        games.append(play(page, chosen))
        assert page.evaluate("document.documentElement.scrollWidth") <= 360
        assert page.evaluate("document.activeElement.tagName") == "H2"
        assert page.said == []
        assert page.asked == [game.as_uri()]
    # One of the two is right in each of the five rounds of a group.
    for first, second in zip(*games, strict=True):
        assert int(first[0]) + int(second[0]) == 5
        assert first[1:] == second[1:]
    north, south = games[0]
    assert int(south[1]) > int(north[1])
    assert north[2] == south[2] == "2 or 3"
