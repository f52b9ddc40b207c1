"""The trainer's verbs: ``pcer train`` (networks, torch modules, estimators) and ``pcer demo``.

And for one person whose record was trained on: ``pcer receipt``.
"""

from __future__ import annotations

import inspect
import math
import os
import shutil
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import typer

from pcer.cli import options as options_module
from pcer.cli import outputs as outputs_module
from pcer.cli import progress
from pcer.cli.audit import audit_all, renderers
from pcer.cli.options import KEYS, Given, Texts, from_options, optional, spelling
from pcer.cli.release import QUESTION, file_name, given_secret, note_not_written
from pcer.errors import InputError
from pcer.files import as_shown, make_folder, write_files
from pcer.measuring.plan import Plan
from pcer.metrics import DEFAULT_BUDGETS, DEFAULT_SEEDS, DEFAULT_SPLITS, NO_DP
from pcer.models import object_named
from pcer.release.build import ReleaseFacts
from pcer.release.file import Release
from pcer.release.reading import LIMITS
from pcer.release.records import Outcome
from pcer.release.small_groups import Attribute, renamed, require_no_others
from pcer.report.formats.terminal import wrapped
from pcer.report.table import Table
from pcer.report.views import view_of
from pcer.store.secret import (
    new_secret,
    read_secret,
    secret_name,
    secret_path,
    state_folder,
)

if TYPE_CHECKING:
    from pcer.data import GroupedDataset, OwnTable, ProtectedAttribute
    from pcer.sweep import ReceiptIndex, SettingReceipts, Sweep
    from pcer.train import NamedModule

BUDGETS = ",".join(
    "none" if epsilon == NO_DP else f"{epsilon:g}" for epsilon in DEFAULT_BUDGETS
)
SEEDS_HELP = f"Splits, and models per budget; default: {DEFAULT_SEEDS}, of an estimator {DEFAULT_SPLITS}."
MOST_VALUES = 5  # of a label, in a question
MOST_MODELS = 100_000  # of one sweep: all of them are listed in memory
FOR_ESTIMATORS = ("joblib", "pooch", "pyarrow", "sklearn")
# Settings that an estimator has no use for, with the value that does no harm.
OF_NETWORKS = {"budgets": BUDGETS} | dict.fromkeys(
    [
        *(
            "epochs",
            "expected_batch",
            "learning_rate",
            "clip_norm",
            "hidden",
            "receipts",
            "rule",
        ),
        *("device", "block_size", "engine", "address", "grid"),
        *sorted({*KEYS["train"]} - {"settings"}),
    ]
)
# Settings that a module has no use for, with the value that does no harm.
NOT_FOR_MODULES = {"engine": "local"} | dict.fromkeys(
    (
        "hidden",
        "receipts",
        "refresh_every",
        "budget_per_person",
        "block_size",
        "address",
    )
)
# What the norms mean for the receipt.
MODES = {
    "exact": "Norms of your gradient were computed at every step, so the receipt is a bound.",
    "held": (
        "At every step your gradient was clipped at its last computed norm, so the accounting is "
        "exact and the receipt is a bound."
    ),
    "refreshed": (
        "Norms of your gradient were computed at some steps and assumed constant in between, so "
        "the receipt is an estimate, not a bound."
    ),
}
# Asked of a user's own table.
QUESTIONS = {
    "attributes": QUESTION["attributes"],
    "label": "which column is predicted (--label)?",
    "positive": "which value of {label} is positive (--positive): {values}?",
    "outcome": QUESTION["outcome"],
}
ALL_BARE = "All models of {0} were trained without privacy, so there is no bound."
NOT_TRAINED_ON = "No private model of {0} was trained on record {1}: nothing was spent."
ABOUT_SECRET = (
    "It is for noise, splits and digests. Keep it private: anyone who has it can remove the noise. "
    "It is needed to resume; delete it when done."
)
RUN = "The run"
_model, _training, _run, _table = (
    partial(optional, rich_help_panel=panel)
    for panel in ("What is trained", "How networks are trained", RUN, "Your own table")
)


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
    learning_rate: float | None = _training("Of SGD."),
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
) -> None:
    """Train one model per privacy budget and seed. Interrupted runs resume."""
    given = locals()
    file = options_module.read_config(config)
    given["drop"] = [*(file["drop"] or ()), *(drop or ())] or None
    for path in _trained({**file, **given}):
        progress.say(f"wrote {path}")
    if receipts:
        progress.note(
            f"receipts, for their owner only: pcer receipt {out} --record ID", err=False
        )
    progress.note(f"next: pcer audit {out}", err=False)


def demo(
    out: Path = optional(
        "Folder for the results.", "--out", "-o", default=Path("pcer-demo")
    ),
    seeds: int = optional(
        "Splits, and models per budget.", min=1, default=DEFAULT_SEEDS
    ),
) -> None:
    """Train networks on COMPAS with DP-SGD at six settings, and audit them."""
    named = {"source": "compas", "attributes": ["race"], "out": out, "budgets": BUDGETS}
    options = (
        dict.fromkeys(inspect.signature(train).parameters)
        | options_module.read_config(None)
        | named
    )
    paths = _trained(options | {"seeds": seeds}, verb="demo")
    audits, releases, family = audit_all(paths, Plan())
    outputs = outputs_module.Outputs(
        json=str(out / "compas.audit.json"), html=str(out / "report.html")
    )
    outputs.write(renderers(audits, releases, family))
    progress.show(view_of(as_shown(audits[0])))
    progress.say(f"Release: {paths[0]}")
    outputs.print_places()


def _trained(options: Mapping[str, Any], *, verb: str = "train") -> list[Path]:
    """Releases of networks, or of the estimator or module that is named."""
    if options["estimator"] is not None and options["module"] is None:
        return _fitted(options)
    if options["settings"] and options["module"] is None:
        raise InputError(
            f"{spelling('settings', options)} needs an estimator or a module; name one with "
            "--estimator or --module."
        )
    options_module.require_packages(options_module.TRAINING)
    from pcer.sweep import run_sweep
    from pcer.train import EngineFlags
    from pcer.train.run import require_engine

    flags = from_options(EngineFlags, options)
    require_engine(flags)
    sweep = _sweep(options)
    out = options["out"]
    name = sweep.dataset.name
    n_models = sweep.n_models
    _note_if_large(
        sweep.dataset, sweep.attributes, n_models, n_models // len(sweep.seeds)
    )
    with progress.Display("models", kept_in=out) as state:
        state.tell(f"calibrating {name}", done=0, total=n_models)
        paths = run_sweep(
            sweep,
            out,
            flags=flags,
            keep_scores=bool(options["keep_scores"]),
            on_progress=state.counter(name),
            on_step=state.step(name),
            on_note=progress.note,
        )
    progress.log_run(out, f"{verb} {name}", state, flags)
    return list(paths.values())


def _note_if_large(
    dataset: GroupedDataset, attributes: Iterable[str], n_models: int, n_settings: int
) -> None:
    """Say, before the work, that auditors must allow such a release by name."""
    n = max(len(dataset.attribute(name).group_names) for name in attributes)
    sizes = {"n_runs": n_models, "n_tables": n_models * n, "n_rows": n_settings * n}
    if any(size > getattr(LIMITS, name) for name, size in sizes.items()):
        progress.note(
            f"pcer: a release of {n_models:,} models and {n} groups is larger than what is read by "
            "default; its auditor will need --allow-large."
        )


def _sweep(options: Mapping[str, Any]) -> Sweep:
    """The sweep that the options of ``pcer train`` ask for."""
    from pcer.sweep import Sweep
    from pcer.train import TrainConfig, parse_budgets, parse_hidden

    module = _module(options)
    grid = _grid(options)
    budgets = parse_budgets(options["budgets"])
    n_seeds = options["seeds"] or DEFAULT_SEEDS
    n_models = math.prod([len(budgets), n_seeds, *map(len, grid.values())])
    if n_models > MOST_MODELS:
        raise InputError(
            f"--budgets times --seeds{' times --grid' if grid else ''} make {n_models:,} models, "
            f"more than the {MOST_MODELS:,} that one sweep holds; ask for fewer."
        )
    dataset = _load(options["source"], options)
    hidden = options["hidden"]
    if hidden is not None:
        hidden = parse_hidden(hidden)
    return from_options(
        Sweep,
        options,
        dataset=dataset,
        budgets=budgets,
        seeds=tuple(range(n_seeds)),
        config=from_options(TrainConfig, {**options, "hidden": hidden}),
        grid=grid,
        disclosure=options_module.disclosure_rule(options),
        secret=_secret(options, dataset),  # the last: one may be made
        module=module,
    )


def _grid(options: Mapping[str, Any]) -> dict[str, tuple[Any, ...]]:
    """What ``--grid`` varies; a learning rate that is given beside it holds for all models."""
    from pcer.sweep.grid import parse_grid

    grid = parse_grid(options["grid"] or ())
    for name in (name for name in grid if options.get(name) is not None):
        raise InputError(
            f"{spelling(name, options)} and --grid both give it; leave one out."
        )
    if grid and options["learning_rate"] is not None:
        grid["learning_rate"] = (options["learning_rate"],)
    return grid


def _load(source: str, options: Mapping[str, Any]) -> GroupedDataset:
    """The data to train on, with people and groups called as the options say."""
    dataset = _read(source, options)
    words: dict[str, Any] = {
        k: options[k] for k in ("people", "positive_means") if options[k]
    }
    if names := options["group_names"]:
        own = [dataset.attribute(name) for name in options["attributes"]]
        shown = renamed([Attribute(a.name, a.group_names, a.codes) for a in own], names)
        named = zip(own, shown, strict=True)
        words["attributes"] = tuple(
            replace(a, group_names=new.groups) for a, new in named
        )
    return replace(dataset, **words) if words else dataset


def _read(source: str, options: Mapping[str, Any]) -> GroupedDataset:
    """One of the benchmarks by name, or a person's own table, whose columns are accounted for."""
    from pcer.data import TablePlan, load, read_table
    from pcer.data.benchmarks import names
    from pcer.data.own_table import TableFault, guessed

    if source in names():
        dataset = load(source)
        if not options["attributes"]:
            named = " or ".join(
                f"--attribute {each.name}" for each in dataset.attributes
            )
            raise InputError(
                f"{source}: whom should be compared? Add {named}.", field="attributes"
            )
        return dataset
    if not Path(source).exists():
        raise InputError(
            f"{source} is no dataset ({', '.join(names())}) and no file; check it."
        )
    asked = [name for name in QUESTIONS if not options[name]]
    marks = (*TablePlan.missing, *(options["missing"] or ()))
    public = bool(options["public_data"])
    # all at once; arguments that would do
    faults = list[str]()
    more = list[str]()
    values = [""]
    with progress.working("Reading"):
        if asked:
            likely, values = guessed(
                source, options["label"], options["attributes"] or ()
            )
            words = {
                "label": likely["label"],
                "values": " or ".join(values[:MOST_VALUES]),
            }
            faults += [
                QUESTIONS[n].format(**words) for n in asked if values or n != "positive"
            ]
            more += [
                part
                for name in asked
                for part in (f"--{name.rstrip('s')}", likely[name])
            ]
            answers = {name: likely[name] for name in asked}
            own = options["attributes"] or [likely["attributes"]]
            options = {**options, **answers, "attributes": own}
        plan = from_options(TablePlan, options, missing=marks, public=public)
        try:
            table = read_table(source, plan)
        except TableFault as fault:
            faults.append(str(fault).removeprefix(f"{source}: "))
            more += [part for column in fault.columns for part in ("--drop", column)]
    if faults:
        raise options_module.unanswered(
            source, faults, more if values else [], next(iter(asked), "drop")
        )
    progress.show([account_table(table)], stderr=True)
    return table.dataset


def account_table(own: OwnTable) -> Table:
    """What became of every column of a person's own table, to be shown before training."""
    from pcer.data.own_table import alike_as_one

    rows = tuple(
        (
            line.column,
            line.role,
            f"{line.n_values:,}",
            f"{line.n_missing:,}",
            line.remark,
        )
        if n == 1
        else (f"{n:,} columns", line.role, "", "", line.remark)
        for line, n in alike_as_one(own.account)
    )
    heads = ("column", "taken as", "values", "missing", "remark")
    return Table(f"Columns of {own.dataset.name}", heads, rows, n_labels=2)


def _secret(options: Mapping[str, Any], dataset: GroupedDataset) -> bytes:
    """The secret behind noise, splits and digests: as given, or made, kept and found by name."""
    from pcer.sweep import begun_with

    if options["secret_file"] is not None:
        return read_secret(options["secret_file"])
    if dataset.public:
        return b""
    name = begun_with(options["out"], dataset, options["attributes"])
    if name is None:
        secret = new_secret()
        progress.note(f"made a secret: {secret_path(secret_name(secret))}")
        progress.note(ABOUT_SECRET, wraps=True)
        return secret
    if not secret_path(name).exists():
        raise InputError(
            f"{options['out']} was begun with a secret that is not in {state_folder()}; name it "
            "with --secret-file, or choose another folder."
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
        "not for modules: Opacus trains what --module makes, one after another on this machine; "
        "leave it out.",
    )
    from pcer.train import NamedModule

    return NamedModule(
        name=options["module"], folder=Path.cwd(), settings=_model_settings(options)
    )


def _refuse(harmless: Mapping[str, Any], options: Mapping[str, Any], why: str) -> None:
    for name, value in harmless.items():
        if options[name] not in (None, value):
            raise InputError(f"{spelling(name, options)} is {why}")


def _model_settings(options: Mapping[str, Any]) -> dict[str, Any]:
    """The arguments of an estimator or a module; TOML has no None, so the text stands for it."""
    given = options["settings"] or {}
    return {name: None if value == "None" else value for name, value in given.items()}


def _fitted(options: Mapping[str, Any]) -> list[Path]:
    """Fit an estimator where it is not fitted yet, and write one release per attribute."""
    options_module.require_packages(FOR_ESTIMATORS)
    _refuse(
        OF_NETWORKS,
        options,
        "about pcer's own networks; with --estimator give its settings in [train.settings] of "
        "--config, and leave this out.",
    )
    estimator = _estimator(options)
    dataset = _load(options["source"], options)
    out = options["out"]
    attributes = [dataset.attribute(name) for name in options["attributes"]]
    paths = {each.name: out / file_name(dataset.name, each.name) for each in attributes}
    work = out / file_name(dataset.name, "scores").removesuffix(".release.json")
    for path in paths.values():
        if path.exists() and not work.exists():
            raise InputError(
                f"{path} exists already; remove it, or choose another folder."
            )
    if not dataset.public:
        require_no_others(paths.values(), dataset.name)
    make_folder(out, parents=True)
    made = _fitted_releases(options, dataset, attributes, estimator, work)
    write_files({paths[name]: release.to_json() for name, release in made.items()})
    if not options["keep_scores"]:
        shutil.rmtree(work)
    note_not_written(made.values())
    return [paths[name] for name in made]


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

    from pcer.models.candidates import candidates_of
    from pcer.models.estimator import SplitPlan, records_of, releases_from_estimator
    from pcer.models.fits import Running

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
        positive_label=1,
        notes=dataset.notes,
    )
    shown = [Attribute(a.name, a.group_names, a.codes) for a in attributes]
    labels = np.array(dataset.labels)
    model = make_pipeline(
        SimpleImputer(keep_empty_features=True), StandardScaler(), estimator
    )
    with progress.Display("models", kept_in=options["out"]) as state:
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


def receipt(
    folder: Path = typer.Argument(metavar="FOLDER", help="Of a sweep with receipts."),
    record: str = optional(
        "Id of the record; in your own table its row, from 0.", default=...
    ),
) -> None:
    """Print one person's receipt: the promise, what was spent, what it allows."""
    options_module.require_packages(options_module.TRAINING)
    from pcer.sweep import person_receipts

    index, rows = person_receipts(folder, record)
    if not any(len(row.receipt) for row in rows):
        is_bare = index.has_models_without_privacy and not index.settings
        typer.echo(
            (ALL_BARE if is_bare else NOT_TRAINED_ON).format(index.dataset, record)
        )
        return
    progress.show([receipt_table(index, rows, record)])
    for sentence in receipt_words(index, rows):
        typer.echo(wrapped(sentence, progress.columns(), hanging=2))


def receipt_table(
    index: ReceiptIndex, rows: Sequence[SettingReceipts], record: str
) -> Table:
    """One line for each budget, over the models that were trained on the person."""
    from pcer.sweep import right_guesses

    cells = []
    for row in rows:
        if len(row.receipt):
            most = float(row.receipt.max())
            # Rounded up to whole numbers; without any gradient a guess is a coin's.
            guesses = (
                math.ceil(100 * right_guesses(most, index.dp_delta)) if most else 50
            )
            spent = (row.realised.mean(), row.realised.max(), most)
            first = (
                f"{row.setting.epsilon:g}",
                f"{row.nominal:.3f}",
                f"{len(row.receipt)}",
            )
            named = () if row.setting.model is None else (row.setting.model,)
            cells.append((*named, *first, *(f"{e:.3f}" for e in spent), f"{guesses}"))
    heads = (
        *(("model",) if any(row.setting.model for row in rows) else ()),
        *("promised\nepsilon", f"the same\nby {index.accountant}", "models\nwith you"),
        *(
            "spent,\nmean",
            "spent,\nmost",
            "receipt,\nmost",
            "guesses right\nof 100, at most",
        ),
    )
    return Table(f"Receipt of record {record} of {index.dataset}", heads, tuple(cells))


def receipt_words(index: ReceiptIndex, rows: Sequence[SettingReceipts]) -> list[str]:
    """What the numbers say, and what they do not."""
    several = any(len(row.receipt) > 1 for row in rows) or len(rows) > 1
    outside = [
        "the mean and the deviation of each feature, computed from the training records"
        * index.standardised,
        "models that were trained without privacy, which have no bound"
        * index.has_models_without_privacy,
    ]
    return [
        "Promised: one such model changes anybody's odds that you were trained on by at most a "
        f"factor of e^epsilon, except with probability {index.dp_delta:g}. It holds for everyone.",
        "Spent: the same for your gradients in these runs, as papers print it. It is a "
        "description, not a bound.",
        "Receipt: what was spent, rounded up to levels that were fixed before training. It is a "
        f"bound after the fact, except with probability {index.dp_delta:g}.",
        MODES[index.mode],
        "Guesses: an attacker who knows everything else and sees every step guesses whether you "
        "were trained on, and is right at most this often (coin: 50 of 100).",
        *(
            ["Every line is about one model; losses to several models add up."]
            * several
        ),
        *(
            [f"Not covered: {'; and '.join(filter(None, outside))}."]
            if any(outside)
            else []
        ),
        "Keep your receipt private: many receipts together reveal more than each alone.",
    ]
