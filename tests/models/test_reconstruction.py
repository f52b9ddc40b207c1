"""Somebody who knows the rows' order and all that is public solves for records."""

import numpy as np
import pytest
import scipy.sparse as sp
from scipy.optimize import linprog
from sklearn.ensemble import RandomForestClassifier
from sklearn.naive_bayes import GaussianNB
from sklearn.tree import DecisionTreeClassifier

import pcer
from pcer.models.splits import random_splits
from pcer.release.attack_kinds import ATTACK_KINDS
from pcer.release.disclosure import Detail, coarsened
from pcer.release.file import Release
from pcer.release.panel import panels
from tests.models.worlds import release, world

pytestmark = pytest.mark.usefixtures("few_permutations")


def tables_of(made: Release) -> np.ndarray:
    """(model, part, group, label, predicted) counts of a release that has them all."""
    cells = [
        [[t.tn, t.fp], [t.fn, t.tp]]
        for t in (panels(made)[0].train, panels(made)[0].test)
    ]
    return np.array(cells, dtype=int).transpose(3, 0, 4, 1, 2)


def recovered(
    n: int, n_splits: int, draw: int = 0, **given: object
) -> tuple[float, float]:
    """Shares of people whose group and label an attacker finds, and would guess.

    A linear program: everybody's shares in the four kinds of people, such that every
    split has as many of each kind in training as the release says, if ``random_state``
    was 0.
    """
    rng = np.random.default_rng([n_splits, draw])
    X = rng.normal(size=(n, 3))
    y = rng.integers(0, 2, n)
    group = rng.integers(0, 2, n)
    data = (X, y, np.array(["f", "m"])[group])
    test_size = 0.3 if n >= 400 else 0.5
    given |= {"n_splits": n_splits, "test_size": test_size, "least_people": 1}
    made = release(GaussianNB(), data, random_state=None, **given)
    kinds = tables_of(made).sum(axis=4).reshape(n_splits, 2, 4)
    whole = kinds[0].sum(axis=0)
    member = random_splits(n_splits, n, None, test_size, random_state=0).members(n)
    seen = sp.vstack([np.ones((1, n)), member.astype(float)])
    of_kinds = sp.kron(seen, sp.eye(4))
    of_people = sp.kron(sp.eye(n), np.ones((1, 4)))
    wanted = np.concatenate([whole, kinds[:, 0].ravel()])
    slack = sp.vstack([sp.eye(len(wanted)), sp.csr_matrix((n, len(wanted)))])
    equations = sp.hstack(
        [sp.vstack([of_kinds, of_people]), slack, -slack], format="csc"
    )
    price = np.append(1e-4 * rng.random(4 * n), np.ones(2 * len(wanted)))
    solved = linprog(price, A_eq=equations, b_eq=np.append(wanted, np.ones(n)))
    found = solved.x[: 4 * n].reshape(n, 4).argmax(axis=1)
    return float((found == 2 * group + y).mean()), max(whole) / n


SLOW = ((400, 20, 0.27), (400, 50, 0.33), (400, 150, 0.8), (400, 200, 0.95))
SIZES = [(80, 36, 0.9), *(pytest.param(*size, marks=pytest.mark.slow) for size in SLOW)]


@pytest.mark.parametrize(("n", "n_splits", "least"), SIZES)
def test_records_are_solved_for_only_where_anybody_can_draw_the_splits(
    n, n_splits, least
):
    assert recovered(n, n_splits, public_data=True)[0] >= least
    found, guessed = recovered(n, n_splits)
    assert found <= guessed + 3 * (guessed * (1 - guessed) / n) ** 0.5


class Sure(DecisionTreeClassifier):
    """A tree that has no doubts."""

    def predict_proba(self, X):  # noqa: D102
        return np.eye(2)[self.predict(X)]


def fitting(made: Release, exact: Release, run: int, name: str) -> np.ndarray:
    """(candidate, part, label, predicted): whatever a coarse table can have been.

    The attacker knows the labels of both parts, all about other models, that scores are
    0 or 1, how an AUC follows from that, and the rules by which tables are coarsened
    and exposures rounded.
    """
    shown = made.runs[run].groups[name]
    models = range(len(made.runs))
    labels = tables_of(exact)[run, :, made.subject.groups.index(name)].sum(axis=2)
    errors = np.indices(labels.ravel() + 1).reshape(
        2, 2, -1
    )  # (part, label, candidate)
    right = labels[..., None] - errors
    n = labels.sum(axis=1)
    wrong = errors.sum(axis=1)
    cells = [[right[:, 0], errors[:, 0]], [errors[:, 1], right[:, 1]]]
    cells = np.array(cells).transpose(3, 2, 0, 1)
    value = (wrong[1] / n[1] - wrong[0] / n[0]) / 2
    fits = np.ones(len(cells), dtype=bool)
    level = Detail.SIZES
    if shown.test.positive_rate is not None:
        level = Detail.POSITIVE_RATE
        fits &= cells[:, 1, :, 1].sum(axis=1) == round(shown.test.positive_rate * n[1])
    if shown.train.accuracy is not None:
        level = Detail.ACCURACY
        for table, of_part in zip((shown.train, shown.test), wrong, strict=True):
            fits &= of_part == round((1 - table.accuracy) * table.n)
    if AUC in shown.exposure:
        fits &= np.isclose(value, shown.exposure[AUC].value)
    others = sum(
        exact.runs[k].groups[name].exposure[AUC].value for k in models if k != run
    )
    coarse = []
    for model in made.runs:
        tables = model.groups[name]
        if not hasattr(tables.train, "tp"):
            coarse += [tables.train.n, tables.test.n]
    least = min(coarse) * len(models)
    for row in made.pooled_exposure:
        if (row.group, row.attack) == (name, AUC):
            fits &= (
                np.abs((value + others) / len(models) - row.value) <= 0.5 / least + 1e-9
            )
    return cells[fits][coarsened(cells[fits][:, :, None])[:, 0] == level]


AUC = "auc_advantage"
WORLDS = [
    (1, 2),
    (3, 1),
    *(pytest.param(s, 24 // s, marks=pytest.mark.slow) for s in (1, 2, 5)),
]


@pytest.mark.parametrize(("n_splits", "n_worlds"), WORLDS)
def test_coarse_tables_cannot_be_had_back_from_all_that_is_released(n_splits, n_worlds):
    told, hidden = 0, 0
    for seed in range(n_worlds):
        given = {"n_splits": n_splits, "data": world(200, seed), "least_people": 5}
        tree = Sure(max_depth=8 if seed % 2 else None, random_state=seed)
        exact, made = (release(tree, certain_cells=c, **given) for c in (True, False))
        for run, g in np.ndindex(n_splits, 2):
            if not hasattr(made.runs[run].groups["fm"[g]].train, "tp"):
                own = tables_of(exact)[run, :, g]
                fits = fitting(made, exact, run, "fm"[g])
                assert (
                    (fits == own).all(axis=(1, 2, 3)).any()
                )  # the truth is among them
                room = (fits > 0).any(axis=0)
                full = own > 0
                people = own.sum(axis=0)
                told += people[room[0] != room[1]].sum()
                hidden += people[full[0] != full[1]].sum()
    assert hidden > 10
    assert told == 0


def test_lira_of_one_model_says_nothing_of_the_coarse_tables_of_others():
    """LiRA is made of the others' members: swapping two people would change it."""
    forest = RandomForestClassifier(5, random_state=0)
    given = {"data": world(400, 0), "n_splits": 8}
    exact, made = (
        release(forest, certain_cells=c, least_people=5, **given) for c in (True, False)
    )
    assert 0 < made.disclosure.n_coarse_tables < 16
    by_shadows = {name for name, one in ATTACK_KINDS.items() if one.is_calibrated}
    assert attacks_of_one_model(exact) - attacks_of_one_model(made) == by_shadows
    assert by_shadows <= {row.attack for row in made.pooled_exposure}


def attacks_of_one_model(made: Release) -> set[str]:
    """The attacks whose exposures the tables of single models have."""
    attacks = set()
    for run in made.runs:
        attacks = attacks.union(*(table.exposure for table in run.groups.values()))
    return attacks


def test_rounded_exposures_are_audited_and_nothing_gets_sharper():
    tree = DecisionTreeClassifier(random_state=0)
    exact, made = (release(tree, n_splits=6, certain_cells=c) for c in (True, False))
    assert (made.disclosure.n_coarse_tables, made.disclosure.memberships) == (12, 0)
    assert attacks_of_one_model(made) == set()
    for row, own in zip(made.pooled_exposure, exact.pooled_exposure, strict=True):
        assert row.value != own.value
        for error in ("standard_error", "null_error"):
            assert getattr(row, error) >= getattr(own, error) + 2 * abs(
                row.value - own.value
            )
    for attack in ("auc_advantage", "paired_gap"):
        plan = pcer.Plan(attack=attack, resamples=2, null_draws=2)
        before, after = (pcer.audit(x, plan).settings[0] for x in (exact, made))
        for name, wide in after.groups.items():
            narrow = before.groups[name]
            assert wide.detected
            assert wide.p_value >= narrow.p_value
            assert wide.exposure.upper_bound >= narrow.exposure.upper_bound
        assert after.pairs[0].exposure.p_value >= before.pairs[0].exposure.p_value
    gap = pcer.audit(
        made, pcer.Plan(attack="overfitting_gap", resamples=2, null_draws=2)
    )
    assert gap.verdict == "insufficient_data"
