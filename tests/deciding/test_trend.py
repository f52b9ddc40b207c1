"""Several versions: which setting is followed, by which attack, what is compared."""

import json
from pathlib import Path

import jsonschema
import pytest

import pcer
from tests.deciding.changed import edited
from tests.pages import many_groups

ROOT = Path(__file__).parents[2]


def test_a_trend_compares_the_last_with_the_first_and_describes_the_rest(both, changes):
    found = pcer.trend([both[0], both[1], both[0], both[1]])
    assert (found.change, found.positions, len(found.versions)) == (changes, [0] * 4, 4)
    assert pcer.trend([both[0], both[1], both[0]]).change.verdict == "same_release"
    assert found.versions[:2] == [pcer.audit(release) for release in both]
    assert found.settings[1] is found.versions[1].settings[0]
    tree = json.loads(found.to_json())
    jsonschema.Draft202012Validator(pcer.Trend.file_schema()).validate(tree)
    published = json.loads(
        (ROOT / "docs" / "schemas" / "trend.schema.json").read_text()
    )
    assert published == pcer.Trend.file_schema()
    several = many_groups(["a", "b"])
    least = pcer.trend([several] * 2)
    named = pcer.trend([several] * 2, setting="1")
    assert [each.settings[0].epsilon for each in (least, named)] == [None, 1.0]
    forest = pcer.read_release(ROOT / "examples" / "compas-forest.release.json")
    fewer = edited(forest, lambda tree: tree.update(runs=tree["runs"][:12]))
    mixed = pcer.trend([forest, fewer])  # RMIA is stronger with more splits
    assert (
        {each.attack for each in mixed.versions}
        == {mixed.attack}
        == {"paired_confidence"}
    )
    for releases, more in (
        ([forest], {}),
        ([several] * 2, {"setting": "7"}),
        ([several, forest], {}),
    ):
        with pytest.raises(pcer.InputError):
            pcer.trend(releases, **more)
