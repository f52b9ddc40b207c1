"""Sweeps whose truth is known: scores of S models on shared records, split 70/30 within labels."""

import numpy as np


def splits(labels, n_models, rng, *, share=0.7):
    """(model, record) membership: a fixed number of each label trains, drawn anew per model."""
    member = np.zeros((n_models, len(labels)), dtype=bool)
    for row in member:
        for label in np.unique(labels):
            rows = np.flatnonzero(labels == label)
            row[rng.permutation(rows)[: round(share * len(rows))]] = True
    return member


def scaled_logits(member, rng, *, shift, labels=None, wander=0.5):
    """Log odds of the true label: a record's own level, a model's mood per label, noise, memory.

    ``shift`` is what training on a record adds, in standard deviations of the noise;
    ``wander`` the spread of the mood, which all records of a label share within a
    model.
    """
    n_models, n_records = member.shape
    labels = np.zeros(n_records, dtype=int) if labels is None else labels
    level = rng.normal(0.5, 1.5, n_records)
    mood = rng.normal(0, wander, (n_models, 2))[:, labels]
    return level + mood + rng.normal(size=member.shape) + shift * member
