"""The GitHub Action and the pre-commit hook: their own commands, run in a shell."""

import json
import os
import re
import shlex
import shutil
import subprocess
import sys
from importlib import resources
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import jsonschema
import pytest
import yaml

import pcer
from tests.commands import GOOD, run
from tests.pages import mixed_release
from tests.test_pages import blocks

ROOT = Path(__file__).parents[2]
FOREST = ROOT / "examples" / "compas-forest.release.json"
ACTION = yaml.safe_load((ROOT / "action.yml").read_text(encoding="utf-8"))
(HOOK,) = yaml.safe_load((ROOT / ".pre-commit-hooks.yaml").read_text(encoding="utf-8"))
GH = """#!/bin/sh
# stands for GitHub's command: keeps its arguments, and knows one earlier comment
printf '%s\\n' "$*" >> gh.txt
case "$*" in
  *'startswith(env.MARKER)'*) [ "$MARKER" != '<!-- pcer: earlier -->' ] || echo 4 ;;
esac
"""


def steps_run(
    folder: Path, given: dict[str, str], *, install: bool = False
) -> list[Any]:
    """What every step with a script gives, run as GitHub does.

    Inputs come by variables; the shell is bash -e.
    """
    known = {
        f"inputs.{name}": one.get("default", "")
        for name, one in ACTION["inputs"].items()
    }
    known |= {f"inputs.{name}": text for name, text in given.items()}
    known |= {"github.action_path": str(ROOT), "github.repository": "us/models"}
    known |= {
        "github.event.pull_request.number": "7",
        "steps.audit.outputs.exit-code": "",
    }
    places = {name: folder / name for name in ("GITHUB_OUTPUT", "GITHUB_STEP_SUMMARY")}
    path = f"{folder}:{Path(sys.executable).parent}:{os.environ['PATH']}"
    if install:
        path = f"{folder / 'venv' / 'bin'}:{folder}:/usr/bin:/bin"
    (folder / "gh").write_text(GH)
    (folder / "gh").chmod(0o755)
    found = []
    for step in (step for step in ACTION["runs"]["steps"] if "run" in step):
        if step["name"] == "Install" and not install:
            continue
        env = {
            name: re.sub(r"\$\{\{ ([\w.-]+) \}\}", lambda key: known[key[1]], text)
            for name, text in step["env"].items()
        }
        done = subprocess.run(
            [
                shutil.which("bash"),
                "--noprofile",
                "--norc",
                "-eo",
                "pipefail",
                "-c",
                step["run"],
            ],
            env={
                **os.environ,
                **env,
                **{k: str(v) for k, v in places.items()},
                "PATH": path,
            },
            cwd=folder,
            capture_output=True,
            text=True,
            check=False,
        )
        found.append(done)
        if places["GITHUB_OUTPUT"].exists():
            written = dict(
                re.findall("(.+?)=(.*)", places["GITHUB_OUTPUT"].read_text())
            )
            known["steps.audit.outputs.exit-code"] = written["exit-code"]
    return found


def test_the_action_keeps_to_the_published_schema_and_fills_in_no_script():
    schemas = resources.files("check_jsonschema").joinpath("builtin_schemas", "vendor")
    schema = json.loads(
        schemas.joinpath("github-actions.json").read_text(encoding="utf-8")
    )
    jsonschema.validate(ACTION, schema)
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate(ACTION | {"runs": {"using": "composite"}}, schema)
    for step in ACTION["runs"]["steps"]:
        assert "${{" not in step.get("run", "")
        assert "uses" in step or step["shell"] == "bash"


def test_the_yaml_of_the_page_is_what_its_readers_take():
    stage, workflow, hooks = map(yaml.safe_load, blocks("docs/integrations.md", "yaml"))
    schemas = resources.files("check_jsonschema").joinpath("builtin_schemas", "vendor")
    schema = json.loads(
        schemas.joinpath("github-workflows.json").read_text(encoding="utf-8")
    )
    # YAML 1.1 takes the key "on" for true
    jsonschema.validate(
        {"on" if key is True else key: workflow[key] for key in workflow}, schema
    )
    *_, step = workflow["jobs"]["pcer"]["steps"]
    required = {name for name, one in ACTION["inputs"].items() if one.get("required")}
    assert required <= step["with"].keys() <= ACTION["inputs"].keys()
    program, *words = shlex.split(stage["stages"]["audit"]["cmd"])
    assert (program, [*stage["stages"]["audit"]["metrics"][0]]) == ("pcer", words[-1:])
    assert hooks["repos"][0]["hooks"][0]["id"] == HOOK["id"]


def shown_words(text: str) -> int:
    """Words that GitHub shows: no signs of tables, lists, titles or comments."""
    shown = re.sub("<!--.*?-->", "", text).split()
    return sum(not re.fullmatch(r"\||-|#+|:?-+:?", word) for word in shown)


WITHIN = "largest_exposure = 75\n"
OUTSIDE = "largest_exposure = 52\n"


TWICE = (
    "\r\n  models/*.release.json \r\n\t./models/one.release.json\r\nmodels\r\nmodels/"
)


@pytest.mark.parametrize(
    ("policy", "code", "artifact", "call"),
    [
        (WITHIN, 0, "pcer-audit", "issues/7/comments"),
        (OUTSIDE, 1, "earlier", "issues/comments/4"),
    ],
)
def test_a_release_within_the_policy_is_green_and_one_outside_is_red(
    policy, code, artifact, call, tmp_path
):
    (tmp_path / "pcer.toml").write_text(policy)
    (tmp_path / "models").mkdir()
    shutil.copy(FOREST, tmp_path / "models" / "one.release.json")
    given = {"releases": TWICE, "policy": " pcer.toml\r\n", "folder": "-o ut"}
    given |= {"artifact": artifact, "fail-on": "\tinsufficient_data \r\n"}
    audit, comment, verdict = steps_run(tmp_path, given)
    assert (audit.returncode, comment.returncode, verdict.returncode) == (0, 0, code)
    assert audit.stdout + audit.stderr == ""
    out = tmp_path / "-o ut"
    text = (out / "comment.md").read_text(encoding="utf-8")
    assert shown_words(text) <= 400
    assert "data:" not in re.sub("(this|training) data:", "", text)
    assert (
        text.removeprefix(f"<!-- pcer: {artifact} -->\n")
        == (tmp_path / "GITHUB_STEP_SUMMARY").read_text()
    )
    sentence = "largest_exposure: limit 52 of 100; African-American may be as high as"
    for said in (
        verdict.stdout,
        text.replace("\\", ""),
        (out / "junit.xml").read_text(),
    ):
        assert (sentence in said) == bool(code)
    assert verdict.stdout.startswith("::error title=pcer::" if code else "")
    assert (
        int(ElementTree.parse(out / "junit.xml").getroot()[0].get("failures")) == code
    )
    asked = (tmp_path / "gh.txt").read_text().splitlines()
    assert asked[0].startswith("api --paginate repos/us/models/issues/7/comments --jq ")
    method = "--method PATCH " if artifact == "earlier" else ""
    assert asked[1:] == [
        f"api --silent {method}repos/us/models/{call} -F body=@-o ut/comment.md"
    ]
    assert {path.name for path in out.iterdir()} == {
        *(
            "audit.json",
            "audit.md",
            "comment.md",
            "junit.xml",
            "messages.txt",
            "metrics.json",
        ),
        "report.html",
    }


def test_bad_input_is_red_with_its_sentence_and_runs_nothing_of_the_inputs(tmp_path):
    hostile = "$(touch owned); `touch owned` \"'; touch owned #"
    folder = "out=1\nexit-code=0"
    given = {"releases": hostile, "fail-on": hostile, "folder": folder, "policy": ""}
    _, _, verdict = steps_run(tmp_path, given)
    assert verdict.returncode == 2
    assert "fail_on" in verdict.stdout
    assert "    pcer: " in (tmp_path / "GITHUB_STEP_SUMMARY").read_text()
    assert not list(tmp_path.rglob("owned"))


def test_many_broken_rules_leave_a_comment_of_few_words_with_the_first_of_them(
    tmp_path,
):
    rules = {"min_splits": 50, "largest_exposure": 50.5, "largest_outcome_gap": 5}
    rules |= {"least_accuracy": 99}
    (tmp_path / "pcer.toml").write_text(
        "".join(f"{key} = {rules[key]}\n" for key in rules)
    )
    pcer.write_release(mixed_release(), tmp_path / "m.release.json")
    *_, verdict = steps_run(tmp_path, {"releases": ".", "policy": "pcer.toml"})
    assert verdict.returncode == 1
    text = (tmp_path / "pcer-audit" / "comment.md").read_text(encoding="utf-8")
    whole = (tmp_path / "GITHUB_STEP_SUMMARY").read_text(encoding="utf-8")
    assert shown_words(text) <= 400 < shown_words(whole)
    *kept, last = text.removeprefix("<!-- pcer: pcer-audit -->\n").splitlines()
    assert last == "1 more in the job summary."
    assert [line for line in kept if line not in whole.splitlines()] == []
    said = text.replace("\\", "")
    assert [rule for rule in rules if f"\n{rule}: limit" not in said] == []
    assert "Can an attacker tell who was in the training data?" in text


@pytest.mark.slow
@pytest.mark.parametrize("fail_on", ["", "no_difference_shown"])
def test_many_releases_give_a_comment_of_few_words_and_no_line_is_a_command(
    fail_on, tmp_path
):
    tree = pcer.read_release(GOOD).to_tree()
    for k in range(12):
        tree["subject"]["dataset"] = f"::add-mask::{k} `$(touch owned)`"
        (tmp_path / f"{k}.release.json").write_text(json.dumps(tree))
    given = {"releases": ".", "folder": "out", "fail-on": fail_on}
    audit, _, verdict = steps_run(tmp_path, given)
    assert (audit.stdout, verdict.returncode) == ("", int(bool(fail_on)))
    assert {line[:20] for line in verdict.stdout.splitlines()} <= {
        "::error title=pcer::"
    }
    text = (tmp_path / "out" / "comment.md").read_text(encoding="utf-8")
    assert 300 < shown_words(text) <= 400
    assert ("    pcer: --fail-on is met" in text) == bool(fail_on)
    n_left = int(
        re.findall(r"^(\d+) more in the job summary\.$", text, re.MULTILINE)[0]
    )
    assert n_left + text.count("\n## ") == 12
    assert (tmp_path / "GITHUB_STEP_SUMMARY").read_text().count("\n## ") == 11
    assert not list(tmp_path.rglob("owned"))


@pytest.mark.slow
@pytest.mark.network
def test_the_action_installs_what_it_runs(tmp_path):
    subprocess.run([sys.executable, "-m", "venv", tmp_path / "venv"], check=True)
    given = {"releases": str(FOREST), "fail-on": "exposure_differs"}
    install, *_, verdict = steps_run(tmp_path, given, install=True)
    if install.returncode and "PCER_CI" not in os.environ:
        pytest.skip(f"no package index: {install.stderr[-200:]}")
    assert install.returncode == 0, install.stderr
    assert verdict.returncode == 1
    assert "--fail-on is met" in verdict.stdout


def test_the_hook_audits_what_it_is_given():
    assert HOOK["language"] == "python"
    assert re.search(HOOK["files"], FOREST.name)
    program, *words = shlex.split(HOOK["entry"])
    assert program == "pcer"
    files = (FOREST, FOREST.with_name("compas-logistic.release.json"))
    done = [run(*words, *HOOK["args"], path) for path in files]
    assert [one.returncode for one in done] == [1, 0]
