"""Recomputation finds any change of any digit of an audit or a page, and names it."""

import base64
import bz2
import copy
import json
import re
from collections.abc import Callable, Iterator
from itertools import islice
from typing import Any

import pytest

import pcer
from pcer.errors import InputError
from pcer.files import parse_json
from pcer.release.file import parse_release
from pcer.report import page, verify
from pcer.report.page import SCRIPT, packed, read_payload, script_json, to_report
from pcer.report.verify import (
    first_difference,
    verify_audit,
    verify_audits,
    verify_report,
)
from tests.conftest import make_plain_release
from tests.pages import mixed_release, with_attacks

QUICK = pcer.Plan(resamples=40, null_draws=10)
PLAN = pcer.Plan(resamples=20, null_draws=10, policy=pcer.Policy(min_splits=9))
Audits = list[dict[str, Any]]


@pytest.fixture(scope="module", autouse=True)
def audited_once():
    """Most edits leave plan and releases as they are: one audit serves them all."""
    made: dict[Any, Any] = {}

    def audit(release, plan, *, family=()):
        named = release if isinstance(release, list) else [release]
        audited = [one.sha256 for one in named]
        beside = [one.sha256 for one in family]
        key = f"{plan.sha256} {audited} {beside} {type(release)}"
        if key not in made:
            made[key] = pcer.audit(release, plan, family=family)
        return made[key]

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(verify, "audit", audit)
        yield


@pytest.fixture(scope="module")
def case():
    """A release and its audit file as text."""
    release = parse_release(make_plain_release(), file="x")
    return release, pcer.audit(release, QUICK).to_json()


def test_every_changed_digit_is_found(case):
    """Change each digit of each number in turn; no edit may pass."""
    release, text = case
    assert verify_audit(json.loads(text), [release]) is None
    recomputed = pcer.audit(release, QUICK).model_dump()
    whole = json.loads(text)
    checked = 0
    for place in places_of_digits(text):
        digit = str((int(text[place]) + 1) % 10)
        try:
            edited = json.loads(text[:place] + digit + text[place + 1 :])
        except json.JSONDecodeError:
            continue  # a leading zero: not JSON any more, refused on reading
        if edited == whole or edited["plan"] != whole["plan"]:
            continue  # another spelling of one number; or the next test
        around = text[place - 30 : place + 10]
        assert first_difference(edited, recomputed, path="") is not None, around
        checked += 1
    assert checked > 500


def places_of_digits(text: str) -> Iterator[int]:
    """Of every third number of a JSON text."""
    numbers = re.finditer(r"(?<![\w\"])-?\d[\d.e+-]*", text)
    for number in islice(numbers, None, None, 3):
        for place in range(*number.span()):
            if text[place].isdigit():
                yield place


DIGITS = 0.0123456789012345
"""More of them than results are written with."""


@pytest.mark.parametrize(
    "named",
    [
        {"equal_within": DIGITS, "policy": pcer.Policy(largest_difference=1 + DIGITS)},
        {"policy": pcer.Policy(largest_exposure=50 + DIGITS)},
        {"floors": [DIGITS / 10, DIGITS], "floor": DIGITS},
    ],
)
def test_a_plans_numbers_are_written_as_given(case, named):
    """Rounded like results, they would be another plan's, with another digest."""
    release, _ = case
    plan = QUICK.model_copy(update=named)
    text = pcer.audit(release, plan).to_json()
    assert verify_audits([json.loads(text)], [release], plan_sha256=plan.sha256) is None
    near = json.loads(text.replace("0.0123456789012345", "0.0123456789012346"))
    if near != json.loads(text):
        assert verify_audit(near, [release]).path == "plan_sha256"


def put(*path: Any) -> Callable[[Audits], None]:
    """Change a value of the first audit: the fields to it, then what it becomes."""

    def change(audits: Audits) -> None:
        *holders, key, value = path
        inside: Any = audits[0]
        for holder in holders:
            inside = inside[holder]
        inside[key] = value(inside[key]) if callable(value) else value

    return change


PLANS = {
    "floor": 0.002,
    "floors": [0.0001, 0.001, 0.01, 0.2],
    "confidence_level": 0.9,
    "rng": 1,
    "resamples": 41,
    "null_draws": 11,
    "benefit": "precision",
    "reference_group": "Other",
}


@pytest.mark.parametrize(
    ("named", "change"),
    [
        *(("plan_sha256", put("plan", *item)) for item in PLANS.items()),
        ("verdict", put("verdict", "x")),
        ("settings[0].advice", put("settings", 0, "advice", "Trust us.")),
        ("settings[0].note", lambda a: a[0]["settings"][0].update(note="fine")),
        ("settings[0].pcer_spread", lambda a: a[0]["settings"][0].pop("pcer_spread")),
        ("settings", lambda a: a[0]["settings"].pop()),
    ],
)
def test_what_differs_is_named_by_its_path(case, named, change):
    release, text = case
    edited = [json.loads(text)]
    change(edited)
    assert verify_audit(edited[0], [release]).path == named
    other = release.model_copy(update={"runs": release.runs[:-1]})
    assert verify_audit(json.loads(text), [other]).path == "release_sha256"


def test_another_machines_last_bit_is_forgiven():
    """Half of the twelfth digit either way, and not more."""
    for found in (0.123456789012, 0.123456789013, 0.123456789014, 0.1234567890125):
        difference = first_difference(found, 0.1234567890125, path="x")
        assert (difference is None) == (found in (0.123456789012, 0.123456789013))


def made_release(attribute: str = "race") -> pcer.Release:
    tree = make_plain_release()
    tree["subject"]["attribute"] = attribute
    tree["provenance"] = {"data_digest": "sha256:00"}
    for k in (0, 3):  # the same split
        tree["runs"][k]["groups"]["Other"]["train"]["tn"] += len(attribute)
    return parse_release(tree, file=attribute)


RELEASES = [made_release("race"), made_release("sex"), made_release("age")]
OTHER = made_release("country")
PAGE_RELEASE = with_attacks(mixed_release())


@pytest.fixture(scope="module")
def audits() -> Audits:
    return [json.loads(one.to_json()) for one in pcer.audit(RELEASES, PLAN)]


def swap_digests(audits: Audits) -> None:
    first, second = audits[:2]
    digest = first["release_sha256"]
    first["release_sha256"] = second["release_sha256"]
    second["release_sha256"] = digest


def alone() -> Any:
    return json.loads(pcer.audit(RELEASES[0], PLAN).to_json())


AUDIT_EDITS: dict[str, Callable[[Audits], Any]] = {
    "the unfavourable audit is dropped": lambda a: a.pop(0),
    "all but one are dropped": lambda a: a.__delitem__(slice(1, None)),
    "one audit stands twice": lambda a: a.append(copy.deepcopy(a[0])),
    "one audit stands for another": lambda a: a.__setitem__(1, copy.deepcopy(a[0])),
    "digests of releases are exchanged": swap_digests,
    "another digest of the release": put("release_sha256", "0" * 64),
    "no digest of the release": lambda a: a[0].pop("release_sha256"),
    "another digest of the plan": put("plan_sha256", "0" * 64),
    "a family of one": put("family", lambda f: f[:1]),
    "the best of a family judged alone": lambda a: a.__setitem__(0, alone()),
    "a better family p": put("family_p", 0.9),
    "no policy": put("plan", "policy", None),
    "a milder policy": put("plan", "policy", "min_splits", 1),
    "no broken rule": put("broken_rules", []),
    "a sentence more": put("trust", lambda lines: [*lines, "Certified."]),
    "a sentence less": put("account", lambda lines: lines[:-1]),
    "somebody worse off": put("worse_off", ["Other"]),
    "nothing declared": put("declarations", []),
    "an attack less": put("attacks", []),
    "settings exchanged": put("settings", lambda rows: rows[::-1]),
    "a number of 400 digits": put("settings", 0, "accuracy", "mean", 10**399),
    "groups exchanged": put("settings", 0, "pairs", 0, "groups", lambda two: two[::-1]),
}


@pytest.mark.parametrize("name", AUDIT_EDITS)
def test_an_edit_of_an_audit_is_found(audits, name):
    edited = copy.deepcopy(audits)
    AUDIT_EDITS[name](edited)
    assert edited != audits
    assert verify_audits(edited, RELEASES) is not None


def test_the_audits_themselves_agree_and_an_omission_is_found(audits):
    plan = audits[0]["plan_sha256"]
    assert verify_audits(audits, RELEASES, plan_sha256=plan.upper()) is None
    assert verify_audits(audits[:1], RELEASES[:1], family=RELEASES[1:]) is None
    for named in (RELEASES[:2], [*RELEASES, OTHER], [*RELEASES, RELEASES[0]]):
        assert verify_audits(audits, named) is not None
    assert verify_audits(audits, RELEASES, plan_sha256="0" * 64) is not None
    assert verify_audits([alone()], RELEASES[:1]) is None
    assert "family" in str(verify_audits([alone()], RELEASES[:1], family=[OTHER]))


@pytest.fixture(scope="module")
def whole_page():
    """Of six budgets, two groups, attack results."""
    return to_report([pcer.audit(PAGE_RELEASE, PLAN)], [PAGE_RELEASE])


@pytest.fixture
def difference(tmp_path):
    """What verification says of a page's text."""

    def verified(text: str, *named: Any, **options: Any) -> str | None:
        path = tmp_path / "report.html"
        path.write_bytes(text.encode())
        return verify_report(path, *named, **options)

    return verified


def replaced(old: str, new: str, *, after: str = "") -> Callable[[str], str]:
    def change(page: str) -> str:
        head, mark, tail = page.partition(after) if after else ("", "", page)
        assert old in tail, old
        return head + mark + tail.replace(old, new, 1)

    return change


def payload(change: Callable[[dict[str, Any]], None]) -> Callable[[str], str]:
    """An edit of what the page carries, which everything in it is made from."""

    def edit(page: str) -> str:
        head, _, rest = page.partition(SCRIPT)
        text, end, tail = rest.partition("</script>")
        tree = parse_json(text, file="page")
        change(tree)
        return f"{head}{SCRIPT}{script_json(tree)}{end}{tail}"

    return edit


def carried(change: Callable[[dict[str, Any]], None]) -> Callable[[str], str]:
    """An edit of the first release that a page carries."""

    def edit(tree: dict[str, Any]) -> None:
        release = json.loads(bz2.decompress(base64.b64decode(tree["releases"][0])))
        change(release)
        tree["releases"][0] = packed(release)

    return payload(edit)


def number(after: str) -> Callable[[str], str]:
    """Another last digit of the first number after a text."""

    def change(page: str) -> str:
        found = re.search(r"\d\.\d+|\.\d{3}|\d{3,}", page.partition(after)[2])
        assert found is not None
        other = found[0][:-1] + str((int(found[0][-1]) + 1) % 10)
        return replaced(found[0], other, after=after)(page)

    return change


OURS = f"pcer {pcer.__version__}"
HEAD = "in the head of the page"
NUMBERS = (
    '<tr><th scope="row">0.1</th>',
    '"plan":{"floors":',
    '<h2 id="provenance">',
    '<h1 class="headline">',
    '<p class="figures">',
    '<div class="row drawn">',
    '<div class="given">',
    '<figure class="floors"',
    '<div class="paper">',
)
PAGE_EDITS: list[tuple[Callable[[str], str], str]] = [
    (replaced(f'"{OURS}"', '"x 1"'), f"says 'x 1', rendered again it says '{OURS}'"),
    (lambda p: re.sub(r'<meta name="generator"[^>]*>', "", p), "says 'no generator'"),
    (
        replaced("</main>", '<a href="https://example.org">more</a></main>'),
        "example.org",
    ),
    (replaced("<head>", '<head><base href="https://example.org">'), HEAD),
    (replaced("</style>", "p{background:url(//x)}</style>"), HEAD),
    (replaced("<title>", "<title>All is well. "), HEAD),
    (replaced("default-src 'none'", "default-src *"), HEAD),
    (replaced("</body>", "<script>1</script></body>"), "<script>1</script>"),
    (lambda p: p + "<p>more</p>", "the file says '<p>more</p>'"),
    (lambda p: p + "\n", "rendered again it says ''"),
    (lambda p: "\ufeff" + p, "byte order mark"),
    (lambda p: p.replace("\n", "\r\n"), "at line 1, "),
    (replaced("The policy is broken", "The policy is kept"), "The policy is kept"),
    (lambda p: re.sub(r'<ul class="policy-lines">.*?</ul>', "", p), "policy-lines"),
    (lambda p: re.sub(r"<code>\w{64}", f"<code>{'0' * 64}", p, count=1), "<code>0"),
    (payload(lambda t: t["plan"].__setitem__("floor", 0.01)), "at line"),
    (payload(lambda t: t["plan"].__setitem__("resamples", 21)), "at line"),
    (payload(lambda t: t["plan"].__setitem__("policy", None)), "at line"),
    (
        carried(lambda release: release["subject"].update(notes=["Certified."])),
        "at line",
    ),
    (payload(lambda t: t["releases"].append(t["releases"][0])), "twice"),
    (payload(lambda t: t["family"].append(t["releases"][0])), "twice"),
    (lambda p: p[: p.rindex("</html>")], "at line"),
    *((number(after), "at line") for after in NUMBERS),
]
"""Each with a part of what is said of it."""


@pytest.mark.parametrize(("edit", "told"), PAGE_EDITS)
def test_an_edit_of_a_page_is_found_and_its_place_is_named(
    whole_page, difference, edit, told
):
    said = difference(edit(whole_page))
    assert told in said
    if told == "at line":
        quoted = r"(['\"].*)"
        says = rf"the file says {quoted}, rendered again it says {quoted}"
        match = re.fullmatch(rf"at line \d+, in \S.*: {says}", said)
        assert match is not None
        assert match[1] != match[2]


def test_a_page_agrees_and_one_release_more_or_less_is_found(whole_page, difference):
    assert difference(whole_page) is None
    assert difference(whole_page, [PAGE_RELEASE]) is None
    assert read_payload(whole_page, file="x") == (PLAN, [PAGE_RELEASE], [])
    both = to_report(pcer.audit(RELEASES[:2], PLAN), RELEASES[:2])
    assert difference(both, RELEASES[:2], plan_sha256=PLAN.sha256) is None
    assert RELEASES[1].sha256 in difference(both, RELEASES[:1])
    assert PLAN.sha256 in difference(both, plan_sha256="0" * 64)
    one = to_report(
        pcer.audit(RELEASES[:1], PLAN, family=[OTHER]), RELEASES[:1], [OTHER]
    )
    assert difference(one, RELEASES[:1], family=[OTHER]) is None
    assert OTHER.sha256 in difference(
        one, RELEASES[:1]
    )  # a decoy weakens what the others show
    with pytest.raises(InputError):
        difference(both, RELEASES)


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ('id="pcer-report"', 'id="other"', "not a report of pcer"),
        (
            '"version":5,"plan"',
            '"version":5,"study":"x","plan"',
            "the version that wrote it",
        ),
        (
            '"format":"pcer-report","version":5',
            '"format":"pcer-report","version":6',
            "upgrade",
        ),
        (
            '"format":"pcer-report","version":5',
            '"format":"pcer-report","version":4',
            "again",
        ),
        ('"releases":["', '"releases":"', "not complete JSON"),
        ('"releases":["', '"releases":[7,"', "release 1 is damaged"),
        ('"releases":["', '"releases":["-', "release 1 is damaged"),
        ('"releases":["', '"releases":["AAAA', "release 1 is damaged"),
        ('"family":[]', '"family":[""]', "release 2 is cut off"),
        ('"family":[]', '"family":{}', "lists of releases"),
        ('"floor":0.001,"conf', '"floor":-1,"conf', "plan: field floor"),
    ],
)
def test_a_page_that_cannot_be_checked(whole_page, difference, old, new, message):
    with pytest.raises(InputError, match=rf"report\.html.*{message}"):
        difference(replaced(old, new)(whole_page))


def test_a_release_that_contradicts_itself_is_refused(whole_page, difference):
    def one_more(release: dict[str, Any]) -> None:
        release["runs"][0]["groups"]["women"]["train"]["tp"] += 1

    for change in (one_more, lambda release: release.update(x=1)):
        with pytest.raises(InputError):
            difference(carried(change)(whole_page))


def test_what_would_grow_beyond_the_size_of_a_file_is_refused(
    whole_page, difference, monkeypatch
):
    """Also if each of several releases alone is small enough."""
    size = len(json.dumps(PAGE_RELEASE.to_tree()))
    monkeypatch.setattr(page, "MAX_BYTES", 2 * size - 1)
    assert difference(whole_page) is None
    twice = payload(lambda tree: tree["family"].append(tree["releases"][0]))
    with pytest.raises(InputError, match="release 2 is cut off, or together"):
        difference(twice(whole_page))
