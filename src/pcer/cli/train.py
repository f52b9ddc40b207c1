"""How does a trainer ask? The verbs ``pcer train`` and ``pcer demo``.

``pcer train`` trains networks by a sweep (``pcer.sweep``), or modules of a user by
Opacus through the same sweep, or fits estimators (``pcer.models``). What every kind
needs is an option or a key of the run file; ``OF_NETWORKS`` and ``NOT_FOR_MODULES`` say
what is refused where it would be ignored. Called by ``cli.app``. To add an option: an
argument that is called like the field it fills.
"""

from __future__ import annotations

import inspect
import math
import os
import shutil
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import numpy as np
import typer

from pcer.cli import options as options_module
from pcer.cli import outputs as outputs_module
from pcer.cli.audit import audit_all, renderers
from pcer.cli.options import (
    Given,
    Texts,
    TrainKeys,
    from_options,
    optional,
    spelling,
)
from pcer.cli.release import (
    file_name,
    given_secret,
    load_data,
    note_leaving,
    note_not_written,
)
from pcer.errors import InputError
from pcer.files import as_shown, write_files
from pcer.measuring.plan import Plan
from pcer.metrics import DEFAULT_BUDGETS, DEFAULT_SEEDS, DEFAULT_SPLITS, NO_DP
from pcer.models import object_named
from pcer.models.updates import people_of_records
from pcer.release.attack_kinds import ATTACK_KINDS
from pcer.release.build import ReleaseFacts
from pcer.release.disclosure import LEAST_PEOPLE, Disclosure
from pcer.release.file import LIMITS, Release, read_release, read_releases
from pcer.release.population import Attribute, Missing, recorded
from pcer.release.records import LONGEST_PHRASE, Outcome
from pcer.release.small_groups import require_no_others
from pcer.release.updates import Updates
from pcer.report.views import view_of
from pcer.store.secret import (
    new_secret,
    read_secret,
    secret_name,
    secret_path,
    state_folder,
)

if TYPE_CHECKING:
    from pcer.data import GroupedDataset, ProtectedAttribute
    from pcer.sweep import Sweep
    from pcer.sweep.sweep import Grid
    from pcer.train import EngineFlags, NamedModule, TrainConfig

BUDGETS = ",".join(
    "none" if epsilon == NO_DP else f"{epsilon:g}" for epsilon in DEFAULT_BUDGETS
)
SEEDS_HELP = (
    f"Splits, and models per budget; default: {DEFAULT_SEEDS}, of an estimator "
    f"{DEFAULT_SPLITS}."
)
MOST_MODELS = 100_000  # of one sweep: all of them are listed in memory
VALUES_OF_A_TABLE = 50  # numbers, texts, lists and objects, with all attacks
FOR_ESTIMATORS = ("joblib", "pooch", "pyarrow", "sklearn")
# Settings that an estimator has no use for, with the value that does no harm.
OF_NETWORKS = {
    "budgets": BUDGETS,
    "epochs": None,
    "expected_batch": None,
    "clip_norm": None,
    "hidden": None,
    "receipts": None,
    "rule": None,
    "device": None,
    "block_size": None,
    "engine": None,
    "address": None,
    "grid": None,
    **dict.fromkeys(sorted({*TrainKeys.model_fields} - {"settings"})),
}
# Settings that a module has no use for, with the value that does no harm.
NOT_FOR_MODULES = {
    "engine": "local",
    "hidden": None,
    "receipts": None,
    "refresh_every": None,
    "budget_per_person": None,
    "block_size": None,
    "address": None,
}
ABOUT_SECRET = (
    "It is for noise, splits and digests. Keep it private: anyone who has it can "
    "remove the noise. It is needed to resume; delete it when done."
)
# Options by their part of the help page.
_model = partial(optional, rich_help_panel="What is trained")
_training = partial(optional, rich_help_panel="How networks are trained")
_run = partial(optional, rich_help_panel="The run")
_table = partial(optional, rich_help_panel="Your own table")


class _Asked(NamedTuple):
    """What the options of a sweep ask for, whatever its data."""

    flags: EngineFlags
    config: TrainConfig
    budgets: tuple[float, ...]
    seeds: tuple[int, ...]
    grid: Grid
    disclosure: Disclosure
    module: NamedModule | None


def train(
    source: str = typer.Argument(metavar="NAME|FILE", help="Dataset, or your table."),
    attributes: Texts = _run("Protected attribute; repeatable.", "--attribute"),
    out: Path = _run("Folder for the releases.", "--out", "-o", default=Path("out")),
    budgets: str = _model(
        "Epsilons; none: no privacy.", "--budgets", "--epsilon", default=BUDGETS
    ),
    seeds: int | None = _model(SEEDS_HELP, min=1),
    estimator: Given = _model("A scikit-learn estimator.", metavar="MODULE:NAME"),
    module: Given = _model(
        "A function that makes a torch module; trained by Opacus.",
        metavar="MODULE:NAME",
    ),
    epochs: int | None = _training("Passes over the data."),
    expected_batch: int | None = _training("Expected batch size.", "--batch"),
    clip_norm: float | None = _training("Largest norm of one gradient."),
    hidden: Given = _training("Units of hidden layers (64-32), or none."),
    rule: Given = _training("dp-sgd, held, group-clip:... or group-sample:..."),
    receipts: Literal["exact", "refreshed", "held"] | None = _training(
        "Account for what each person spends; held also changes training."
    ),
    grid: Texts = _training(
        "Vary settings: clip-norm=1,2,4; repeatable.", metavar="KEY=VALUES"
    ),
    device: Given = _training("cpu, cuda or cuda:N."),
    secret_file: Path | None = _run("Secret behind the noise; default: a new one."),
    config: Path | None = _run(
        "Other settings, as TOML: docs/training.md.", metavar="FILE"
    ),
    label: Given = _table("Column to predict."),
    positive: Given = _table("Its positive value; others are negative."),
    outcome: Outcome | None = _table(
        "Is a positive prediction good or bad for the person?"
    ),
    drop: Texts = _table("Column to leave out; repeatable."),
    people: Given = _table(**options_module.PEOPLE),
    positive_means: Given = _table(**options_module.POSITIVE_MEANS),
    group_names: Given = _table(**options_module.GROUP_NAMES),
    missing_group: Missing | None = _table(options_module.MISSING_HELP, "--missing"),
) -> None:
    """Train one model per privacy budget and seed. Interrupted runs resume."""
    file = options_module.read_config(config)
    arguments = {
        "source": source,
        "attributes": attributes,
        "out": out,
        "budgets": budgets,
        "seeds": seeds,
        "estimator": estimator,
        "module": module,
        "epochs": epochs,
        "expected_batch": expected_batch,
        "clip_norm": clip_norm,
        "hidden": hidden,
        "rule": rule,
        "receipts": receipts,
        "grid": grid,
        "device": device,
        "secret_file": secret_file,
        "config": config,
        "label": label,
        "positive": positive,
        "outcome": outcome,
        "drop": [*(file["drop"] or ()), *(drop or ())] or None,
        "people": people,
        "positive_means": positive_means,
        "group_names": group_names,
        "missing_group": missing_group,
    }
    for path in _trained({**file, **arguments}):
        outputs_module.say(f"wrote {path}")
        note_leaving(read_release(path, limits=None))
    if receipts:
        outputs_module.note(
            f"receipts, for their owner only: pcer receipt {out} --record ID", err=False
        )
    outputs_module.note(f"next: pcer audit {out}", err=False)


def demo(
    out: Path = optional(
        "Folder for the results.", "--out", "-o", default=Path("pcer-demo")
    ),
    seeds: int = optional(
        "Splits, and models per budget.", min=1, default=DEFAULT_SEEDS
    ),
) -> None:
    """Train networks on COMPAS with DP-SGD at six settings, and audit them."""
    options = dict.fromkeys(inspect.signature(train).parameters)
    options |= options_module.read_config(None)
    options |= {
        "source": "compas",
        "attributes": ["race"],
        "out": out,
        "budgets": BUDGETS,
        "seeds": seeds,
    }
    paths = _trained(options, verb="demo")
    audited = audit_all(paths, read_releases(paths), Plan())
    outputs = outputs_module.Outputs(
        json=str(out / "compas.audit.json"), html=str(out / "report.html")
    )
    outputs.write(renderers(audited))
    outputs_module.show(view_of(as_shown(audited.audits[0])))
    outputs_module.say(f"Release: {paths[0]}")
    outputs.print_places()


def _trained(options: Mapping[str, Any], *, verb: str = "train") -> list[Path]:
    """Releases of networks, or of the estimator or module that is named."""
    if options["estimator"] is not None and options["module"] is None:
        return _fitted(options)
    if options["settings"] and options["module"] is None:
        raise InputError(
            f"{spelling('settings', options)} needs an estimator or a module; name one "
            "with --estimator or --module."
        )
    options_module.require_packages(options_module.TRAINING)
    asked = _asked(options)
    dataset = load_data(options["source"], options)
    if verb == "demo":
        dataset = replace(dataset, trained=f"by the demo {dataset.trained}")
    updates = _updates(options, dataset)
    sweep = _sweep(options, asked, dataset)
    out = options["out"]
    n_models = sweep.n_models
    _note_if_large(dataset, sweep.attributes, n_models, n_models // len(sweep.seeds))
    from pcer.sweep import run_sweep

    with outputs_module.Display("models", kept_in=out) as state:
        state.tell(f"calibrating {dataset.name}", done=0, total=sweep.n_trained)
        paths = run_sweep(
            sweep,
            out,
            flags=asked.flags,
            keep_scores=bool(options["keep_scores"]),
            on_progress=state.counter(dataset.name),
            on_step=state.step(dataset.name),
            on_note=outputs_module.note,
        )
    updates.keep(paths)
    outputs_module.log_run(out, f"{verb} {dataset.name}", state, asked.flags)
    return list(paths.values())


def _note_if_large(
    dataset: GroupedDataset, attributes: Iterable[str], n_models: int, n_settings: int
) -> None:
    """Say, before the work, that auditors must allow such a release by name."""
    n_groups = max(len(dataset.attribute(name).group_names) for name in attributes)
    n_rows = n_settings * n_groups * len(ATTACK_KINDS)
    n_values = n_models * n_groups * VALUES_OF_A_TABLE
    if n_rows > LIMITS.n_rows or n_values > LIMITS.n_values:
        outputs_module.note(
            f"pcer: a release of {n_models:,} models and {n_groups} groups may be "
            "larger than what is read by default; its auditor will then need "
            "--allow-large."
        )


def _asked(options: Mapping[str, Any]) -> _Asked:
    """Check all options of a sweep that say nothing of its data."""
    from pcer.train import EngineFlags, TrainConfig, parse_budgets, parse_hidden
    from pcer.train.run import require_engine

    module = _module(options)
    disclosure = options_module.disclosure_rule(options)

    flags = from_options(EngineFlags, options)
    require_engine(flags)
    budgets = parse_budgets(options["budgets"])
    hidden = options["hidden"]
    if hidden is not None:
        hidden = parse_hidden(hidden)
    config = from_options(TrainConfig, {**options, "hidden": hidden})

    from pcer.sweep.sweep import parse_grid

    grid = parse_grid(options["grid"] or ())
    _require_given_once(grid, options)
    if grid and options["learning_rate"] is not None:
        grid["learning_rate"] = (options["learning_rate"],)  # of all models

    n_seeds = options["seeds"] or DEFAULT_SEEDS
    _require_few_models(len(budgets), n_seeds, grid)
    return _Asked(
        flags=flags,
        config=config,
        budgets=budgets,
        seeds=tuple(range(n_seeds)),
        grid=grid,
        disclosure=disclosure,
        module=module,
    )


def _require_given_once(grid: Grid, options: Mapping[str, Any]) -> None:
    """Raise InputError where an option gives what the grid varies."""
    for name in grid:
        if options.get(name) is not None:
            raise InputError(
                f"{spelling(name, options)} and --grid both give it; leave one out."
            )


def _require_few_models(n_budgets: int, n_seeds: int, grid: Grid) -> None:
    """Raise InputError where a sweep would have more models than memory holds."""
    n_models = math.prod([n_budgets, n_seeds, *map(len, grid.values())])
    if n_models > MOST_MODELS:
        product = "--budgets times --seeds"
        if grid:
            product += " times --grid"
        raise InputError(
            f"{product} make {n_models:,} models, more than the {MOST_MODELS:,} that "
            "one sweep holds; ask for fewer."
        )


def _sweep(options: Mapping[str, Any], asked: _Asked, dataset: GroupedDataset) -> Sweep:
    """The sweep of these data; the last that can be refused, as it makes a secret."""
    from pcer.sweep import Sweep

    return from_options(
        Sweep,
        options,
        dataset=dataset,
        budgets=asked.budgets,
        seeds=asked.seeds,
        config=asked.config,
        grid=asked.grid,
        disclosure=asked.disclosure,
        module=asked.module,
        secret=_secret(options, dataset),
    )


def _secret(options: Mapping[str, Any], dataset: GroupedDataset) -> bytes:
    """The secret behind noise, splits and digests.

    That of ``--secret-file``; else a new one, which is kept in the user's folder and
    found again by its name when the sweep resumes.
    """
    from pcer.sweep import begun_with

    if options["secret_file"] is not None:
        return read_secret(options["secret_file"])
    if dataset.public:
        return b""
    name = begun_with(options["out"], dataset, options["attributes"])
    if name is None:
        secret = new_secret()
        outputs_module.note(f"made a secret: {secret_path(secret_name(secret))}")
        outputs_module.note(ABOUT_SECRET, wraps=True)
        return secret
    if not secret_path(name).exists():
        raise InputError(
            f"{options['out']} was begun with a secret that is not in "
            f"{state_folder()}; name it with --secret-file, or choose another folder."
        )
    return read_secret(secret_path(name))


def _module(options: Mapping[str, Any]) -> NamedModule | None:
    """What makes the torch modules of ``--module``; None for pcer's own network."""
    if options["module"] is None:
        return None
    if options["estimator"] is not None:
        raise InputError(
            "--estimator and --module both say what to train; give one of them."
        )
    _refuse(
        NOT_FOR_MODULES,
        options,
        "not for modules: Opacus trains what --module makes, one after another on this "
        "machine; leave it out.",
    )
    from pcer.train import NamedModule

    return NamedModule(
        name=options["module"], folder=Path.cwd(), settings=_model_settings(options)
    )


def _refuse(harmless: Mapping[str, Any], options: Mapping[str, Any], why: str) -> None:
    """Raise InputError where an option would be ignored."""
    for name, value in harmless.items():
        if options[name] not in (None, value):
            raise InputError(f"{spelling(name, options)} is {why}")


def _model_settings(options: Mapping[str, Any]) -> dict[str, Any]:
    """Arguments from ``[train.settings]``; "None" is None, which TOML lacks."""
    settings = options["settings"] or {}
    return {
        name: None if value == "None" else value for name, value in settings.items()
    }


def _fitted(options: Mapping[str, Any]) -> list[Path]:
    """Fit an estimator where it is not fitted yet, and write its releases."""
    options_module.require_packages(FOR_ESTIMATORS)
    _refuse(
        OF_NETWORKS,
        options,
        "about pcer's own networks; with --estimator give its settings in "
        "[train.settings] of --config, and leave this out.",
    )
    estimator = _estimator(options)
    dataset = load_data(options["source"], options)
    out = options["out"]
    attributes = [dataset.attribute(name) for name in options["attributes"]]
    paths = {
        attribute.name: out / file_name(dataset.name, attribute.name)
        for attribute in attributes
    }
    work = out / file_name(dataset.name, "scores").removesuffix(".release.json")
    for path in paths.values():
        if path.exists() and not work.exists():
            raise InputError(
                f"{path} exists already; remove it, or choose another folder."
            )
    updates = _updates(options, dataset)
    if not dataset.public:
        require_no_others(paths.values(), dataset.name)
    with outputs_module.folder_for(str(out), parents=True), _kept_if_begun(work):
        releases = _fitted_releases(options, dataset, attributes, estimator, work)
    updates.keep(releases)
    write_files({paths[name]: release.to_json() for name, release in releases.items()})
    if not options["keep_scores"]:
        shutil.rmtree(work)
    note_not_written(releases.values())
    return [paths[name] for name in releases]


def _updates(options: Mapping[str, Any], dataset: GroupedDataset) -> Updates:
    """Who is trained on, if few of them differ from those of releases in the folder."""
    names = options["attributes"] or [one.name for one in dataset.attributes]
    folder = options["out"]
    paths = {name: folder / file_name(dataset.name, name) for name in names}
    least = options.get("least_people") or LEAST_PEOPLE
    updates = Updates(paths, least, replaces=False, consent="")
    if dataset.public:
        return updates
    attributes = [
        Attribute(one.name, one.group_names, one.codes)
        for one in map(dataset.attribute, names)
    ]
    secret = given_secret(options["secret_file"], is_needed=True)
    positive = dataset.labels == 1
    people = people_of_records(dataset.features, positive, attributes, secret)
    updates.compare(people)
    return updates


@contextmanager
def _kept_if_begun(work: Path) -> Iterator[None]:
    """Remove a new work folder after a failure, unless it holds finished models."""
    is_new = not work.exists()
    try:
        yield
    except BaseException:
        if is_new and not any(work.glob("**/block-*")):
            shutil.rmtree(work, ignore_errors=True)
        raise


def _estimator(options: Mapping[str, Any]) -> Any:
    """The estimator that ``--estimator package.module:Name`` makes of its settings."""
    name = options["estimator"]
    example = "sklearn.ensemble:RandomForestClassifier"
    with options_module.about("--estimator"):
        make = object_named(name, folder=Path.cwd(), example=example)
        try:
            return make(**_model_settings(options))
        except (TypeError, ValueError) as error:
            what = name.partition(":")[2]
            raise InputError(f"{what} does not accept its settings: {error}.") from None


def _model_in_words(estimator: Any, dataset: GroupedDataset) -> str:
    """What was trained, where it is not too long for a sentence."""
    kind = type(estimator).__name__
    in_full = f"A {kind} trained {dataset.trained}"
    return in_full if dataset.trained and len(in_full) <= LONGEST_PHRASE else kind


def _fitted_releases(
    options: Mapping[str, Any],
    dataset: GroupedDataset,
    attributes: Iterable[ProtectedAttribute],
    estimator: Any,
    work: Path,
) -> dict[str, Release]:
    """Releases by attribute, of models that are fitted once."""
    from sklearn.impute import SimpleImputer
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    from pcer.models.estimator import records_of, releases_from_estimator
    from pcer.models.fits import Running
    from pcer.models.splits import SplitPlan
    from pcer.models.training import candidates_of

    secret = given_secret(options["secret_file"], is_needed=not dataset.public)
    n_splits = options["seeds"] or DEFAULT_SPLITS
    _note_if_large(dataset, options["attributes"], n_splits, 1)
    facts = ReleaseFacts(
        dataset=dataset.name,
        outcome=dataset.outcome,
        split_kind="random",
        disclosure=options_module.disclosure_rule(
            {**options, "public_data": dataset.public}, secret=secret
        ),
        people=dataset.people,
        positive_means=dataset.positive_means,
        model=_model_in_words(estimator, dataset),
        membership_means=dataset.membership_means,
        positive_label=1,
        notes=dataset.notes,
    )
    shown = [recorded(a.name, a.group_names, a.codes, a.declared) for a in attributes]
    labels = np.array(dataset.labels)
    model = make_pipeline(
        SimpleImputer(keep_empty_features=True), StandardScaler(), estimator
    )
    with outputs_module.Display("models", kept_in=options["out"]) as state:
        running = Running(
            n_jobs=options["jobs"] or os.cpu_count(),
            store=work,
            progress=state.counter(dataset.name, doing="fitting"),
        )
        return releases_from_estimator(
            candidates_of(model, None, None),
            records_of(np.array(dataset.features), labels, shown[0], 1, None),
            shown,
            SplitPlan(n_splits=n_splits),
            running,
            facts,
        )
