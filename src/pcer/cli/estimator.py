"""``pcer train --estimator``: any scikit-learn estimator on a benchmark or a person's own table."""

from __future__ import annotations

import ast
import hashlib
import hmac
import os
import shutil
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from pcer.cli.parts import display, require_packages
from pcer.cli.tables import file_name, own_secret
from pcer.errors import InputError
from pcer.files import make_folder, write_files
from pcer.models import object_named
from pcer.store import read_secret

if TYPE_CHECKING:
    from pcer.data import GroupedDataset
    from pcer.release import Release

EXAMPLE = "sklearn.ensemble:RandomForestClassifier"
NEEDED = ("joblib", "pooch", "pyarrow", "sklearn")
NETWORKS_ONLY = {
    "epochs": "--epochs",
    "expected_batch": "--batch",
    "learning_rate": "--learning-rate",
    "clip_norm": "--clip-norm",
    "hidden": "--hidden",
    "dp_delta": "--dp-delta",
    "accountant": "--accountant",
    "adjacency": "--adjacency",
    "sample_rate": "--sample-rate",
    "n_steps": "--n-steps",
    "divisor": "--divisor",
    "receipts": "--receipts",
    "refresh_every": "--refresh-every",
    "budget_per_person": "--budget-per-person",
    "device": "--device",
    "block_size": "--block-size",
    "engine": "--engine",
    "address": "--address",
}
"""Options that an estimator has no use for."""


def train_estimator(
    said: Mapping[str, Any], load: Callable[[str, Mapping[str, Any]], GroupedDataset]
) -> list[Path]:
    """Fit what is missing and write one release per attribute.

    Args:
        said: the options of ``pcer train``.
        load: gives the dataset that they name.
    """
    require_packages(NEEDED)
    _require_fitting(said)
    estimator = estimator_named(said["estimator"], said["settings"] or [])
    dataset, out = load(said["source"], said), said["out"]
    for name in said["attributes"]:
        dataset.attribute(name)
    paths = {name: out / file_name(dataset.name, name) for name in said["attributes"]}
    work = out / f"{Path(file_name(dataset.name, 'scores')).stem.removesuffix('.release')}"
    if not work.exists():
        for path in filter(Path.exists, paths.values()):
            raise InputError(f"{path} is there already; remove it, or choose another folder.")
    make_folder(out, parents=True)
    made = _releases(said, dataset, estimator, work)
    write_files({paths[name]: one.to_json() for name, one in made.items()})
    if not said["keep_scores"]:
        shutil.rmtree(work)
    return list(paths.values())


def estimator_named(name: str, settings: Sequence[str]) -> Any:
    """The estimator that ``package.module:Name`` makes of the settings, each ``name=value``.

    >>> estimator_named("sklearn.tree:DecisionTreeClassifier", ["max_depth=3", "criterion=entropy"])
    DecisionTreeClassifier(criterion='entropy', max_depth=3)
    """
    try:
        make = object_named(name, folder=Path.cwd(), example=EXAMPLE)
    except InputError as error:
        raise InputError(f"--estimator: {error}") from error
    chosen = settings_given(settings, example="n_estimators=200")
    try:
        return make(**chosen)
    except (TypeError, ValueError) as error:
        what = name.partition(":")[2]
        raise InputError(f"--estimator: {what} does not take this: {error}.") from None


def settings_given(texts: Sequence[str], *, example: str) -> dict[str, Any]:
    """What ``--set`` says, each ``name=value``; a value that is no number or the like is a text.

    >>> settings_given(["depth=3", "weights=balanced", "warm=True"], example="depth=3")
    {'depth': 3, 'weights': 'balanced', 'warm': True}
    """
    return dict(_setting(text, example) for text in texts)


def _setting(text: str, example: str) -> tuple[str, Any]:
    name, sign, value = text.partition("=")
    if not sign or not name.isidentifier():
        raise InputError(f"--set must be name=value, such as {example}, not {text!r}.")
    try:
        return name, ast.literal_eval(value)
    except (ValueError, SyntaxError):
        return name, value


def _require_fitting(said: Mapping[str, Any]) -> None:
    for name, option in NETWORKS_ONLY.items():
        if said[name] is not None:
            raise InputError(
                f"{option} is about pcer's own networks; with --estimator give its settings with "
                "--set, and leave this out."
            )


def _releases(
    said: Mapping[str, Any], dataset: GroupedDataset, estimator: Any, work: Path
) -> dict[str, Release]:
    """Fits are made once, for the first attribute; the others find them."""
    from sklearn.impute import SimpleImputer
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    from pcer.models import release_from_estimator

    secret = _secret(said, dataset)
    filled = SimpleImputer(keep_empty_features=True)
    with display("models", kept_in=said["out"]) as shown:
        return {
            name: release_from_estimator(
                make_pipeline(filled, StandardScaler(), estimator),
                np.array(dataset.features),
                np.array(dataset.labels),
                sensitive_features={name: _groups(dataset, name)},
                groups=dataset.attribute(name).group_names,
                n_splits=said["seeds"],
                outcome=dataset.outcome,
                positive_label=1,
                random_state=_random_state(secret),
                n_jobs=said["jobs"] or os.cpu_count(),
                store=work,
                progress=_tell(shown, dataset.name),
                dataset=dataset.name,
                notes=dataset.notes,
                public_data=dataset.public,
                least_people=said["least_people"],
                small_groups=said["small_groups"],
                certain_cells=said["certain_cells"],
                secret=secret,
            )
            for name in said["attributes"]
        }


def _groups(dataset: GroupedDataset, name: str) -> Any:
    """The name of each record's group; None where it is not known."""
    attribute = dataset.attribute(name)
    return np.array([*attribute.group_names, None], dtype=object)[attribute.codes]


def _secret(said: Mapping[str, Any], dataset: GroupedDataset) -> bytes:
    """What splits and digests of private records depend on: as given, or the user's own."""
    if said["secret_file"] is not None:
        return read_secret(said["secret_file"])
    return b"" if dataset.public else own_secret()


def _random_state(secret: bytes) -> int:
    """0 without a secret; else a number that nobody can guess who does not have it."""
    if not secret:
        return 0
    return int.from_bytes(hmac.new(secret, b"pcer splits", hashlib.sha256).digest()[:8], "little")


def _tell(shown: Any, name: str) -> Callable[[int, int], None]:
    found: list[int] = []

    def tell(done: int, total: int) -> None:
        found.append(done)
        before = found[0] if found[0] < total else 0
        doing = "fitting" if done < total else "attacking and counting"
        work = (done - before) / (total - before)
        shown.tell(doing, name, done=done, total=total, found=before, work=work)

    return tell
