"""From tables of predictions to releases, in four dataframe libraries."""

import math

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

import pcer
from pcer.errors import InputError
from tests.models.worlds import called

COLUMNS = {
    "label": ["yes", "no", "yes", "no", "yes", "no", "yes", "no"],
    "guess": ["yes", "yes", "no", "no", "yes", "no", "no", "yes"],
    "score": [0.9, 0.5, 0.2, 0.1, 0.7, 0.3, 0.49, 0.8],
    "sex": ["f", "f", "m", "m", "f", "f", "m", "m"],
    "race": ["x", "y", "x", "y", "x", "y", "x", "y"],
    "part": ["train"] * 4 + ["test"] * 4,
}
N = len(COLUMNS["label"])
TWICE = {name: values * 2 for name, values in COLUMNS.items()}
GIVEN = {"public_data": True, "split_kind": "random", "outcome": "benefit"}
GIVEN |= {"dataset": "toy", "positive_label": "yes", "attribute": "sex"}


def release(frame, **changes):
    given = {
        "y_pred": frame["guess"],
        "sensitive_features": frame["sex"],
        "split": frame["part"],
    }
    given = {**GIVEN, "y_true": frame["label"], **given, **changes}
    return called(pcer.release_from_predictions, **given)


def scored(y_score, y_true=COLUMNS["label"], **changes):
    return release(COLUMNS, y_true=y_true, y_pred=None, y_score=y_score, **changes)


def tables(made):
    """The counts of a release, without exposures."""
    return [
        (run.seed, name, group.train, group.test)
        for run in made.runs
        for name, group in run.groups.items()
    ]


@pytest.fixture(scope="module")
def plain():
    return release(COLUMNS)


FRAMES = {
    "dict": lambda columns: columns,
    "numpy": lambda columns: {
        name: np.array(values) for name, values in columns.items()
    },
    "pandas": pd.DataFrame,
    "polars": pl.DataFrame,
    "pyarrow": pa.table,
}


@pytest.mark.parametrize("library", FRAMES)
def test_same_release_from_every_library(library, plain):
    built = release(FRAMES[library](COLUMNS))
    train = built.runs[0].groups["f"].train
    assert (train.tp, train.fp, train.tn, train.fn) == (1, 1, 0, 0)
    assert built.to_json() == plain.to_json()
    assert built.subject.groups == ["f", "m"]
    if library != "numpy":  # which has no gaps in texts
        gappy = {**COLUMNS, "sex": ["f", "f", "m", "m", "f", None, "m", None]}
        built = release(FRAMES[library](gappy))
        assert (built.subject.n_missing_group, built.subject.n_records) == (2, 8)
        (left_out,) = built.subject.left_out
        assert (left_out.why, left_out.n_people) == ("missing", 2)
        assert built.runs[0].groups["f"].test.n == 1


def test_labels_scores_and_masks_say_the_same(plain):
    score = np.array(COLUMNS["score"])
    numbers = dict(COLUMNS)
    for name in ("label", "guess"):
        numbers[name] = [int(value == "yes") for value in COLUMNS[name]]
    assert release(numbers, positive_label=None).runs == plain.runs
    assert tables(scored(score)) == tables(plain)
    found = scored(score, threshold=0.75).runs[0].groups["m"].test
    assert (found.tp, found.fp, found.tn, found.fn) == (0, 1, 0, 1)
    for kind in (
        list,
        np.array,
        pd.Series,
        pl.Series,
        pa.array,
    ):  # a mask of those trained on
        mask = kind([part == "train" for part in COLUMNS["part"]])
        assert release(COLUMNS, split=mask).runs == plain.runs
    both = np.column_stack(
        [1 - score, score]
    )  # columns of the sorted labels, or named by them
    for given in (
        both,
        *(f({"yes": score, "no": 1 - score}) for f in (pd.DataFrame, pa.table)),
    ):
        assert scored(given).to_json() == scored(score).to_json()
    assert (
        scored(both, positive_label="no").runs
        == scored(1 - score, positive_label="no").runs
    )
    by_size = [10 if value == "yes" else 9 for value in COLUMNS["label"]]
    assert tables(scored(both, by_size, positive_label=10)) == tables(plain)


def test_many_models_in_one_table_and_what_is_known_of_them(plain):
    table = {name: values * 4 for name, values in COLUMNS.items()}
    epsilon = [1.0] * N + [None] * N + [1.0] * N + [math.inf] * N
    given = {"epsilon": epsilon, "seed": [0] * 2 * N + [1] * 2 * N}
    built = release(table, **given, dp_delta=1e-5)
    assert (
        release(COLUMNS, seed=2**60 + 1, epsilon=np.float32(2)).runs[0].seed
        == 2**60 + 1
    )
    found = [(run.epsilon, run.seed, run.dp_delta) for run in built.runs]
    assert found == [(1.0, 0, 1e-5), (1.0, 1, 1e-5), (None, 0, None), (None, 1, None)]
    assert built.subject.n_records == N
    assert all(run.groups == plain.runs[0].groups for run in built.runs)
    assert built.training.split_kind == "random"


def test_record_ids_name_the_split_unless_it_has_a_name():
    parts = ["train" if k % 3 else "test" for k in range(N)]
    mixed = {**TWICE, "part": COLUMNS["part"] + parts}
    several = {"seed": [0] * N + [1] * N, "record_id": [*range(N)] * 2}
    assert len({run.split for run in release(mixed, **several).runs}) == 2
    assert len({run.split for run in release(TWICE, **several).runs}) == 1
    named = release(mixed, **several, split_id=["b"] * N + ["a"] * N)
    assert [run.split for run in named.runs] == ["b", "a"]
    gappy = release(mixed, **several, split_id=[None] * N + ["a"] * N)
    assert [run.split for run in gappy.runs] == [
        release(mixed, **several).runs[0].split,
        "a",
    ]
    with pytest.raises(InputError, match="appears twice"):
        release(mixed, record_id=several["record_id"])
    with pytest.raises(InputError, match="split_id must be one value per model"):
        release(TWICE, split_id=["a"] * N + ["b"] * N)


def test_groups_are_named_ordered_chosen_and_crossed(plain):
    codes = [1, 1, 2, 2, 1, None, 2, 2]
    for column in (codes, pd.Series(codes), pl.Series(codes), np.array(codes, float)):
        assert release({**COLUMNS, "sex": column}).subject.groups == ["1", "2"]
    three = {**COLUMNS, "sex": ["f", "f", "m", "m", "f", "f", "m", "d"]}
    chosen = release(three, groups=["m", "f"]).subject
    assert (chosen.groups, chosen.n_missing_group) == (["m", "f"], 1)
    both = {"sex": COLUMNS["sex"], "race": COLUMNS["race"]}
    given = {
        **GIVEN,
        "attribute": None,
        "y_pred": COLUMNS["guess"],
        "split": COLUMNS["part"],
    }
    every = called(
        *(pcer.releases_from_predictions, COLUMNS["label"]),
        **given,
        sensitive_features=pd.DataFrame(both),
        attributes=["sex", "race", "sex & race"],
    )
    assert list(every) == ["sex", "race", "sex & race"]
    assert every["sex"].sha256 == plain.sha256
    crossed = release(COLUMNS, sensitive_features=both, attribute=None)
    assert every["sex & race"].sha256 == crossed.sha256
    assert crossed.subject.attribute == "sex & race"
    assert crossed.subject.groups == ["f & x", "f & y", "m & x", "m & y"]
    gappy = {**both, "race": ["x", None, *COLUMNS["race"][2:]]}
    men = {"attribute": None, "groups": ["m & x", "m & y"]}
    assert (
        release(COLUMNS, sensitive_features=gappy, **men).subject.n_missing_group == 4
    )


def test_readers_see_the_names_that_groups_are_given():
    codes = [1, 1, 2, 2, 1, 1, 2, 2]
    words = {"people": "clerks", "positive_means": "are predicted to stay"}
    given = {"sex": np.array(codes, float), "race": codes}
    names = {"sex:1": "Women", "race:1": "White", "race:2": "Black"}
    every = called(
        *(pcer.releases_from_predictions, COLUMNS["label"]),
        **{
            **GIVEN,
            "attribute": None,
            "y_pred": COLUMNS["guess"],
            "split": COLUMNS["part"],
        },
        **words,
        sensitive_features=given,
        group_names=names,
    )
    found = {name: made.subject for name, made in every.items()}
    assert (found["sex"].groups, found["race"].groups) == (
        ["Women", "2"],
        ["White", "Black"],
    )
    assert (found["sex"].people, found["sex"].positive_means) == tuple(words.values())
    one = release(
        {**COLUMNS, "sex": codes}, groups=[2, 1], group_names={1: "Women", 2: "Men"}
    )
    assert one.subject.groups == ["Men", "Women"]
    same = release({**COLUMNS, "sex": np.where(np.array(codes) == 1, "Women", "Men")})
    assert one.runs == same.runs  # nothing but the names


BAD_SCORES = [
    *([1.5] * 8, [math.nan] * 8, ["x"] * 8, np.full((8, 3), 0.3), np.full((8, 1), 0.3)),
    *(
        np.full((7, 2), 0.5),
        np.full((8, 2), 1.5),
        pd.DataFrame({"a": [0.5] * 8, "b": [0.5] * 8}),
    ),
]


@pytest.mark.parametrize(
    ("changes", "field"),
    [
        *(({"y_pred": None, "y_score": score}, "y_score") for score in BAD_SCORES),
        ({"y_true": [None, *COLUMNS["label"][1:]]}, "y_true"),
        ({"y_true": [], "y_pred": []}, "y_true"),
        (
            {"y_true": ["a", "b", "c", *"aaaaa"], "positive_label": None},
            "positive_label",
        ),
        (
            {"y_pred": None, "y_score": [0.5] * 8, "y_true": [*"abcaaaaa"]},
            "positive_label",
        ),
        ({"seed": [*[0] * 7, None]}, "seed"),
        ({"split": ["train"] * 8}, "split"),
        ({"split": ["train"] * 7 + ["valid"]}, "split"),
        ({"split": ["train"] * 3 + ["test"] * 4}, "split"),
        ({"split": ["train"] * 4 + ["test"] * 3 + [None]}, "split"),
        ({"split": [True] * 8}, "split"),
        ({"record_id": range(7)}, "record_id"),
        ({"record_id": 3}, "record_id"),
        ({"split_id": ["a"] * 9}, "split_id"),
        ({"split_kind": "shuffled"}, "split_kind"),
        ({"positive_label": None}, "positive_label"),
        ({"positive_label": "maybe"}, "positive_label"),
        ({"sensitive_features": ["f"] * 8}, "groups"),
        ({"sensitive_features": ["f"] * 8, "attribute": None}, "groups"),
        ({"sensitive_features": np.zeros((8, 2))}, "groups"),
        ({"sensitive_features": np.zeros((8, 2, 2))}, "sex"),
        ({"groups": ["f", "z"]}, "runs[0].groups.z.train"),
        ({"epsilon": -1.0}, "epsilon"),
        ({"epsilon": ["a"] * 8}, "epsilon"),
        ({"outcome": "good"}, "outcome"),
        ({"y_pred": None}, "y_pred"),
        ({"y_score": [0.5] * 8}, "y_pred"),
        ({"y_pred": COLUMNS["guess"][:7]}, "y_pred"),
        ({"membership_score": ["high"] * 8}, "membership_score"),
        ({"threshold": 1.5}, "threshold"),
        ({"dp_delta": 2}, "dp_delta"),
        ({"people": ""}, "people"),
        ({"positive_means": "pay\nback"}, "positive_means"),
        ({"group_names": {"z": "Women"}}, "group_names"),
        ({"group_names": {"f": "M"}}, "group_names"),
    ],
)
def test_bad_tables_get_one_clear_sentence(changes, field):
    with pytest.raises(InputError) as caught:
        release(COLUMNS, **changes)
    assert caught.value.field == field
    assert "\n" not in str(caught.value)


def test_several_labels_of_which_one_is_positive():
    several = {
        **COLUMNS,
        "label": ["a", "b", "c", "b", "a", "c", "b", "a"],
        "guess": ["a", "a", "c", "b", "a", "b", "a", "c"],
    }
    two = dict(several)
    for name in ("label", "guess"):
        two[name] = [str(value == "a") for value in several[name]]
    assert (
        release(several, positive_label="a").runs
        == release(two, positive_label="True").runs
    )
    with pytest.raises(
        InputError, match=r"contain 3 different labels; .* go into y_score"
    ):
        release(several, positive_label=None)


def sweep(n_models: int = 9, n: int = 400, *, budgets=(None,)) -> pd.DataFrame:
    """A table of models that remember half of those they were trained on."""
    rng = np.random.default_rng(0)
    truth = rng.integers(0, 2, n)
    sex = rng.choice(["f", "m"], n)
    tables = []
    for epsilon in budgets:
        for model in range(n_models):
            inside = rng.permutation(n) < 0.7 * n
            logit = rng.normal(size=n) + (2 * truth - 1) * (
                0.5 + inside * (rng.random(n) < 0.5)
            )
            columns = {
                "id": [f"p{k}" for k in range(n)],
                "y_true": truth,
                "score": 1 / (1 + np.exp(-logit)),
                "sex": sex,
                "split": np.where(inside, "train", "test"),
                "seed": model,
                "epsilon": epsilon,
            }
            tables.append(pd.DataFrame(columns).sample(frac=1, random_state=model))
    return pd.concat(tables, ignore_index=True)


def swept(table: pd.DataFrame, **changes):
    given = {name: table[name] for name in ("split", "seed", "epsilon")}
    given |= {"y_score": table["score"], "sensitive_features": table["sex"]}
    given |= {
        "record_id": table["id"],
        "split_kind": "random",
        "outcome": "benefit",
        **changes,
    }
    return called(pcer.release_from_predictions, table["y_true"], **given)


def test_answers_alone_give_the_paired_gap(few_permutations):
    table = sweep()
    answers = (table["score"] >= 0.5).astype(int)
    made = swept(table, y_score=None, y_pred=answers)
    assert {row.attack for row in made.pooled_exposure} == {"paired_gap"}
    scores = {
        row.group: row
        for row in swept(table).pooled_exposure
        if row.attack == "paired_gap"
    }
    for row in made.pooled_exposure:
        measured = {}  # of probabilities, which answers do not have
        for name in ("separation", "reliability"):
            measured[name] = getattr(scores[row.group], name)
        assert row.model_copy(update=measured) == scores[row.group]
    assert "y_score" in made.not_computed["paired_confidence"]
    assert pcer.audit(
        made, pcer.Plan(attack="paired_gap", resamples=10, null_draws=10)
    ).settings


def test_exposures_follow_the_threshold_that_the_counts_have(few_permutations):
    table = sweep()
    found = swept(table, threshold=0.8)
    wide = table.sort_values(["seed", "id"])
    right = ((wide["score"] >= 0.8) == (wide["y_true"] == 1)).to_numpy().reshape(9, 400)
    inside = (wide["split"] == "train").to_numpy().reshape(9, 400)
    sex = wide["sex"].to_numpy()[:400]
    gaps = [
        right[own, r].mean() - right[~own, r].mean()
        for r, own in enumerate(inside.T)
        if sex[r] == "f" and 0 < own.sum() < 9
    ]
    (row,) = (
        r for r in found.pooled_exposure if (r.group, r.attack) == ("f", "paired_gap")
    )
    assert row.value == pytest.approx(np.mean(gaps), abs=1e-12)


def test_several_labels_are_scored_by_the_probability_of_the_true_one(few_permutations):
    rng = np.random.default_rng(0)
    n, models = 120, 3
    label, sex = (
        np.tile(rng.choice(names, n), models) for names in (["a", "b", "c"], ["f", "m"])
    )
    chance = rng.dirichlet(np.ones(3), n * models)
    inside = np.concatenate([rng.permutation(n) < 80 for _ in range(models)])
    seed = np.repeat(np.arange(models), n)
    made = release(
        {"label": label, "guess": None, "sex": sex, "part": inside},
        y_score=chance,
        positive_label="b",
        seed=seed,
        record_id=np.tile(np.arange(n), models),
    )
    truth = chance[np.arange(n * models), np.searchsorted(["a", "b", "c"], label)]
    for name, tables in made.runs[1].groups.items():
        own = (seed == 1) & (sex == name)
        beaten = truth[own & inside][:, None] - truth[own & ~inside][None]
        auc = ((beaten > 0) + (beaten == 0) / 2).mean()
        assert tables.exposure["auc_advantage"].value == pytest.approx(
            auc - 0.5, abs=1e-12
        )
        positive = int((chance[own & ~inside, 1] >= 0.5).sum())
        assert tables.test.tp + tables.test.fp == positive


def test_somebody_elses_score_keeps_its_name(few_permutations):
    """In the release, in sentences, and as an attack that can be asked for."""
    table = sweep(3)
    own = np.where(table["id"] == "p0", np.nan, np.arange(len(table)) % 17)
    found = swept(table, membership_score=pd.Series(own, name="Their_Attack"))
    pooled = {row.attack for row in found.pooled_exposure}
    assert {"auc_advantage", "attack_advantage"} < pooled
    assert {row.attack for row in found.placebo} == {*pooled, "overfitting_gap"}
    name = "Their_Attack_auc_advantage"
    exposure = [one.exposure[name] for one in found.runs[0].groups.values()]
    audit = pcer.audit(found, attack="their attack")
    assert (
        audit.attack == pcer.audit(found).attack == name
    )  # the strongest advantage here
    assert "Their Attack" in str(audit)
    assert "Their Attack" in audit._repr_html_()
    ours = swept(table, membership_score={"auc_advantage": own})
    theirs = [row.value for row in found.pooled_exposure if row.attack == name]
    taken = [row.value for row in ours.pooled_exposure if row.attack == "auc_advantage"]
    assert taken == theirs  # in place of our attack of that name
    unnamed = swept(table, membership_score=own).runs[0].groups.values()
    assert all("membership_score_auc_advantage" in one.exposure for one in unnamed)
    assert sum(one.n_excluded for one in exposure) == 1
    assert sum(one.n_members + one.n_nonmembers for one in exposure) == 399


@pytest.mark.parametrize(
    ("column", "value", "name"),
    [
        ("id", None, "record_id"),
        ("id", "p1", "record_id"),
        ("id", "somebody", "record_id"),
        ("sex", "x", "sensitive_features"),
        ("sex", None, "sensitive_features"),
        ("y_true", 2, "y_true"),
    ],
)
def test_records_that_cannot_be_compared_are_refused_and_not_named(column, value, name):
    table = sweep(3).astype({column: object})
    table.loc[(table["id"] == "p0") & (table["seed"] == 0), column] = value
    with pytest.raises(InputError) as caught:
        swept(table, public_data=True, positive_label=1)
    assert caught.value.field == name
    assert "somebody" not in str(caught.value)  # an error is not about a person


def test_coin_flips_need_one_set_of_records():
    table = sweep(3, budgets=(1.0, math.inf))
    table.loc[table["epsilon"] == 1.0, "id"] += " elsewhere"
    found = swept(table)
    assert found.placebo == []
    assert (
        found.not_computed["placebo"] == "the budgets were scored on different records"
    )
