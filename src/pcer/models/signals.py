"""From one model's signals to a release of exposure alone, for models that are trained once."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any, Literal

import numpy as np

from pcer.attacks import BudgetScores, with_costs
from pcer.errors import InputError, door
from pcer.metrics import FloatArray, IntArray
from pcer.models.fits import budget_of
from pcer.models.labels import require_one_length
from pcer.models.options import Options, option_remedies
from pcer.models.splits import PERSON
from pcer.release import attack_kinds, build
from pcer.release import columns as convert
from pcer.release.build import ReleaseFacts
from pcer.release.file import Release
from pcer.release.records import PooledExposure, SplitKind
from pcer.release.small_groups import Attribute, Model, allowed_groups

SIGNS = {"log_likelihood": 1.0, "loss": -1.0}  # members have higher ones, or lower ones
REVERSED = (
    -6.0
)  # errors of all groups below chance, from which on the kind is called mistaken
ALONE = attack_kinds.AUC_ADVANTAGE.name
BEYOND = attack_kinds.REFERENCE.name
OTHERS = [name for name in attack_kinds.PROXIES if name not in (ALONE, BEYOND)]
# Fields of rows that would need predictions, or labels.
OF_ANSWERS = (
    "n_ratio",
    "p_value",
    "p_value_within_labels",
    "exposure_p_value_within_labels",
)


@door(option_remedies)
def release_from_signals(
    signal: Any,
    reference_signal: Any,
    *,
    kind: Literal["log_likelihood", "loss"],
    member: Any,
    split_kind: SplitKind,
    sensitive_features: Any,
    person_id: Any = None,
    options: Options | None = None,
) -> Release:
    """Exposure of each group from what one model and references say of every record; no outcomes.

    A record's score is how much likelier the model finds it than the references do on
    average. Its AUC minus 1/2 within a group is ``reference_advantage``, the signal's
    own ``auc_advantage``.

    Args:
        signal: the model's log-likelihood or loss of each record, trained on or not.
        reference_signal: that of a model that never saw these records, such as the
            pre-trained one; several as columns, as a list, or as an array (reference,
            record).
        kind: which of the two all signals are.
        member: True or 1 for each record that the model was trained on.
        split_kind: "random" if those were drawn at random, else "other".
        sensitive_features: the group of each record; several named columns are crossed.
        person_id: who has the record, where people have several: errors are then
            clustered.
        options: names, epsilon, disclosure and more; see ``pcer.Options``.

    Raises:
        InputError: one sentence that names the argument and the remedy.
    """
    options = Options.of(options)
    options.require_taken("release_from_signals")
    if kind not in SIGNS:
        raise InputError(
            f"kind must be 'log_likelihood' or 'loss', not {kind!r}.", field="kind"
        )
    own = _numbers(signal, "signal")
    coded = convert.required_column(member, name="member")
    references = _references(reference_signal, own)
    persons = None
    if person_id is not None:
        persons = convert.required_column(person_id, name="person_id").codes
    attribute = options.attribute_of(sensitive_features)
    require_one_length(
        signal=own,
        member=coded.codes,
        sensitive_features=attribute.codes,
        person_id=persons,
    )
    if coded.names not in (["0", "1"], ["False", "True"]):
        rule = "member must hold True for records that were trained on and False for others, or 1"
        recode = "write member=part == 'train' if part has the words"
        raise InputError(
            f"{rule} and 0, each for some records; {recode}.", field="member"
        )
    several = f"{len(references)} reference model{'s' * (len(references) > 1)}"
    note = f"Exposure alone, by the {kind} of each record, beside {several} that never saw it, as "
    facts = options.facts(
        "benefit", split_kind, notes=[*options.notes, f"{note}the trainer says."]
    )
    setting = BudgetScores(
        logits=SIGNS[kind] * own[None],
        labels=np.ones(len(own), dtype=np.int64),
        member=coded.codes[None] == 1,
        group=attribute.codes,
        group_names=attribute.groups,
        reference=SIGNS[kind] * (own - references.mean(axis=0))[None],
        epsilon=budget_of(options.epsilon),
    )
    return _release(setting, attribute, persons, facts)


def _numbers(values: Any, name: str) -> FloatArray:
    numbers = convert.numbers_of(values, 0, name=name)
    if not np.isfinite(numbers).all():
        raise InputError(
            f"{name} must be finite for every record; leave others out.", field=name
        )
    return numbers


def _references(given: Any, own: FloatArray) -> FloatArray:
    """(reference, record) signals."""
    columns: Any = convert.columns_of(given)
    if columns is None:
        nested = (
            isinstance(given, list | tuple)
            and len(given) > 0
            and np.ndim(given[0]) == 1
        )
        rows: Any = given if nested or getattr(given, "ndim", 1) == 2 else [given]
        is_turned = len(rows) == len(own) != len(rows[0])  # a row for each record
        columns = dict(enumerate(np.asarray(rows).T if is_turned else rows))
    found = [_numbers(each, "reference_signal") for each in columns.values()]
    for each in found:
        require_one_length(signal=own, reference_signal=each)
    return np.stack(found)


def _release(
    setting: BudgetScores,
    attribute: Attribute,
    persons: IntArray | None,
    facts: ReleaseFacts,
) -> Release:
    """Count people, attack and build."""
    rows = np.arange(len(setting.labels))
    part = np.where(setting.member[0], 0, 1)
    no_coin = ""
    if persons is not None:
        no_coin = (
            "people have several records, and made-up groups are drawn record by record"
        )
        if len(np.unique(persons)) == np.unique([persons, part], axis=1).shape[1]:
            # nobody is in both parts, so people were divided, and are counted
            rows = np.unique([persons, attribute.codes], axis=1, return_index=True)[1]
            facts = replace(facts, unit_of_split=PERSON)
    # Without labels everybody counts with either.
    either = Model(
        np.tile(rows, 2), np.tile(part[rows], 2), np.repeat([True, False], len(rows))
    )
    (own,), _ = allowed_groups(
        facts.disclosure, [attribute], [either], names=facts.group_names
    )
    setting = replace(setting, group=own.codes, group_names=own.groups)
    no = np.zeros_like(rows)
    entries = build.Entries(run=no, split=part[rows], positive=no > 0, predicted=no > 0)
    key = build.RunKey(setting.released_epsilon, 0, "split 1")
    counted = build.count_entries(entries, [key], own._replace(codes=own.codes[rows]))
    counted = replace(counted, only_sizes=True)
    (found,) = with_costs(
        [counted], [[setting]], facts, no_coin=no_coin, without=OTHERS
    )
    pooled = [_of_people(row, setting, persons) for row in found.pooled]
    below = (
        r.value < REVERSED * (r.standard_error or 0)
        for r in pooled
        if r.proxy == BEYOND
    )
    if facts.split_kind == "random" and any(below):
        raise InputError(
            "records that were trained on have worse signals than the others; check the kind "
            "('loss' for losses), member and reference_signal.",
            field="kind",
        )
    if facts.unit_of_split is not None:
        n = found.runs[0].cells.sum(axis=(0, 2)).astype(float).tolist()
        facts = replace(facts, effective_units=dict(zip(own.groups, n, strict=True)))
    placebo = [
        row.model_copy(update=dict.fromkeys(OF_ANSWERS)) for row in found.placebo
    ]
    runs = (replace(found.runs[0], exposure={}),)
    made = replace(found, runs=runs, pooled=pooled, placebo=placebo)
    return build.build_release(facts, made, file="signals")


def _of_people(
    row: PooledExposure, setting: BudgetScores, persons: IntArray | None
) -> PooledExposure:
    """An AUC without outcomes, its errors clustered by person: influences are added up first.

    If nothing were memorised, a person's ranks would fall to either side as a whole;
    with one record each that is the error of Mann and Whitney.
    """
    from scipy.stats import rankdata

    if persons is None:
        return row.model_copy(update={"benefit_covariance": None})
    chosen = setting.group == setting.group_names.index(row.group)
    scores: Any = setting.logits if row.proxy == ALONE else setting.reference
    score = scores[0, chosen]
    member = setting.member[0, chosen]
    who = np.unique(persons[chosen], return_inverse=True)[1]
    n = len(score)
    ranks = rankdata(score)
    influence = np.empty(len(score))
    for side, sign in ((member, 1), (~member, -1)):
        placement = (ranks[side] - rankdata(score[side])) / (~side).sum()
        influence[side] = sign * (placement - placement.mean()) / side.sum()
    unit = math.sqrt(float(member.sum() * (~member).sum())) * n
    both = np.bincount(who, influence), np.bincount(who, ranks - ranks.mean()) / unit
    of_people, null = (
        math.sqrt((x**2).sum() * len(x) / max(len(x) - 1, 1)) for x in both
    )
    errors = {
        "standard_error": max(of_people, null),
        "null_error": null,
        "n_records": len(both[0]),
    }
    return row.model_copy(update={"benefit_covariance": None, **errors})
