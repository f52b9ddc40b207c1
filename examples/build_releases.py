"""Build the example releases: two scikit-learn models on COMPAS, 20 random splits each.

The releases hold counts only, no records. Run it with the folder that holds ProPublica's file
(the copy without identities):

    python examples/build_releases.py ../shared/data/compas-scores-two-years.deidentified.csv.gz
"""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pandas as pd
import sklearn
from sklearn.ensemble import RandomForestClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import train_test_split
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import pcer
from pcer.release.format import Training

N_SEEDS = 20
FEATURES = ["age", "priors_count", "juv_fel_count", "juv_misd_count", "juv_other_count"]
MODELS = {
    "compas-logistic": lambda seed: make_pipeline(StandardScaler(), LogisticRegression()),
    "compas-forest": lambda seed: RandomForestClassifier(
        n_estimators=100, min_samples_leaf=3, random_state=seed, n_jobs=-1
    ),
}


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


def predict(features: pd.DataFrame, label: pd.Series, make_model, seed: int) -> pd.DataFrame:
    ids = np.arange(len(label))
    train, _ = train_test_split(ids, train_size=0.7, stratify=label, random_state=seed)
    model = make_model(seed).fit(features.iloc[train], label.iloc[train])
    split = np.full(len(label), "test", dtype=object)
    split[train] = "train"
    columns = {"record": ids, "seed": seed, "split": split, "guess": model.predict(features)}
    return pd.DataFrame(columns)


def main(path: str) -> None:
    features, label, race = load(path)
    for name, make_model in MODELS.items():
        tables = [predict(features, label, make_model, seed) for seed in range(N_SEEDS)]
        table = pd.concat(tables, ignore_index=True)
        config = {"model": name.removeprefix("compas-"), "scikit-learn": sklearn.__version__}
        release = pcer.release_from_predictions(
            label.iloc[table.record].to_numpy(),
            table.guess,
            sensitive_features=race.iloc[table.record].reset_index(drop=True),
            split=table.split,
            split_kind="random",
            dataset=f"COMPAS, {config['model']}",
            outcome="harm",
            groups=["Other", "African-American"],
            seed=table.seed,
            record_id=table.record,
            training=Training(mechanism="none", stratified_by="label", config=config),
            notes=["A positive prediction is two-year recidivism; ProPublica's 6,172 records."],
            public_data=True,
        )
        pcer.write_release(release, Path(__file__).parent / f"{name}.release.json")


if __name__ == "__main__":
    main(*sys.argv[1:])
