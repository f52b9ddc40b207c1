"""How does a model card tell an audit?

``to_card`` gives the text of a card, with Hugging Face's metadata (``Audit.card`` and
``pcer audit --card``). ``card_sections`` gives the sections of Hugging Face's template
by title, as a card of skops takes them: ``card.add(**card_sections(found))``. To add a
section: one more ``yield`` of ``_sections``.

Names are other people's words: they are escaped for Markdown and quoted for YAML, which
is written here so that nothing need be installed.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from pcer import wording
from pcer._version import __version__
from pcer.auditing import sentences
from pcer.auditing.record import Audit
from pcer.errors import InputError, printable
from pcer.files import as_shown
from pcer.report.formats.markdown import markdown_text, to_markdown
from pcer.report.formats.numbers import PREFIX, slugs, to_metrics
from pcer.report.tables.background import left_out, subject_name
from pcer.report.tables.settings import MOST_SETTINGS, settings_table

# Titles of the template; what follows a slash is a subsection.
RISKS = "Bias, Risks, and Limitations"
RESULTS = "Evaluation/Results"
METHOD = "Evaluation/Testing Data, Factors & Metrics"


def to_card(
    *audits: Audit, model: str | None = None, task: str = "tabular-classification"
) -> str:
    """A model card of audits of one model: numbers as front matter, then sections.

    Args:
        audits: one for each attribute.
        model: its name; by default the audits', or that of their dataset, which must be
            one.
        task: the task by its name on the Hub.
    """
    name = model or _card_name(audits)
    lines = ["---", "model-index:", f"- name: {yaml_text(name)}", "  results:"]
    for audit in audits:
        lines += _results(audit, task)
    parts = ["\n".join([*lines, "---"])]
    for title, text in card_sections(*audits).items():
        *above, last = title.split("/")
        parts.append(f"{'#' * (2 + len(above))} {last}")
        if text:
            parts.append(text)
    return "\n\n".join(parts) + "\n"


def _card_name(audits: Sequence[Audit]) -> str:
    """What the audited model is called: by its name, or by its dataset's."""
    datasets = sorted({audit.subject.dataset for audit in audits})
    if len(datasets) > 1:
        quoted = wording.listed([yaml_text(dataset) for dataset in datasets])
        raise InputError(
            f"A card is about one model, but these audits are of {quoted}; make a card "
            "of each, or name the model that all are of: to_card(..., model=...)."
        )
    models = {audit.told.model for audit in audits}
    model = models.pop() if len(models) == 1 else None
    return model or datasets[0]


def card_sections(*audits: Audit) -> dict[str, str]:
    """Markdown of each section by its title.

    A subsection's title is ``"Section/Subsection"``.
    """
    texts: dict[str, list[str]] = {}
    for audit in audits:
        printable = as_shown(audit)
        head = ""
        if len(audits) > 1:
            head = f"**{markdown_text(subject_name(printable))}**\n\n"
        for title, text in _sections(printable, audit):
            own_texts = texts.setdefault(title, [])
            if text:
                own_texts.append(head + text)
    return {title: "\n\n".join(parts) for title, parts in texts.items()}


def yaml_text(text: str) -> str:
    r"""Text as a quoted YAML scalar, invisible characters spelt out.

    >>> print(yaml_text('a: "b" #c'))
    "a: \"b\" #c"
    """
    escaped = printable(text).replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'


def _results(audit: Audit, task: str) -> Iterator[str]:
    """The numbers of the setting that the headline is about, as evaluation results."""
    subject = audit.subject
    groups = {slug: name for name, slug in slugs(subject.groups).items()}
    (dataset_slug,) = slugs([subject.dataset]).values()
    setting = wording.setting_name(audit.told.model, audit.told.epsilon)
    yield "  - task:"
    yield f"      type: {yaml_text(task)}"
    yield "    dataset:"
    yield f"      name: {yaml_text(subject.dataset)}"
    yield f"      type: {yaml_text(dataset_slug)}"
    yield f"      config: {yaml_text(subject.attribute)}"
    yield "      args:"
    yield f"        setting: {yaml_text(setting)}"
    yield "    metrics:"
    for name, value in to_metrics(audit).items():
        if "__" in name:  # of a further setting
            continue
        label = _label(name.removeprefix(PREFIX), groups)
        yield f"    - type: {name}"
        # "#": a number with an exponent is one in YAML only with a point.
        yield f"      value: {value:#}"
        yield f"      name: {yaml_text(label)}"


def _label(metric: str, groups: dict[str, str]) -> str:
    """What a number is called for readers."""
    base = metric.removesuffix("_at_most")
    if base in wording.templates()["metric"]:
        label = wording.say("metric", base)
    else:
        (parts,) = re.findall("((?:other_)?exposure|outcome)_(.+)", base)
        kind, group = parts
        of = groups.get(group) or wording.say("metric", "most")
        label = wording.say("metric", kind, of=of)
    return label if base == metric else wording.say("metric", "bound", of=label)


def _sections(printable: Audit, audit: Audit) -> Iterator[tuple[str, str]]:
    """Title and Markdown of each section, in the template's order.

    The text of a section that only has subsections is empty. ``printable`` is the audit
    with every text safe to display.
    """
    setting = printable.told
    subject = printable.subject
    said = sentences.of(printable, setting)
    risks = [row.text for row in said.rows]
    risks += [wording.say("account", "not_measured"), *left_out(printable)]
    risks.append(said.if_in_data)
    yield RISKS, f"**{markdown_text(printable.headline)}**\n\n{_list(risks)}"
    steps = [*printable.next_steps, wording.say("card", "decide")]
    yield f"{RISKS}/Recommendations", _list(steps)

    yield "Evaluation", ""
    yield METHOD, ""
    line = ", ".join(said.header)
    yield f"{METHOD}/Testing Data", markdown_text(f"{line}.")
    names = {"attribute": subject.attribute, "groups": wording.listed(subject.groups)}
    yield f"{METHOD}/Factors", markdown_text(wording.say("card", "factors", **names))
    metrics = f"{wording.say('card', 'metrics')} {printable.choice}"
    yield f"{METHOD}/Metrics", markdown_text(metrics)

    table = to_markdown(settings_table(printable, most_rows=MOST_SETTINGS))
    yield RESULTS, table.partition("\n\n")[2].rstrip()
    yield f"{RESULTS}/Summary", _list([*printable.trust, *said.policy])
    yield "Evaluation/How to Reproduce", _reproduce(audit)


def _list(sentences: list[str]) -> str:
    return "\n".join(f"- {markdown_text(sentence)}" for sentence in sentences)


def _reproduce(audit: Audit) -> str:
    """Python that gives this audit from its releases."""
    plan = audit.plan.model_dump(exclude_defaults=True)
    fields = ", ".join(f"{key}={value!r}" for key, value in plan.items())
    wanted = {audit.release_sha256: audit.subject.attribute}
    wanted |= dict.fromkeys(audit.family, "")
    wanted |= {release.sha256: release.subject.attribute for release in audit.sources}
    # Without backticks, names cannot close the block.
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
