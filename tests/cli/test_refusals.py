"""Impossible options of every verb: one sentence, exit code 2, nothing is written."""

import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from pcer.errors import printable
from tests.commands import MODULE, SAMPLES, config, passed, write_people

SAID = "--attribute sex --outcome benefit --split-kind random --out out"
REQUEST = f"release predictions.csv {SAID}"
LOANS = (
    "train loans.csv --label approved --positive yes --outcome benefit "
    "--attribute sex -o out"
)
TREE = "--estimator sklearn.tree:DecisionTreeClassifier"
NETS = (
    "train compas --attribute race --epochs 2 --batch 512 --budgets none,1 --seeds 3 "
    "-o out"
)
NET = f"{NETS} --module nets_for_pcer:make_net"


def run_file(**tables: dict[str, object]) -> str:
    return " ".join(config(**tables))


def predictions(**changes: object) -> str:
    k = np.arange(400)
    frame = {
        "y_true": k % 2,
        "y_pred": k // 2 % 2,
        "split": np.where(k % 3, "train", "test"),
    }
    return pd.DataFrame({**frame, "sex": k // 4 % 2, **changes}).to_csv(index=False)


TABLES = {
    "predictions": (predictions(), None),
    "empty": ("", "is empty; a table needs a header"),
    "header": ("y_true,y_pred,split,sex\n", "is empty; give records"),
    "one-group": (predictions(sex="F"), "attribute 'sex' has one group only"),
    "labels": (predictions(y_true=[0, 1, 2, 1] * 100), "3 different labels…--positive"),
    "mixed": (predictions(y_true=[0, "one"] * 200), "3 different labels"),
    "many-groups": (predictions(sex=np.arange(400)), "'sex' has more than 200 values"),
    "no-sex": (
        "y_true,y_pred,split\n0,1,test\n",
        "has no column 'sex'; it has: y_true, y_pred",
    ),
    "logits": (
        predictions(y_pred=[-3.0, 3.0] * 200),
        "must be probabilities in [0, 1]",
    ),
}
RUN_FILES = [
    ("[train]\nepochs = 3", "train.epochs…is not a field"),
    ("[tables]\ndrop = []", "tables…is not a field"),
    ("jobs = 1", "jobs…is not a field"),
    ("[train]\ndp_delta = 'x'", "train.dp_delta…valid number"),
    ("[engine]\njobs = 1.5", "engine.jobs…valid integer…1.5"),
    ("[engine]\njobs = true", "engine.jobs…valid integer"),
    ("[engine]\nkeep_scores = 1", "engine.keep_scores…valid boolean"),
    ("[table]\ndrop = 'name'", "table.drop…valid list"),
    ("[table]\ndrop = [1]", "table.drop[0]…valid string"),
    ("[train]\nsettings = 3", "train.settings…valid dictionary"),
    ("[train", "is not TOML"),
    (f"[train]\nsettings = {'[' * 5_000}", "is not TOML…digits or brackets"),
    (f"[train]\nn_steps = {'9' * 5_000}", "is not TOML…digits or brackets"),
    *(
        (f"[train]\n{k} = {'9' * 400}", f"[train]…{k} must be at most")
        for k in ("n_steps", "divisor")
    ),
    (
        "[train]\nsample_rate = 5e-324",
        "[train]…sample_rate must be one over a whole number",
    ),
    ("[train]\ndp_delta = 0.999", "[train]…dp_delta must be at most 0.1"),
    ("[train]\naccountant = 'mine'", "[train]…accountant must be one of"),
    (
        "[engine]\nblock_size = 0",
        "[engine]…block_size must be a whole number of at least",
    ),
    ("[disclosure]\nleast_people = 0", "[disclosure]…least_people must be"),
]
PLAN_FILES = [
    ("", "says nothing"),
    ("floor = ", "is not TOML"),
    ("flor = 0.01", "field flor: is not a field of a plan; the nearest is floor."),
    ("floor = 0", "field floor: should be greater than or equal to"),
    ("floor = 1e-300", "field floor: should be greater than or equal to"),
    ("floor = nan", "field floor"),
    ("floors = [0.1, 'x']", "field floors[1]: should be a valid number, but is 'x'"),
    ("resamples = 0", "field resamples"),
    ("rng = -1", "field rng"),
    ("benefit = 'wealth'", "field benefit"),
    ("policy = 3", "field policy: should be"),
    (
        "[policy]\nlargest_exposer = 52",
        "field policy.largest_exposer…the nearest is largest_exposure.",
    ),
    ("[policy]\nlargest_exposure = 0.02", "field policy.largest_exposure"),
]
PUBLIC = f"{LOANS} {run_file(disclosure={'public_data': True})}"
READABLE = ("counts", "rates", "by-hand", "forest")
BAD = [
    p for p in SAMPLES.glob("*.release.json") if p.name.split(".")[0] not in READABLE
]
REFUSED = [
    *((f"audit {path} --json out.json", path.name) for path in sorted(BAD)),
    *(
        (f"{NETS} --config {k}.toml", f"pcer: {k}.toml…{s}")
        for k, (_, s) in enumerate(RUN_FILES)
    ),
    (
        f"plan --groups a=100,b=200 --splits {'9' * 400}",
        "n_splits must be a whole number",
    ),
    (f"{NETS} --config no.toml", "pcer: no.toml cannot be read"),
    *(
        (
            f"release {name}.csv {SAID} {'--score y_pred' * (name == 'logits')}",
            f"{name}.csv…{told}",
        )
        for name, (_, told) in TABLES.items()
        if told is not None
    ),
    (
        f"verify {SAMPLES}/by-hand.version-1.audit.json {SAMPLES}/by-hand.release.json",
        "by-hand.version-1.audit.json has version 1…reads version 4; audit the "
        "release again",
    ),
    ("verify x.audit.json", "x.audit.json needs the release that it audited"),
    ("plan", "needs either a release or --groups"),
    ("plan c.release.json --groups a=1,b=2", "needs either a release or --groups"),
    ("plan --groups a=100", "at least two groups"),
    ("plan --groups a=100,b=x", "--groups must be pairs such as Women=1200"),
    ("plan --groups a=100,a=200", "every group once"),
    ("plan --groups 100,200", "--groups must be pairs"),
    ("plan --groups a=100,b=200 --accuracy 2", "accuracy of a must be"),
    (
        "plan --groups a=100,b=200 --accuracy x",
        "--accuracy must be pairs such as Women=0.8",
    ),
    ("plan --groups a=100,b=200 --splits 0", "n_splits must be a whole number"),
    ("plan nowhere.release.json", "nowhere.release.json"),
    ("plan c.release.json --json c.release.json", "would overwrite a release"),
    (
        "plan c.release.json --attack lira_advantage",
        "c.release.json: attack 'lira_advantage' is not",
    ),
    ("audit c.release.json --json a.json --latex no/b.tex", "b.tex cannot be written"),
    ("audit c.release.json --figures f --html no/r.html", "r.html cannot be written"),
    ("audit c.release.json --figures -", "needs a folder"),
    ("audit c.release.json --figures a/b", "cannot be written"),
    ("audit c.release.json --figures loans.csv", "cannot be written"),
    ("audit c.release.json --json x --latex x", "is given twice"),
    ("audit c.release.json --json - --latex -", "is given twice"),
    ("audit c.release.json --json c.release.json", "would overwrite a release"),
    *(
        (f"audit c.release.json --plan plan-{k}.toml", f"pcer: plan-{k}.toml…{told}")
        for k, (_, told) in enumerate(PLAN_FILES)
    ),
    ("audit c.release.json --plan no.toml", "pcer: no.toml cannot be read"),
    (
        "audit c.release.json --plan said.toml --exposure-margin 1",
        "said.toml and --exposure-margin both give exposure_margin; leave one out",
    ),
    (
        "audit c.release.json --plan said.toml --policy policy.toml",
        "said.toml and --policy both give policy; leave one out",
    ),
    ("audit c.release.json --reference zebra", "its groups are a, b"),
    ("audit c.release.json --attack lira_advantage", "it carries"),
    (
        "compare c.release.json c.release.json --attack rmia_advantage",
        "release 1 of 2 does not ca",
    ),
    (
        "compare c.release.json c.release.json --setting tree",
        "'tree' is not in both releases",
    ),
    ("compare c.release.json c.release.json --json - --junit -", "is given twice"),
    (
        "compare c.release.json d.release.json",
        "c.release.json and d.release.json: two releases a",
    ),
    ("compare c.release.json nowhere.release.json", "nowhere.release.json"),
    (
        "recommend c.release.json",
        "such as largest_exposure=52. Here that is --largest-exposure 52.",
    ),
    *(
        (
            f"{verb} .{more}",
            ". holds 2 releases; name one: c.release.json, d.release.json",
        )
        for verb, more in (
            ("plan", ""),
            ("compare", " c.release.json"),
            ("trend", " c.release.json"),
        )
    ),
    ("audit loans.csv", "loans.csv is a table; pcer release loans.csv makes a release"),
    (f"{REQUEST} --backend foo://x", "the backend 'foo' cannot be used here"),
    (
        f"{REQUEST} --backend duckdb://no/where",
        "the backend 'duckdb' cannot be used here",
    ),
    (
        f"{REQUEST} --score y_true --threshold nan",
        "threshold must be a probability, not nan",
    ),
    *(
        (f"{verb} --group-names {given}", told)
        for verb, one in ((REQUEST, "0"), (PUBLIC, "first"))
        for given, told in (
            ("White", "--group-names must be pairs such as 1=White,2=Black…'White'"),
            (f"{one}=", "--group-names must be pairs"),
            (f"{one}=A,{one}=B", "every group once"),
            ("zebra=A", "group_names has a group 'zebra' that there is not"),
            (
                f"{one}={'x' * 81}",
                "group_names must be one line of at most 80 characters",
            ),
        )
    ),
    (f"{REQUEST} --group-names 0=A,1=a", "gives two groups of 'sex' one name"),
    (f"{PUBLIC} --group-names second=first", "gives two groups of 'sex' one name"),
    (
        f"{PUBLIC} --attribute race --group-names race:first=A",
        "'race:first' that there is not",
    ),
    (
        f"{REQUEST} --people {'x' * 81}",
        "people must be one line of at most 80 characters",
    ),
    (f"{PUBLIC} --positive-means \u200b", "positive_means must be one line"),
    (f"{REQUEST} --attribute Sex", "attributes 'sex' and 'Sex' read alike"),
    (f"{REQUEST} --dp-delta nan", "dp_delta must lie strictly between 0 and 1"),
    (f"{REQUEST} --dp-delta 5", "dp_delta must lie strictly between 0 and 1"),
    (
        f"{PUBLIC} --budgets 1e300",
        "A budget must be an epsilon between 0.0001 and 10000",
    ),
    (
        f"{PUBLIC} --budgets {'9' * 400}",
        "A budget must be an epsilon between 0.0001 and 10000",
    ),
    (
        f"{PUBLIC} --hidden {'9' * 400}",
        "between hidden layers must be at most 100,000,000",
    ),
    (
        f"{PUBLIC} --budgets 1e-300",
        "A budget must be an epsilon between 0.0001 and 10000",
    ),
    (
        f"{PUBLIC} --hidden 1000000,1000000",
        "between hidden layers must be at most 100,000,000",
    ),
    (f"{PUBLIC} --epochs {'9' * 20}", "epochs must be at most 1,000,000"),
    (f"{PUBLIC} --seeds 100000000", "make 600,000,000 models, more than the 100,000"),
    (f"{PUBLIC} -o c.release.json", "cannot be"),
    (f"{NETS} --budgets tight", "'tight' was given"),
    (f"{NETS} --budgets 1,1", "budgets must name each one once"),
    (f"{NETS} --clip-norm 0", "clip_norm must be"),
    (f"{NETS} --hidden a", "hidden must be whole numbers"),
    (f"{NETS} --grid depth=1,2", "grid takes clip-norm, hidden…not 'depth=1,2'"),
    (f"{NETS} --grid clip-norm=1 --grid clip-norm=2", "each once"),
    (f"{NETS} --grid clip-norm=1,,2", "grid must list values"),
    (f"{NETS} --grid rule=", "grid must list values"),
    (
        f"{NETS} --grid hidden=64-x",
        "grid must list values…not 'hidden=64-x'",
    ),
    (
        f"{NETS} --grid clip-norm=1,1.0",
        "one value of clip_norm or several different ones",
    ),
    (f"{NETS} --grid clip-norm=0,1", "clip_norm must be"),
    (
        f"{NETS} --grid clip-norm=1,2 --clip-norm 3",
        "--clip-norm and --grid both give it",
    ),
    (f"{NETS} --grid momentum=0,.5 --seeds 50000", "times --grid make 200,000 models"),
    (
        f"{NETS} --grid rule=dp-sgd,held --receipts held",
        "of rule or several different ones",
    ),
    (f"{LOANS} {TREE} --grid epochs=1,2", "--grid is about pcer's own networks"),
    (f"{NET} --grid hidden=8,none", "grid cannot vary hidden layers of a module"),
    (f"{NETS} --device tpu", "device must be"),
    (f"{PUBLIC} --device cuda", "cuda"),
    ("train nowhere.csv --attribute race -o out", "no dataset"),
    (f"{LOANS} --estimator RandomForest", "must be package.module:Name"),
    (f"{LOANS} --estimator nowhere.at.all:X", "nowhere.at.all cannot be imported"),
    (f"{LOANS} --estimator sklearn.tree:Oak", "sklearn.tree has no Oak"),
    (
        f"{LOANS} {TREE} {run_file(train={'settings': {'depth': 3}})}",
        "Classifier does not accept",
    ),
    (f"{LOANS} {TREE} --epochs 3", "--epochs is about pcer's own networks"),
    (f"{LOANS} {TREE} --budgets 1", "--budgets is about pcer's own networks"),
    (
        f"{LOANS} {TREE} {run_file(train={'accountant': 'rdp'})}",
        "[train]: accountant is about pce",
    ),
    (f"{LOANS} {run_file(train={'settings': {'a': 1}})}", "name one with --estimator"),
    (f"{LOANS} {TREE} --attribute hair", "hair"),
    (f"{LOANS} --estimator sklearn.linear_model:LinearRegression", "is a regressor"),
    (
        f"{NETS} --module make_net",
        "must be package.module:Name, such as mymodels:make_net",
    ),
    (f"{NETS} --module nowhere:make_net", "nowhere cannot be imported"),
    (f"{NETS} --module nets_for_pcer:oak", "nets_for_pcer has no oak"),
    (f"{NETS} --module nets_for_pcer:number", "is int and cannot be called"),
    (
        f"{NETS} --module nets_for_pcer:mixing",
        "layer '0' (BatchNorm1d) mixes the records",
    ),
    (f"{NET} {run_file(train={'settings': {'depth': 3}})}", "argument 'depth'"),
    (f"{NET} --receipts held", "--receipts is not for modules"),
    (f"{NET} --hidden 8", "--hidden is not for modules"),
    (f"{NET} --device cuda", "no CUDA device can be used here"),
    (
        f"{NET} {run_file(engine={'engine': 'ray'})}",
        "[engine]: engine is not for modules",
    ),
    (f"{NET} {run_file(engine={'block_size': 2})}", "one after another"),
    (
        f"{NET} {run_file(train={'refresh_every': 2})}",
        "[train]: refresh_every is not for modules",
    ),
    (f"{NET} {TREE}", "give one of them"),
]


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> Path:
    """Files of a user: releases, tables, and modules of their own."""
    made = tmp_path_factory.mktemp("refused")
    for name, sample in (("c", "counts"), ("d", "by-hand")):
        text = (SAMPLES / f"{sample}.release.json").read_bytes()
        (made / f"{name}.release.json").write_bytes(text)
    write_people(made / "loans.csv")
    for name, (text, _) in TABLES.items():
        (made / f"{name}.csv").write_text(text)
    for k, (text, _) in enumerate(RUN_FILES):
        (made / f"{k}.toml").write_text(text)
    for k, (text, _) in enumerate(PLAN_FILES):
        (made / f"plan-{k}.toml").write_text(text)
    (made / "said.toml").write_text(
        "exposure_margin = 1\n[policy]\nlargest_exposure = 52\n"
    )
    (made / "policy.toml").write_text("largest_exposure = 52\n")
    (made / "nets_for_pcer.py").write_text(MODULE)
    return made


@pytest.mark.parametrize(("command", "sentence"), REFUSED)
def test_what_cannot_be_is_one_sentence_and_writes_nothing(
    folder, monkeypatch, command, sentence
):
    monkeypatch.chdir(folder)
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    before = {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}
    done = passed(*command.split(), code=2)
    sys.modules.pop("nets_for_pcer", None)
    told = done.stderr.splitlines()[-1]  # of an own table its columns are told before
    assert told.startswith("pcer: ")
    assert [part for part in sentence.split("…") if part not in told] == []
    assert (done.stdout, printable(told)) == ("", told)
    assert "train loans.csv" in command or done.stderr.count("\n") == 1
    assert {p: p.read_bytes() for p in folder.rglob("*") if p.is_file()} == before
