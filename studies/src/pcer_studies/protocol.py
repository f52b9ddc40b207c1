"""What does the paper train, how often, with which settings, and where does it say so?

Everything else in the study reads its constants here. The paper is Rakshit Naidu,
"Privacy Cost as Equity Input: A Group Fairness Criterion for Differentially Private
Machine Learning"; sections are named by their titles or labels there.

To add a second reading of a dataset: a row in ``SECOND_READINGS``, and a case in
``run._dataset`` that loads it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from pcer.metrics import DEFAULT_FLOOR as DEFAULT_FLOOR
from pcer.metrics import NO_DP as NO_DP
from pcer.release.records import Outcome
from pcer.wording import short_budget

PAPER = (
    "Rakshit Naidu, Privacy Cost as Equity Input: A Group Fairness Criterion for "
    "Differentially Private Machine Learning"
)


@dataclass(frozen=True)
class Configuration:
    """One dataset with one protected attribute.

    Attributes:
        dataset: name in ``pcer.data`` and in file names.
        attribute: protected attribute.
        groups: group 0 and group 1, the order of every signed number.
        short: the groups as the paper's column heads abbreviate them.
        outcome: what a positive prediction is for the person.
        title: the dataset as the paper calls it in tables.
        table: label of the paper's main table of it.
    """

    dataset: str
    attribute: str
    groups: tuple[str, str]
    short: tuple[str, str]
    outcome: Outcome
    title: str
    table: str

    @property
    def key(self) -> tuple[str, str]:
        """Dataset and attribute, under which a study keeps its release."""
        return self.dataset, self.attribute

    @property
    def file_name(self) -> str:
        """The release of this configuration in a study's folder."""
        return f"{self.dataset}.{self.attribute}.release.json"

    @property
    def name(self) -> str:
        """As the paper's attack tables name it, such as ``COMPAS (race)``."""
        return f"{self.title} ({self.attribute})"


_SEX = ("Male", "Female")
_RACE = ("White", "Non-White")
_OTHERS = ("Other", "African-American")

_SHORT_SEX = ("M", "F")
_SHORT_RACE = ("W", "NW")

CONFIGURATIONS = (
    Configuration(
        "adult", "sex", _SEX, _SHORT_SEX, "benefit", "Adult", "tab:adult-sex"
    ),
    Configuration(
        "adult", "race", _RACE, _SHORT_RACE, "benefit", "Adult", "tab:adult-race"
    ),
    Configuration(
        "compas", "race", _OTHERS, ("Ot", "AA"), "harm", "COMPAS", "tab:compas-race"
    ),
    Configuration("acs", "race", _RACE, _SHORT_RACE, "benefit", "ACS", "tab:acs"),
    Configuration("acs", "sex", _SEX, _SHORT_SEX, "benefit", "ACS", "tab:acs"),
    Configuration(
        "bios", "gender", _SEX, _SHORT_SEX, "benefit", "Bios", "tab:bios-gender"
    ),
)
"""In the order of the paper's summary (Table S2)."""

DATASETS = tuple(dict.fromkeys(known.dataset for known in CONFIGURATIONS))

CLOSEST = "adult-closest"
"""The second reading of Adult: of nine, its figures come closest to the paper's."""
CLOSEST_READING = "adult-all-numbers-no-capital-protected"
"""Which reading that is; ``sensitivity.json`` computes it, and a test compares."""
SECOND_READINGS = {CLOSEST: "adult"}
"""Second reading -> dataset of the paper that it can stand in for."""
SWEEPS = (*DATASETS, *SECOND_READINGS)
"""Everything that is trained."""

BUDGETS = (NO_DP, 0.1, 0.5, 1.0, 5.0, 10.0)
"""In the order of the paper's rows; no differential privacy first."""

SEEDS = tuple(range(50))
FLOORS = (1e-4, 1e-3, 1e-2, 1e-1)
N_MODELS = len(DATASETS) * len(BUDGETS) * len(SEEDS)

TRAINING: dict[str, Any] = {
    "hidden": (64, 32),
    "epochs": 25,
    "expected_batch": 256,
    "learning_rate": 0.05,
    "momentum": 0.9,
    "clip_norm": 1.0,
    "dp_delta": 1e-5,
    "accountant": "pld",
    "standardise": True,
    "split": "random 70/30 within each label",
}
"""The fields of ``pcer.train.TrainConfig``; ``SETTINGS`` says where each comes from."""

RECEIPTS = "refreshed"
"""How the privacy that each person spends is counted.

It changes no model; "held" would.
"""


@dataclass(frozen=True)
class ProtocolSetting:
    """One setting of the protocol, where the paper gives it, and our reading of it."""

    name: str
    value: str
    section: str
    reading: str = ""


_SETUP = "Experiments, Experimental Setup"

SETTINGS = (
    ProtocolSetting("datasets", "adult, compas, acs, bios", "Experiments, Datasets"),
    ProtocolSetting("epsilon", "no-DP, 0.1, 0.5, 1, 5, 10", _SETUP),
    ProtocolSetting(
        "seeds",
        "0 to 49",
        f"{_SETUP}; captions of Tables 1 and 3",
        "A seed is one split and one model per budget. The paper's generator is not "
        "said, so the same seeds do not mean the same splits.",
    ),
    ProtocolSetting(
        "floor",
        "0.001; grid 0.0001, 0.001, 0.01, 0.1",
        "Definition 3 and sec:floor-sensitivity",
    ),
    ProtocolSetting("split", "70/30, stratified", _SETUP, "Stratified by the label."),
    ProtocolSetting("hidden", "64, 32 (ReLU)", _SETUP),
    ProtocolSetting("epochs", "25", _SETUP),
    ProtocolSetting(
        "expected_batch",
        "256",
        _SETUP,
        "Poisson sampling with rate 1/ceil(n/256), as Opacus does; without privacy, "
        "too. An independent run of no-DP with shuffled batches differed by −.0019 ± "
        ".0038.",
    ),
    ProtocolSetting("learning_rate", "0.05 (SGD)", _SETUP),
    ProtocolSetting("momentum", "0.9", _SETUP),
    ProtocolSetting("clip_norm", "1.0", _SETUP),
    ProtocolSetting("dp_delta", "0.00001", _SETUP),
    ProtocolSetting(
        "accountant",
        "pld",
        f"{_SETUP} (Opacus 1.5, accountant not named)",
        "Privacy loss distributions; Opacus 1.5 takes PRV by default, which is close "
        "to it.",
    ),
    ProtocolSetting(
        "standardise",
        "yes",
        _SETUP,
        "By the training records' mean and standard deviation.",
    ),
    ProtocolSetting(
        "receipts",
        RECEIPTS,
        "not in the paper",
        "Norms of all gradients once an epoch: an estimate of what each group spent, "
        "which changes no model.",
    ),
    ProtocolSetting(
        "interval",
        "95 % percentile bootstrap of the mean, 5,000 resamples",
        "Limitations; sec:adult",
    ),
)

PAPER_RECORDS = {"adult": 46_033, "compas": 6_172, "acs": 50_000, "bios": 37_900}
"""How many records the paper has (Experiments, Datasets)."""

ACS_STATED = 843_000
"""Records of the three states, as the paper says ("about")."""

ACS_TASK = 434_610
"""Records that the filter of ACSIncome leaves of them, by folktables."""

ACS_RATE = 0.4
"""About the share of ACS that is predicted positive."""

NOT_THE_PAPERS_DATA = {
    "acs": (
        "not the paper's records: its draw of 50,000 is not published, and ours is "
        "another one from the same three states, with categories encoded in our reading"
    ),
    "bios": (
        "n = 1,608, not the paper's 37,900: a public sample of other texts, cleared of "
        "the pronouns that the paper's texts keep"
    ),
}
"""How our records differ from the paper's, where they do."""

OUR_READING = {
    "adult": (
        "the paper's records; which of their columns became features, and how, it says "
        "only in part, and the rest is our reading"
    ),
}
"""Where the records are the paper's and the features may not be."""


def budget_label(epsilon: float) -> str:
    """A budget in a table.

    >>> budget_label(0.5), budget_label(NO_DP)
    ('0.5', 'no-DP')
    """
    return short_budget(None if epsilon == NO_DP else epsilon)


def configuration(dataset: str, attribute: str) -> Configuration:
    """The paper's configuration of a dataset and an attribute.

    Raises:
        KeyError: the paper has none.

    >>> configuration("compas", "race").groups
    ('Other', 'African-American')
    """
    for known in CONFIGURATIONS:
        if known.key == (dataset, attribute):
            return known
    raise KeyError(f"the paper has no configuration {dataset} {attribute}")
