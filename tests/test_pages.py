"""Pages and notebooks say what the program does: Python and commands run, numbers are today's."""

import ast
import importlib.util
import json
import os
import re
import runpy
import shlex
import shutil
import sys
import tomllib
import warnings
from collections.abc import Callable, Iterator
from itertools import chain
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest.mock import MagicMock

import numpy as np
import pandas as pd
import pytest
import typer

import pcer
from pcer.auditing.answers import ExposureAnswer, OutcomesAnswer, RatioAnswer
from pcer.auditing.policy import read_policy
from pcer.auditing.record import PairResult
from pcer.cli import app as cli
from pcer.cli.options import RunFile, read_config
from pcer.measuring.plan import SETTING_VERDICTS
from pcer.release.file import parse_release
from tests.commands import config, passed, run, write_people
from tests.pages import mixed_release

ROOT = Path(__file__).parents[1]
GUIDES = sorted([*ROOT.glob("docs/*.md"), *ROOT.glob("studies/docs/*.md")])
PAGES = ["README.md", *(path.relative_to(ROOT).as_posix() for path in GUIDES)]
OTHERS = ["CONTRIBUTING.md", "SECURITY.md", "studies/paper/README.md"]
TRAINED = "a-private-sweep"  # its last digits are those of one type of processor
# Their Python needs packages that are not here; tests/integrations/test_mlflow.py runs
# it.
AWAY = {"docs/integrations.md"}
# Pages and notebooks that audit a whole study, or train.
LONG = {
    "study",
    "opacus",
    "training",
    "models",
    "loops",
    TRAINED,
    "scikit-learn-in-five-minutes",
    "behind-the-average",
    "synthetic",
    "whose-records-shine-through",
}


def short_first(pages: list[str] | list[Path]) -> list[Any]:
    """Cases, those that take long marked so."""
    slow = {True: pytest.mark.slow, False: ()}
    return [
        pytest.param(p, marks=slow[Path(p).stem in LONG], id=Path(p).stem)
        for p in pages
    ]


# What the pages presume: names in their Python, files of their commands.

Names = dict[str, Any]


def readme(folder: Path) -> Names:
    """A model and its people."""
    from sklearn.linear_model import LogisticRegression

    rng = np.random.default_rng(0)
    truth, sex = (
        rng.integers(0, 2, 400),
        pd.Series(rng.choice(["f", "m"], 400), name="sex"),
    )
    features = rng.normal(size=(400, 3)) + truth[:, None]
    people = pd.DataFrame(features, columns=["a", "b", "c"]).assign(sex=sex)
    names = {"model": LogisticRegression(), "X": features, "y": truth, "sex": sex}
    return names | {"people": people, "make": with_noise}


def with_noise(real: pd.DataFrame, seed: int) -> pd.DataFrame:
    """A synthetic table: rows drawn again, their numbers blurred."""
    rng = np.random.default_rng(seed)
    made = real.sample(len(real), replace=True, random_state=seed)
    numbers = made.select_dtypes("number")
    return made.assign(**numbers + rng.normal(scale=0.5, size=numbers.shape))


def scored_twice(n: int, n_models: int, rng: np.random.Generator) -> pd.DataFrame:
    """People, each in the training or the test part of every model."""
    person = {"sex": rng.choice(["f", "m"], n), "race": rng.choice(["x", "z"], n)}
    person |= {"y_true": rng.integers(0, 2, n), "id": np.arange(n)}
    frame = pd.DataFrame(
        {name: np.tile(values, n_models) for name, values in person.items()}
    )
    split = rng.choice(["train", "test"], len(frame), p=[0.7, 0.3])
    return frame.assign(split=split, seed=np.repeat(np.arange(n_models), n))


TOOLBOX = [
    *("art", "art.attacks", "art.attacks.inference", "art.estimators"),
    *("art.attacks.inference.membership_inference", "art.estimators.classification"),
]
"""As much of a toolbox that is not installed as a page imports."""


def attacks(folder: Path) -> Names:
    """Eight models of 300 people, and a stand-in for the toolbox; pcer's part runs for real."""
    from pcer.attacks import SettingScores, attack_models
    from tests.train_cases import make_data

    sys.modules |= dict.fromkeys(TOOLBOX, toolbox := MagicMock())
    attack = toolbox.MembershipInferenceBlackBox.return_value
    attack.infer = lambda x, y, *, probabilities: np.asarray(x)[
        :, :1
    ]  # one for every record
    rng, data = np.random.default_rng(0), make_data()
    labels, codes = data.labels.astype(int), rng.integers(0, 2, 300)
    member = np.array([rng.permutation(300) < 210 for _ in range(8)])
    logits = (rng.normal(size=member.shape) + member * (2 * labels - 1)).astype(
        np.float32
    )
    names = {"logits": logits, "labels": labels, "member": member}
    scores = SettingScores(
        **names, group=codes, group_names=("Other", "African-American")
    )
    (found,) = attack_models([scores])
    exposure = np.array([list(found.exposure.values())])
    names |= {"np": np, "scores": scores, "codes": codes, "exposure": exposure}
    names |= {
        "benefit": found.benefit[None],
        "model": SimpleNamespace(predict=lambda x: (logits[0] >= 0).astype(int)),
        "x": data.features,
        "y": labels,
    }
    names |= {"train": np.flatnonzero(member[0]), "test": np.flatnonzero(~member[0])}
    return {**names, "race": np.array(scores.group_names)[codes]}


def compas(folder: Path) -> Names:
    """The study's sweep of COMPAS."""
    release = ROOT / "studies/paper/compas.race.release.json"
    return {"_": shutil.copy(release, folder / "compas.release.json")}


def synthetic(folder: Path) -> Names:
    """The people of the notebook on synthetic tables."""
    path = Path(pcer.data.__file__).parent / "files" / "adult.csv.gz"
    adult = pd.read_csv(path, keep_default_na=False)
    columns = ["income", "sex", "race", "age", "education_num", "hours_per_week"]
    people = adult[columns].sample(600, random_state=1)
    return {"people": people.reset_index(drop=True)}


STAGES: dict[str, Callable[[Path], Names]] = {
    "README.md": readme,
    "docs/index.md": readme,
    "docs/placebo.md": attacks,
    "docs/attacks.md": attacks,
    "docs/choosing.md": compas,
    "docs/norms.md": compas,
    "docs/synthetic.md": synthetic,
    "docs/compare.md": lambda here: {
        "_": shutil.copytree(ROOT / "examples", here / "examples")
    },
    "docs/datasets.md": lambda folder: {"_": write_people(folder / "loans.csv")},
    "docs/opacus.md": lambda folder: {
        "_": importlib.import_module("torch").manual_seed(0)
    },
    "studies/docs/study.md": lambda folder: {
        "_": shutil.copytree(ROOT / "studies" / "paper", folder / "pcer-study")
    },
}
"""Pages whose Python presumes something; the Python of all others stands alone."""


# The pages.


def blocks(page: str, language: str) -> list[str]:
    text = (ROOT / page).read_text(encoding="utf-8")
    return re.findall(
        rf"^```{language}\n(.*?)^```$", text, flags=re.DOTALL | re.MULTILINE
    )


def pages_with(language: str, pages: list[str]) -> list[str]:
    return [page for page in pages if blocks(page, language)]


def test_no_page_shows_code_in_a_way_that_nobody_runs():
    for page in (*PAGES, *OTHERS):
        marks = re.findall(
            r"^ *```(\w+)", (ROOT / page).read_text(encoding="utf-8"), re.MULTILINE
        )
        assert set(marks) <= {"python", "console", "text", "json", "toml", "yaml"}, page
        assert len(marks) == sum(len(blocks(page, one)) for one in set(marks)), page


@pytest.mark.parametrize(
    "page", short_first(pages_with("python", sorted({*PAGES} - AWAY)))
)
def test_the_python_of_a_page_runs_from_top_to_bottom(
    page, tmp_path, monkeypatch, capsys
):
    """A page whose code needs a name or a file gets it in ``STAGES``."""
    monkeypatch.chdir(tmp_path)
    names = {"__name__": "page", **STAGES.get(page, lambda folder: {})(tmp_path)}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # Opacus remarks on itself
        for number, code in enumerate(blocks(page, "python"), 1):
            exec(compile(code, f"{page}, block {number}", "exec"), names)
    for name in TOOLBOX:
        sys.modules.pop(name, None)
    assert SHOWN.get(page, lambda names, told: True)(names, capsys.readouterr().out)


@pytest.mark.parametrize("page", pages_with("toml", PAGES))
def test_the_policies_and_run_files_of_a_page_can_be_read(page, tmp_path):
    path = tmp_path / "pcer.toml"
    for text in blocks(page, "toml"):
        path.write_text(text, encoding="utf-8")
        if tomllib.loads(text).keys() <= RunFile.model_fields.keys():
            assert any(value is not None for value in read_config(path).values())
        else:
            assert read_policy(path).fail_on


SHOWN: dict[str, Callable[[dict[str, Any], str], bool]] = {
    "docs/choosing.md": lambda names, told: (
        told == "".join(blocks("docs/choosing.md", "text"))
    ),
    "docs/format.md": lambda names, told: (
        told == "".join(blocks("docs/format.md", "text"))
    ),
    "docs/loops.md": lambda names, told: (
        len(told.splitlines()) == 2 and 7 < names["spent"] < 10
    ),
    "docs/norms.md": lambda names, told: (
        told == "".join(blocks("docs/norms.md", "text"))
    ),
    "docs/compare.md": lambda names, told: (
        told == "".join(blocks("docs/compare.md", "text"))
    ),
    "docs/training.md": lambda names, told: names["found"].logits.shape == (2, 3, 400),
    "docs/models.md": lambda names, told: (
        told.split("\n")[1] == "['bayes', 'forest']"
        and told.endswith(blocks("docs/models.md", "text")[0])
    ),
    "docs/large-models.md": lambda names, told: (
        told == "".join(blocks("docs/large-models.md", "text"))
    ),
    "docs/attacks.md": lambda names, told: blocks("docs/attacks.md", "text")[0] in told,
    "docs/synthetic.md": lambda names, told: (
        told == blocks("docs/synthetic.md", "text")[0]
    ),
    "docs/opacus.md": lambda names, told: (
        told.strip() == pcer.audit(names["release"]).headline
        and 0.7 < min(run.epsilon for run in names["release"].runs) <= 1.0
        and 6 < max(run.epsilon for run in names["release"].runs) <= 8.0
        and names["make_net"](5)[-1].out_features == 1
    ),
}
"""Of pages that say what comes out, whether it does; from their names and what was printed."""


def commands(page: str) -> Iterator[list[str]]:
    """The words of every command of a page, without its comment."""
    for line in "".join(blocks(page, "console")).replace("\\\n", " ").splitlines():
        if line.strip():
            assert line.startswith("$ "), line
            for part in line[2:].split(" && "):
                yield shlex.split(part, comments=True)


GROUP = typer.main.get_command(cli.app)
CONTEXT = typer.Context(GROUP, info_name="pcer")
ELLIPSIS = shlex.split(
    "--label approved --positive yes --outcome benefit --attribute sex -o out"
)
"""What stands for three dots in a command."""


@pytest.mark.parametrize("page", pages_with("console", [*PAGES, *OTHERS]))
def test_the_commands_of_a_page_are_those_of_the_program(page):
    """Every verb, option and value is one that the program takes; none is run."""
    for words in commands(page):
        if words[0].endswith("pcer"):
            verb = GROUP.get_command(CONTEXT, words[1])
            assert verb is not None, words
            spelt = chain.from_iterable(
                ELLIPSIS if w == "..." else [w] for w in words[2:]
            )
            verb.make_context(words[1], [*spelt], parent=CONTEXT)
        else:
            check_other(*words)


def check_other(program: str, *words: str) -> None:
    """What can be looked at where a command is not pcer's own; others are not known."""
    if program == "make":
        makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
        assert all(f"\n{target}:" in makefile for target in words), words
    elif program.endswith("pip") or (program, words[0]) == ("uv", "pip"):
        verb, *rest = words[program == "uv" :]
        assert (verb, [word for word in rest if not can_be_installed(word)]) == (
            "install",
            [],
        )
    elif program.startswith("python"):
        assert words[0] == "-m"
        assert importlib.util.find_spec(words[1]) is not None, words
    elif program != "mlflow":  # tests/integrations/test_mlflow.py starts its server
        assert f"{program} {' '.join(words)}" in (
            "uv venv --python 3.11",
            ". .venv/bin/activate",
        )


def can_be_installed(word: str) -> bool:
    """Only what lies in a clone, with extras that exist; torch by its pin."""
    known = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"][
        "optional-dependencies"
    ]
    if found := re.fullmatch(r"\.(?:\[([\w,]+)\])?", word):
        return {*(found[1] or "").split(",")} <= {"", *known}
    if word == "$(grep '^torch==' constraints.txt)":
        return (ROOT / "constraints.txt").read_text().count("\ntorch==") == 1
    return word in ("-c", "-e", "-r", "--require-hashes") or (ROOT / word).exists()


QUICK = {
    *(
        "audit",
        "compare",
        "datasets",
        "plan",
        "receipt",
        "recommend",
        "release",
        "schema",
    ),
    *("trend", "verify"),
}
"""Verbs that end within seconds; the others train, and are parsed only."""
ELSEWHERE = ("--backend", "FOLDER", "--synthesizer", "--synthetic")
"""Words of commands for another machine, or for a folder of the reader's."""


def is_quick(words: list[str]) -> bool:
    ours = words[0].endswith("pcer") and words[1] in QUICK
    return ours and not any(word in ELSEWHERE for word in words)


QUICK_PAGES = [page for page in (*PAGES, *OTHERS) if any(map(is_quick, commands(page)))]


@pytest.fixture(scope="module")
def stage(tmp_path_factory) -> Path:
    """The files that commands are shown with: releases, predictions, a sweep with receipts."""
    folder, forest = (
        tmp_path_factory.mktemp("stage"),
        ROOT / "examples/compas-forest.release.json",
    )
    for name in ("compas", "m", "old", "new", "pilot"):
        shutil.copy(forest, folder / f"{name}.release.json")
    pcer.write_release(mixed_release(), folder / "sweep.release.json")
    shutil.copytree(
        ROOT / "examples", folder / "releases", ignore=shutil.ignore_patterns("*.py")
    )
    (folder / "parts").mkdir()
    rng = np.random.default_rng(0)
    frame = scored_twice(400, 4, rng).rename(columns={"id": "person"})
    chance = rng.uniform(size=len(frame))
    loss = -np.log(np.where(frame["y_true"] == 1, chance, 1 - chance))
    predicted = {
        "y_pred": (chance >= 0.5).astype(int),
        "probability": chance,
        "loss": loss,
    }
    for name in ("predictions.parquet", "parts/one.parquet"):
        frame.assign(**predicted).to_parquet(folder / name)
    small = ("--attribute", "race", "--budgets", "1", "--seeds", "3", "--epochs", "1")
    more = (
        "--batch",
        "512",
        "--hidden",
        "4",
        "--receipts",
        "held",
        "-o",
        folder / "out",
    )
    rdp = config(train={"accountant": "rdp"}, engine={"jobs": 1})
    passed("train", "compas", *small, *more, *rdp)
    return folder


@pytest.mark.parametrize("page", QUICK_PAGES)
def test_quick_commands_run(page, stage, tmp_path, monkeypatch):
    """In the order of the page, where one may read what another wrote."""
    shutil.copytree(stage, tmp_path / "here")
    monkeypatch.chdir(tmp_path / "here")
    for words in filter(is_quick, commands(page)):
        done = run(*words[1:], XDG_STATE_HOME=str(tmp_path / "state"))
        may_alarm = "--fail-on" in words or words[1] in ("compare", "trend")
        assert done.returncode in (0, int(may_alarm)), (words, done.stderr)


def test_nothing_says_to_install_pcer_from_an_index():
    """The name is not ours there."""
    index = re.compile(r"pip install (?:-\S+ |[\w.]+ )*['\"]?pcer\b")
    texts = [
        *(ROOT / page for page in (*PAGES, *OTHERS, "CHANGELOG.md", "pyproject.toml")),
        *chain.from_iterable(
            (ROOT / room).rglob("*.py") for room in ("src", "studies/src")
        ),
        *ROOT.glob("docs/notebooks/*.ipynb"),
        *ROOT.glob("examples/*.py"),
    ]
    assert [
        path for path in texts if index.search(path.read_text(encoding="utf-8"))
    ] == []


def test_readme_shows_real_output():
    (shown,) = blocks("README.md", "text")
    done = run("audit", ROOT / "examples")
    assert done.returncode == 0, done.stderr
    real = {line.strip() for line in done.stdout.splitlines()}
    assert [line for line in shown.splitlines() if line.strip() not in real] == []


def test_the_ten_lines_of_the_format_page_are_a_release():
    (text,) = blocks("docs/format.md", "json")
    assert len(text.strip().splitlines()) <= 10
    release = parse_release(json.loads(text), file="docs/format.md")
    assert pcer.audit(release).verdict is pcer.Verdict.NO_DIFFERENCE_SHOWN


def test_the_format_page_names_every_field_of_a_pair():
    page = (ROOT / "docs" / "format.md").read_text()
    kinds = PairResult, ExposureAnswer, OutcomesAnswer, RatioAnswer
    named = {name for kind in kinds for name in kind.model_fields} - {"groups"}
    assert [name for name in sorted(named) if not re.search(rf"`{name}\b", page)] == []


PROMISES = ("SECURITY.md", "docs/security.md", "docs/disclosure.md")
NAMED_TEST = re.compile(r"`([\w/]*test_\w+\.py|\.\.\.)::(test_\w+)`")


@pytest.mark.parametrize("page", PROMISES)
def test_every_promise_names_a_test_that_exists(page):
    """``...`` stands for the file that was named before."""
    text = (ROOT / page).read_text(encoding="utf-8")
    named = NAMED_TEST.findall(text)
    assert len(named) > 20
    file = ""
    for place, name in named:
        file = file if place == "..." else place
        tests = (ROOT / "tests" / file).read_text(encoding="utf-8")
        assert f"\ndef {name}(" in tests, (file, name)
    assert text.count("::") == len(named)  # no name is written in another way


@pytest.mark.parametrize("page", PROMISES)
def test_no_promise_is_without_its_test(page):
    """Rows of tables that have tests; all lists and paragraphs of what leaves."""
    text = (ROOT / page).read_text(encoding="utf-8")
    statements = []
    for part in re.split(r"\n\s*\n|\n(?=- )", text):
        head, *rows = part.splitlines()
        if re.search(r"\| tests? \|$", head):
            statements += rows[1:]  # after the line below the head
        elif page == "docs/disclosure.md" and not part.startswith(("#", "|")):
            statements.append(part)
    promises = [one for one in statements if "Not prevented: " not in one]
    assert [one for one in promises if not NAMED_TEST.search(one)] == []


def test_every_verdict_is_explained_and_what_is_named_or_linked_exists():
    page = (ROOT / "docs" / "reports.md").read_text()
    assert [one for one in SETTING_VERDICTS if f"| `{one.value}` |" not in page] == []
    for page in (
        *ROOT.glob("*.md"),
        *ROOT.glob("docs/*.md"),
        *ROOT.glob("studies/**/*.md"),
    ):
        for target, anchor in re.findall(r"\]\(([^)#:]*)(#[^)]*)?\)", page.read_text()):
            place = page.parent / target if target else page
            assert place.exists(), (page, target)
            assert not anchor or anchor in anchors(place), (page, target, anchor)


def anchors(page: Path) -> set[str]:
    """The headings of a page as GitHub and the site spell them in addresses."""
    heads = re.findall(r"^#+ (.*)$", page.read_text(encoding="utf-8"), re.MULTILINE)
    return {
        "#" + re.sub(r"[^\w\- ]", "", head.lower()).replace(" ", "-") for head in heads
    }


def test_examples_are_canonical_and_random():
    for path in (ROOT / "examples").glob("*.release.json"):
        release = pcer.read_release(path)
        assert release.to_json() == path.read_text()
        assert release.training.split_kind == "random"
        assert len({run.split for run in release.runs}) == 20
        assert release.subject.n_records == 6_172


def test_the_table_of_attacks_is_that_of_the_shipped_study():
    page = (ROOT / "docs" / "attacks.md").read_text().splitlines()
    release = pcer.read_release(ROOT / "studies" / "paper" / "compas.race.release.json")
    attacks = "overfitting_gap", "paired_confidence", "lira_advantage"
    plans = [
        pcer.Plan(attack=attack, resamples=10, null_draws=10) for attack in attacks
    ]
    audits = [pcer.audit(release, plan) for plan in plans]
    for settings in zip(*(audit.settings for audit in audits), strict=True):
        epsilon = settings[0].epsilon
        for number, group in enumerate(release.subject.groups):
            cells = ["" if number else "no-DP" if epsilon is None else f"{epsilon:g}"]
            for found in (setting.groups[group] for setting in settings):
                exposure = found.exposure
                cell = f"{exposure.value:+.4f} ± {exposure.standard_error:.4f}"
                cells.append(cell.replace("0.", ".") + " *" * found.detected)
            assert f"| {' | '.join(cells)} |".replace("|  |", "| |") in page


# Whoever is told to use an option can use it.

LIBRARY, STUDY = ROOT / "src" / "pcer", ROOT / "studies" / "src" / "pcer_studies"
FLAG = re.compile(r"(?<![\w-])--[a-z][a-z0-9-]*[a-z0-9]")
COMMAND = re.compile(r"\bpcer ([a-z]+)\b([^`\n]*)")
CSS = re.compile(r"var\(--[^)]*\)")
ALONE = re.compile(r"--[\w=-]*")


def sentences(path: Path) -> Iterator[str]:
    """Every string of a file but docstrings; what is filled in later is a gap."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    skipped: set[int] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Expr):
            skipped.add(id(node.value))
        elif isinstance(node, ast.JoinedStr):
            skipped |= {id(part) for part in node.values}
            parts = [
                p.value if isinstance(p, ast.Constant) else "…" for p in node.values
            ]
            yield "".join(parts)
        elif isinstance(node, ast.Constant) and id(node) not in skipped:
            yield str(node.value)


def flags(text: str) -> set[str]:
    """Flags of a command line in a text; colours of a style sheet are none."""
    return set(FLAG.findall(CSS.sub("", text)))


def test_library_errors_do_not_speak_command_line():
    """A string that is nothing but a flag is an argument for another program."""
    for path in LIBRARY.rglob("*.py"):
        if path.parent.name != "cli":
            told = [
                text
                for text in sentences(path)
                if flags(text) and not ALONE.fullmatch(text)
            ]
            assert not told, path


def test_every_flag_in_a_sentence_or_a_shown_command_exists():
    verbs = {
        name: GROUP.get_command(CONTEXT, name) for name in GROUP.list_commands(CONTEXT)
    }
    known = {
        name: {
            "--help",
            *chain.from_iterable(one.opts + one.secondary_opts for one in verb.params),
        }
        for name, verb in verbs.items()
    }
    every = set().union(*known.values(), *(one.opts for one in GROUP.params))
    pages = [ROOT / "CHANGELOG.md", ROOT / "README.md", *ROOT.glob("docs/*.md")]
    pages += [
        *ROOT.glob("studies/docs/*.md"),
        *LIBRARY.rglob("*.py"),
        *STUDY.rglob("*.py"),
    ]
    for page in pages:
        texts = (
            sentences(page)
            if page.suffix == ".py"
            else [page.read_text(encoding="utf-8")]
        )
        speaks = {LIBRARY / "cli", STUDY} & {*page.parents}  # command line
        for text in texts:
            assert not speaks or flags(text) <= every, page
            for verb, rest in COMMAND.findall(text):
                assert flags(rest) <= known.get(verb, set()), (page, verb, rest)


# Notebooks run, are small and quiet, and show what they would show today.

BOOKS = sorted(ROOT.glob("docs/notebooks/*.ipynb"))
FOREIGN = re.compile(
    r"(?:^|[\s\"'(])/(?:home|root|tmp|usr|var|work|Users|opt)/|[A-Z]:\\\\|https?://(?!www\.w3\.org)"
)
"""A path of some machine, or an address: a notebook needs neither."""


def code_cells(book: dict[str, Any]) -> list[dict[str, Any]]:
    return [cell for cell in book["cells"] if cell["cell_type"] == "code"]


def told_by(book: dict[str, Any]) -> list[str]:
    """What every output of the code says in plain text, printed or shown."""
    outputs = [output for cell in code_cells(book) for output in cell["outputs"]]
    return [
        "".join(o["text"] if "text" in o else o["data"].get("text/plain", ""))
        for o in outputs
    ]


@pytest.mark.parametrize("path", BOOKS, ids=lambda path: path.stem)
def test_what_is_kept_is_small_and_says_nothing_of_when_and_where(path):
    text = path.read_text(encoding="utf-8")
    book = json.loads(text)
    assert len(text.encode()) < 300_000
    kernel = {"display_name": "Python 3", "language": "python", "name": "python3"}
    assert book["metadata"] == {
        "kernelspec": kernel,
        "language_info": {"name": "python"},
    }
    for cell in code_cells(book):
        assert cell["execution_count"] is None
        for output in cell["outputs"]:
            assert output.get("execution_count") is None
            assert output.get("name", "stdout") == "stdout"
            shown = json.dumps(output, ensure_ascii=False)
            assert not FOREIGN.search(shown.replace("\\n", "\n")), FOREIGN.search(shown)
    assert all(cell["metadata"] == {} for cell in book["cells"])
    assert "<svg" in text
    words = "\n".join(
        "".join(c["source"]) for c in book["cells"] if c["cell_type"] == "markdown"
    )
    for target in re.findall(r"\]\(([^)#]+)\)", words):
        assert (path.parent / target).exists(), target


def test_a_picture_of_a_notebook_is_the_one_on_its_page():
    script = runpy.run_path(str(ROOT / "scripts" / "notebooks"))
    for name, picture in script["PICTURES"].items():
        path = ROOT / "docs" / "notebooks" / f"{name}.ipynb"
        book = json.loads(path.read_text(encoding="utf-8"))
        shown = "".join(code_cells(book)[-1]["outputs"][-1]["data"]["image/svg+xml"])
        kept = (ROOT / "docs" / "images" / picture).read_text(encoding="utf-8")
        assert kept == shown + "\n"


@pytest.mark.parametrize("path", short_first(BOOKS))
def test_a_notebook_still_says_what_it_shows(path, tmp_path, monkeypatch):
    """Word for word, where it trains nothing; else but for digits. scripts/notebooks renews it."""
    for package in ("nbclient", "ipykernel"):
        if importlib.util.find_spec(package) is None:
            assert "PCER_CI" not in os.environ, (
                f"CI must run this test, but there is no {package}"
            )
            pytest.skip(f"there is no {package}")
    monkeypatch.setenv("JUPYTER_PLATFORM_DIRS", "1")
    run = runpy.run_path(str(ROOT / "scripts" / "notebooks"))["run_notebook"]
    both = json.dumps(run(path, tmp_path)), path.read_text(encoding="utf-8")
    now, kept = (told_by(json.loads(text)) for text in both)
    for texts in (now, kept) if path.stem == TRAINED else ():
        texts[:] = [
            re.sub(r"[\d.,−-]+", "#", re.sub(r"[ ─]+", " ", text)) for text in texts
        ]
    assert now == kept
