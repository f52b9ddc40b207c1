"""How does ``pcer release`` take what makes a synthetic table, or a finished one?

``release`` comes here where ``--synthesizer`` or ``--synthetic`` is given; the table
that it names is then the real one. To add an option: an argument of the functions in
``models/synthetic``, and its entry in ``_about`` or below.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from pcer.cli import options as options_module
from pcer.cli import outputs
from pcer.errors import InputError
from pcer.models import About, object_named
from pcer.release.columns import CROSSING
from pcer.release.disclosure import Disclosure
from pcer.release.file import Release

SKLEARN = ("sklearn", "joblib")
EXAMPLE = "my_tables:make"
# Asked where an option is missing, with a likely answer.
QUESTIONS = {
    "attributes": ("which column divides the people into groups (--attribute)?", "sex"),
    "split": (
        "which column says train for people whom the table was made from, and test for "
        "others (--split)?",
        "split",
    ),
    "split_kind": (
        "were these drawn at random (--split-kind random or other)?",
        "random",
    ),
}
FLAGS = {"attributes": "--attribute"}
ABOUT = ("dataset", "groups", "group_names", "missing", "people")


class Source(NamedTuple):
    """What is audited: a maker of tables, or one finished table."""

    maker: str | None
    table: str | None

    @property
    def is_given(self) -> bool:
        """Whether either is."""
        return self.maker is not None or self.table is not None


def releases_of(
    real: str, source: Source, options: Mapping[str, Any], disclosure: Disclosure
) -> dict[str, Release]:
    """The release of the one attribute that is named, by its name."""
    options_module.require_packages(SKLEARN, extra="sklearn", by="--synthesizer")
    if source.maker is not None and source.table is not None:
        raise InputError(
            "--synthesizer and --synthetic exclude each other; give what makes tables, "
            "or one finished table."
        )
    _require_answers(real, source, options)
    (attribute,) = options["attributes"]
    X = _frame(real, options["backend"])
    groups = _columns(X, attribute.split(CROSSING), "--attribute")
    about = About(
        attribute=attribute,
        notes=options["notes"] or (),
        **{name: options[name] for name in ABOUT if options[name] is not None},
    )
    common: dict[str, Any] = {
        "sensitive_features": groups,
        "about": about,
        "disclosure": disclosure,
    }
    person = options["person_id"]
    if person is not None:
        common["person_id"] = _columns(X, [person], "--person-id")[person]
        X = X.drop(columns=person)
    if source.maker is not None:
        release = _of_maker(source.maker, X, common)
    else:
        release = _of_table(str(source.table), X, options, common)
    return {attribute: release}


def _of_maker(maker: str, X: Any, common: Mapping[str, Any]) -> Release:
    from pcer.models.synthetic import release_from_synthesizer

    with options_module.about("--synthesizer"):
        make = object_named(maker, folder=Path.cwd(), example=EXAMPLE)
    return release_from_synthesizer(make, X, progress=not outputs.QUIET.get(), **common)


def _of_table(
    table: str, X: Any, options: Mapping[str, Any], common: Mapping[str, Any]
) -> Release:
    from pcer.models.synthetic import release_from_synthetic

    column = options["split"] or "split"
    part = _columns(X, [column], "--split")[column].astype(str)
    if not set(part) <= {"train", "test"}:
        raise InputError(
            f"{column} must say train or test of every person; recode it.",
            field="split",
        )
    with outputs.working("Comparing"):
        return release_from_synthetic(
            _frame(table, options["backend"]),
            X.drop(columns=column),
            member=part == "train",
            split_kind=options["split_kind"],
            dp_delta=options["dp_delta"],
            **common,
        )


def _require_answers(real: str, source: Source, options: Mapping[str, Any]) -> None:
    """Ask at once for all that is missing."""
    asked = ["attributes"]
    if source.table is not None:
        asked.append("split_kind")
    missing = [name for name in asked if not options[name]]
    if missing:
        arguments: list[str] = []
        for name in missing:
            flag = FLAGS.get(name, f"--{name.replace('_', '-')}")
            arguments += [flag, QUESTIONS[name][1]]
        questions = [QUESTIONS[name][0] for name in missing]
        raise options_module.unanswered(real, questions, arguments, missing[0])
    if len(options["attributes"]) > 1:
        raise InputError(
            "a synthetic table is audited by one attribute at a time; cross several "
            "('sex & race'), or call once for each.",
            field="attributes",
        )


def _frame(path: str, backend: str | None) -> Any:
    """A whole table of any kind that ``pcer release`` reads, in memory."""
    from pcer.tables.predictions import open_predictions

    table, _ = open_predictions(path, backend=backend)
    return table.to_pyarrow().to_pandas()


def _columns(X: Any, names: Sequence[str], option: str) -> dict[str, Any]:
    for name in names:
        if name not in X.columns:
            listed = ", ".join(map(str, X.columns[:10]))
            raise InputError(
                f"{option} names {name!r}, which is no column of the real table; it "
                f"has: {listed}.",
                field=option.strip("-"),
            )
    return {name: X[name] for name in names}
