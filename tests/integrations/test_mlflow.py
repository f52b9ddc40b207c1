"""MLflow: what is logged, by a real server; what is evaluated, also without one."""

import importlib.metadata
import json
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import time
import tomllib
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.machinery import ModuleSpec
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
from sklearn.tree import DecisionTreeClassifier

import pcer
from pcer.integrations import mlflow as ours
from pcer.release.file import parse_release
from tests.commands import passed
from tests.pages import QUICK, ROOT, audited, many_groups
from tests.test_pages import blocks

PAGE = "docs/integrations.md"
FOREST = ROOT / "examples" / "compas-forest.release.json"
CONFIG = {"sensitive_features": "sex", "split": "split", "split_kind": "random"}
CONFIG |= {"outcome": "benefit"}


# Without MLflow


def world() -> tuple[pd.DataFrame, pd.Series, DecisionTreeClassifier]:
    """People, their labels, and a tree of few leaves, one of them as likely as not."""
    rng = np.random.default_rng(0)
    table = pd.DataFrame(
        {"x": rng.integers(0, 4, 800), "sex": rng.choice(["f", "m"], 800)}
    )
    table["split"] = rng.choice(["train", "test"], 800)
    labels = pd.Series(np.where(rng.random(800) < 0.2 + 0.2 * table["x"], "yes", "no"))
    tied = np.flatnonzero(table["x"] == 1)
    labels[tied] = np.where(np.arange(len(tied)) % 2 == 0, "no", "yes")
    tied = tied[: len(tied) // 2 * 2]
    kept = (table["x"] != 1) | table.index.isin(tied)
    return (
        table,
        labels,
        DecisionTreeClassifier().fit(table.loc[kept, ["x"]], labels[kept]),
    )


def wrapped(raw, names=("x",), predict="predict"):
    """As much of MLflow's model as is used."""
    schema = SimpleNamespace(has_input_names=lambda: True, input_names=lambda: [*names])
    metadata = SimpleNamespace(get_input_schema=lambda: schema if names else None)
    found = SimpleNamespace(metadata=metadata, predict=getattr(raw, predict))
    return SimpleNamespace(**vars(found), get_raw_model=lambda: raw)


@pytest.mark.parametrize(
    "case", ["signature", "fitted", "probabilities", "table", "labels alone"]
)
def test_the_release_of_an_evaluation_counts_what_the_model_predicts(case):
    table, labels, tree = world()
    predicted = tree.predict(table[["x"]])
    model = wrapped(tree, () if case == "fitted" else ("x",))
    if case == "probabilities":
        model = wrapped(tree, predict="predict_proba")
        predicted = np.where(tree.predict_proba(table[["x"]])[:, 1] >= 0.5, "yes", "no")
    if case == "labels alone":  # no wrapped estimator, so no columns of its own either
        model = SimpleNamespace(predict=lambda given: tree.predict(given[["x"]]))
    dataset = SimpleNamespace(
        features_data=table, labels_data=labels, predictions_data=predicted
    )
    config = CONFIG | {"positive_label": "yes", "dataset": "loans"}
    release = ours.evaluated_release(
        dataset, None if case == "table" else model, config
    )
    for part in ("train", "test"):
        for group in ("f", "m"):
            at = (table["split"] == part) & (table["sex"] == group)
            cells = getattr(release.runs[0].groups[group], part)
            assert (cells.tp, cells.fp, cells.tn, cells.fn) == tuple(
                int((at & (labels == label) & (predicted == answer)).sum())
                for label, answer in (
                    ("yes", "yes"),
                    ("no", "yes"),
                    ("no", "no"),
                    ("yes", "no"),
                )
            )
    found = {row.attack for row in release.pooled_exposure}
    assert ("auc_advantage" in found) == (case not in ("table", "labels alone"))
    assert release.subject.dataset == "loans"


def test_a_config_that_cannot_be_used_is_refused_by_its_key():
    table, labels, tree = world()
    dataset = SimpleNamespace(
        features_data=table, labels_data=labels, predictions_data=None
    )
    for config, field in (
        ({key: value for key, value in CONFIG.items() if key != "outcome"}, "outcome"),
        (CONFIG | {"spilt": "split"}, "spilt"),
        (CONFIG | {"split": "part"}, "evaluator_config"),
        (CONFIG | {"threshold": 0.7}, "threshold"),
        (CONFIG | {"least_people": -1}, "least_people"),
    ):
        with pytest.raises(pcer.InputError) as caught:
            ours.evaluated_release(dataset, wrapped(tree), config)
        assert caught.value.field == field
    assert not ours.Evaluator.can_evaluate(model_type="classifier", evaluator_config={})
    assert ours.Evaluator.can_evaluate(model_type="classifier", evaluator_config=CONFIG)


def test_mlflow_finds_the_evaluator_and_its_absence_is_a_sentence(monkeypatch):
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    point = project["entry-points"]["mlflow.model_evaluator"]["pcer"]
    assert importlib.metadata.EntryPoint("pcer", point, "").load() is ours.Evaluator
    monkeypatch.setattr(ours.importlib.util, "find_spec", lambda name: None)
    with pytest.raises(pcer.InputError, match=re.escape('pip install ".[mlflow]"')):
        ours.log_audit(audited(FOREST))
    code = "import sys, pcer; import pcer.integrations as i; i.__all__; "
    code += "ours = {name for name in sys.modules if name.startswith('pcer')}; "
    code += "assert not any(name.startswith('pcer.integrations.') for name in ours); "
    code += "assert 'scipy' not in sys.modules; import pcer.auditing.record; "
    code += "records = pcer.files.Record.__subclasses__(); assert records; "
    code += "assert not any(record.__pydantic_complete__ for record in records)"
    subprocess.run([sys.executable, "-c", code], check=True)


def test_a_run_holds_one_audit_and_all_that_verifies_it(monkeypatch, tmp_path):
    tags: dict[str, str] = {}
    client = SimpleNamespace(
        get_run=lambda run: SimpleNamespace(data=SimpleNamespace(tags=tags)),
        set_tag=lambda run, name, text: tags.update({name: text}),
        log_artifacts=lambda run, folder, place: shutil.copytree(
            folder, tmp_path / place
        ),
    )
    fake = SimpleNamespace(
        MlflowClient=lambda: client, log_metrics=lambda *_, **__: None
    )
    fake.__spec__ = ModuleSpec("mlflow", None)
    monkeypatch.setitem(sys.modules, "mlflow", fake)
    same = {"provenance": {"data_digest": "0" * 64}}
    trees = [
        many_groups(["a", "b"], attribute=one).to_tree() | same
        for one in ("race", "sex")
    ]
    both = pcer.audit([parse_release(tree, file="simulated") for tree in trees], QUICK)
    assert ours.log_audit(both[0], "7") == "7"
    kept = dict(tags)
    other_plan = pcer.audit(
        both[0].sources[0], QUICK.model_copy(update={"policy": pcer.Policy()})
    )
    for found, field in ((both, "found"), (both[1], "run"), (other_plan, "run")):
        with pytest.raises(
            pcer.InputError, match=r"start_run\(nested=True\)"
        ) as caught:
            ours.log_audit(found, "7")
        assert (caught.value.field, tags) == (field, kept)
    here = tmp_path / ours.FOLDER
    own = here / "model.release.json"
    family = here / "family-1.release.json"
    passed("verify", here / "audit.json", own, "--family", family)
    passed("verify", here / ours.REPORT)
    shutil.rmtree(here)
    assert ours.log_audit(both[0], "7") == "7"  # the same audit again


# With MLflow, in an environment of its own

READ_BACK = """
import json, sys
import pcer.integrations.mlflow
assert "mlflow" not in sys.modules
import mlflow
import pandas as pd
import pcer
from pcer.integrations.mlflow import log_audit

client, (uri, found_run) = mlflow.MlflowClient(sys.argv[1]), sys.argv[1:]
mlflow.set_tracking_uri(uri)
runs = client.search_runs([e.experiment_id for e in client.search_experiments()])
told = []
for run in runs:
    run_id = run.info.run_id
    download = mlflow.artifacts.download_artifacts
    models = run.outputs.model_outputs if run.outputs else []
    told.append({"id": run_id, "metrics": run.data.metrics, "tags": run.data.tags,
                 "folder": download(run_id=run_id, artifact_path="pcer"),
                 "name": run.info.run_name, "status": run.info.status,
                 "models": [model.model_id for model in models]})
    for model in told[-1]["models"]:
        logged = client.get_logged_model(model)
        told[-1]["of_model"] = {m.key: m.value for m in logged.metrics}
audit = pcer.audit(pcer.read_release(sys.argv[2]))
with mlflow.start_run() as active:
    assert log_audit(audit) == active.info.run_id
again = client.create_run("0").info.run_id
assert log_audit(audit, again) == again == log_audit(audit, client.get_run(again))
assert client.get_run(again).data.tags["pcer_verdict"] == audit.verdict.value
other = pcer.audit(pcer.read_release("examples/compas-logistic.release.json"))
with mlflow.start_run() as parent:
    log_audit(audit)
    try:
        log_audit(other)
    except pcer.InputError:
        with mlflow.start_run(nested=True):
            assert log_audit(other) != parent.info.run_id
    else:
        raise SystemExit("two audits were mixed in one run")
n_runs = len(client.search_runs(["0"]))
try:
    log_audit(pcer.Audit.model_validate(audit.model_dump()))
except pcer.InputError:
    assert len(client.search_runs(["0"])) == n_runs
else:
    raise SystemExit("an audit without its release was logged")
table = pd.DataFrame({"y": [0, 1] * 50, "x": range(100)})
result = mlflow.models.evaluate(lambda given: given["x"] % 2, table, targets="y",
                                model_type="classifier", evaluators=None,
                                evaluator_config={"log_model_explainability": False})
assert not [name for name in result.metrics if name.startswith("pcer")]
print(json.dumps(told))
"""


ALONE = {name: text for name, text in os.environ.items() if name != "PYTHONPATH"}


@pytest.fixture(scope="module")
def python(tmp_path_factory) -> Path:
    """The Python of an environment with MLflow, which does not take two of our pins."""
    folder = tmp_path_factory.mktemp("mlflow")
    subprocess.run([sys.executable, "-m", "venv", folder / "venv"], check=True)
    pins = (ROOT / "constraints.txt").read_text().splitlines()
    other = ("pyarrow==", "importlib_metadata==")
    (folder / "pins.txt").write_text(
        "\n".join(p for p in pins if not p.startswith(other))
    )
    pip = [folder / "venv" / "bin" / "python", "-m", "pip", "install", "--quiet"]
    wanted = ["mlflow==3.17.2", "pyarrow<26", "huggingface_hub", f"{ROOT}[mlflow]"]
    command = [*pip, "-c", folder / "pins.txt", *wanted]
    done = subprocess.run(
        command, env=ALONE, capture_output=True, text=True, check=False
    )
    if done.returncode and "PCER_CI" not in os.environ:
        pytest.skip(f"no package index: {done.stderr[-200:]}")
    assert done.returncode == 0, done.stderr
    return folder / "venv" / "bin" / "python"


@contextmanager
def server(python: Path, folder: Path, environment: dict[str, str]) -> Iterator[str]:
    """The tracking server of the page on a free port, ended with all that it starts."""
    (line,) = (
        one for one in blocks(PAGE, "console")[0].splitlines() if "mlflow server" in one
    )
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = str(free.getsockname()[1])
    words = line.removeprefix("$ mlflow ").replace("5000", port).split()
    with (folder / "server.log").open("w") as log:
        process = subprocess.Popen(
            [python, "-m", "mlflow", *words, "--host", "127.0.0.1", "--workers", "1"],
            cwd=folder, env=environment, stdout=log, stderr=log, start_new_session=True,
        )  # fmt: skip
    try:
        for _ in range(600):
            assert process.poll() is None, (folder / "server.log").read_text()
            try:
                with urllib.request.urlopen(
                    f"http://127.0.0.1:{port}/health", timeout=5
                ):
                    break
            except OSError:
                time.sleep(0.2)
        yield f"http://127.0.0.1:{port}"
    finally:
        os.killpg(process.pid, signal.SIGTERM)
        try:
            process.wait(20)
        finally:
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)


def look(address: str, run: str, picture: Path) -> str:
    """What a person reads of the report among a run's artifacts, in MLflow's page."""
    from playwright.sync_api import sync_playwright

    with sync_playwright() as driver:
        arguments = ["--no-sandbox", "--disable-gpu", "--no-first-run"]
        browser = driver.chromium.launch(
            executable_path=shutil.which("chromium"), args=arguments
        )
        page = browser.new_page(viewport={"width": 1_100, "height": 720})
        page.goto(f"{address}/#/experiments/0/runs/{run}/artifacts/pcer/report.html")
        frame = page.frame_locator("iframe").first
        frame.locator("h1").wait_for(timeout=120_000)
        close = page.get_by_role("button", name="Close")
        for k in range(close.count()):  # panels that are about nothing here
            if close.nth(k).is_visible():
                close.nth(k).click()
        page.wait_for_timeout(1_000)
        page.screenshot(path=picture)
        text = frame.locator("body").inner_text()
        browser.close()
    return text


@pytest.mark.slow
@pytest.mark.network
def test_the_page_runs_against_a_real_server_and_all_of_it_is_read_back(
    python, tmp_path
):
    """With ``PCER_GOLDEN=write`` it renews the page's picture."""
    chromium = shutil.which("chromium")
    assert chromium or "PCER_CI" not in os.environ, (
        "CI must open the page, but has no chromium"
    )
    shutil.copytree(ROOT / "examples", tmp_path / "examples")
    own = {
        "MLFLOW_DISABLE_TELEMETRY": "true",
        "MLFLOW_SERVER_ENABLE_JOB_EXECUTION": "false",
    }
    environment = {**ALONE, **own, "HOME": str(tmp_path)}

    def output(code: str, *arguments: object) -> str:
        command = [python, "-W", "ignore", "-c", code, *map(str, arguments)]
        done = subprocess.run(
            command,
            cwd=tmp_path,
            env=environment,
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        return done.stdout

    with server(python, tmp_path, environment) as address:
        code = "\n".join(blocks(PAGE, "python")).replace(
            "http://127.0.0.1:5000", address
        )
        printed = output(code)
        assert blocks(PAGE, "text")[0] in printed
        told = json.loads(output(READ_BACK, address, FOREST).splitlines()[-1])
        logged, evaluated = sorted(told, key=lambda run: len(run["models"]))
        found = pcer.audit(pcer.read_release(FOREST))
        assert (logged["name"], logged["status"]) == (found.title, "FINISHED")
        if chromium:
            picture = tmp_path / "mlflow.png"
            assert found.headline in " ".join(
                look(address, logged["id"], picture).split()
            )
            if os.environ.get("PCER_GOLDEN") == "write":
                shutil.copy(picture, ROOT / "docs" / "images" / "mlflow.png")
    assert logged["metrics"] == pytest.approx(found.metrics(), rel=1e-12)
    assert logged["tags"]["pcer_verdict"] == "double_disadvantage"
    assert logged["tags"]["pcer_headline"] == found.headline
    assert logged["tags"]["pcer_release_sha256"] == found.release_sha256
    for run in (logged, evaluated):
        release = pcer.read_release(Path(run["folder"], "model.release.json"))
        audit = pcer.audit(release)
        assert Path(run["folder"], "audit.json").read_text() == audit.to_json()
        assert run["metrics"] == pytest.approx(audit.metrics(), rel=1e-12)
        audit.save_html(tmp_path / "report.html")
        kept = Path(run["folder"], "report.html").read_bytes()
        assert kept == (tmp_path / "report.html").read_bytes()
    assert evaluated["of_model"] == pytest.approx(evaluated["metrics"], rel=1e-12)
    assert (
        release.runs[0].groups["men"].train.n + release.runs[0].groups["men"].test.n
        > 1_900
    )
    assert "pcer_exposure_max" in (tmp_path / "README.md").read_text(encoding="utf-8")
    assert found.headline in (tmp_path / "card.md").read_text(encoding="utf-8")
