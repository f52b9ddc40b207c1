"""The documentation site: built without a warning, complete, and readable without a network."""

import importlib
import importlib.util
import os
import pkgutil
import re
import subprocess
import sys
import zlib
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urldefrag

import pytest

import pcer
from tests.pages import ROOT

PICTURE = re.compile(r"!\[.*?\]\((?:docs/)?(.*?)\)")
PYTHON = re.compile(r"```python\n.*?```", re.DOTALL)


def test_the_first_page_has_the_lines_and_the_picture_of_the_readme():
    texts = [
        (ROOT / page).read_text(encoding="utf-8")
        for page in ("README.md", "docs/index.md")
    ]
    for pattern in (PYTHON, PICTURE):
        readme, first = (pattern.findall(text) for text in texts)
        assert readme[:1] == first
    beginnings = [text.replace("](docs/", "](").split("\n\n")[:2] for text in texts]
    assert beginnings[0] == beginnings[1]


def public_names() -> Iterator[str]:
    """Every name that pcer, its metrics and its rooms export, and methods of what it exports."""
    rooms = [room.name for room in pkgutil.iter_modules(pcer.__path__) if room.ispkg]
    for place in (
        "pcer",
        "pcer.metrics",
        *(f"pcer.{room}" for room in rooms if room != "cli"),
    ):
        module = importlib.import_module(place)
        own = [
            n
            for n, one in vars(module).items()
            if getattr(one, "__module__", "") == place
        ]
        names = getattr(module, "__all__", [name for name in own if name[0] != "_"])
        yield from (f"{place}.{name}" for name in names)
    for kind in (pcer.Audit, pcer.Changes, pcer.Outlook, pcer.Release):
        ours = [base for base in kind.__mro__ if base.__module__.startswith("pcer.")]
        methods = {n for base in ours for n, one in vars(base).items() if callable(one)}
        yield from (
            f"pcer.{kind.__name__}.{n}"
            for n in methods
            if n[0] != "_" and n != "drawings"
        )


class Page(HTMLParser):
    """The elements of a page, each with its attributes."""

    def __init__(self, path: Path) -> None:
        super().__init__()
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.feed(path.read_text(encoding="utf-8"))

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Note it."""
        self.elements.append((tag, dict(attrs)))

    def values(self, *names: str) -> set[str]:
        """What stands in attributes of these names."""
        return {
            found[name] or ""
            for _, found in self.elements
            for name in names
            if name in found
        }


def check_links(site: Path) -> None:
    """Every address of every page is a file here, with the anchor that it names."""
    found = (path for path in site.rglob("*.html") if "_static" not in path.parts)
    pages = {path: Page(path) for path in found}
    for path, page in pages.items():
        loaded = {
            found.get("src") or "" for tag, found in page.elements if tag == "script"
        }
        assert not [one for one in loaded if "//" in one], (path, loaded)
        for link in page.values("href", "src"):
            if re.match(r"[a-z]+:|#$|$", link):
                continue
            address, anchor = urldefrag(unquote(link.split("?")[0]))
            target = (path.parent / address).resolve() if address else path
            assert target.exists(), (path, link)
            if anchor and target.suffix == ".html":
                assert anchor in pages[target].values("id", "name"), (path, link)


def n_words(site: Path) -> Iterator[tuple[str, int]]:
    """Every page of the site, and how many words it has."""
    for path in sorted(site.rglob("*.html")):
        article = re.search(
            "<article.*?</article>", path.read_text(encoding="utf-8"), re.DOTALL
        )
        if article:
            yield (
                path.relative_to(site).as_posix(),
                len(re.sub("<[^>]*>", "", article[0]).split()),
            )


@pytest.mark.slow
def test_the_site_is_built_without_a_warning_and_is_complete(tmp_path):
    if importlib.util.find_spec("myst_nb") is None:
        assert "PCER_CI" not in os.environ, (
            "CI must build the site, but there is no myst_nb"
        )
        pytest.skip("there is no myst_nb")
    site = tmp_path / "html"
    recipe = re.search(
        r"-m (sphinx .*) docs/_build/html\n", (ROOT / "Makefile").read_text()
    )[1]
    command = [
        sys.executable,
        "-m",
        *recipe.split(),
        "-d",
        str(tmp_path / "trees"),
        str(site),
    ]
    done = subprocess.run(
        command, cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    stored = (site / "objects.inv").read_bytes().split(b"\n", 4)[4]
    known = {line.split()[0] for line in zlib.decompress(stored).decode().splitlines()}
    assert [name for name in public_names() if name not in known] == []
    commands = (site / "docs/generated/commands.html").read_text(encoding="utf-8")
    assert re.findall(r'<section id="pcer-(audit|train|verify|reproduce)">', commands)
    assert "double_disadvantage" in (site / "searchindex.js").read_text(
        encoding="utf-8"
    )
    gallery = Page(site / "docs/generated/gallery.html")
    reports = {path.name for path in (site / "reports").glob("*.html")}
    assert (
        {*map(os.path.basename, gallery.values("href"))} >= reports >= {"forest.html"}
    )
    for page in (*ROOT.glob("docs/*.md"), *ROOT.glob("docs/notebooks/*.ipynb")):
        assert (site / page.relative_to(ROOT)).with_suffix(".html").exists()
    check_links(site)
    long = {path: n for path, n in n_words(site) if n > 2_500}
    assert (long, (site / "studies/docs/study.html").exists()) == ({}, True)
    first = (site / "docs/index.html").read_text(encoding="utf-8")
    assert re.search(r'href="[^"]*_downloads/\w+/findings\.md"', first)
