"""How do the signals of one model become a release of exposure alone?

For models that are trained once, such as large ones: nothing is predicted, so groups
have sizes and attacks, but no outcomes. Users call ``release_from_signals``. To add a
statistic of a signal: its exposure in ``_of_people``.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from pcer.attacks import SettingScores, add_exposures
from pcer.errors import InputError
from pcer.metrics import BoolArray, FloatArray, IntArray
from pcer.models.about import About, facts_of
from pcer.models.splits import NO_COIN, PERSON, are_divided
from pcer.models.training import budget_of
from pcer.release import attack_kinds, build
from pcer.release import columns as convert
from pcer.release.build import Counted, ReleaseFacts
from pcer.release.columns import require_one_length
from pcer.release.disclosure import Disclosure
from pcer.release.file import Release
from pcer.release.population import Attribute, named_attribute
from pcer.release.records import Copies, Part, PooledExposure, SplitKind
from pcer.release.small_groups import Model, allowed_groups
from pcer.wording import plural

SIGNS = {"log_likelihood": 1.0, "loss": -1.0}  # members have higher ones, or lower ones
# Errors of all groups below chance, from which on the kind is called mistaken.
REVERSED = -6.0
ALONE = attack_kinds.AUC_ADVANTAGE.name
BEYOND = attack_kinds.REFERENCE.name
OTHERS = [name for name in attack_kinds.ATTACK_KINDS if name not in (ALONE, BEYOND)]
# Fields of rows that would need predictions, or labels.
OF_ANSWERS = (
    "n_ratio",
    "p_value",
    "p_value_within_labels",
    "exposure_p_value_within_labels",
    "n_outcomes",
    "n_wrongly",
    "wrongly_p_value",
)


def release_from_signals(  # noqa: PLR0913 # a front door
    signal: Any,
    reference_signal: Any,
    *,
    kind: Literal["log_likelihood", "loss"],
    sensitive_features: Any,
    member: Any,
    split_kind: SplitKind,
    person_id: Any = None,
    epsilon: float | None = None,
    dp_delta: float | None = None,
    about: About | Mapping[str, Any] | None = None,
    disclosure: Disclosure | Mapping[str, Any] | None = None,
) -> Release:
    """Exposure of each group from what one model and references say of every record.

    No outcomes are released. A record's score is how much likelier the model finds it
    than the references do on average. Its AUC minus 1/2 within a group is
    ``reference_advantage``, the signal's own ``auc_advantage``.

    Args:
        signal: the model's log-likelihood or loss of each record, trained on or not.
        reference_signal: that of a model that never saw these records, such as the
            pre-trained one; several as columns, as a list, or as an array (reference,
            record).
        kind: which of the two all signals are.
        sensitive_features: the group of each record; several named columns are crossed.
        member: True or 1 for each record that the model was trained on.
        split_kind: "random" if those were drawn at random, else "other".
        person_id: who has the record, where people have several: errors are then
            clustered.
        epsilon: the model's privacy budget; None or infinity without differential
            privacy.
        dp_delta: the delta of that budget.
        about: what the release is about, in readers' words.
        disclosure: what may leave; by default what is safe for private records.

    Raises:
        InputError: one sentence that names the argument and the remedy.
    """
    if kind not in SIGNS:
        raise InputError(
            f"kind must be 'log_likelihood' or 'loss', not {kind!r}.", field="kind"
        )
    about = About.of(about)
    signals = _numbers(signal, "signal")
    inside = membership_of(member)
    references = _references(reference_signal, signals)
    persons = None
    if person_id is not None:
        persons = convert.required_column(person_id, name="person_id").codes
    attribute = named_attribute(
        sensitive_features, about.attribute, about.groups, about.missing
    )
    require_one_length(
        signal=signals,
        member=inside,
        sensitive_features=attribute.codes,
        person_id=persons,
    )
    setting = SettingScores(
        logits=SIGNS[kind] * signals[None],
        labels=np.ones(len(signals), dtype=np.int64),
        member=inside[None],
        group=attribute.codes,
        group_names=attribute.groups,
        reference=SIGNS[kind] * (signals - references.mean(axis=0))[None],
        epsilon=budget_of(epsilon),
    )
    facts = facts_of(
        about, disclosure, outcome="benefit", split_kind=split_kind, dp_delta=dp_delta
    )
    note = (
        f"Exposure alone, by the {kind} of each record, beside "
        f"{plural(len(references), 'reference model')} that never saw it, as the "
        "trainer says."
    )
    facts = replace(facts, notes=[*facts.notes, note])
    return release_of_one(setting, attribute, persons, facts, file="signals")


def membership_of(member: Any) -> BoolArray:
    """(record,) who was trained on, from True and False, or 1 and 0."""
    column = convert.required_column(member, name="member")
    if column.names not in (["0", "1"], ["False", "True"]):
        raise InputError(
            "member must hold True for records that were trained on and False for "
            "others, or 1 and 0, each for some records; write member=part == 'train' "
            "if part has the words.",
            field="member",
        )
    return np.asarray(column.codes == 1)


def _numbers(values: Any, name: str) -> FloatArray:
    numbers = convert.numbers_of(values, 0, name=name)
    if not np.isfinite(numbers).all():
        raise InputError(
            f"{name} must be finite for every record; leave others out.", field=name
        )
    return numbers


def _references(given: Any, signals: FloatArray) -> FloatArray:
    """(reference, record) signals, of columns, a list or an array."""
    columns = convert.columns_of(given)
    rows: Any = [given]
    if columns is not None:
        rows = columns.values()
    elif getattr(given, "ndim", 1) == 2 or _is_nested(given):
        is_by_record = len(given) == len(signals) != len(given[0])
        rows = np.asarray(given).T if is_by_record else given
    references = [_numbers(row, "reference_signal") for row in rows]
    for row in references:
        require_one_length(signal=signals, reference_signal=row)
    return np.stack(references)


def _is_nested(given: Any) -> bool:
    is_list = isinstance(given, list | tuple)
    return is_list and len(given) > 0 and np.ndim(given[0]) == 1


def release_of_one(
    setting: SettingScores,
    attribute: Attribute,
    persons: IntArray | None,
    facts: ReleaseFacts,
    *,
    file: str,
    copied: BoolArray | None = None,
) -> Release:
    """Count people, attack and build a release of one model, or of one table.

    ``copied`` says which records the table has verbatim; errors name the ``file``.
    """
    part = np.where(setting.member[0], 0, 1)
    rows = np.arange(len(part))  # one of each person, group and part
    are_people = False
    if persons is not None:
        who = np.stack([persons, attribute.codes, part])
        rows = np.unique(who, axis=1, return_index=True)[1]
        are_people = are_divided(persons, part)
    if are_people:
        facts = replace(facts, unit_of_split=PERSON)
    attribute = _allowed(attribute, rows, part, facts)
    setting = replace(setting, group=attribute.codes, group_names=attribute.groups)
    (counted,) = add_exposures(
        [_sizes(setting, attribute, rows, part)],
        [[setting]],
        facts,
        no_coin="" if persons is None else NO_COIN,
        without=OTHERS,
    )

    pooled = [_of_people(row, setting, persons) for row in counted.pooled]
    if facts.split_kind == "random":
        _require_no_reversal(pooled)
    (run,) = counted.runs
    if are_people:
        sizes = run.cells.sum(axis=(0, 2)).astype(float).tolist()
        by_group = dict(zip(attribute.groups, sizes, strict=True))
        facts = replace(facts, effective_units=by_group)
    no_answers = dict.fromkeys(OF_ANSWERS)
    counted = replace(
        counted,
        runs=(replace(run, exposure={}),),
        pooled=pooled,
        placebo=[row.model_copy(update=no_answers) for row in counted.placebo],
    )
    if copied is not None:
        copies = copies_of(setting, copied[None], facts.disclosure)
        counted = replace(counted, copies=copies)
    return build.build_release(facts, counted, file=file)


def copies_of(
    setting: SettingScores, copied: BoolArray, rule: Disclosure
) -> list[Copies]:
    """What share of each group and part stands in the tables verbatim.

    ``copied`` is (table, record). Of private records in steps of ``least_people``.
    """
    step = 1 if rule.public_data else rule.least_people
    by_part: dict[Part, BoolArray] = {"train": setting.member, "test": ~setting.member}
    rows = []
    for k, group in enumerate(setting.group_names):
        for part, inside in by_part.items():
            chosen = inside & (setting.group == k)
            rows.append(
                Copies(
                    model=setting.model,
                    epsilon=setting.released_epsilon,
                    group=group,
                    part=part,
                    share=_share(copied, chosen, step),
                )
            )
    return rows


def _share(copied: BoolArray, chosen: BoolArray, step: int) -> float:
    """The mean share of copies over tables, in whole steps of records, rounded up."""
    n = chosen.sum() / len(chosen)
    n_copied = (copied & chosen).sum() / len(chosen)
    if step > 1:
        n_copied = step * math.ceil(n_copied / step)
    return min(float(n_copied / n), 1.0)


def _allowed(
    attribute: Attribute, rows: IntArray, part: IntArray, facts: ReleaseFacts
) -> Attribute:
    """The groups that may be released; without labels everybody counts with either."""
    either = Model(
        np.tile(rows, 2), np.tile(part[rows], 2), np.repeat([True, False], len(rows))
    )
    allowed = allowed_groups(
        facts.disclosure, [attribute], [either], names=facts.group_names
    )
    (attribute,) = allowed.attributes
    return attribute


def _sizes(
    setting: SettingScores, attribute: Attribute, rows: IntArray, part: IntArray
) -> Counted:
    """The sizes of groups and parts, in rows that are one for each unit."""
    none = np.zeros_like(rows)
    entries = build.Entries(
        run=none, split=part[rows], positive=none > 0, predicted=none > 0
    )
    key = build.RunKey(setting.released_epsilon, 0, "split 1")
    of_units = attribute.at(rows)
    return replace(build.count_entries(entries, [key], of_units), only_sizes=True)


def _require_no_reversal(pooled: Sequence[PooledExposure]) -> None:
    for row in pooled:
        is_reversed = row.value < REVERSED * (row.standard_error or 0)
        if row.attack == BEYOND and is_reversed:
            raise InputError(
                "records that were trained on have worse signals than the others; "
                "check the kind ('loss' for losses), member and reference_signal.",
                field="kind",
            )


def _of_people(
    row: PooledExposure, setting: SettingScores, persons: IntArray | None
) -> PooledExposure:
    """An AUC without outcomes, its errors clustered by person.

    With m members, k others, n = m + k records of P people and ranks r of their scores:

        AUC - 1/2 changes by  psi_i = +-(V_i - mean V) / (size of i's side),
        standard error^2 = P / (P - 1) sum_p (sum_{i of p} psi_i)^2,
        null error^2 = P / (P - 1) sum_p (sum_{i of p} (r_i - mean r))^2 / (n^2 m k).

    V_i is the share of the other side that record i beats (its placement: DeLong,
    DeLong and Clarke-Pearson, 1988). If nothing were memorised, a person's ranks would
    fall to either side as a whole; with one record each the null error is that of Mann
    and Whitney. The standard error is never below the null error.
    """
    if persons is None:
        return row.model_copy(update={"benefit_covariance": None})
    from scipy.stats import rankdata

    chosen = setting.group == setting.group_names.index(row.group)
    scores: Any = setting.logits if row.attack == ALONE else setting.reference
    score = scores[0, chosen]
    member = setting.member[0, chosen]
    people = np.unique(persons[chosen], return_inverse=True)[1]

    ranks = rankdata(score)
    psi = np.empty(len(score))
    for side, sign in ((member, 1), (~member, -1)):
        placement = (ranks[side] - rankdata(score[side])) / (~side).sum()
        psi[side] = sign * (placement - placement.mean()) / side.sum()
    n_pairs = float(member.sum() * (~member).sum())
    unit = math.sqrt(n_pairs) * len(score)  # n sqrt(m k)
    null_error = _clustered(np.bincount(people, ranks - ranks.mean()) / unit)
    update = {
        "benefit_covariance": None,
        "standard_error": max(_clustered(np.bincount(people, psi)), null_error),
        "null_error": null_error,
        "n_records": int(people.max()) + 1,
    }
    return row.model_copy(update=update)


def _clustered(sums: npt.NDArray[Any]) -> float:
    """The square root of P / (P - 1) sum s^2, for the sums of P people."""
    n_people = len(sums)
    return math.sqrt((sums**2).sum() * n_people / max(n_people - 1, 1))
