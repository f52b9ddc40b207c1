"""Every output word for word, once: the files in ``golden/`` are what people read.

After a change of words run ``PCER_GOLDEN=write pytest tests/report/test_golden.py`` and read the
difference before it is committed.
"""

import os
from pathlib import Path

import pcer
from pcer.report import to_junit, to_latex_tables, to_markdown_page, to_report
from pcer.report.changes import change_parts, changes_to_junit
from pcer.report.outlooks import outlook_parts
from pcer.report.pictures import exposures_svg, finding_svg, floors_svg
from pcer.report.text import full_parts, overview_part, short_parts
from tests.commands import run
from tests.pages import ROOT, audited, mixed_audit, mixed_release, with_attacks

GOLDEN = Path(__file__).parent / "golden"
BY_HAND = ROOT / "tests" / "releases" / "by-hand.release.json"
VERBS = ("audit", "verify", "compare", "plan", "release", "datasets", "train", "demo", "receipt")


def text(parts) -> str:
    return "\n\n".join(map(str, parts)) + "\n"


def outputs() -> dict[str, str]:
    """By file name: one release of six settings, and small ones of what has other outputs."""
    audit, small = mixed_audit(), audited(BY_HAND)
    policy = pcer.Policy(min_splits=9, largest_exposure=0.02, strict=True)
    judged = pcer.audit(small.sources[0], pcer.Plan(resamples=60, null_draws=20, policy=policy))
    changes = pcer.compare(audit.sources[0], with_attacks(mixed_release(n_seeds=3)))
    sizes = pcer.detectable({"women": 1_200, "men": 3_400}, target=0.01)
    found = {
        "short.txt": text(short_parts(audit, 80)),
        "narrow.txt": text(short_parts(audit, 40)),
        "full.txt": text(full_parts(audit, 80)),
        "several.txt": text([overview_part([audit, small], 80)]),
        "tables.tex": to_latex_tables([small]),
        "page.md": to_markdown_page([judged]),
        "junit.xml": to_junit([audit, judged], ["disparity_shown", "double_disadvantage"]),
        "page.html": to_report([small], small.sources[:1]),
        "finding.svg": finding_svg(audit),
        "quiet.svg": finding_svg(audit, setting=0),
        "exposures.svg": exposures_svg(audit),
        "floors.svg": floors_svg(audit),
        "notebook.html": small._repr_html_() + "\n" + small.sources[0]._repr_html_(),
        "release.txt": f"{small.sources[0]}\n",
        "compare.txt": text(change_parts(changes, 80)),
        "compare.xml": changes_to_junit(changes),
        "plan.txt": text(outlook_parts(sizes, 80)),
        "help.txt": "".join(run(v, "--help", COLUMNS="100").stdout for v in VERBS),
    }
    version = f"pcer {pcer.__version__}"
    return {name: content.replace(version, "pcer VERSION") for name, content in found.items()}


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
