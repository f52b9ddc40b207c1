"""The documentation site: ``make docs`` builds it into ``docs/_build/html``.

The source folder is the whole repository, so that relative links lead to the same files here as
in a clone. What is not written by hand is made anew by ``generate.py`` for every build.
"""

import sys
from pathlib import Path

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE))
import generate  # noqa: E402 (found beside this file)

project, author = "pcer", "The pcer developers"
copyright = f"{author}, Apache-2.0"
version = release = generate.pcer.__version__
root_doc = "docs/index"
include_patterns = [
    *(
        "README.md",
        "SECURITY.md",
        "CONTRIBUTING.md",
        "CHANGELOG.md",
        "benchmarks/README.md",
    ),
    *("docs/*.md", "docs/notebooks/*.ipynb", "docs/generated/**"),
    # The study's long tables are no pages: ``generate.link_files`` lets links lead to the files.
    *("studies/README.md", "studies/docs/[!cf]*.md", "studies/paper/README.md"),
]
exclude_patterns = [
    ".*",
    "src",
    "tests",
    "docs/_build",
    "dist",
    "build",
    "**/__pycache__",
]
extensions = ["myst_nb", "sphinx.ext.autodoc", "sphinx.ext.napoleon"]

# Notebooks are shown as they were executed; tests/test_pages.py runs them.
nb_execution_mode = "off"
myst_heading_anchors = 4  # as GitHub has them, so that links into pages work in both
myst_enable_extensions = ["deflist"]  # for the options of commands
smartquotes = False  # two hyphens are an option's

napoleon_use_ivar = True
autodoc_member_order = "bysource"
autodoc_typehints_format = "short"
autodoc_preserve_defaults = True
python_maximum_signature_line_length = 88
add_module_names = False

html_theme = "pydata_sphinx_theme"
html_title = f"pcer {version}"
html_static_path = ["_static"]
html_css_files = ["pcer.css"]
html_additional_pages = {"index": "index.html"}  # leads to the first page
templates_path = ["_templates"]
html_show_sourcelink = False
html_copy_source = False
html_theme_options = {
    "logo": {"text": "pcer"},
    "footer_start": ["copyright"],
    "footer_end": ["sphinx-version"],
    "secondary_sidebar_items": ["page-toc"],
    "show_prev_next": False,
    "use_edit_page_button": False,
}


def signature(
    app: object, what: str, name: str, thing: object, *given: object
) -> object:
    """Records are made of files, or by the arguments that their docstring lists."""
    return ("", None) if hasattr(thing, "model_fields") else None


def setup(app: object) -> None:
    """Write the generated pages before Sphinx looks for pages, the reports after all else."""
    generate.write_pages(HERE / "generated")
    app.connect("source-read", generate.link_files)
    app.connect("autodoc-process-signature", signature)
    app.connect("autodoc-process-docstring", generate.as_restructured)
    app.connect(
        "build-finished", lambda app, error: error or generate.write_reports(app.outdir)
    )
