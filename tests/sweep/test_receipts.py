"""What people spent: bounds in the release, a private file, the same bytes always."""

import dataclasses
import math
import os
import signal
import stat
from itertools import count
from pathlib import Path

import numpy as np
import pytest
import torch
from dp_accounting import GaussianDpEvent, PoissonSampledDpEvent
from dp_accounting.rdp import RdpAccountant
from typer.testing import CliRunner

import pcer
from pcer.cli.app import app
from pcer.data import split
from pcer.errors import InputError
from pcer.release.population import Attribute
from pcer.sweep import Sweep, is_finished, person_receipts, receipts, right_guesses
from pcer.train import Budget, Predictions, calibrate
from pcer.train.receipts import Terms, fold, mu_of, unfolded
from tests import reference_receipts as reference
from tests.sweep.test_run import (
    CONFIG,
    N,
    contents,
    flip,
    kill,
    released,
    tiny,
    train,
    without,
)

N_STEPS = 40
TERMS = [Terms(noise, 0.1, N_STEPS, 1e-5) for noise in (4.0, 1.0)]


def kept_of(terms: Terms, bins: list[int]) -> np.ndarray:
    """What is kept of records whose norm stays in one bin; -1: not trained on."""
    steps = torch.zeros(len(bins), 201)
    steps[torch.arange(len(bins)), np.maximum(bins, 0)] = N_STEPS
    return np.where(np.array(bins) < 0, np.float32(np.nan), fold(steps, terms).numpy())


BINS = [[200, 50, -1, 0], [200, -1, -1, 0], [150, 20, -1, 0]]
"""Of four records in three models."""


def kept_of_models(terms: Terms) -> np.ndarray:
    return np.array([kept_of(terms, row) for row in BINS])


KEPT = np.array([kept_of_models(terms) for terms in TERMS])


def index(**changed) -> receipts.ReceiptIndex:
    settings = [
        receipts.ReceiptSetting(
            epsilon=epsilon,
            epsilon_by_accountant={"pld": epsilon, "rdp": terms.nominal},
            noise_multiplier=terms.noise_multiplier,
            ladder=terms.ladder.tolist(),
        )
        for epsilon, terms in zip((0.5, 5.0), TERMS, strict=True)
    ]
    plain = {"dataset": "loans", "data_digest": "hmac-sha256:0", "mode": "held"}
    plain |= {
        "accountant": "rdp",
        "dp_delta": 1e-5,
        "clip_norm": 1.0,
        "standardised": True,
    }
    plain |= {"has_models_without_privacy": False, "settings": settings}
    plain |= {"seeds": [0, 1, 2], "record_ids": [11, 12, 15, 40]}
    return receipts.ReceiptIndex(**{**plain, **changed})


@pytest.fixture
def folder(tmp_path):
    receipts.write_receipts(tmp_path / "loans.receipts", index(), KEPT)
    return tmp_path


def test_what_is_written_is_read_and_is_its_owners_only(folder):
    place = folder / "loans.receipts"
    found, kept = receipts.read_receipts(place)
    assert np.array_equal(kept.view(np.uint32), KEPT.view(np.uint32))
    assert found.record_ids == [11, 12, 15, 40]
    assert stat.S_IMODE(place.stat().st_mode) == 0o700
    assert {stat.S_IMODE(path.stat().st_mode) for path in place.iterdir()} == {0o600}
    before = contents(folder)
    assert set(before) == {receipts.ARRAY, receipts.INDEX}
    receipts.write_receipts(place, index(), KEPT)
    assert contents(folder) == before


@pytest.mark.parametrize("n_synced", [1, 2])
def test_a_killed_write_leaves_no_receipts(tmp_path, n_synced):
    """Killed with the array, or the index, half on the disk; a new one is whole."""
    place = tmp_path / "loans.receipts"
    calls = count(1)
    if (child := os.fork()) == 0:
        os.fsync = lambda _: (
            next(calls) < n_synced or os.kill(os.getpid(), signal.SIGKILL)
        )
        receipts.write_receipts(place, index(), KEPT)
    assert os.waitpid(child, 0)[1] == signal.SIGKILL
    assert list(place.iterdir()) == []
    receipts.write_receipts(place, index(), KEPT)
    assert {path.name for path in place.iterdir()} == {receipts.ARRAY, receipts.INDEX}
    assert list((tmp_path / "loans.scores").iterdir()) == []


def test_a_person_finds_what_each_budget_promised_and_spent(folder):
    found, rows = person_receipts(folder, "12")
    assert found.dataset == "loans"
    for row, terms in zip(rows, TERMS, strict=True):
        own = kept_of(terms, [50, 20])  # the second model was not trained on it
        assert np.array_equal([row.realised, row.receipt], unfolded(own, terms.ladder))
        assert row.nominal == terms.nominal
    _, clipped = person_receipts(folder / "loans.receipts", "11")
    assert [row.receipt.max() for row in clipped] == [terms.nominal for terms in TERMS]


@pytest.mark.parametrize(
    ("name", "old", "new"),
    [
        (receipts.ARRAY, b"NUMPY", b"MUMPY"),
        (receipts.ARRAY, b"", None),
        (receipts.INDEX, b'"loans"', b'"roans"'),
        (receipts.INDEX, b'"version": 1', b'"version": 2'),
    ],
)
def test_a_changed_file_does_not_count(folder, name, old, new):
    path = folder / "loans.receipts" / name
    path.unlink() if new is None else path.write_bytes(
        path.read_bytes().replace(old, new)
    )
    is_newer = b"version" in old
    sentence = "upgrade pcer" if is_newer else "is not as it was written; train again"
    with pytest.raises(InputError, match=sentence):
        person_receipts(folder, "12")


def test_receipts_of_no_sweep_of_two_or_of_an_unknown_record_are_one_sentence(
    folder, tmp_path
):
    with pytest.raises(
        InputError, match="has no receipt of a record '99'; give the id"
    ) as error:
        person_receipts(folder, "99")
    assert "40" not in str(error.value).replace(str(folder), "")
    receipts.write_receipts(folder / "adult.receipts", index(dataset="adult"), KEPT)
    with pytest.raises(
        InputError, match=r"name one of: adult\.receipts, loans\.receipts"
    ):
        receipts.find_receipts(folder)
    assert person_receipts(folder / "adult.receipts", "12")[0].dataset == "adult"
    with pytest.raises(
        InputError, match="holds no receipts; train with receipts 'held'"
    ):
        receipts.find_receipts(tmp_path / "none")


def test_right_guesses_are_the_best_that_the_two_lines_allow():
    for epsilon, delta in ((0.0, 0.0), (0.3, 1e-5), (2.0, 0.01), (12.0, 1e-5)):
        fpr = np.linspace(0, 1, 200_001)
        tpr = np.minimum(
            np.exp(epsilon) * fpr + delta, 1 - np.exp(-epsilon) * (1 - fpr - delta)
        )
        best = (np.minimum(tpr, 1) + 1 - fpr).max() / 2
        assert right_guesses(epsilon, delta) == pytest.approx(best, abs=1e-5)
    assert right_guesses(5_000.0, 1e-5) == 1


def test_receipts_in_words_are_those_that_are_kept(tmp_path):
    """A person, each mode, one never trained on, one without gradient, no privacy."""
    cases = [
        ("12", {}),
        ("11", {"mode": "exact"}),
        ("11", {"mode": "refreshed"}),
        ("15", {}),
    ]
    cases += [("40", {"standardised": False}), ("11", {"settings": []})]
    shown = []
    for number, (record, changed) in enumerate(cases):
        found = index(**changed, has_models_without_privacy="settings" in changed)
        receipts.write_receipts(
            tmp_path / f"{number}", found, KEPT[: len(found.settings)]
        )
        done = CliRunner().invoke(
            app, ["receipt", str(tmp_path / f"{number}"), "--record", record]
        )
        assert done.exit_code == 0, done.exception
        shown.append(done.output)
    assert max(len(line) for line in "\n".join(shown).splitlines()) <= 80
    golden = Path(__file__).parent / "golden" / "receipts.txt"
    if os.environ.get("PCER_GOLDEN") == "write":
        golden.write_text("\n".join(shown))
    assert "\n".join(shown) == golden.read_text()
    row = next(
        line.split() for line in shown[0].splitlines() if line.split()[:1] == ["5"]
    )
    bound = unfolded(kept_of(TERMS[1], [50]), TERMS[1].ladder)[1][0]
    assert float(row[5]) == pytest.approx(bound, abs=5e-4)
    assert int(row[6]) == math.ceil(100 * right_guesses(bound, 1e-5))


@pytest.fixture(scope="module")
def bounds() -> dict:
    """By kind, group and label: of two models' training records, in their order."""
    member = np.array([[1, 1, 0, 1, 0, 1], [0, 1, 1, 1, 1, 0]], dtype=bool)
    kept = [kept_of(TERMS[0], bins) for bins in ([200, 20, 60, 0], [40, 20, 100, 60])]
    scores = Predictions(
        budgets=(Budget(epsilon=1.5, noise_multiplier=4.0, epsilon_by_accountant={}),),
        seeds=(0, 1),
        logits=np.zeros((1, 2, 6), dtype=np.float32),
        member=member,
        receipts=np.array([kept]),
    )
    fixed = {
        "n_steps": N_STEPS,
        "sample_rate": 0.1,
        "divisor": 1,
        "adjacency": "add-or-remove",
    }
    config = dataclasses.replace(CONFIG, receipts="held", **fixed)
    codes = np.array([0, 0, 0, 1, 1, -1])
    labels = np.array([0, 1, 1, 0, 0, 1])
    sweep = tiny(config=config, budgets=(1.5,))
    object.__setattr__(sweep.dataset, "labels", labels)
    rows = receipts.group_bounds(sweep, scores, Attribute("sex", ("f", "m"), codes))
    return {(row.kind, row.group, row.label): row for row in rows}


def of_one_norm(kind: str, position: int) -> float:
    pair = unfolded(kept_of(TERMS[0], [position]), TERMS[0].ladder)
    return float(pair[kind == "receipt"][0])


@pytest.mark.parametrize("kind", ["realised", "receipt"])
def test_means_are_over_people_and_models_of_a_group_and_by_label(bounds, kind):
    value = {
        position: of_one_norm(kind, position) for position in (0, 20, 40, 60, 100, 200)
    }
    means = {  # and there is no m of label 1
        ("f", None): ((200, 20, 40, 20), 3),
        ("f", 0): ((200,), 1),
        ("f", 1): ((20, 40, 20), 2),
        ("m", None): ((60, 100, 60), 2),
        ("m", 0): ((60, 100, 60), 2),
    }
    rows = {key[1:]: row for key, row in bounds.items() if key[0] == kind}
    assert list(rows) == list(means)
    for key, (bins, n_records) in means.items():
        row = rows[key]
        assert row.mean == pytest.approx(sum(value[b] for b in bins) / len(bins))
        assert (row.n_records, row.nominal) == (n_records, TERMS[0].nominal)
        assert (row.epsilon, row.mode, row.accountant, row.exact) == (
            1.5,
            "held",
            "rdp",
            True,
        )
    assert rows["f", 0].standard_error is None
    assert rows["f", None].quantiles["0.95"] == value[200]
    shares = dict(
        zip(
            ("0.05", "0.25", "0.5", "0.75", "0.95"), (60, 60, 60, 100, 100), strict=True
        )
    )
    assert rows["m", None].quantiles == {share: value[b] for share, b in shares.items()}


def test_what_is_allowed_is_over_the_pairs_of_each_model(bounds):
    expected = []
    for bins in ([200, 20], [40, 20]):
        realised = np.array([of_one_norm("realised", b) for b in bins])
        mu = mu_of(realised, dp_delta=1e-5)
        expected.append(reference.allowed_advantage(mu))
    allowed = {key: row.allowed_advantage for key, row in bounds.items()}
    assert allowed["realised", "f", None] == pytest.approx(sum(expected) / 2, rel=1e-4)
    assert {value for key, value in allowed.items() if key[0] == "receipt"} == {None}


@pytest.mark.parametrize("n_seeds", [1, 2, 7])
def test_the_error_is_over_people_and_seeds(n_seeds):
    rng = np.random.default_rng(n_seeds)
    values = rng.gamma(2.0, 1.0, 30) + 0.5 * rng.standard_normal((n_seeds, 1)) + 5
    values = np.where(rng.random((n_seeds, 30)) < 0.7, values, np.nan)
    rows = [{i: v for i, v in enumerate(row) if not math.isnan(v)} for row in values]
    assert receipts.two_way_error(values) == pytest.approx(
        reference.two_way_error(rows), rel=1e-12
    )


def accounted(mode: str = "held", **changes) -> Sweep:
    config = dataclasses.replace(CONFIG, epochs=2, receipts=mode)
    return tiny(**{"config": config, **changes})


@pytest.fixture(scope="module")
def spent(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("whole")
    train(folder, accounted(), keep_scores=True)
    return folder


def test_a_release_has_the_bounds_of_every_private_setting_from_the_kept_receipts(
    spent,
):
    release = released(spent)
    sweep = accounted()
    keys = [(b.epsilon, b.group, b.label, b.kind) for b in release.bounds]
    assert len(keys) == len(set(keys)) == 2 * 3 * 2
    assert {b.epsilon for b in release.bounds} == {1.0}  # none without privacy
    assert all(0 < b.mean <= b.nominal for b in release.bounds)
    assert any("bounds hold exact statistics" in note for note in release.subject.notes)
    index, kept = receipts.read_receipts(spent / "tiny.receipts")
    (setting,) = index.settings
    budget = calibrate(1.0, n_train=211, config=sweep.config)
    sampling = sweep.config.sampling(211)
    terms = Terms(budget.noise_multiplier, sampling.sample_rate, sampling.n_steps, 1e-5)
    assert setting.ladder == terms.ladder.tolist()
    assert kept.shape == (1, 4, N)
    member = ~np.isnan(kept[0])
    for row, seed in zip(member, sweep.seeds, strict=True):
        assert np.flatnonzero(row).tolist() == sorted(
            split(sweep.dataset, seed=seed).train
        )
    chosen = sweep.dataset.attribute("sex").codes == 0
    for kind, values in zip(
        ("realised", "receipt"), unfolded(kept, terms.ladder), strict=True
    ):
        (bound,) = (
            b for b in release.bounds if (b.group, b.label, b.kind) == ("f", None, kind)
        )
        assert bound.mean == pytest.approx(np.nanmean(values[0][:, chosen]))
        assert bound.n_records == int((member.any(axis=0) & chosen).sum())


def test_a_release_beside_ones_own_receipt_tells_nothing_of_anybody_else(spent):
    """Of every other two of a group and label it is open who has which receipt."""
    _, kept = receipts.read_receipts(spent / "tiny.receipts")
    sweep = accounted()
    kind = 2 * sweep.dataset.attribute("sex").codes + sweep.dataset.labels
    before = released(spent).bounds
    me = 0
    for other in (1, N // 2, N - 1):
        is_alike = (kind == kind[other]) & (np.arange(N) != me)
        has_another = (kept != kept[:, :, [other]]).any(axis=(0, 1))
        (stranger, *_) = np.flatnonzero(is_alike & has_another)
        changed = np.array(kept)
        changed[:, :, [other, stranger]] = kept[:, :, [stranger, other]]
        scores = Predictions(
            budgets=(calibrate(1.0, n_train=211, config=sweep.config),),
            seeds=sweep.seeds,
            logits=np.zeros((1, *changed.shape[1:]), dtype=np.float32),
            member=~np.isnan(changed[0]),
            receipts=changed[:, ~np.isnan(changed[0])].reshape(1, len(sweep.seeds), -1),
        )
        attribute = sweep.dataset.attribute("sex")
        counted = Attribute("sex", attribute.group_names, attribute.codes)
        for row, same in zip(
            receipts.group_bounds(sweep, scores, counted), before, strict=True
        ):
            assert row.mean == pytest.approx(same.mean, rel=1e-12)
            assert row.standard_error == pytest.approx(same.standard_error, rel=1e-9)
            assert row.quantiles == same.quantiles
            assert row.n_records == same.n_records
        assert np.array_equal(changed[:, :, me], kept[:, :, me], equal_nan=True)


# Settings; three files of each of three blocks; two of the receipts; the releases.
@pytest.mark.slow
@pytest.mark.parametrize("n_writes", [3, 4, 11, 12])
def test_a_killed_sweep_resumes_to_the_same_receipts(tmp_path, spent, n_writes):
    kill("accounted()", n_writes, tmp_path)
    train(tmp_path, accounted())
    assert contents(tmp_path) == contents(spent)
    assert not (tmp_path / "tiny.scores").exists()


def test_receipts_of_blocks_that_were_lost_or_damaged_are_made_again(tmp_path, spent):
    folder = without("*.release.json", spent, tmp_path / "out")
    blocks = sorted((folder / "tiny.scores").glob("block-*.second.npy"))
    assert all(
        np.load(path).shape[1:] == (211,) for path in blocks
    )  # four bytes a record
    blocks[0].unlink()
    flip(blocks[1], 0.99)
    _, (note,) = train(folder, accounted())
    assert contents(folder) == contents(spent)
    assert note.count("(damaged)") == 2


def test_a_sweep_that_lost_its_receipts_or_gets_more_seeds_is_not_finished(
    tmp_path, spent
):
    two = accounted(seeds=(0, 1))
    train(tmp_path, two)
    place = tmp_path / "tiny.receipts"
    assert receipts.has_receipts(place, two)
    for other in ({"seeds": (0, 2)}, {"budgets": (2.0,)}, {"secret": b"0" * 16}):
        assert not receipts.has_receipts(place, accounted(**{"seeds": (0, 1), **other}))
    assert not receipts.has_receipts(place, accounted("exact", seeds=(0, 1)))
    assert not receipts.has_receipts(tmp_path / "other.receipts", two)
    assert is_finished(two, tmp_path)
    (place / receipts.INDEX).unlink()
    assert not is_finished(two, tmp_path)
    assert not is_finished(accounted(), tmp_path)
    train(tmp_path, accounted())
    assert contents(tmp_path) == contents(spent)


def test_each_group_has_its_promise_in_release_receipts_and_report(tmp_path):
    config = dataclasses.replace(CONFIG, receipts="exact", rule="group-clip:sex:m=0.6")
    train(tmp_path, tiny(config=config, seeds=(0, 1)))
    release = released(tmp_path)
    sampling = config.sampling(211)
    noise = calibrate(1.0, n_train=211, config=config).noise_multiplier
    own = {}
    for group, share in (("f", 1.0), ("m", 0.6)):
        step = GaussianDpEvent(noise / share)
        accountant = RdpAccountant()
        event = PoissonSampledDpEvent(sampling.sample_rate, step)
        accountant.compose(event, sampling.n_steps)
        own[group] = accountant.get_epsilon(1e-5)
    promises = {b.group: b.mean for b in release.bounds if b.kind == "promise"}
    assert promises == pytest.approx(own, abs=1e-6)
    by_age = [b.mean for b in released(tmp_path, "age").bounds if b.kind == "promise"]
    assert by_age == pytest.approx([own["f"]] * 2)  # everyone of them has at most that
    for bound in release.bounds:
        most = own["f"] if bound.kind == "promise" else own[bound.group]
        assert bound.nominal == pytest.approx(most)
        assert bound.mean <= own[bound.group] + 1e-9
    codes = tiny().dataset.attribute("sex").codes
    for place, group in enumerate(np.array(["f", "m"])[codes[:9]]):
        _, (row,) = person_receipts(tmp_path, str(10 + place))
        assert row.nominal == pytest.approx(own[group], abs=1e-6)
        assert (row.receipt <= row.nominal).all()
    assert release.training.mechanism == "group-clip"
    words = " ".join(pcer.audit(release).account)
    assert f"{own['f']:.3g} (f) and {own['m']:.3g} (m)" in words
    with pytest.raises(InputError, match="no attribute 'height'"):
        tiny(config=dataclasses.replace(CONFIG, rule="group-clip:height:m=0.6"))


def test_without_private_models_there_is_nothing_to_account(tmp_path):
    sweep = accounted(budgets=(math.inf,), seeds=(0, 1), attributes=("sex",))
    train(tmp_path, sweep)
    assert is_finished(sweep, tmp_path)
    index, rows = person_receipts(tmp_path, "10")
    assert index.has_models_without_privacy
    assert list(rows) == []
