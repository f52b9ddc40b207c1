"""A call in a process of its own, which a test may kill."""

from __future__ import annotations

import sys
from pathlib import Path

from tests.models.worlds import Slow, release


def main(store: str, n_jobs: str, backend: str = "") -> None:
    """Fit, and print the release's digest."""
    if backend:
        import joblib
        from ray.util.joblib import register_ray

        register_ray()
        with joblib.parallel_config(backend, n_jobs=int(n_jobs)):
            made = release(Slow(), n_splits=8, store=store)
    else:
        made = release(Slow(), n_splits=8, n_jobs=int(n_jobs), store=store)
    Path(store, "digest").write_text(made.sha256)


if __name__ == "__main__":
    main(*sys.argv[1:])
