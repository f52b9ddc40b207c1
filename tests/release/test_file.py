"""The release format: what is accepted, what is refused and where, and its bytes."""

import copy
import itertools
import json
import math
import re
from collections.abc import Sequence
from dataclasses import astuple, replace
from typing import Any

import jsonschema
import pytest
from hypothesis import given, settings

import pcer
from pcer.errors import InputError, printable
from pcer.files import field_path, read_json
from pcer.release.file import (
    LIMITS,
    Limits,
    parse_release,
    read_release,
    release_schema,
    write_release,
)
from tests.commands import SAMPLES, start
from tests.strategies import holder_of, places, put, releases

ROOT = SAMPLES.parents[1]
BAD_FILES = {
    None: "not-json truncated nan key-twice utf-16",
    "version": "future version-1 version-2 version-3",
    "runs[0].groups.b.test.fn": "negative-count fractional-count forty-digits",
    "runs[1].groups": "group-missing",
    "runs[0].groups.b.test": "empty-group",
    "runs[1].seed": "duplicate-run",
    "runs[0].colour": "unknown-field",
    "runs[0].epsilon": "epsilon-negative epsilon-word",
    "subject.dataset": "control-character",
    "runs[1].split": "split-sizes",
    "bounds[0].mean": "bound-too-large",
}
"""By field, the files in which it is the one that is wrong."""
CELLS = {"tp": 5, "fp": 5, "tn": 5, "fn": 5}
FORMS = ("counts", "rates")


SCHEMA = release_schema()


def example(schema: dict[str, Any], form: str) -> Any:
    """A value that has every field of a schema."""
    if "$ref" in schema:
        schema = SCHEMA["$defs"][schema["$ref"].rpartition("/")[2]]
    if forms := schema.get("oneOf"):  # of a table
        return example(forms[form == "rates"], form)
    if kinds := schema.get("anyOf"):
        return example(kinds[0], form)
    if "enum" in schema or "const" in schema:
        return [*schema.get("enum", ()), schema.get("const")][0]
    if "properties" in schema:
        return {
            name: example(part, form) for name, part in schema["properties"].items()
        }
    if schema.get("type") == "object":
        any_key = {"": schema.get("additionalProperties")}
        (inner,) = schema.get("patternProperties", any_key).values()
        return {"a key": example(inner if isinstance(inner, dict) else {}, form)}
    if schema.get("type") == "array":
        return [example(schema["items"], form)]
    plain = {
        "string": "text",
        "integer": min(3, schema.get("maximum", 3)),
        "number": 0.5,
    }
    return {**plain, "boolean": True}.get(schema.get("type", ""), {"inner": [1, None]})


def full_release(form: str = "counts") -> dict[str, Any]:
    """A release that has every field of the format; no two places share an object."""
    tree = example(SCHEMA, form)
    groups = ["one", "two"]
    tree["subject"]["groups"] = groups
    (tables,) = tree["runs"][0]["groups"].values()
    tree["runs"][0]["groups"] = dict.fromkeys(groups, tables)
    tree["placebo"][0]["groups"] = groups
    for name in ("everybody", "crossed"):
        tree["training_noise"][0][name] = [[0.5, 0.25], [0.25, 0.5]]
    of_groups = ("pooled_exposure", "bounds", "tail", "copies", "accuracy_loss")
    for name in of_groups:
        tree[name][0]["group"] = "one"
    tree["tail"][0] |= {"n_models": 16, "against": "two"}
    tree["tail"].append(tree["tail"][0] | {"group": "two", "against": "one"})
    search = tree["subgroups"][0]
    search["worst"]["rule"][0]["attribute"] = search["attributes"][0]
    search["worst"]["lower_bound"] = 0.25  # 0.5 - 0.5 x 0.5
    del search["withheld"]
    return json.loads(json.dumps(tree))


def refused(tree: Any, **limits: Any) -> InputError | None:
    """Why a tree is no release; None if it is one."""
    error = None
    try:
        parse_release(tree, file="x", **limits)
    except InputError as caught:
        error = caught
    assert error is None or (str(error).isprintable() and str(error).endswith("."))
    return error


def names_in(tree: Any) -> set[str]:
    """Every key inside, as a path shows it."""
    inside = places(tree) if isinstance(tree, dict | list) else ()
    return {
        printable(part) for path in inside for part in path if isinstance(part, str)
    }


@pytest.mark.parametrize("field", BAD_FILES)
def test_bad_files_get_one_sentence_about_the_field(field):
    for name in BAD_FILES[field].split():
        path = SAMPLES / f"{name}.release.json"
        with pytest.raises(InputError) as caught:
            read_release(path)
        assert (caught.value.field, str(caught.value).isprintable()) == (field, True)
        assert str(caught.value).startswith(str(path))


@pytest.mark.parametrize("version", [1, 2, 3])
def test_files_of_versions_before_the_first_that_is_kept_are_written_again(version):
    with pytest.raises(InputError) as caught:
        read_release(SAMPLES / f"version-{version}.release.json")
    assert str(caught.value).endswith(
        f"version-{version}.release.json has version {version} of pcer-release, and "
        "this pcer reads version 4; write it again with this version."
    )


@pytest.mark.parametrize("name", ["counts", "rates", "forest"])
def test_files_of_this_version_stay_readable(name):
    path = SAMPLES / f"{name}.release.json"
    release = read_release(path)
    assert release.version == 4
    assert name != "forest" or release.to_json() == path.read_text()
    assert pcer.audit(release).release_sha256 == release.sha256


@settings(max_examples=25)
@given(releases())
def test_a_release_that_is_written_is_read_the_same(release):
    again = parse_release(json.loads(release.to_json()), file="again")
    assert again == release
    assert again.to_json() == release.to_json()
    assert again.sha256 == release.sha256


def test_files_are_read_whole_or_not_at_all(tmp_path, plain_release):
    path = tmp_path / "x.release.json"
    path.write_text(json.dumps(plain_release), encoding="utf-8-sig")
    assert (
        read_release(path).subject.dataset == "compas"
    )  # a byte order mark is harmless
    path.write_text("[" * 200_000)
    with pytest.raises(InputError, match="nested too deeply"):
        read_release(path)
    with path.open("r+b") as stream:
        stream.truncate(64_000_001)
    with pytest.raises(InputError, match="64,000,001 bytes"):
        read_release(path)
    with pytest.raises(InputError, match="cannot be read"):
        read_release(tmp_path / "none.release.json")
    write_release(parse_release(plain_release, file="x"), path)
    assert [file.name for file in tmp_path.iterdir()] == [path.name]


def test_the_bytes_depend_on_nothing_but_the_content(plain_release):
    config = {"momentum": None, "layers": [], "note": {}}
    plain_release["training"]["config"] = config
    release = parse_release(plain_release, file="x")
    assert json.loads(release.to_json())["training"]["config"] == config
    for run in plain_release["runs"]:
        run["groups"] = dict(reversed(run["groups"].items()))
    assert parse_release(plain_release, file="x").sha256 == release.sha256


@pytest.mark.parametrize(
    "name", ["config", "epsilon", "groups", "exposure", "train", "n", "notes"]
)
def test_a_group_or_an_attack_may_be_named_like_a_field(plain_release, name):
    """The bytes are those of another name, but for the name."""
    row = {"epsilon": 1.0, "group": "Other", "attack": "an attack", "value": 0.1}
    for run in plain_release["runs"]:
        run["epsilon_by_accountant"] = {"an attack": 0.5}
        run["groups"]["Other"]["exposure"] = {"an attack": {"value": 0}}
    neutral = json.dumps({**plain_release, "pooled_exposure": [row]})

    def named(text: str) -> str:
        return text.replace('"Other"', f'"{name}"').replace('"an attack"', f'"{name}"')

    before, after = (
        parse_release(json.loads(t), file="x") for t in (neutral, named(neutral))
    )
    assert "null" not in before.to_json().replace('"epsilon": null', "")
    assert after.to_json() == named(before.to_json())
    assert parse_release(json.loads(after.to_json()), file="again") == after


def test_the_schema_is_published_and_accepts_what_we_do(plain_release):
    assert read_json(ROOT / "docs" / "schemas" / "release.schema.json") == SCHEMA
    jsonschema.Draft202012Validator.check_schema(SCHEMA)
    validator = jsonschema.Draft202012Validator(SCHEMA)
    validator.validate(json.loads(parse_release(plain_release, file="x").to_json()))
    for name in ("unknown-field", "negative-count", "epsilon-word", "future"):
        assert not validator.is_valid(read_json(SAMPLES / f"{name}.release.json")), name
    for name in ("counts", "rates", "by-hand"):
        validator.validate(read_json(SAMPLES / f"{name}.release.json"))


def row(**changes: Any) -> dict[str, Any]:
    return {"epsilon": 1.0, "group": "Other", "attack": "p", "value": 0, **changes}


def search(**changes: Any) -> dict[str, Any]:
    """A search that names men; ``worst__x`` changes a field of the winner."""
    worst = {"epsilon": 1.0, "rule": [{"attribute": "sex", "value": "men"}]}
    worst |= {"n_people": 200, "difference": 0.2, "standard_error": 0.02}
    worst |= {"lower_bound": 0.14}
    test = {"epsilon": 1.0, "p_value": 0.02, "p_value_within_labels": 0.4}
    found = {"about": "exposure", "attributes": ["sex"], "depth": 2, "least": 100}
    found |= {"factor": 2.0, "level": 0.025, "n_candidates": 2, "n_permutations": 999}
    found |= {"seed": 0, "tests": [test | {"critical_value": 3.0}]}
    for name, value in changes.items():
        if name.startswith("worst__"):
            worst[name.removeprefix("worst__")] = value
        else:
            found[name] = value
    return found | {"worst": worst}


def tail_row(**changes: Any) -> dict[str, Any]:
    numbers = {"picked": 0.4, "picked_error": 0.02, "by_chance": 0.006}
    numbers |= {"right": 0.9, "right_error": 0.02}
    place = {"epsilon": 1.0, "group": "Other", "n_models": 16, "threshold": 0.9}
    return place | numbers | changes


@pytest.mark.parametrize(
    ("place", "value", "field"),
    [
        (("subject", "groups"), ["Other"], "subject.groups"),
        (("subject", "groups"), ["Other", "Other"], "subject.groups"),
        (("subject", "groups"), ["Other", "Nobody"], "runs[0].groups"),
        (("subject", "groups"), ["Other", "other"], "subject.groups"),
        (("subject", "groups"), ["Other", "Other\u200b"], "subject.groups"),
        (("subject", "groups"), ["ﬁ", "fi"], "subject.groups"),
        (("subject", "dataset"), "\u3000", "subject.dataset"),
        (("subject", "dataset"), "\u200b\u202e", "subject.dataset"),
        (("subject", "outcome"), "good", "subject.outcome"),
        (("subject", "people"), "x" * 81, "subject.people"),
        (("subject", "people"), "", "subject.people"),
        (("subject", "positive_means"), "\u200b", "subject.positive_means"),
        (("subject", "positive_means"), "pay\nback", "subject.positive_means"),
        (("subject", "positive_label"), [1], "subject.positive_label"),
        (("version",), "1", "version"),
        (("version",), True, "version"),
        (("format",), "pcer-audit", "format"),
        (("runs",), [], "runs"),
        (("runs",), None, "runs"),
        (("runs", 0, "seed"), 1.5, "runs[0].seed"),
        (("runs", 0, "split"), 1.5, "runs[0].split"),
        (("runs", 0, "dp_delta"), 2.0, "runs[0].dp_delta"),
        (("runs", 0, "groups", "Other", "train"), 5, "runs[0].groups.Other.train"),
        (("runs", 0, "groups", "Other", "train"), {}, "runs[0].groups.Other.train"),
        (("runs", 0, "groups", "\x1b[31m"), {}, r"runs[0].groups.\u001b[31m"),
        (("runs", 0, "model"), "\u2066", "runs[0].model"),
        (("training", "split_kind"), "stratified", "training.split_kind"),
        (("training", "config"), {"a": [math.nan]}, "training.config.a[0]"),
        (("pooled_exposure",), [row(epsilon=7.0)], "pooled_exposure[0].epsilon"),
        (("pooled_exposure",), [row(group="X")], "pooled_exposure[0].group"),
        (("pooled_exposure",), [row(), row()], "pooled_exposure[1]"),
        (("subgroups",), [search(), search()], "subgroups[1]"),
        (("subgroups",), [search(worst__lower_bound=0.2)], "subgroups[0].worst"),
        (("subgroups",), [search(level=0.01)], "subgroups[0].worst"),
        (("subgroups",), [search(withheld="few")], "subgroups[0].worst"),
        (("subgroups",), [search(attributes=["race"])], "subgroups[0].worst.rule"),
        (("tail",), [tail_row(n_models=15)], "tail[0].n_models"),
        (("tail",), [tail_row(right=None)], "tail[0]"),
        (("tail",), [tail_row(against="Other")], "tail[0].against"),
        (("tail",), [tail_row(group="all")], "tail[0].group"),
        (("tail",), [tail_row(p_value=0.5)], "tail[0].against"),
        (("tail",), [tail_row(), tail_row(threshold=0.5)], "tail[1]"),
        (("pooled_exposure",), [row(attack="mine"), row(attack="Mine")], "attack"),
    ],
)
def test_what_does_not_fit_is_named(plain_release, place, value, field):
    error = refused(put(plain_release, place, value))
    assert error is not None
    assert error.field == field


def test_names_that_only_look_foreign_stay(plain_release):
    text = (
        json.dumps(plain_release)
        .replace("Other", "זכר")
        .replace("African-American", "\u202eb")
    )
    audit = pcer.audit(parse_release(json.loads(text), file="x"))
    assert audit.subject.groups == ["זכר", "\u202eb"]


BAD_VALUES: list[Any] = [
    *(None, True, -1, 2**70, 1.5, math.nan, "", "\x00", "word", [], [None], {}, {1}),
    *(
        [[1]],
        {"str": 1},
        {"counts": 1},
        {"accuracy": None},
        {"a": {"b": {2}}},
        {"\x07": 1},
        {3: 4},
    ),
]


RECORDS = (SCHEMA, *SCHEMA["$defs"].values())
FIELDS = {name for record in RECORDS for name in record.get("properties", {})}


@pytest.mark.parametrize("form", FORMS)
def test_errors_name_fields_keys_and_positions_and_nothing_else(form):
    """Every bad value in every place: no path has a word of the validator."""
    whole = full_release(form)
    assert refused(whole) is None
    others = {"accuracy", "positive_rate", "n"} if form == "counts" else set(CELLS)
    # Who is named is not withheld.
    assert FIELDS - names_in(whole) == others | {"withheld"}
    known = names_in(whole) | FIELDS
    n_errors = 0
    others = [place for place in places(whole) if form == "counts" or "groups" in place]
    for place, bad in itertools.product(others, BAD_VALUES):
        error = refused(put(whole, place, bad))
        found = re.match(r"x: field (.*?): ", str(error or ""))
        if (
            found is None
        ):  # fine; or the format, the version, or two places that do not fit
            continue
        n_errors += 1
        path = found[1]
        where = field_path(place)
        assert set(re.sub(r"\[\d+\]", "", path).split(".")) <= known | names_in(bad), (
            place,
            bad,
        )
        assert path.startswith(where) or where.startswith(path), (place, bad, path)
    assert n_errors > 200


@pytest.mark.parametrize("form", FORMS)
def test_errors_name_what_is_missing_or_unknown(form):
    whole = full_release(form)
    missing = set()
    mappings = {
        "groups",
        "exposure",
        "epsilon_by_accountant",
        "effective_units",
        "not_computed",
    }
    mappings |= {"quantiles"}
    for place in places(whole):
        above = holder_of(tree := copy.deepcopy(whole), place)
        value = above.pop(place[-1])
        if "field required" in str(error := refused(tree)):
            assert error.field == field_path(place)
            missing.add(place[-1])
        anything_goes = {"config", "joint_privacy"} & {*place} or place[-1] in mappings
        if isinstance(value, dict) and not anything_goes:
            error = refused(put(whole, (*place, "counts"), 3))
            assert error.field == field_path((*place, "counts"))
    always = {
        "dataset",
        "attribute",
        "groups",
        "runs",
        "subject",
        "epsilon",
        "seed",
    }
    always |= {"n_draws", "n_double", "kind", "mode", "accountant", "mean"}
    always |= {"why", "n_people", "n_groups"}
    always |= {"rate", "everybody", "crossed", "degrees_of_freedom"}
    always |= {"n_models", "threshold"}
    always |= {"part", "share"}
    always |= {"about", "attributes", "depth", "least", "factor", "level", "tests"}
    always |= {"n_candidates", "n_permutations", "p_value", "p_value_within_labels"}
    always |= {"rule", "n_people", "difference", "standard_error", "lower_bound"}
    cells = set(CELLS) if form == "counts" else set()
    assert missing == {*always, *cells, "value", "group", "attack"}


def test_tables_may_be_left_out_only_where_an_attack_is_given():
    attacked = {"exposure": {"one": {"value": 0.1}}}
    for tables, field in (
        (attacked, None),
        ({}, "runs[0].groups.g0.train"),
        ({**attacked, "train": CELLS}, None),
    ):
        tree = release_of()
        tree["runs"][0]["groups"]["g0"] = tables
        if field is not None:
            assert refused(tree).field == field
        else:
            release = parse_release(tree, file="x")
            assert parse_release(json.loads(release.to_json()), file="x") == release
            assert release.to_tree()["runs"][0]["groups"]["g0"] == tables


@pytest.mark.parametrize(
    "name", ["str", "counts", "rates", "constrained-str", "[key]", "n"]
)
def test_a_group_named_like_a_form_keeps_its_name_in_a_path(name):
    tree = release_of()
    tree["subject"]["groups"][0] = name
    groups = tree["runs"][0]["groups"]
    groups[name] = {**groups.pop("g0"), "test": {**CELLS, "fn": -1}}
    assert refused(tree).field == f"runs[0].groups.{name}.test.fn"
    groups[name] = 3
    assert (
        str(refused(tree))
        == f"x: field runs[0].groups.{name}: should be an object, but is 3."
    )


def release_of(
    *,
    n_groups: int = 2,
    n_seeds: int = 1,
    budgets: tuple[float | None, ...] = (None,),
    **more: Any,
) -> dict[str, Any]:
    names = [f"g{k}" for k in range(n_groups)]
    table = {"train": CELLS, "test": CELLS, "exposure": more.get("exposure", {})}
    tables = {name: dict(table) for name in names}
    runs = [
        {"epsilon": epsilon, "seed": seed, "split": seed, "groups": tables}
        for epsilon in budgets
        for seed in range(n_seeds)
    ]
    about = {"dataset": "d", "attribute": "a", "groups": names, "outcome": "harm"}
    tree = {
        "format": "pcer-release",
        "version": 4,
        "training": {"split_kind": "random"},
    }
    return {**tree, "subject": {**about, "notes": more.get("notes", [])}, "runs": runs}


SMALL = Limits(n_groups=2, n_rows=3)


@pytest.mark.parametrize(
    ("limit", "shape"),
    [
        ("n_groups", {"n_groups": 3}),
        ("n_rows", {"budgets": (1.0, 2.0)}),
        ("n_rows", {"exposure": {"one": {"value": 0.1}}}),
    ],
)
def test_every_limit_is_named_and_can_be_lifted(limit, shape):
    tree = release_of(**shape)
    error = refused(tree, limits=SMALL)
    assert error.field == limit
    assert "allow it by name" in str(error)
    assert parse_release(tree, file="x", limits=None) == parse_release(tree, file="x")


@pytest.mark.parametrize("field", ["pooled_exposure", "placebo"])
def test_too_many_attacks_are_refused_before_any_row_is_looked_at(field):
    rows = [{"attack": f"attack {k}"} for k in range(5_000)]
    assert refused({**release_of(), field: rows}).field == "n_rows"


def test_the_limits_are_those_of_the_documentation():
    text = (ROOT / "docs" / "format.md").read_text()
    for limit in astuple(replace(LIMITS, n_bytes=64)):
        assert f"{limit:,}" in text


def attacks(n: int) -> dict[str, Any]:
    return {f"attack {k}": {"value": 0.1, "standard_error": 0.1} for k in range(n)}


def with_keys(more: Sequence[str] = ()) -> str:
    keys = [*(f"k{k}" for k in range(200_000)), *more]
    return json.dumps(release_of())[:-1] + "".join(f',"{key}":1' for key in keys) + "}"


HOSTILE = {
    "counts of any size": (
        lambda: json.dumps(release_of()).replace(": 5", f": {10**15}"),
        0,
    ),
    "a key twice among many": (lambda: with_keys(["k0"]), 2),
    "many unknown fields": (with_keys, 2),
    "many lists": (lambda: "[" + "[]," * 2_000_000 + "[]]", 2),
    "many notes": (lambda: json.dumps(release_of(notes=["x"] * 10**6)), 0),
    "many attacks": (lambda: json.dumps(release_of(exposure=attacks(10**5))), 2),
    "as many attacks as are read": (
        lambda: json.dumps(release_of(exposure=attacks(4_900))),
        0,
    ),
    "many settings": (
        lambda: json.dumps(release_of(budgets=(*map(float, range(1, 60_000)),))),
        2,
    ),
    "as many settings as are read": (
        lambda: json.dumps(
            release_of(n_groups=200, budgets=(*map(float, range(1, 51)),))
        ),
        0,
    ),
    "many runs": (lambda: json.dumps(release_of(n_seeds=20_000)), 0),
    "runs without end": (lambda: json.dumps(release_of(n_seeds=70_000)), 2),
}
"""Files made to be slow, and how an audit of them ends."""
LITTLE = """
from resource import RLIMIT_CPU, RLIMIT_DATA, setrlimit
setrlimit(RLIMIT_DATA, (2 * 10**9, 2 * 10**9))
setrlimit(RLIMIT_CPU, (60, 60))
"""


@pytest.mark.slow
@pytest.mark.parametrize("name", HOSTILE)
def test_no_file_keeps_an_auditor_waiting(tmp_path, name):
    """679 bytes once took 50 seconds and 7.5 GB."""
    make, code = HOSTILE[name]
    (tmp_path / "x.release.json").write_text(make())
    done = start("audit", tmp_path, "--json", "-", before=LITTLE, OMP_NUM_THREADS="1")
    assert done.returncode == code
    assert len(done.stderr) < 500
