"""What people type first, as they would: a result, or one sentence with the exact fix.

A try is code that runs in ``here`` (names that a user has at hand), or the words of a
command. With ``Fix`` it is refused once, in words that name what to do; the fix must
then work, and where it has ``AS_SAID`` it is the one that was printed. A wrong argument
is refused by Python itself.
"""

import os
import re
import shlex
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
import sklearn.model_selection
import torch
from sklearn.ensemble import RandomForestClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.svm import SVC

import pcer
from tests.commands import passed, refusal
from tests.pages import ROOT


class Fix(NamedTuple):
    """What is typed first, what the sentence must say, and what is typed then."""

    first: str
    says: str
    then: str
    error: type[Exception] = pcer.InputError


PRINTED = re.compile(r".*[Pp]ass (?P<fix>.+?)(?: or .*)?\.$")
BARE = "release = pcer.release_from_estimator(forest, {}, n_splits=2)"
ASK = (
    "release = pcer.release_from_estimator(forest, {}, n_splits=2, outcome='benefit'{})"
)
READY = "release = pcer.read_release('forest.release.json')\n"
TRAIN = """
def train(X, y, seed):
    weight = torch.zeros(X.shape[1], dtype=X.dtype, requires_grad=True)
    for _ in range(5):
        loss = torch.nn.functional.binary_cross_entropy_with_logits(X @ weight, y)
        (slope,) = torch.autograd.grad(loss, weight)
        weight = (weight - slope).detach().requires_grad_()
    return {}
"""
RELEASE = (
    "pcer.release_from_training(train, tX, ty, "
    "sensitive_features=g, outcome='benefit'{})"
)
MADE = (
    "pcer.release_from_predictions(y, {}, split={}, "
    "split_kind='random', sensitive_features=g, "
    "outcome='benefit'{})"
)
SWEEP = ROOT / "studies" / "paper" / "compas.race.release.json"
SIGNALS = (
    "pcer.release_from_signals(ll, base, {}member=member, split_kind='random', {})"
)
PYTHON = [
    # scikit-learn and fairlearn
    ASK.format("X, y, sensitive_features=g", ""),
    ASK.format("X.tolist(), y.tolist(), sensitive_features=g.tolist()", ""),
    ASK.format("X, y, sensitive_features=g.reshape(-1, 1)", ""),
    ASK.format("X, y, sensitive_features=np.stack([g, h], axis=1)", ""),
    ASK.format("df[['age', 'score']], df['paid'], sensitive_features=df['sex']", ""),
    ASK.format(
        "df[['age', 'score']], df['paid'], sensitive_features=df[['sex', 'region']]", ""
    ),
    ASK.format(
        "df[['age', 'score', 'code']], df['paid'], sensitive_features='code'", ""
    ),
    ASK.format(
        "df[['age', 'code', 'zone']], df['paid'], sensitive_features=['code', 'zone']",
        "",
    ),
    Fix(
        ASK.format("df[['age', 'sex']], df['paid'], sensitive_features='sex'", ""),
        "could not convert string to float",
        ASK.format(
            "df[['age', 'sex']], df['paid'], sensitive_features='sex'",
            ", drop_sensitive=True",
        ),
    ),
    Fix(
        ASK.format("df[['age', 'score']], df['paid'], sensitive_features='sex'", ""),
        "X has age, score",
        ASK.format(
            "df[['age', 'score']], df['paid'], sensitive_features=df['sex']", ""
        ),
    ),
    Fix(
        ASK.format("X, words, sensitive_features=g", ""),
        "positive_label='yes'",
        ASK.format("X, words, sensitive_features=g", ", positive_label='yes'"),
    ),
    Fix(
        "pcer.release_from_estimator(RandomForestClassifier, X, y, "
        "sensitive_features=g, "
        "outcome='benefit')",
        "give an object: RandomForestClassifier()",
        ASK.format("X, y, sensitive_features=g", ""),
    ),
    ASK.format("X, y, sensitive_features=g", ", n_jobs=1, test_size=0.4"),
    Fix(
        ASK.format("X, y, sensitive_features=g", ", dataset='loans'"),
        "unexpected keyword argument 'dataset'",
        ASK.format("X, y, sensitive_features=g", ", about={'dataset': 'loans'}"),
        TypeError,
    ),
    Fix(
        ASK.format("X, y, sensitive_features=g", ", n_job=2"),
        "unexpected keyword argument 'n_job'",
        ASK.format("X, y, sensitive_features=g", ", n_jobs=2"),
        TypeError,
    ),
    Fix(
        ASK.format("X, y, sensitive_features=g", ", epsilon=1, cv=3"),
        "cv must split at random: one of ShuffleSplit, ",
        ASK.format(
            "X, y, sensitive_features=g",
            ", epsilon=1, cv=sklearn.model_selection.ShuffleSplit(3, test_size=0.3)",
        ),
    ),
    Fix(
        ASK.format("X, y, sensitive_features=g", ", random_state=0"),
        "say disclosure=pcer.Disclosure(public_data=True) if anybody may have",
        ASK.format(
            "X, y, sensitive_features=g",
            ", random_state=0, disclosure=pcer.Disclosure(public_data=True)",
        ),
    ),
    Fix(
        BARE.format("X, y, sensitive_features=g"),
        "missing 1 required keyword-only argument: 'outcome'",
        BARE.format("X, y, sensitive_features=g, outcome='harm'"),
        TypeError,
    ),
    Fix(
        BARE.format("X, y, g, outcome='benefit'"),
        "takes 3 positional arguments but 4",
        BARE.format("X, y, sensitive_features=g, outcome='benefit'"),
        TypeError,
    ),
    *(
        Fix(
            ASK.format(f"X, {labels}, sensitive_features=g", ""),
            "y contains ",
            ASK.format(f"X, {labels}, sensitive_features=g", ", AS_SAID"),
        )
        for labels in ("2 * y - 1", "np.where(y, 'good', 'bad')")
    ),
    Fix(
        "pcer.release_from_predictions(y, (X[:, 0] > 0) * 1, sensitive_features=g)",
        "'split', 'split_kind', and 'outcome'",
        "pcer.release_from_predictions(y, (X[:, 0] > 0) * 1, "
        "sensitive_features=g, split=member, "
        "split_kind='random', outcome='benefit')",
        TypeError,
    ),
    # pandas, polars, fairlearn's MetricFrame
    ASK.format("df[['age', 'score']], df[['paid']], sensitive_features=df['sex']", ""),
    ASK.format(
        "X, y.reshape(-1, 1), sensitive_features=pd.Series(g, dtype='category')", ""
    ),
    ASK.format("X, pd.Series(y).astype('boolean'), sensitive_features=g == 'men'", ""),
    ASK.format(
        "pl.DataFrame(X), pl.DataFrame({'y': y}), sensitive_features=pl.Series('s', g)",
        "",
    ),
    ASK.format("X, pd.Index(y), sensitive_features=pd.Categorical(g)", ""),
    ASK.format(
        "pa.table(df[['age']]), pa.array(y), sensitive_features=pa.array(g)", ""
    ),
    ASK.format("X, y, sensitive_features=g", ", disclosure={'least_people': 5}"),
    ASK.replace("forest", "SVC()").format("X, y, sensitive_features=g", ""),
    ASK.replace("forest", "GridSearchCV(forest, dict(max_depth=[1, 2]), cv=2)").format(
        "X, y, sensitive_features=g", ""
    ),
    Fix(
        ASK.format("X, np.eye(2)[y], sensitive_features=g", ""),
        "such as y[:, 1]",
        ASK.format("X, np.eye(2)[y][:, 1], sensitive_features=g", ""),
    ),
    Fix(
        ASK.format("X, words, sensitive_features=g", ", positive_label='Yes'"),
        "y contains 'no' and 'yes', not 'Yes'",
        ASK.format("X, words, sensitive_features=g", ", AS_SAID"),
    ),
    Fix(
        ASK.format("X, y, sensitive_features=None", ""),
        "one column, a value for each record",
        ASK.format("X, y, sensitive_features=g", ""),
    ),
    Fix(
        ASK.replace("forest", "[forest, forest]").format(
            "X, y, sensitive_features=g", ""
        ),
        "several as a dict by name",
        ASK.replace("forest", "{{'a': forest, 'b': forest}}").format(
            "X, y, sensitive_features=g", ""
        ),
    ),
    Fix(
        ASK.replace("forest", "torch.nn.Linear(3, 1)").format(
            "X, y, sensitive_features=g", ""
        ),
        "release_from_training",
        TRAIN.format("lambda records: torch.sigmoid(records @ weight)")
        + RELEASE.format(", n_splits=2"),
    ),
    MADE.format("X[:, 0] > 0", "member", ""),
    MADE.format("(X[:, 0] > 0) * 1", "np.where(member, 'train', 'test')", ""),
    Fix(
        MADE.format("(X[:, 0] > 0) * 1", "np.where(member, 'Train', 'Test')", ""),
        "recode it, or give a mask",
        MADE.format(
            "(X[:, 0] > 0) * 1", "np.where(member, 'Train', 'Test') == 'Train'", ""
        ),
    ),
    Fix(
        MADE.format("y_proba=abs(np.tanh(X[:, 0]))", "member", ""),
        "unexpected keyword argument 'y_proba'",
        MADE.format("y_score=abs(np.tanh(X[:, 0]))", "member", ""),
        TypeError,
    ),
    # what is done with a release, and an audit
    "assert pcer.audit('forest.release.json', {'floor': 0.01}).plan.floor == 0.01",
    (
        "pcer.audit('forest.release.json', plan={'policy': "
        "{'largest_exposure': 52}}).broken_rules"
    ),
    f"pcer.recommend('{SWEEP}', largest_exposure=53)",
    f"pcer.recommend([Path('{SWEEP}')], policy={{'largest_exposure': 53}})",
    Fix(
        f"pcer.recommend('{SWEEP}', largest_exposur=53)",
        "unexpected keyword argument 'largest_exposur'",
        f"pcer.recommend('{SWEEP}', largest_exposure=53)",
        TypeError,
    ),
    READY + "print(pcer.audit(release)); release.save('again.json')",
    "print(pcer.audit('forest.release.json'))",
    "for found in pcer.audit('.'): print(found.headline)",
    "pcer.audit(['forest.release.json', Path('forest.release.json')])",
    "assert pcer.audit('forest.release.json', attack='LiRA').attack == 'lira_advantage'",
    (
        "pcer.audit('forest.release.json', attack='Paired "
        "Confidence').plot().save('finding.svg')"
    ),
    "assert pcer.audit('forest.release.json').to_frame().shape[1] <= 10",
    (
        "pcer.detectable(pcer.read_release('forest.release.json'), "
        "attack='gap', setting='none')"
    ),
    READY + "pcer.compare(release, release, attack='rmia', settings='No-DP')",
    "pcer.compare('forest.release.json', Path('forest.release.json'))",
    "pcer.trend('forest.release.json', '.')",
    "pcer.detectable('forest.release.json', target=0.05)",
    *(
        Fix(
            f"pcer.audit('forest.release.json', {typed})",
            "unexpected keyword argument",
            f"pcer.audit('forest.release.json', plan=pcer.Plan({as_plan}))",
            TypeError,
        )
        for typed, as_plan in (
            ("policy={'largest_exposure': 52}", "policy={'largest_exposure': 52}"),
            (
                "policy='limits.toml'",
                "policy=pcer.auditing.read_policy('limits.toml')",
            ),
            ("floor=0.01", "floor=0.01"),
        )
    ),
    Fix(
        "pcer.Policy(largest_exposure=0.52)",
        "52 for 0.52",
        "pcer.Policy(largest_exposure=52)",
    ),
    Fix(
        "pcer.About(people='a\\nb')",
        "people must be one line",
        "pcer.About(people='applicants')",
    ),
    Fix(
        "pcer.audit(Path('forest.release.json').read_text())",
        "name the file of a release, not its text",
        "pcer.audit('forest.release.json')",
    ),
    Fix(
        "pcer.audit(forest)",
        "release_from_estimator",
        "pcer.audit('forest.release.json')",
    ),
    Fix(
        ASK.format("X, df[['paid', 'age']], sensitive_features=g", ""),
        "y must be one column, but is a table of paid and age; choose one of them, such as y['age']",
        ASK.format("X, df['paid'], sensitive_features=g", ""),
    ),
    ASK.format("X, df[['paid']], sensitive_features=g", ""),
    Fix(
        ASK.format("X, np.stack([y, y], axis=1), sensitive_features=g", ""),
        "has shape",
        ASK.format("X, np.stack([y, y], axis=1)[:, 1], sensitive_features=g", ""),
    ),
    Fix(
        READY + "Path('found.json').write_text(pcer.audit(release).to_json())\n"
        "pcer.audit('found.json')",
        "found.json is an audit; name the release that it was made of",
        "pcer.audit('forest.release.json')",
    ),
    Fix(
        "Path('found.html').write_text('<html></html>')\npcer.audit('found.html')",
        "found.html is a report; name the release that it was made of",
        "pcer.audit('forest.release.json')",
    ),
    Fix(
        READY + "Path('opinion.md').write_text(pcer.audit(release).opinion())\n"
        "pcer.audit('opinion.md')",
        "opinion.md is a text for people; name the release",
        "pcer.audit('forest.release.json')",
    ),
    # Opacus and torch
    TRAIN.format("lambda records: torch.sigmoid(records @ weight)")
    + RELEASE.format(", n_splits=2, epsilon=1.2"),
    TRAIN.format(
        "lambda r: torch.stack([1 - torch.sigmoid(r @ weight), "
        "torch.sigmoid(r @ weight)], 1)"
    )
    + RELEASE.format(", n_splits=2, epsilon=lambda model: 0.98"),
    Fix(
        TRAIN.format("lambda records: records @ weight")
        + RELEASE.format(", n_splits=2"),
        "apply the sigmoid",
        TRAIN.format("lambda records: torch.sigmoid(records @ weight)")
        + RELEASE.format(", n_splits=2"),
    ),
    Fix(
        TRAIN.format("None") + RELEASE.format(", n_splits=2"),
        "a function of records to probabilities",
        TRAIN.format("lambda records: torch.sigmoid(records @ weight)")
        + RELEASE.format(", n_splits=2"),
    ),
    Fix(
        TRAIN.format("lambda records: torch.sigmoid(records @ weight)")
        + RELEASE.format(", n_splits=2, store='kept'"),
        "version=1",
        TRAIN.format("lambda records: torch.sigmoid(records @ weight)")
        + RELEASE.format(", n_splits=2, store='kept', version=1"),
    ),
    Fix(
        TRAIN.format("lambda records: torch.sigmoid(records @ weight)")
        + RELEASE.format(", n_splits=2, budgets={'epsilon': [1, None]}"),
        "unexpected keyword argument 'budgets'",
        TRAIN.format("lambda records: torch.sigmoid(records @ weight)").replace(
            "train", "private"
        )
        + TRAIN.format("lambda records: torch.sigmoid(records @ weight)")
        + RELEASE.format(", n_splits=2, epsilon={'a': 1, 'b': None}").replace(
            "train, ", "{'a': private, 'b': train}, "
        ),
        TypeError,
    ),
    Fix(
        TRAIN.format("no_such_name") + RELEASE.format(", n_splits=2"),
        "; store='kept', version=1 keeps finished splits",
        TRAIN.format("lambda records: torch.sigmoid(records @ weight)")
        + RELEASE.format(", n_splits=2, store='kept', version=1"),
    ),
    Fix(
        "def train(X, y):\n    return LogisticRegression().fit(X, y)\n"
        + RELEASE.format(", n_splits=2"),
        "train(X_train, y_train, seed)",
        "def train(X, y, seed):\n    return LogisticRegression().fit(X, y)\n"
        + RELEASE.format(", n_splits=2"),
    ),
    Fix(
        "def train(X, y, seed):\n    return LogisticRegression().fit(X, y).predict\n"
        + RELEASE.format(", n_splits=2"),
        "return the model's predict_proba",
        "def train(X, y, seed):\n    return "
        "LogisticRegression().fit(X, y).predict_proba\n"
        + RELEASE.format(", n_splits=2"),
    ),
    Fix(
        TRAIN.format("lambda records: torch.sigmoid(records @ weight)")
        + RELEASE.format(", n_splits=2, epsilon=2, delta=1e-5"),
        "unexpected keyword argument 'delta'",
        TRAIN.format("lambda records: torch.sigmoid(records @ weight)")
        + RELEASE.format(", n_splits=2, epsilon=2, dp_delta=1e-5"),
        TypeError,
    ),
    TRAIN.format("lambda records: torch.sigmoid(records @ weight)").replace(
        "y)", "y[:, 0])"
    )
    + RELEASE.format(", n_splits=2").replace("ty", "ty[:, None]"),
    # large models
    Fix(
        (
            "pcer.release_from_signals(ll, [base, base + 1], "
            "sensitive_features=g, member=member)"
        ),
        "missing 2 required keyword-only arguments: 'kind' and 'split_kind'",
        "pcer.release_from_signals(ll, [base, base + 1], "
        "sensitive_features=g, member=member, "
        "kind='log_likelihood', split_kind='random')",
        TypeError,
    ),
    Fix(
        SIGNALS.format("kind='log_likelihood', ", "sensitive_features=g").replace(
            "member=member", "member=np.where(member, 'train', 'test')"
        ),
        "member=part == 'train'",
        "part = np.where(member, 'train', 'test')\n"
        + SIGNALS.format("kind='log_likelihood', ", "sensitive_features=g").replace(
            "member=member", "member=part == 'train'"
        ),
    ),
    "print(pcer.audit("
    + SIGNALS.format("kind='log_likelihood', ", "sensitive_features=g, person_id=who")
    + "))",
    Fix(
        SIGNALS.format("kind='loss', ", "sensitive_features=g"),
        "check the kind",
        SIGNALS.format("kind='log_likelihood', ", "sensitive_features=g"),
    ),
]
READY_TABLE = (
    "pcer release predictions.csv --attribute sex --outcome "
    "benefit --split-kind random "
    "--label label --prediction pred --split part"
)
MORE = "--epochs 1 --seeds 2 --budgets none"
COMMANDS = [
    "pcer audit forest.release.json --attack LiRA",
    "pcer audit . --quiet",
    "pcer audit forest.release.json --setting none",
    Fix(
        "pcer verify forest.release.json",
        "is a release; name its report or audit",
        "pcer audit forest.release.json --html report.html",
    ),
    "pcer plan forest.release.json --attack gap --setting none",
    (
        "pcer compare forest.release.json forest.release.json "
        "--setting none --attack 'Paired gap'"
    ),
    Fix(f"pcer train loans.csv {MORE}", "For example: ", "as it says"),
    Fix(
        f"pcer train loans.csv --attribute sex --label paid {MORE}",
        "For example: ",
        "as it says",
    ),
    Fix(
        "pcer train compas",
        "--attribute race",
        f"pcer train compas --attribute race {MORE}",
    ),
    Fix("pcer release predictions.csv", "For example: ", "as it says"),
    "pcer plan . --setting none",
    "pcer compare . forest.release.json",
    "pcer trend . forest.release.json",
    Fix(
        "pcer audit predictions.csv",
        "pcer release predictions.csv",
        f"{READY_TABLE} -o made",
    ),
    f"{READY_TABLE} --membership-score myattack --out own",
    Fix(
        "pcer audit", "Example: pcer audit examples/", "pcer audit forest.release.json"
    ),
    Fix("pcer audti .", "Did you mean 'audit'?", "pcer audit ."),
    Fix("pcer audit . --htm r.html", "--html", "pcer audit . --html r.html"),
    Fix(
        "pcer verify opinion.md",
        "which nothing can recompute",
        "pcer audit . --html r.html",
    ),
    Fix("pcer audit . --opinion o.docx", "*.md", "pcer audit . --opinion o.md"),
    Fix("pcer audit . --html r.pdf", "*.html", "pcer audit . --html r.html"),
    Fix(
        "pcer compare .", "Missing argument 'NEW'", "pcer compare . forest.release.json"
    ),
    Fix("pcer schema", "release, audit", "pcer schema audit"),
    Fix(
        "pcer audit . --benefit tpr",
        "true_positive",
        "pcer audit . --benefit true_positive_rate",
    ),
    Fix(
        "pcer plan --groups a=300,b=400 --target 5%",
        "number",
        "pcer plan --groups a=300,b=400",
    ),
    f"pcer train compas --attribute race {MORE} --epsilon none",
    "pcer train loans.parquet --attribute sex --label paid "
    f"--positive 1 --outcome harm {MORE} "
    "--drop job",
]


PACKAGES = {
    "np": np,
    "pd": pd,
    "pl": pl,
    "pa": pa,
    "pcer": pcer,
    "sklearn": sklearn,
    "torch": torch,
    "Path": Path,
    "GridSearchCV": sklearn.model_selection.GridSearchCV,
    "LogisticRegression": LogisticRegression,
    "RandomForestClassifier": RandomForestClassifier,
    "SVC": SVC,
}


@pytest.fixture(scope="module")
def here(tmp_path_factory):
    """A folder and the names that a user has at hand."""
    folder = tmp_path_factory.mktemp("first")
    rng = np.random.default_rng(0)
    n = 400
    X = rng.normal(size=(n, 3))
    y = (X[:, 0] + rng.normal(size=n) > 0).astype(int)
    g = np.where(rng.random(n) < 0.5, "women", "men")
    h = np.where(rng.random(n) < 0.5, "x", "z")
    df = pd.DataFrame(
        {"age": 50 + 9 * X[:, 0], "score": X[:, 1], "sex": g, "region": h, "paid": y}
    )
    df["code"] = (g == "men") + 1
    df["zone"] = (h == "z") + 1
    df["job"] = [f"job {k}" for k in rng.integers(0, 120, n)]
    loans = df[["age", "score", "job", "sex", "paid"]]
    loans.to_csv(folder / "loans.csv", index=False)
    loans.to_parquet(folder / "loans.parquet", index=False)
    part = np.where(rng.random(n) < 0.6, "train", "test")
    table = {
        "sex": g,
        "label": y,
        "pred": (X[:, 0] > 0) * 1,
        "part": part,
        "myattack": X[:, 2],
    }
    (folder / "limits.toml").write_text("largest_exposure = 52\n")
    pd.DataFrame(table).to_csv(folder / "predictions.csv", index=False)
    df.assign(paid=1000 * X[:, 1]).to_csv(folder / "pay.csv", index=False)
    forest = RandomForestClassifier(5)
    member = rng.permutation(n) < n // 2
    base = rng.normal(-50, 9, n)
    names = {
        **PACKAGES,
        "X": X,
        "y": y,
        "g": g,
        "h": h,
        "df": df,
        "words": np.where(y, "yes", "no"),
        "tX": torch.tensor(X),
        "ty": torch.tensor(y).double(),
        "forest": forest,
        "member": member,
        "who": np.arange(n) // 2,
        "base": base,
        "ll": base + rng.normal(size=n) + 3 * member,
    }
    pcer.release_from_estimator(
        forest, X, y, sensitive_features=g, outcome="benefit", n_splits=8
    ).save(folder / "forest.release.json")
    return folder, names


@pytest.mark.parametrize("typed", PYTHON, ids=range(len(PYTHON)))
def test_what_is_typed_first_in_python(typed, here, monkeypatch):
    folder, names = here
    monkeypatch.chdir(folder)
    then = typed
    if isinstance(typed, Fix):
        with pytest.raises(typed.error) as caught:
            exec(typed.first, dict(names))
        assert typed.says in str(caught.value)
        assert "\n" not in str(caught.value)
        found = PRINTED.match(str(caught.value))
        then = typed.then.replace("AS_SAID", found["fix"] if found else "AS_SAID")
    exec(then, dict(names))


@pytest.mark.parametrize("typed", COMMANDS, ids=range(len(COMMANDS)))
def test_what_is_typed_first_at_the_command_line(typed, here, monkeypatch, tmp_path):
    folder, _ = here
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    for path in folder.iterdir():
        os.symlink(path, tmp_path / path.name)
    then = typed
    if isinstance(typed, Fix):
        sentence = refusal(*shlex.split(typed.first)[1:])
        assert typed.says in sentence
        told = sentence.partition(typed.says)[2].strip()
        then = told if typed.then == "as it says" else typed.then
    done = passed(*shlex.split(then)[1:])
    assert "Traceback" not in done.stderr
    if "myattack" in then:
        assert "myattack" in passed("audit", "own", "--full").stdout


def test_a_label_of_many_values_is_told_apart_without_any_of_them(here, monkeypatch):
    monkeypatch.chdir(here[0])
    sentence = refusal("train", "pay.csv", "--attribute", "sex", "--label", "paid")
    assert (
        "label 'paid' must have two values, or up to 50, not 400; join values"
        in sentence
    )
    assert "--outcome" in sentence
    assert not re.search(r"For example|\d\.\d", sentence)


def test_three_lines_with_arrays_only_give_a_printed_finding(here):
    X, y, g = (here[1][name] for name in "Xyg")
    model = RandomForestClassifier(5)
    release = pcer.release_from_estimator(
        model, X, y, sensitive_features=g, outcome="benefit"
    )
    printed = " ".join(str(found := pcer.audit(release)).split())
    assert " ".join(found.headline.split()) in printed
    assert "Can an attacker tell who was in the training data? " in printed
