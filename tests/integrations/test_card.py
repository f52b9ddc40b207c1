"""Model cards: what Hugging Face's own parser and skops make of them."""

import re
from pathlib import Path

import huggingface_hub
import pytest
from huggingface_hub import EvalResult, ModelCard
from markdown_it import MarkdownIt
from sklearn.linear_model import LogisticRegression
from skops.card import Card

import pcer
from pcer.errors import printable
from pcer.integrations.card import card_sections, to_card
from pcer.release.file import parse_release
from pcer.wording import setting_name
from tests.commands import GOOD, passed, run
from tests.pages import (
    QUICK,
    ROOT,
    Html,
    audited,
    hostile_audit,
    many_groups,
    mixed_audit,
    with_models,
)

FOREST = ROOT / "examples" / "compas-forest.release.json"
TEMPLATE = Path(huggingface_hub.__file__).parent / "templates" / "modelcard_template.md"


def headings(text: str) -> list[str]:
    return re.findall(
        r"^#+ .+$", re.sub(r"^```.*?^```", "", text, flags=re.DOTALL | re.M), re.M
    )


def tiny_audit() -> pcer.Audit:
    """Exposures whose difference, 1e-05 points, is written with an exponent."""
    tree = many_groups(["a", "b"]).to_tree()
    for one in tree["runs"]:
        for g, cell in enumerate(one["groups"].values()):
            found = {"value": 1e-7 * g, "standard_error": 0.01}
            cell["exposure"] = {"attack_advantage": found}
    return pcer.audit(
        parse_release(tree, file="simulated"), QUICK, attack="attack_advantage"
    )


@pytest.mark.parametrize("make", [lambda: audited(FOREST), hostile_audit, tiny_audit])
def test_hugging_face_reads_back_every_number_and_name(make):
    found = make()
    card = ModelCard(found.card(model="a: 'b' # \"c\"\n---"))
    told = {name: value for name, value in found.metrics().items() if "__" not in name}
    assert {one.metric_type: one.metric_value for one in card.data.eval_results} == told
    assert card.data.model_name == "a: 'b' # \"c\"\\u000a---"
    (dataset,) = {
        (one.dataset_name, one.dataset_config) for one in card.data.eval_results
    }
    assert dataset == (
        printable(found.subject.dataset),
        printable(found.subject.attribute),
    )
    names = " ".join(one.metric_name for one in card.data.eval_results)
    assert [g for g in found.subject.groups if printable(g) not in names] == []
    again = ModelCard(str(card))
    assert again.data.to_dict() == card.data.to_dict()
    assert again.text == card.text
    theirs = headings(TEMPLATE.read_text(encoding="utf-8"))
    ours = headings(card.text)
    assert [one for one in ours if one not in theirs] == ["### How to Reproduce"]
    assert {
        "## Bias, Risks, and Limitations",
        "### Recommendations",
        "### Results",
    } <= {*ours}


def test_a_card_says_both_answers_and_bounds_and_nothing_in_it_is_markup():
    card = ModelCard(audited(FOREST).card())
    assert (
        card.data.model_name
        == card.data.eval_results[0].dataset_name
        == "COMPAS, forest"
    )
    assert audited(FOREST).headline in card.text
    assert "| no-DP | 69.2 / 67.6 | 51 / 29 | 33 / 19 | 34 / 55 | 67 |" in card.text
    page = Html(MarkdownIt("commonmark", {"html": True}).enable("table").render(
        ModelCard(hostile_audit().card()).text
    ))  # fmt: skip
    tags = {tag for tag, _ in page.elements}
    assert not tags & {"script", "img", "a", "svg", "iframe"}
    assert not [
        kept for _, kept in page.elements if {*kept} - {"style", "class", "start"}
    ]
    assert "<script>alert(1)</script>" in page.text


def test_the_code_of_a_card_gives_the_audit_again(tmp_path, monkeypatch):
    names = ["a`b", "``` <c>", "\u202ed"]
    policy = pcer.Policy(
        strict=True, largest_exposure=52.5, fail_on=["exposure_differs"]
    )
    plan = QUICK.model_copy(
        update={"reference_group": names[1], "policy": policy, "floor": 0.01}
    )
    monkeypatch.chdir(tmp_path)
    trees = [
        many_groups(names, dataset="x / y", attribute=one).to_tree() for one in "fg"
    ]
    same = {"provenance": {"data_digest": "0" * 64}}
    releases = [parse_release(tree | same, file="simulated") for tree in trees]
    releases.append(
        many_groups(names, dataset="x / y", attribute="```'\"")
    )  # of no known records
    for k, release in enumerate(releases):
        pcer.write_release(release, tmp_path / f"of any name {k}.release.json")
    found, other, alone = pcer.audit(releases, plan)
    assert len(found.family) == 2
    named = pcer.audit(alone.sources[0], family=releases[:1])
    for audit in (
        found,
        other,
        alone,
        named,
        pcer.Audit.model_validate(found.model_dump()),
    ):
        (code,) = re.findall(
            r"^```python\n(.*?)^```$", audit.card(), re.DOTALL | re.MULTILINE
        )
        assert f"import pcer  # {pcer.__version__}\n" in code
        exec(code, told := {})
        assert told["found"].to_json() == audit.to_json()
        with pytest.raises(AssertionError):
            exec(code.replace(f'"{audit.verdict}"', '"none_detected"'), {})
    both = ModelCard(to_card(found, other))
    assert {one.dataset_config for one in both.data.eval_results} == {"f", "g"}
    assert both.text.count("## Bias, Risks, and Limitations") == 1
    assert both.text.count("```python") == 2


def test_a_card_names_its_setting_and_is_about_one_model(tmp_path):
    sweep = mixed_audit()
    settings = [one.dataset_args["setting"] for one in results(sweep.card())]
    assert set(settings) == {setting_name(None, sweep.told.epsilon)}
    refused = run("audit", ROOT / "examples", "--card", tmp_path / "card.md")
    assert (refused.returncode, [*tmp_path.iterdir()]) == (2, [])
    audits = [
        audited(path) for path in sorted((ROOT / "examples").glob("*.release.json"))
    ]
    with pytest.raises(
        pcer.InputError, match='"COMPAS, forest" and "COMPAS, logistic"'
    ):
        to_card(*audits)
    assert (
        len({one.dataset_name for one in results(to_card(*audits, model="both"))}) == 2
    )
    two = [with_models(many_groups(["a", "b"]), [name]) for name in "xy"]
    assert (
        ModelCard(to_card(*pcer.audit(two, QUICK))).data.model_name
        == two[0].subject.dataset
    )


def results(card: str) -> list[EvalResult]:
    return ModelCard(card).data.eval_results


def test_skops_takes_the_sections():
    found = audited(FOREST)
    card = Card(LogisticRegression(), model_diagram=False).add(**card_sections(found))
    text = card.render()
    for title, body in card_sections(found).items():
        depth = title.count("/") + 1
        last = title.split("/")[-1]
        assert f"\n{'#' * depth} {last}\n" in text
        assert body in text


def test_the_command_line_writes_the_same(tmp_path):
    found = pcer.audit(pcer.read_release(GOOD))
    assert passed("audit", GOOD, "--card", "-").stdout == found.card()
    passed(
        "audit", GOOD, "--card", tmp_path / "card.md", "--metrics", tmp_path / "m.json"
    )
    assert ModelCard.load(tmp_path / "card.md").data.eval_results
    assert pcer.files.read_json(tmp_path / "m.json") == found.metrics()
