"""What stands beside the code: workflows, hooks, and forms for issues."""

import subprocess
import sys
from pathlib import Path

import pytest
import yaml

ROOT = Path(__file__).parents[1]
FORMS = ("feature", "leak", "wrong-number")
CHECKED = {
    "vendor.github-workflows": [*(ROOT / ".github" / "workflows").glob("*.yml")],
    "vendor.github-issue-forms": [
        ROOT / ".github" / "ISSUE_TEMPLATE" / f"{name}.yml" for name in FORMS
    ],
}


@pytest.mark.slow
@pytest.mark.parametrize("schema", CHECKED)
def test_workflows_and_forms_keep_to_the_published_schemas(schema):
    command = [sys.executable, "-m", "check_jsonschema", "--builtin-schema", schema]
    done = subprocess.run(
        [*command, *CHECKED[schema]], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout


def test_our_own_hooks_are_local_and_run_what_the_check_runs():
    hooks = yaml.safe_load((ROOT / ".pre-commit-config.yaml").read_text())
    check = (ROOT / "scripts" / "check").read_text()
    (repository,) = hooks["repos"]
    assert repository["repo"] == "local"
    for hook in repository["hooks"]:
        assert hook["language"] == "system"
        tool = hook["entry"].split()[0].removeprefix(".venv/bin/")
        assert f'"$bin/{tool}"' in check
