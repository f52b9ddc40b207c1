"""Build the example releases: two scikit-learn models on COMPAS, 20 random splits each.

The logistic regression is released as auditors often get it, predictions counted and
nothing else. The forest is fitted by pcer, with every attack that its splits allow. The
releases hold statistics only, no records. Run it with ProPublica's file (the copy
without identities):

    python examples/build_releases.py compas-scores-two-years.csv.gz
"""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pandas as pd
from sklearn.ensemble import RandomForestClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import train_test_split
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import pcer

FEATURES = ["age", "priors_count", "juv_fel_count", "juv_misd_count", "juv_other_count"]
N_SPLITS = 20
ABOUT = {
    "groups": ["Other", "African-American"],
    "people": "defendants",
    "positive_means": "are predicted to be charged again",
    "notes": [
        "A positive prediction is two-year recidivism; ProPublica's 6,172 records."
    ],
}
PUBLIC = pcer.Disclosure(public_data=True)


def load(path: str) -> tuple[pd.DataFrame, pd.Series, pd.Series]:
    rows = pd.read_csv(path)
    kept = rows[
        rows.days_b_screening_arrest.between(-30, 30)
        & (rows.is_recid != -1)
        & (rows.c_charge_degree != "O")
        & (rows.score_text != "N/A")
    ].reset_index(drop=True)
    features = kept[FEATURES].assign(felony=kept.c_charge_degree == "F").astype(float)
    race = kept.race.where(kept.race == "African-American", "Other").rename("race")
    return features, kept.two_year_recid, race


def counted(features: pd.DataFrame, label: pd.Series, race: pd.Series) -> pcer.Release:
    """A logistic regression, of which only the predictions are known."""
    tables = [predictions(features, label, seed) for seed in range(N_SPLITS)]
    table = pd.concat(tables, ignore_index=True)
    release = pcer.release_from_predictions(
        label.iloc[table.record].to_numpy(),
        table.guess,
        sensitive_features=race.iloc[table.record].reset_index(drop=True),
        split=table.split,
        split_kind="random",
        outcome="harm",
        seed=table.seed,
        split_id=table.seed,
        about=pcer.About(dataset="COMPAS, logistic", **ABOUT),
        disclosure=PUBLIC,
    )
    # What predictions do not tell of the training.
    known = {"mechanism": "none", "stratified_by": "label"}
    training = release.training.model_copy(update=known)
    return release.model_copy(update={"training": training})


def predictions(features: pd.DataFrame, label: pd.Series, seed: int) -> pd.DataFrame:
    ids = np.arange(len(label))
    train, _ = train_test_split(ids, train_size=0.7, stratify=label, random_state=seed)
    model = make_pipeline(StandardScaler(), LogisticRegression())
    model.fit(features.iloc[train], label.iloc[train])
    split = np.where(np.isin(ids, train), "train", "test")
    columns = {
        "record": ids,
        "seed": seed,
        "split": split,
        "guess": model.predict(features),
    }
    return pd.DataFrame(columns)


def main(path: str) -> None:
    features, label, race = load(path)
    forest = RandomForestClassifier(n_estimators=100, min_samples_leaf=3)
    releases = {
        "logistic": counted(features, label, race),
        "forest": pcer.release_from_estimator(
            forest,
            features,
            label,
            sensitive_features=race,
            outcome="harm",
            about=pcer.About(dataset="COMPAS, forest", **ABOUT),
            disclosure=PUBLIC,
        ),
    }
    for name, release in releases.items():
        pcer.write_release(
            release, Path(__file__).parent / f"compas-{name}.release.json"
        )


if __name__ == "__main__":
    main(*sys.argv[1:])
