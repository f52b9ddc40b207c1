"""How are a study's pages written?

``python -m pcer_studies studies/paper studies/docs`` reads the study in the first
folder and writes claims and findings into the second. ``pcer reproduce`` writes the
tables.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path

from pcer.cli.outputs import working
from pcer.errors import InputError, PcerError
from pcer.files import make_folder, write_files
from pcer_studies.claims.charts import FIGURES
from pcer_studies.claims.findings import write_findings
from pcer_studies.claims.ledger import COMMAND, write_claims
from pcer_studies.results import Study


def study_pages(study: Study) -> dict[str, str | bytes]:
    """``claims.md``, ``findings.md`` and its figures, by path.

    The same study gives the same bytes.
    """
    findings, figures = write_findings(study)
    pages: dict[str, str | bytes] = {
        "claims.md": write_claims(study),
        "findings.md": findings,
    }
    for name, drawn in figures.items():
        pages[f"{FIGURES}/{name}"] = drawn
    return pages


def main(arguments: Sequence[str]) -> int:
    """Write the pages of a study: from the first folder into the second.

    Returns:
        The exit code.
    """
    try:
        if len(arguments) != 2:
            raise InputError(
                f"name the study's folder and where to write, as in {COMMAND}."
            )
        source, target = map(Path, arguments)
        with working("Auditing by every attack and judging every claim"):
            pages = study_pages(Study.read(source))
        make_folder(target)
        make_folder(target / FIGURES)
        write_files({target / name: content for name, content in pages.items()})
    except PcerError as error:
        sys.stderr.write(f"{error}\n")
        return 2
    sys.stdout.write("".join(f"wrote {target / name}\n" for name in pages))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
