"""Every output word for word, once: the files in ``golden/`` are what people read.

After a change of words run ``PCER_GOLDEN=write pytest tests/report/test_golden.py`` and
read the difference before it is committed.
"""

import os
from pathlib import Path

import pcer
from pcer.report import to_junit, to_latex_tables, to_markdown_page, to_report
from pcer.report.formats.junit import changes_to_junit
from pcer.report.formats.terminal import terminal_text
from pcer.report.pictures.answers import pictures_svg
from pcer.report.pictures.card import picture_of
from pcer.report.pictures.charts import figure1
from pcer.report.pictures.decisions import choice_svg, outlook_chart
from pcer.report.pictures.floors import floors_svg
from pcer.report.pictures.panels import chart_svg
from pcer.report.tables.decisions import (
    change_view,
    choice_view,
    outlook_view,
    trend_view,
)
from pcer.report.views import summary_line, summary_table, view_of
from tests.commands import run
from tests.pages import ROOT, audited, mixed_audit, mixed_release, with_attacks

GOLDEN = Path(__file__).parent / "golden"
BY_HAND = ROOT / "tests" / "releases" / "by-hand.release.json"
VERBS = (
    "plan",
    "train",
    "release",
    "audit",
    "recommend",
    "compare",
    "trend",
    "verify",
    "demo",
    "receipt",
)


def text(shown, width=80) -> str:
    return terminal_text(shown, width) + "\n"


def help_of(*verb: str) -> str:
    return run(*verb, "-h", COLUMNS="100").stdout


def outputs() -> dict[str, str]:
    """By file name: of a release with six settings, and of a small one."""
    audit = mixed_audit()
    small = audited(BY_HAND)
    policy = pcer.Policy(min_splits=9, largest_exposure=51, strict=True)
    judged = pcer.audit(
        small.sources[0], pcer.Plan(resamples=60, null_draws=20, policy=policy)
    )
    changes = pcer.compare(audit.sources[0], with_attacks(mixed_release(n_seeds=3)))
    choice = pcer.recommend(audit.sources[0], largest_exposure=53, least_accuracy=70)
    sizes = pcer.detectable({"women": 1_200, "men": 3_400}, target=0.01)
    found = {
        "short.txt": text(view_of(audit)),
        "narrow.txt": text(view_of(audit), 40),
        "full.txt": text(view_of(audit, "full")),
        "paper.txt": text(view_of(audit, "paper")),
        "summary.txt": f"{summary_line(audit)}\n",
        "several.txt": text([summary_table([audit, small])]),
        "tables.tex": to_latex_tables([small]),
        "page.md": to_markdown_page([judged]),
        "junit.xml": to_junit(
            [audit, judged], ["exposure_differs", "double_disadvantage"]
        ),
        "page.html": to_report([small], small.sources[:1]),
        "answers.svg": pictures_svg(audit),
        "badge.svg": picture_of(audit, "badge"),
        "card.svg": picture_of(audit, "card"),
        "floors.svg": floors_svg(audit),
        "figure1.svg": chart_svg(figure1(small, small.sources[0])),
        "outlook.svg": chart_svg(outlook_chart(sizes)),
        "notebook.html": small._repr_html_() + "\n" + small.sources[0]._repr_html_(),
        "release.txt": f"{small.sources[0]}\n",
        "compare.txt": text(change_view(changes)),
        "compare.xml": changes_to_junit(changes),
        "trend.txt": text(trend_view(pcer.trend([small.sources[0], small.sources[0]]))),
        "opinion.md": judged.opinion(date="2026-01-31", auditor="A. Auditor"),
        "plan.txt": text(outlook_view(sizes)),
        "recommend.txt": text(choice_view(choice)),
        "choice.svg": choice_svg(choice),
        "help.txt": "".join(help_of(*verb) for verb in ((), *zip(VERBS))),
    }
    version = f"pcer {pcer.__version__}"
    return {
        name: content.replace(version, "pcer VERSION")
        for name, content in found.items()
    }


def test_outputs_are_those_that_are_kept():
    made = outputs()
    if os.environ.get("PCER_GOLDEN") == "write":
        for name, content in made.items():
            (GOLDEN / name).write_text(content, encoding="utf-8")
    kept = {path.name: path.read_text(encoding="utf-8") for path in GOLDEN.iterdir()}
    assert kept.keys() == made.keys()
    for name, content in made.items():
        lines = zip(kept[name].split("\n"), content.split("\n"), strict=False)
        for number, (old, new) in enumerate(lines, start=1):
            assert new == old, f"{name}, line {number}"
        assert content == kept[name], name
