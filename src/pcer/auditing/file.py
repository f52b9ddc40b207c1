"""The audit file: every number of an audit, the plan behind it, and the words.

Same release and same plan give the same bytes. Numbers are written with 12 significant digits,
more than any reader needs and few enough that another machine's rounding does not show.
"""

from __future__ import annotations

import hashlib
import os
from typing import Annotated, Any, Final, Literal

from pydantic import Field, field_validator

from pcer.auditing.verdict import DOUBLE_DISADVANTAGE, BudgetVerdict, GridVerdict, Verdict
from pcer.errors import InputError
from pcer.files import (
    MAX_BYTES,
    Record,
    canonical_json,
    parse_record,
    read_json,
    require_format,
    write_files,
)
from pcer.metrics import DEFAULT_FLOOR, FLOOR_GRID, NO_DP
from pcer.release import GAP, Name, Outcome, Proxy, SplitKind, proxy_named

FORMAT: Final = "pcer-audit"
VERSION: Final = 1
SIGNIFICANT_DIGITS = 12

Benefit = Literal["positive_rate", "true_positive_rate", "precision"]
Floor = Annotated[float, Field(gt=0, le=1)]
Draws = Annotated[int, Field(ge=1, le=100_000)]


class Plan(Record):
    """What is fixed before looking: everything besides the release that decides a number.

    Args:
        floors: the grid of Algorithm 1, sorted and without repetition.
        floor: the smallest cost that counts in the main numbers.
        confidence_level: of every interval.
        resamples: bootstrap resamples.
        null_draws: random splits drawn for the null's picture.
        rng: seed of both.
        benefit: what a group receives.
        cost: what it pays: ``overfitting_gap``, or a proxy that the release carries.
        reference_group: the group that others are compared with. Default: of two groups the
            first, of more the largest.

    >>> Plan(floor=0.01).floors
    [0.0001, 0.001, 0.01, 0.1]
    """

    floors: Annotated[list[Floor], Field(min_length=1, max_length=20)] = Field(
        default=list(FLOOR_GRID)
    )
    floor: Floor = DEFAULT_FLOOR
    confidence_level: Annotated[float, Field(gt=0, lt=1)] = 0.95
    resamples: Draws = 5_000
    null_draws: Draws = 2_000
    rng: Annotated[int, Field(ge=0, lt=2**63)] = 0
    benefit: Benefit = "positive_rate"
    cost: Name = GAP.name
    reference_group: Name | None = None

    @field_validator("floors")
    @classmethod
    def _sorted_once(cls, floors: list[float]) -> list[float]:
        return sorted(set(floors))

    @property
    def proxy(self) -> Proxy:
        """What is known of the plan's cost."""
        return proxy_named(self.cost)

    @property
    def sha256(self) -> str:
        """Digest of the plan, so that an edited plan never verifies."""
        return hashlib.sha256(canonical_json(self.model_dump()).encode()).hexdigest()


class Summary(Record):
    """A quantity over seeds: mean, sample standard deviation, bootstrap interval of the mean."""

    mean: float | None
    std: float | None
    ci: tuple[float, float] | None


class CostValue(Record):
    """A group's cost estimate."""

    value: float | None
    standard_error: float | None


class NullPicture(Record):
    """What the mean over seeds would be if nothing was memorised: for drawing only."""

    mean: float
    interval: tuple[float, float]


class GroupResult(Record):
    """One group at one budget."""

    n_train: float | None
    n_test: float | None
    positive_rate: Summary
    benefit: Summary
    overfitting_gap: Summary
    accuracy_difference: Summary
    cost: CostValue
    noise_level: float | None
    detectable_cost: float | None
    p_value: float | None
    resolved: bool
    null_gap: NullPicture | None
    pcer: Summary


class Disparity(Summary):
    """The paper's number for a pair, with its sign test and the null's picture."""

    n_positive_seeds: int
    sign_test_p: float
    null_mean: float | None
    null_interval: tuple[float, float] | None


class FloorRow(Summary):
    """The disparity at one floor of the grid."""

    floor: float
    n_positive_seeds: int
    floor_dominated_share: float | None


class PooledDisparity(Record):
    """Ratio of pooled rate to pooled cost. Meaningless unless both costs are resolved."""

    disparity: float | None
    ci: tuple[float, float] | None
    costs_resolved: bool


class CrossProduct(Record):
    """L = R_i c_j - R_j c_i; positive means that the second group has the lower ratio."""

    value: float | None
    standard_error: float | None
    p_value: float | None


class PairResult(Record):
    """Two groups at one budget; every signed number is first minus second."""

    groups: tuple[str, str]
    pcer_disparity: Disparity
    normalised_disparity: Summary
    pooled: PooledDisparity
    cross_product: CrossProduct
    disparity_shown: bool
    lower_ratio: str | None
    floors: list[FloorRow]
    floor_slope: float | None
    double_disadvantage: str | None
    double_disadvantage_p: float | None
    sign_holds_below_floor: float | None


class BudgetResult(Record):
    """Everything about one budget."""

    epsilon: float | None
    n_seeds: int
    n_splits: int
    accuracy: Summary
    demographic_parity_gap: Summary
    equalized_odds_gap: Summary
    groups: dict[str, GroupResult]
    pairs: list[PairResult]
    pcer_spread: Summary
    verdict: BudgetVerdict
    reason: str | None
    advice: str
    double_disadvantage: list[str]

    @property
    def budget(self) -> float:
        """The privacy budget; infinite without differential privacy."""
        return NO_DP if self.epsilon is None else self.epsilon


class EquitableBudget(Record):
    """The budgets of smallest disparity at one floor; more than one is a tie."""

    floor: float
    budgets: list[float | None]
    repeats_demographic_parity: bool


class Algorithm1(Record):
    """The paper's Algorithm 1 as published, and again over the informative floors only."""

    equitable_budget: list[EquitableBudget]
    verdict: GridVerdict
    informative_floors: list[float]
    informative_verdict: GridVerdict | None
    label: str


class Ranking(Record):
    """Budgets from smallest to largest gap, by one measure."""

    measure: str
    budgets: list[float | None]
    best: list[float | None]


class DirectionDisagreement(Record):
    """A budget and pair whose disparity and rate difference have opposite signs."""

    epsilon: float | None
    groups: tuple[str, str]


class EqualGapClaim(Record):
    """What passing both audits would claim (Proposition 3): equal costs. Can it be refuted?"""

    epsilon: float | None
    groups: tuple[str, str]
    cost_difference: float
    standard_error: float
    p_value: float
    refuted: bool


class Correlation(Record):
    """Pearson r over budgets between disparity and rate difference. Descriptive only."""

    groups: tuple[str, str]
    n_budgets: int
    r: float | None
    n_budgets_from_1: int
    r_from_1: float | None


class NormChoice(Record):
    """The budget that one norm would pick; the norm is the reader's choice."""

    norm: str
    rule: str
    budgets: list[float | None]
    costs_resolved: bool | None


class Comparison(Record):
    """PCER beside demographic parity and equalized odds."""

    rankings: list[Ranking]
    ranking_disagreement: dict[str, bool | None]
    direction_disagreement: list[DirectionDisagreement]
    equal_gap_claims: list[EqualGapClaim]
    correlations: list[Correlation]
    norms: list[NormChoice]


class BoundCheck(Record):
    """How often an attack does better than the overfitting gap, which the paper says bounds it."""

    n_runs: int
    n_runs_exceeding: int
    n_cells: int
    n_cells_exceeding: int
    n_cells_refuting: int


class ProxyAgreement(Record):
    """One proxy beside the plan's cost: over (budget, group) cells and (budget, pair) settings."""

    proxy: str
    n_cells: int
    correlation: float | None
    n_settings: int
    n_same_sign: int
    n_larger_disparity: int
    median_ratio: float | None
    disparity_correlation: float | None
    bound: BoundCheck | None


class Agreement(Record):
    """Whether the proxies that a release carries tell the same story. Descriptive."""

    baseline: str
    proxies: list[ProxyAgreement]


class AuditSubject(Record):
    """What the release says about itself, repeated so that an audit can be read alone."""

    dataset: str
    attribute: str
    groups: list[str]
    outcome: Outcome
    mechanism: str
    split_kind: SplitKind | None
    n_records: int | None
    n_missing_group: int | None
    notes: list[str]


class Audit(Record):
    """The result of ``pcer.audit``: numbers, verdicts and the plain-language account."""

    format: Literal["pcer-audit"] = FORMAT
    version: Literal[1] = VERSION
    release_sha256: str
    plan_sha256: str
    subject: AuditSubject
    plan: Plan
    budgets: list[BudgetResult]
    algorithm1: Algorithm1
    comparison: Comparison
    agreement: Agreement | None = None
    verdict: BudgetVerdict
    account: list[str]

    def to_tree(self) -> dict[str, Any]:
        """The audit as plain objects, numbers rounded as they are written."""
        tree: dict[str, Any] = rounded(self.model_dump())
        return tree

    def to_json(self) -> str:
        """The audit as canonical text: same release, same plan, same bytes."""
        return canonical_json(self.to_tree())

    def outcomes(self) -> set[str]:
        """Everything that a guard can meet: verdicts of all budgets and two flags."""
        found = {budget.verdict.value for budget in self.budgets}
        if any(budget.double_disadvantage for budget in self.budgets):
            found.add(DOUBLE_DISADVANTAGE)
        if self.algorithm1.verdict is Verdict.FLOOR_SENSITIVE:
            found.add(Verdict.FLOOR_SENSITIVE.value)
        return found


def rounded(tree: Any) -> Any:
    """Round every float in plain objects to the digits that files carry."""
    if isinstance(tree, float):
        return float(f"{tree:.{SIGNIFICANT_DIGITS}g}") + 0.0  # + 0.0: no negative zero
    if isinstance(tree, dict):
        return {key: rounded(value) for key, value in tree.items()}
    if isinstance(tree, list | tuple):
        return [rounded(item) for item in tree]
    return tree.value if isinstance(tree, Verdict) else tree


def read_audit(path: str | os.PathLike[str], *, max_bytes: int | None = MAX_BYTES) -> list[Any]:
    """Read an audit file: plain objects, one per audited release, their plan checked."""
    data = read_json(path, max_bytes=max_bytes)
    audits = data if isinstance(data, list) else [data]
    for audit in audits:
        require_format(audit, file=str(path), name=FORMAT, version=VERSION)
        parse_plan(audit.get("plan"), file=f"{path}: plan")
    if not audits:
        raise InputError(f"{path} holds no audit; write it again with pcer audit.")
    return audits


def parse_plan(data: Any, *, file: str) -> Plan:
    """Check plain objects against the plan; ``file`` is the name that errors mention."""
    return parse_record(Plan, data, file=file)


def write_audit(audit: Audit, path: str | os.PathLike[str]) -> None:
    """Write an audit: atomically, the same bytes for the same audit."""
    write_files({path: audit.to_json()})


def audit_schema() -> dict[str, Any]:
    """JSON Schema of the audit format."""
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        **Audit.model_json_schema(),
        "title": "pcer audit, version 1",
        "required": [name for name in Audit.model_fields if name != "agreement"],
    }
