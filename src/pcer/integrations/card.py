"""Model cards: an audit as the sections of Hugging Face's card template, and as their metadata.

``to_card`` gives the text of a card. ``card_sections`` gives its sections by title, as
a card of skops takes them: ``card.add(**card_sections(found))``. Names are other
people's words: they are escaped for Markdown and quoted for YAML, which is written here
so that nothing need be installed.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from pcer import wording
from pcer._version import __version__
from pcer.auditing.record import Audit
from pcer.auditing.sentences import cards as cards_module
from pcer.auditing.sentences import telling
from pcer.errors import InputError, shown
from pcer.files import as_shown
from pcer.report.formats.markdown import markdown_text, to_markdown
from pcer.report.formats.metrics import PREFIX, slugs, to_metrics
from pcer.report.tables.background import left_out, subject_name
from pcer.report.tables.finding import MOST_ROWS, finding_table
from pcer.report.views import verdict_line

# Titles of the template; what follows a slash is a subsection.
RISKS, RESULTS = "Bias, Risks, and Limitations", "Evaluation/Results"
METHOD = "Evaluation/Testing Data, Factors & Metrics"


def to_card(
    *audits: Audit, model: str | None = None, task: str = "tabular-classification"
) -> str:
    """A model card of audits of one model: front matter with the numbers, then the sections.

    Args:
        audits: one for each attribute.
        model: its name; by default the audits', or that of their dataset, which must be
            one.
        task: the task by its name on the Hub.
    """
    datasets = sorted({audit.subject.dataset for audit in audits})
    models = {audit.told.model for audit in audits}
    quoted = [*map(yaml_text, datasets)]
    if model is None and len(datasets) > 1:
        raise InputError(
            f"A card is about one model, but these audits are of {wording.listed(quoted)}; make a "
            "card of each, or name the model that all are of: to_card(..., model=...)."
        )
    name = model or (models.pop() if len(models) == 1 else None) or datasets[0]
    lines = ["---", "model-index:", f"- name: {yaml_text(name)}", "  results:"]
    for audit in audits:
        lines += _results(audit, task)
    parts = ["\n".join([*lines, "---"])]
    for title, text in card_sections(*audits).items():
        *above, last = title.split("/")
        parts += [f"{'#' * (2 + len(above))} {last}", *([text] if text else [])]
    return "\n\n".join(parts) + "\n"


def card_sections(*audits: Audit) -> dict[str, str]:
    """Markdown of each section by its title; a subsection's is ``"Section/Subsection"``."""
    found: dict[str, list[str]] = {}
    for given, audit in ((audit, as_shown(audit)) for audit in audits):
        head = (
            f"**{markdown_text(subject_name(audit))}**\n\n" if len(audits) > 1 else ""
        )
        for title, text in _sections(audit, given):
            found.setdefault(title, []).extend([head + text] if text else [])
    return {title: "\n\n".join(texts) for title, texts in found.items()}


def yaml_text(text: str) -> str:
    r"""Text as a quoted YAML scalar, invisible characters spelt out.

    >>> print(yaml_text('a: "b" #c'))
    "a: \"b\" #c"
    """
    escaped = shown(text).replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'


def _results(audit: Audit, task: str) -> Iterator[str]:
    """The numbers of the setting that the headline is about, as evaluation results."""
    subject = audit.subject
    groups = {slug: name for name, slug in slugs(subject.groups).items()}
    (dataset,) = slugs([subject.dataset]).values()
    yield f"  - task:\n      type: {yaml_text(task)}"
    yield f"    dataset:\n      name: {yaml_text(subject.dataset)}"
    yield f"      type: {yaml_text(dataset)}\n      config: {yaml_text(subject.attribute)}"
    setting = wording.setting_name(audit.told.model, audit.told.epsilon)
    yield f"      args:\n        setting: {yaml_text(setting)}"
    yield "    metrics:"
    for name, value in to_metrics(audit).items():
        if "__" not in name:  # those of further settings
            label = _label(name.removeprefix(PREFIX), groups)
            # "#": a number with an exponent is one in YAML only with a point
            yield f"    - type: {name}\n      value: {value:#}\n      name: {yaml_text(label)}"


def _label(metric: str, groups: dict[str, str]) -> str:
    """What a number is called for readers."""
    base = metric.removesuffix("_at_most")
    if base in wording.templates()["metric"]:
        label = wording.say("metric", base)
    else:
        kind, of = re.findall("((?:other_)?exposure|outcome)_(.+)", base)[0]
        label = wording.say(
            "metric", kind, of=groups.get(of) or wording.say("metric", "most")
        )
    return label if base == metric else wording.say("metric", "bound", of=label)


def _sections(audit: Audit, given: Audit) -> Iterator[tuple[str, str]]:
    """Title and Markdown of each section, in the template's order; a parent may be empty."""
    told = audit.told
    subject = audit.subject
    cards = (
        cards_module.exposure_card(audit, told),
        cards_module.outcomes_card(audit, told),
    )
    answers = [
        f"{card.question} {card.answer}. {' '.join(card.sentences)}" for card in cards
    ]
    risks = [*answers, *audit.account[-1:], *left_out(audit)]
    yield (
        RISKS,
        f"**{markdown_text(audit.headline)}**\n\n{_list([verdict_line(audit), *risks])}",
    )
    yield (
        f"{RISKS}/Recommendations",
        _list([*audit.next_steps, wording.say("card", "decide")]),
    )
    yield "Evaluation", ""
    yield METHOD, ""
    yield (
        f"{METHOD}/Testing Data",
        markdown_text(", ".join(telling.subject_line(audit, told)) + "."),
    )
    names = {"attribute": subject.attribute, "groups": wording.listed(subject.groups)}
    yield f"{METHOD}/Factors", markdown_text(wording.say("card", "factors", **names))
    yield (
        f"{METHOD}/Metrics",
        markdown_text(f"{wording.say('card', 'metrics')} {audit.choice}"),
    )
    table = to_markdown(finding_table(audit, most_rows=MOST_ROWS))
    yield RESULTS, table.partition("\n\n")[2].rstrip()
    yield f"{RESULTS}/Summary", _list([*audit.trust, *audit.policy_lines])
    yield "Evaluation/How to Reproduce", _reproduce(given)


def _list(sentences: list[str]) -> str:
    return "\n".join(f"- {markdown_text(sentence)}" for sentence in sentences)


def _reproduce(audit: Audit) -> str:
    """Python that gives this audit from its releases; names in it cannot close the block."""
    plan = audit.plan.model_dump(exclude_defaults=True)
    fields = ", ".join(f"{key}={value!r}" for key, value in plan.items())
    wanted = {
        audit.release_sha256: audit.subject.attribute,
        **dict.fromkeys(audit.family, ""),
    }
    wanted |= {release.sha256: release.subject.attribute for release in audit.sources}
    code = f"""from pathlib import Path

import pcer  # {__version__}

# Releases and their attributes: by SHA-256, so that their files may have any name.
wanted = {wanted!r}
here = map(pcer.read_release, Path().glob("*.release.json"))
by_digest = {{release.sha256: release for release in here}}
release, *family = [by_digest[digest] for digest in wanted]
found = pcer.audit(release, pcer.Plan({fields}), family=family)
assert found.plan_sha256 == "{audit.plan_sha256}"
assert found.verdict == "{audit.verdict}"
""".replace("`", r"\x60")
    return f"{markdown_text(wording.say('card', 'reproduce'))}\n\n```python\n{code}```"
