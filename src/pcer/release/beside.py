"""Do the numbers that stand beside a verdict fit each other?

``file`` calls ``check_tail`` and ``check_subgroups`` for every release that is made or
read. To add what must hold: a condition in ``_is_whole`` or ``_is_made_by``.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

from pcer.release.records import (
    SubgroupSearch,
    SubgroupTest,
    TailRow,
    WorstSubgroup,
    refuse,
)

# Numbers that a row of ``tail`` has together, and the models of different splits that
# it needs.
TAIL_NUMBERS = ("picked", "picked_error", "by_chance", "right", "right_error")
LEAST_TAIL_MODELS = 16
BOUND_TOLERANCE = 1e-6  # of a subgroup's bound, recomputed
Setting = tuple[str | None, float | None]


def check_tail(rows: Sequence[TailRow], groups: Sequence[str]) -> None:
    """Rows are whole, of models enough, and beside another group."""
    for index, row in enumerate(rows):
        path = f"tail[{index}]"
        if row.n_models < LEAST_TAIL_MODELS:
            place = f"{path}.n_models"
            refuse(
                place,
                f"{place}: a tail needs {LEAST_TAIL_MODELS} models of different "
                f"splits, not {row.n_models}",
            )
        if not _is_whole(row):
            refuse(path, f"{path}: give all of {', '.join(TAIL_NUMBERS)}, or none")
        others = {*groups} - {row.group}
        place = f"{path}.against"
        if row.against is not None and row.against not in others:
            refuse(place, f"{place}: {row.against!r} is not another group")
        if row.p_value is not None and not _has_other(row, rows):
            refuse(place, f"{place}: a p-value needs the other group's row and numbers")


def _has_other(row: TailRow, rows: Sequence[TailRow]) -> bool:
    """Whether the group that a row is tested against has numbers in its setting."""
    setting = (row.model, row.epsilon)
    shown = [(one.model, one.epsilon, one.group) for one in rows if one.is_shown]
    return (*setting, row.against) in shown


def _is_whole(row: TailRow) -> bool:
    """All numbers or none; without numbers there is no test."""
    numbers = [getattr(row, name) for name in TAIL_NUMBERS]
    if row.against is not None and not row.is_shown:
        return False
    return numbers.count(None) in (0, len(numbers))


def check_subgroups(
    searches: Sequence[SubgroupSearch], settings: Collection[Setting]
) -> None:
    """One search of each kind; who is named stands out by the file's own numbers."""
    questions = set()
    for index, search in enumerate(searches):
        path = f"subgroups[{index}]"
        earlier = [other.about for other in searches[:index]]
        questions.add((*search.attributes, search.depth, search.least, search.seed))
        if search.about in earlier or len(questions) > 1:
            refuse(path, f"{path}: a file has one question, and each search once")
        for place, test in enumerate(search.tests):
            if (test.model, test.epsilon) not in settings:
                where = f"{path}.tests[{place}].epsilon"
                refuse(where, f"{where}: no run has this model and epsilon")
        if search.worst is not None:
            _check_worst(f"{path}.worst", search, search.worst)


def _check_worst(path: str, search: SubgroupSearch, worst: WorstSubgroup) -> None:
    """The winner is of the question, and its bound follows from the numbers beside."""
    for condition in worst.rule:
        if condition.attribute not in search.attributes:
            place = f"{path}.rule"
            refuse(place, f"{place}: {condition.attribute!r} was not searched")
    named_by = [test for test in search.tests if _is_made_by(worst, test, search.level)]
    if not named_by or search.withheld is not None:
        refuse(
            path,
            f"{path}: no test beside it has its bound and a p-value below the level; "
            "give the test that named it",
        )


def _is_made_by(worst: WorstSubgroup, test: SubgroupTest, level: float) -> bool:
    """Whether a test is the winner's, is significant, and gives its bound."""
    of_test = (test.model, test.epsilon, test.attack)
    if of_test != (worst.model, worst.epsilon, worst.attack):
        return False
    if test.critical_value is None or test.p_value > level:
        return False
    bound = worst.difference - test.critical_value * worst.standard_error
    return abs(bound - worst.lower_bound) <= BOUND_TOLERANCE
