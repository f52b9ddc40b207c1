"""The audit file: every number of an audit, the plan behind it, and the words.

Same release and same plan give the same bytes. Numbers are written with 12 significant digits,
more than any reader needs and few enough that another machine's rounding does not show.
"""

from __future__ import annotations

import math
import os
from collections.abc import Sequence
from functools import cached_property
from typing import Any, Final, Literal, Self

from pcer import files
from pcer.auditing.plan import Plan
from pcer.auditing.verdict import GUARDED, BudgetVerdict, GridVerdict, Verdict
from pcer.errors import InputError
from pcer.files import MAX_BYTES, Record
from pcer.metrics import NO_DP
from pcer.release.format import Outcome, Release, Shown, SplitKind
from pcer.release.proxies import Proxy, proxy_named

FORMAT: Final = "pcer-audit"
VERSION: Final = 2
SIGNIFICANT_DIGITS = 12

FrameOf = Literal["groups", "pairs", "settings", "costs"]
Driver = Literal["benefits", "exposures", "both", "together"]


class Summary(Record):
    """A quantity over seeds: mean, sample standard deviation, bootstrap interval of the mean."""

    mean: float | None
    std: float | None
    ci: tuple[float, float] | None


class CostValue(Record):
    """A group's cost, its error and interval for people like these, and the most it can be."""

    value: float | None
    standard_error: float | None
    interval: tuple[float, float] | None  # at the plan's confidence level
    upper_limit: float | None  # one-sided, of this cost alone
    upper_limit_together: float | None  # of all costs of the audit at once


class NullPicture(Record):
    """What the mean over seeds would be if nothing was memorised: for drawing only."""

    mean: float
    interval: tuple[float, float]


class GroupBound(Record):
    """What training itself allows about one group's people, from the release's bounds."""

    mode: str  # where the norms of gradients come from; "refreshed" ones are an estimate
    accountant: str  # of every epsilon here
    nominal: float | None  # the promise
    spent: float  # mean receipt, a bound of each person's own epsilon
    standard_error: float | None  # of it, over people and seeds
    quantiles: dict[str, float]  # of receipts
    by_label: dict[str, float]  # mean receipt of people of each label
    advantage: float | None  # what an attacker who sees every step could reach; an estimate


class GroupResult(Record):
    """One group in one setting."""

    n_train: float | None
    n_test: float | None
    positive_rate: Summary
    benefit: Summary
    overfitting_gap: Summary
    accuracy_difference: Summary
    cost: CostValue
    noise_level: float | None
    detectable_cost: float | None
    p_value: float | None  # of "is anything memorised about these records?", adjusted
    p_value_alone: float | None  # over the deciding attacks only
    detected_by: str | None  # the attack that this p-value is of
    resolved: bool
    too_few: bool  # for this cost to tell anything
    null_gap: NullPicture | None
    pcer: Summary
    allowed: GroupBound | None


class Disparity(Summary):
    """The paper's number for a pair, with its sign test and the null's picture."""

    n_positive_seeds: int | None
    sign_test_p: float | None
    null_mean: float | None
    null_interval: tuple[float, float] | None


class FloorRow(Summary):
    """The disparity at one floor of the grid."""

    floor: float
    n_positive_seeds: int | None
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
    p_value_alone: float | None


class GroupDifference(CostValue):
    """First group minus second, for people like these."""

    # limits hold either way
    detectable: float | None  # smallest that would be told in 80 % of such releases
    p_value: float | None  # adjusted over settings and pairs
    p_value_alone: float | None  # over the deciding attacks only


class Equivalence(Record):
    """Are the costs equal within the plan's margin? Two one-sided tests, adjusted."""

    margin: float
    p_value: float | None
    shown: bool


class CoinFlips(Record):
    """What the release says of placebo groups and permuted labels, for this pair and one attack."""

    n_draws: int
    n_shown: int
    n_double: int
    n_exposure: int | None
    permutation_p: float | None
    permutation_p_within_labels: float | None
    exposure_p: float | None
    exposure_p_within_labels: float | None


Answer = Literal["differs", "no_difference_shown", "none_detected", "cannot_tell"]


class ExposureAnswer(Record):
    """Who of two groups is easier to recognise?

    No difference is shown where some exposure of the pair is detected; it cannot be told where no
    test can be made, or none may be believed.
    """

    answer: Answer
    group: str | None  # the more exposed one, where they differ
    attack: str  # with the smallest p-value
    p_value: float | None  # of the difference by that attack, adjusted
    p_value_alone: float | None  # over the deciding attacks only
    contradicted: bool  # the other attack finds the other group more exposed beyond chance
    downgraded: str | None  # why a difference beyond chance does not count
    placebo: CoinFlips | None  # what placebo groups and permutations say of that attack


class PairResult(Record):
    """Two groups in one setting; every signed number is first minus second.

    What is shown holds after every downgrade.
    """

    groups: tuple[str, str]
    pcer_disparity: Disparity
    normalised_disparity: Summary
    pooled: PooledDisparity
    exposure: GroupDifference
    benefit: GroupDifference
    cross_product: CrossProduct
    disparity_shown: bool
    lower_ratio: str | None
    more_exposed: str | None  # beyond chance, and nothing speaks against it
    exposure_answer: ExposureAnswer
    better_off: str | None  # who receives more, or is harmed less, beyond chance
    driven_by: Driver | None  # "together": neither difference is shown alone
    floors: list[FloorRow]
    floor_slope: float | None
    double_disadvantage: str | None
    double_disadvantage_p: float | None
    double_disadvantage_p_alone: float | None
    equivalence: Equivalence | None
    coin_flips: CoinFlips | None  # of the attack that the ratio is by
    capped: str | None  # why an alarm does not hold
    sign_holds_below_floor: float | None


class BudgetResult(Record):
    """Everything about one setting: a model, where it has a name, and a budget."""

    model: str | None
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
    worse_off: list[str]  # where positive predictions harm, unequal ratios alone name nobody
    reason: str | None
    advice: str
    double_disadvantage: list[str]

    @property
    def budget(self) -> float:
        """The privacy budget; infinite without differential privacy."""
        return NO_DP if self.epsilon is None else self.epsilon

    @property
    def largest_cost(self) -> float:
        """The most exposed group's cost; minus infinity where none is known."""
        costs = [group.cost.value for group in self.groups.values()]
        return max((cost for cost in costs if cost is not None), default=-math.inf)


class PublishedPair(Record):
    """The paper's numbers for two groups, the gap being the cost."""

    groups: tuple[str, str]
    pcer_disparity: Disparity
    normalised_disparity: Summary
    floors: list[FloorRow]
    floor_slope: float | None


class PublishedBudget(Record):
    """The paper's numbers at one budget."""

    epsilon: float | None
    pcer: dict[str, Summary]
    pairs: list[PublishedPair]


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


class AsPublished(Record):
    """What the paper computes for one model: the gap is the cost, whatever the plan names."""

    model: str | None
    cost: str
    budgets: list[PublishedBudget]
    algorithm1: Algorithm1


class CostStory(Record):
    """One carried cost put to the same tests; groups are named for any setting."""

    cost: str
    is_main: bool  # the verdict rests on it
    n_cells: int  # settings and groups that it could be tested in
    n_resolved: int
    more_exposed: list[str]
    lower_ratio: list[str]
    double_disadvantage: list[str]
    p_value: float | None  # of its strongest alarm, adjusted within this cost
    p_value_over_costs: float | None  # adjusted over all costs


class DeclarationFinding(Record):
    """Something that the release says and its own numbers contradict, or call for.

    The p-value is of numbers like these if the release's words are true, held against .01; None
    where logic decides.
    """

    check: str
    sentence: str
    p_value: float | None  # adjusted over all checks
    p_value_alone: float | None  # adjusted within the check only
    caps_verdict: bool  # it leaves the audit's tests without ground


class BrokenRule(Record):
    """A rule of the plan's policy that the audit breaks, in one sentence."""

    rule: str
    sentence: str


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


class Result(Shown):
    """What a function of pcer finds, as a file that begins with ``format`` and ``version``."""

    def to_tree(self) -> dict[str, Any]:
        """Plain objects, numbers rounded as they are written."""
        tree: dict[str, Any] = rounded(self.model_dump(mode="json"))
        return tree

    def to_json(self) -> str:
        """Canonical text: the same question gives the same bytes."""
        return files.canonical_json(self.to_tree())

    @classmethod
    def file_schema(cls) -> dict[str, Any]:
        """JSON Schema of such a file."""
        name, version = (cls.model_fields[field].default for field in ("format", "version"))
        return {
            "$schema": "https://json-schema.org/draft/2020-12/schema",
            **cls.model_json_schema(),
            "title": f"{name.replace('-', ' ')}, version {version}",
            "required": list(cls.model_fields),
        }


class Audit(Result):
    """The result of ``pcer.audit``: numbers, verdicts and the plain-language account.

    Attributes:
        family: digests of the releases that were judged together, sorted.
        family_p: of this release's strongest alarm, adjusted over the family; None for one release.
        cost: the cost that everything but ``published`` and ``costs`` is about.
        choice: why that cost.
        broken_rules: of the plan's policy; empty where it holds, or where there is none.
        declarations: what the numbers say against the release's own words.
        costs: every carried cost.
        verdict: the strongest over settings; every output says this one.
        telling: the setting that ``headline`` and ``account`` are about.
        worse_off: the groups that the verdict names.
        headline: the finding in one sentence.
        account: the finding for the people affected.
        trust: how far it can be trusted.
        next_steps: what can be done.
    """

    format: Literal["pcer-audit"] = FORMAT
    version: Literal[2] = VERSION
    release_sha256: str
    plan_sha256: str
    family: list[str]
    family_p: float | None
    subject: AuditSubject
    plan: Plan
    cost: str
    choice: str
    verdict: BudgetVerdict
    telling: int
    worse_off: list[str]
    headline: str
    account: list[str]
    trust: list[str]
    next_steps: list[str]
    budgets: list[BudgetResult]
    costs: list[CostStory]
    declarations: list[DeclarationFinding]
    broken_rules: list[BrokenRule]
    published: list[AsPublished]

    @property
    def title(self) -> str:
        """What was audited, the verdict, and the groups that it names."""
        named = f" ({', '.join(self.worse_off)})" if self.worse_off else ""
        return f"{self.subject.dataset} ({self.subject.attribute}): {self.verdict.words}{named}"

    @property
    def policy_lines(self) -> list[str]:
        """Whether the policy holds, and each rule that is broken; nothing without a policy."""
        broken, n_broken = [rule.sentence for rule in self.broken_rules], len(self.broken_rules)
        first = f"The policy is broken: {n_broken} of its rules." if broken else "The policy holds."
        return [] if self.plan.policy is None else [first, *broken]

    @property
    def proxy(self) -> Proxy:
        """What is known of the cost."""
        return proxy_named(self.cost)

    @property
    def told(self) -> BudgetResult:
        """The setting that the sentences are about."""
        return self.budgets[self.telling]

    @property
    def models(self) -> list[str | None]:
        """Names of the models, in order; one without a name is None."""
        return [published.model for published in self.published]

    def to_tree(self) -> dict[str, Any]:
        """The audit as plain objects, numbers rounded as they are written; the plan's as given."""
        return {**super().to_tree(), "plan": self.plan.model_dump()}

    def outcomes(self) -> set[str]:
        """Everything that a guard can meet: verdicts of all settings and one flag."""
        found = [each.verdict for each in self.budgets]
        found += [each.algorithm1.verdict for each in self.published]
        return {verdict.value for verdict in found if verdict in GUARDED}

    @cached_property
    def sources(self) -> list[Release]:
        """The release, then those that were judged together with it; empty where not known."""
        return []

    def with_sources(self, release: Release, family: Sequence[Release] = ()) -> Self:
        """Remember what the audit is of, so that it can draw itself; its file stays the same."""
        self.sources[:] = [release, *family]
        return self

    def to_frame(self, what: FrameOf = "groups", *, backend: str | None = None) -> Any:
        """The numbers as a data frame, a row for each of what is asked for.

        Nested fields are joined by ``_`` (``cost_value``, ``cost_interval_low``); no differential
        privacy is an infinite epsilon; lists of groups are joined by commas.

        Args:
            what: "groups" (in every setting), "pairs" (in every setting), "settings" or "costs".
            backend: "pandas", "polars" or "pyarrow"; the first of them that is installed if None.
        """
        return Shown.drawings().to_frame(self, what, backend)

    def plot(self, name: str) -> Any:
        """One chart of the page as an Altair chart; another name than one of them lists all."""
        return Shown.drawings().to_chart(self, name)

    def save_html(self, path: str | os.PathLike[str]) -> None:
        """Write the page, as ``pcer audit --html`` does: self-contained, and it can be verified."""
        Shown.drawings().save_page(self, path)


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
    data = files.read_json(path, max_bytes=max_bytes)
    audits = data if isinstance(data, list) else [data]
    for audit in audits:
        files.require_format(audit, file=str(path), name=FORMAT, version=VERSION)
        if audit["version"] < VERSION:
            raise InputError(
                f"{path} is an audit of version {audit['version']}, which pcer 0.1.0 wrote and "
                f"can recompute; this pcer recomputes version {VERSION}: check it with 0.1.0, or "
                "audit the release again."
            )
        parse_plan(audit.get("plan"), file=f"{path}: plan")
    if not audits:
        raise InputError(f"{path} holds no audit; write it again with pcer audit.")
    return audits


def parse_plan(data: Any, *, file: str) -> Plan:
    """Check plain objects against the plan; ``file`` is the name that errors mention."""
    return files.parse_record(Plan, data, file=file)


def write_audit(audit: Audit, path: str | os.PathLike[str]) -> None:
    """Write an audit: atomically, the same bytes for the same audit."""
    files.write_files({path: audit.to_json()})


def audit_schema() -> dict[str, Any]:
    """JSON Schema of the audit format."""
    return Audit.file_schema()
