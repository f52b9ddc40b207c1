"""Four settings to choose among, as one release: accuracies, exposures and noise."""

import numpy as np

from pcer.release.file import Release, parse_release

N = 2_400  # people of a group, by the records of its exposures
TESTED = 300
SPLITS = 10
STEPS = {"sample_rate": 1 / 17, "n_steps": 425}
TRAINING = {"dp_delta": 1e-5, "trainings": dict.fromkeys("abcd", STEPS)}
# By model: epsilon, noise, accuracy of 300 in every split, and its spread; exposures
# with errors.
GRID = {
    "a": (5.0, 3.0, 240, 6, (0.010, 0.012), 0.004),
    "b": (1.0, 4.7, 240, 6, (0.002, 0.005), 0.004),
    "c": (10.0, 2.5, 246, 3, (0.050, 0.045), 0.004),
    "d": (5.0, 3.0, 220, 3, (0.024, 0.016), 0.004),
}


def tree(groups=("men", "women"), **changes) -> dict:
    """Settings whose splits vary around their accuracy; exposures by two attacks."""
    runs = []
    rows = []
    rng = np.random.default_rng(4)
    luck = rng.permutation(np.arange(SPLITS) - (SPLITS - 1) / 2)
    for model, (epsilon, noise, right, spread, exposures, error) in (
        GRID | changes
    ).items():
        key = {"model": model, "epsilon": epsilon}
        for split in range(SPLITS):
            n_right = round(right + spread * luck[split] / 3 + rng.normal())
            test = {"accuracy": n_right / TESTED, "positive_rate": 0.5, "n": TESTED}
            train = {"accuracy": (7 * n_right + 20) / (7 * TESTED), "n": 7 * TESTED}
            tables = {name: {"train": train, "test": test} for name in groups}
            own = {"seed": split, "split": f"s{split}", "noise_multiplier": noise}
            runs.append({**key, **own, "groups": tables})
        for name, exposure in zip(groups, exposures, strict=True):
            for attack, share in (("rmia_advantage", 1.0), ("paired_confidence", 0.5)):
                numbers = {
                    "value": share * exposure,
                    "standard_error": error,
                    "n_records": N,
                }
                rows.append({**key, "group": name, "attack": attack, **numbers})
    return {
        "format": "pcer-release",
        "version": 4,
        "subject": {
            "dataset": "d",
            "attribute": "sex",
            "groups": [*groups],
            "outcome": "benefit",
        },
        "training": {
            "split_kind": "random",
            "stratified_by": "both",
            "joint_privacy": TRAINING,
        },
        "runs": runs,
        "pooled_exposure": rows,
    }


def released(made: dict | None = None) -> Release:
    return parse_release(made or tree(), file="made")
