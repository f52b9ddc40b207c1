"""Pages of the site that nobody writes: sections, Python reference, commands, gallery, reports."""

import ast
import importlib
import inspect
import os
import pkgutil
import re
import shutil
from collections.abc import Iterator
from contextlib import redirect_stdout
from enum import Enum
from io import StringIO
from pathlib import Path
from types import ModuleType

import typer

import pcer
from pcer.cli.app import app as command_line

ROOT = Path(__file__).resolve().parents[1]
STUDY = sorted((ROOT / "studies" / "paper").glob("*.release.json"))
# By report: its release files, its picture in docs/images, and what it is.
GALLERY = {
    "forest": (
        [ROOT / "examples" / "compas-forest.release.json"],
        "forest.png",
        "A random forest on COMPAS: one group is easier to spot and worse served.",
    ),
    "logistic": (
        [ROOT / "examples" / "compas-logistic.release.json"],
        "logistic-dark.png",
        "A logistic regression on COMPAS, of which only predictions are known.",
    ),
    "bios": (
        [path for path in STUDY if path.name.startswith("bios")],
        "sweep.png",
        "Networks on Bias in Bios, from ε = 0.1 to training without privacy.",
    ),
    "study": (
        STUDY,
        "study.png",
        "The whole study: eight releases, both answers of each.",
    ),
}
# By section: its title, and the pages under it in order, as patterns from the repository's root.
SECTIONS = {
    "guide": (
        "Guide",
        [
            *(
                "docs/models.md",
                "docs/datasets.md",
                "docs/opacus.md",
                "docs/training.md",
            ),
            *(
                "docs/receipts.md",
                "docs/reports.md",
                "docs/compare.md",
                "docs/choosing.md",
            ),
            *(
                "docs/large-models.md",
                "docs/integrations.md",
                "docs/method.md",
                "docs/attacks.md",
            ),
            *("docs/placebo.md", "docs/security.md", "docs/format.md", "docs/*.md"),
        ],
    ),
    "notebooks": ("Notebooks", ["docs/notebooks/*.ipynb"]),
    "reference": (
        "Reference",
        ["docs/generated/commands.md", "docs/generated/api/*.rst"],
    ),
    "study": (
        "The paper's study",
        ["studies/docs/[!cf]*.md", "studies/README.md", "studies/paper/README.md"],
    ),
    "project": ("Project", ["*.md", "benchmarks/*.md"]),
}
STOP_AT = "BaseModel, Exception, object, str, tuple, dict"
"""Classes of others, whose methods are not shown as ours."""


def write_pages(folder: Path) -> None:
    """Write every generated page below a folder that holds nothing else."""
    shutil.rmtree(folder, ignore_errors=True)
    (folder / "api" / "pcer").mkdir(parents=True)
    pages = {
        f"api/{module.__name__}.rst": module_page(module) for module in public_modules()
    }
    pages |= {f"api/pcer/{name}.rst": text for name, text in name_pages(pcer).items()}
    pages |= {"commands.md": commands_page(), "gallery.rst": gallery_page()}
    for name, text in pages.items():
        (folder / name).write_text(text, encoding="utf-8")
    for name in SECTIONS:  # last: they list the others
        (folder / f"{name}.rst").write_text(section(*SECTIONS[name]), encoding="utf-8")


def write_reports(folder: str | os.PathLike[str]) -> None:
    """Audit the releases of the gallery and write their reports into the site."""
    from pcer.report import to_report

    place = Path(folder) / "reports"
    place.mkdir(exist_ok=True)
    for name, (paths, _, _) in GALLERY.items():
        releases = [pcer.read_release(path) for path in paths]
        (place / f"{name}.html").write_text(
            to_report(pcer.audit(releases), releases), "utf-8"
        )


def titled(title: str, *blocks: str) -> str:
    """A page of reStructuredText."""
    return "\n\n".join([f"{title}\n{'=' * len(title)}", *blocks]) + "\n"


def section(title: str, patterns: list[str]) -> str:
    """A page that lists others; a page that somebody adds appears without an edit."""
    found = [
        path
        for one in patterns
        for path in sorted(ROOT.glob(one), key=lambda p: p.stem)
    ]
    once = dict.fromkeys(path for path in found if path.stem != "index")
    pages = [path.relative_to(ROOT).with_suffix("") for path in once]
    lines = [
        ".. toctree::",
        "   :maxdepth: 1",
        "",
        *(f"   /{page.as_posix()}" for page in pages),
    ]
    return titled(title, "\n".join(lines))


def link_files(app: object, page: str, source: list[str]) -> None:
    """Let links to tables that programs write, which are no pages here, lead to the files."""
    tables = r"\]\((?=[^)\s]*(?:claims|findings|paper/sensitivity|paper/tables)\.md\))"
    source[0] = re.sub(tables, "](path:", source[0])


# Python: what pcer and the fronts of its rooms export.


def public_modules() -> list[ModuleType]:
    """The package, every room that exports something, and the modules that these export."""
    rooms = [one.name for one in pkgutil.iter_modules(pcer.__path__) if one.ispkg]
    names = ["pcer", *(f"pcer.{room}" for room in rooms if room != "cli")]
    fronts = [one for one in map(importlib.import_module, names) if public_names(one)]
    exported = [
        getattr(front, name) for front in fronts for name in public_names(front)
    ]
    return [*fronts, *(one for one in exported if isinstance(one, ModuleType))]


def public_names(module: ModuleType) -> list[str]:
    """What a module exports; without ``__all__`` the functions and classes that it defines."""
    own = (
        n
        for n, one in vars(module).items()
        if getattr(one, "__module__", "") == module.__name__
    )
    return list(
        getattr(module, "__all__", (name for name in own if not name.startswith("_")))
    )


def homes() -> dict[str, str]:
    """By every public name in full, the name under which the same thing is described."""
    first: dict[int, str] = {}
    full = {
        f"{module.__name__}.{name}": getattr(module, name)
        for module in public_modules()
        for name in public_names(module)
    }
    described = {
        name: one for name, one in full.items() if not isinstance(one, ModuleType)
    }
    return {name: first.setdefault(id(one), name) for name, one in described.items()}


def module_page(module: ModuleType) -> str:
    """A module's docstring and its entries; those of the package have pages of their own."""
    name, shown = module.__name__, entries(module).values()
    if module is pcer:
        pages = "".join(f"\n   pcer/{one}" for one in name_pages(module))
        shown = [f".. toctree::\n   :maxdepth: 1\n{pages}"]
    return titled(name, f".. automodule:: {name}\n   :no-members:", *shown)


def name_pages(module: ModuleType) -> dict[str, str]:
    """A page for every public name; two that differ in capitals share one, as files may have to."""
    found, pages = entries(module), {}
    for name in found:
        pages.setdefault(name.lower(), []).append(name)
    return {
        page: titled(", ".join(n), *(found[one] for one in n))
        for page, n in pages.items()
    }


def entries(module: ModuleType) -> dict[str, str]:
    """The directive for each public name of a module."""
    places, place = homes(), module.__name__
    whole = {name: f"{place}.{name}" for name in public_names(module)}
    return {
        n: entry(module, one, places[one]) for n, one in whole.items() if one in places
    }


def entry(module: ModuleType, whole: str, home: str) -> str:
    """The directive for one name; a thing with two names is described under the first."""
    place, _, name = whole.rpartition(".")
    thing = getattr(module, name)
    if home != whole:
        return f".. py:data:: {name}\n   :module: {place}\n\n   The same as :py:obj:`{home}`."
    if inspect.isclass(thing) and issubclass(thing, Enum):
        return f".. autoclass:: {whole}\n   :members:\n   :undoc-members:"
    if inspect.isclass(thing):
        return f".. autoclass:: {whole}\n   :members:\n   :inherited-members: {STOP_AT}"
    if callable(thing):
        return f".. autofunction:: {whole}"
    head = f".. py:data:: {name}\n   :module: {place}\n   :value: {shown(thing)}"
    return f"{head}\n\n   {comment_on(module, name)}"


def shown(thing: object) -> str:
    """A constant in one line; what is long is left out."""
    text = repr(thing)
    return text if len(text) <= 80 and " at 0x" not in text else "..."


def comment_on(module: ModuleType, name: str) -> str:
    """The string below a constant, wherever in the room it is defined."""
    for path in sorted(Path(str(module.__file__)).parent.glob("*.py")):
        body = ast.parse(path.read_text(encoding="utf-8")).body
        for node, after in zip(body, [*body[1:], None], strict=True):
            targets = getattr(node, "targets", [getattr(node, "target", None)])
            if any(isinstance(one, ast.Name) and one.id == name for one in targets):
                value = getattr(after, "value", None)
                if isinstance(value, ast.Constant) and isinstance(value.value, str):
                    return inspect.cleandoc(value.value).replace("\n", "\n   ")
    return ""


def as_restructured(
    app: object, what: str, name: str, thing: object, how: object, lines: list[str]
) -> None:
    """Docstrings have tables as Markdown does; elsewhere a bar is a bar."""
    found: list[str] = []
    for line in lines:
        cells = [cell.strip() for cell in line.strip().strip("|").split("|")]
        if line.startswith(":vartype"):  # numpy.str_ is a type, and no link
            found.append(re.sub(r"(?<=\w)_(?!\w)", r"\\_", line).replace("|", r"\|"))
        elif not re.match(r"\s*\|.*\|\s*$", line):
            found.append(line.replace("|", r"\|"))
        elif set("".join(cells)) <= set("-: "):
            continue
        else:
            if not found or not found[-1].startswith("   "):
                found += [".. list-table::", "   :header-rows: 1", ""]
            found += [
                f"   {' ' if number else '*'} - {cell}"
                for number, cell in enumerate(cells)
            ]
    lines[:] = found


# The command line.


def commands_page() -> str:
    """Every verb with its arguments and options, as its help has them."""
    group = typer.main.get_command(command_line)
    context = typer.Context(group, info_name="pcer")
    verbs = [group.get_command(context, name) for name in group.list_commands(context)]
    parts = [part for verb in verbs for part in verb_section(verb, context)]
    return "\n\n".join(["# Commands", plain(group.help), *parts]) + "\n"


def verb_section(verb: typer.core.TyperCommand, parent: typer.Context) -> Iterator[str]:
    """One verb: what it does, how it is called, what it takes."""
    context = typer.Context(verb, info_name=verb.name, parent=parent)
    with redirect_stdout(StringIO()):
        verb.get_help(
            context
        )  # looks up defaults that are slow to import; rich prints it
    yield f"## pcer {verb.name}"
    yield plain(verb.help)
    usage = " ".join([context.command_path, *verb.collect_usage_pieces(context)])
    example = (verb.epilog or "").removeprefix("Example: ")
    yield "\n".join(["```text", usage, *([example] if example else []), "```"])
    for one in verb.get_params(context):
        record = one.get_help_record(context)
        if record:
            yield f"`{record[0]}`\n: {plain(record[1])}"  # a definition list


def plain(text: str | None) -> str:
    """Text of a help page as Markdown: nothing in it is mark-up."""
    joined = " ".join((text or "").replace("\\[", "[").split())
    return re.sub(r"([\\*_<>|`$#])", r"\\\1", joined)


# The gallery.


def gallery_page() -> str:
    """A picture of every report, which opens it."""
    pictures = [
        f".. image:: ../images/{image}\n   :target: ../../reports/{name}.html\n   :alt: {words}\n"
        f"   :class: report\n\n`{words} <../../reports/{name}.html>`__"
        for name, (_, image, words) in GALLERY.items()
    ]
    lead = (
        "Reports as ``pcer audit RELEASE... --html report.html`` writes them. Open one:"
    )
    return titled("Gallery", lead, *pictures)
