"""The trainer's verbs: ``pcer train`` (networks, torch modules, estimators) and ``pcer demo``.

And for one person whose record was trained on: ``pcer receipt``.
"""

from __future__ import annotations

import hashlib
import hmac
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

from pcer.auditing.plan import Plan
from pcer.cli import parts
from pcer.cli.audit import audit_all, renderers
from pcer.cli.parts import KEYS, Given, from_options, optional, required, spelling
from pcer.cli.release import file_name, given_secret
from pcer.errors import InputError
from pcer.files import as_shown, make_folder, write_files
from pcer.metrics import DEFAULT_BUDGETS, DEFAULT_SEEDS, DEFAULT_SPLITS, NO_DP
from pcer.models import object_named
from pcer.release.format import LIMITS, Outcome
from pcer.report.table import Table, wrapped
from pcer.report.text import brief_parts
from pcer.store.secret import new_secret, read_secret, secret_name, secret_path, state_folder

if TYPE_CHECKING:
    from pcer.data import GroupedDataset, OwnTable
    from pcer.data.dataset import ProtectedAttribute
    from pcer.release.format import Release
    from pcer.sweep import ReceiptIndex, SettingReceipts, Sweep
    from pcer.train import NamedModule

BUDGETS = ",".join("none" if epsilon == NO_DP else f"{epsilon:g}" for epsilon in DEFAULT_BUDGETS)
SEEDS_HELP = (
    f"Splits, and models per budget; default: {DEFAULT_SEEDS}, of an estimator {DEFAULT_SPLITS}."
)
MOST_MODELS = 100_000  # of one sweep: all of them are listed in memory
FOR_ESTIMATORS = ("joblib", "pooch", "pyarrow", "sklearn")
# Settings that an estimator has no use for, with the value that does no harm.
OF_NETWORKS = {"budgets": BUDGETS} | dict.fromkeys(
    [
        *("epochs", "expected_batch", "learning_rate", "clip_norm", "hidden", "receipts", "rule"),
        *("device", "block_size", "engine", "address", *sorted({*KEYS["train"]} - {"settings"})),
    ]
)
# Settings that a module has no use for, with the value that does no harm.
NOT_FOR_MODULES = {"device": "cpu", "engine": "local"} | dict.fromkeys(
    ("hidden", "receipts", "refresh_every", "budget_per_person", "block_size", "address")
)
# What the norms mean for the receipt.
MODES = {
    "exact": "Norms of your gradient were computed at every step, so the receipt is a bound.",
    "held": (
        "At every step your gradient was clipped at its last computed norm, so that what is "
        "accounted is what happened, and the receipt is a bound."
    ),
    "refreshed": (
        "Norms of your gradient were computed now and then and taken as unchanged in between, so "
        "the receipt is an estimate and not a bound."
    ),
}

ALL_BARE = "All models of {0} were trained without privacy: no bound exists."
NOT_TRAINED_ON = "No private model of {0} was trained on record {1}: nothing was spent."

RUN = "The run"
_model, _training, _run, _table = (
    partial(optional, rich_help_panel=panel)
    for panel in ("What is trained", "How networks are trained", RUN, "Your own table")
)


def train(
    source: str = typer.Argument(metavar="NAME|FILE", help="Dataset, or your table."),
    attributes: list[str] = required(
        "Protected attribute; repeatable.", "--attribute", rich_help_panel=RUN
    ),
    out: Path = required("Folder for the releases.", "--out", "-o", rich_help_panel=RUN),
    budgets: str = _model("Epsilons; none is no privacy.", default=BUDGETS),
    seeds: int | None = _model(SEEDS_HELP, min=1),
    estimator: Given = _model("A scikit-learn estimator.", metavar="MODULE:NAME"),
    module: Given = _model(
        "What makes a torch module, trained through Opacus.", metavar="MODULE:NAME"
    ),
    epochs: int | None = _training("Passes over the data."),
    expected_batch: int | None = _training("Expected batch size.", "--batch"),
    learning_rate: float | None = _training("Of SGD."),
    clip_norm: float | None = _training("Largest norm of one gradient."),
    hidden: Given = _training("Units of the hidden layers."),
    rule: Given = _training("What a step clips and samples."),
    receipts: Literal["exact", "refreshed", "held"] | None = _training(
        "Account what each person spends; held is a rule of training too."
    ),
    device: Given = _training("cpu, cuda or cuda:N."),
    secret_file: Path | None = _run("Secret behind the noise; own tables get a new one."),
    config: Path | None = _run("Everything else, as TOML: docs/training.md.", metavar="FILE"),
    label: Given = _table("Column to predict."),
    positive: Given = _table("Its positive value."),
    outcome: Outcome | None = _table("What a positive is for the person."),
) -> None:
    """Train one model per privacy budget and seed. Interrupted runs resume."""
    given = locals()
    for path in _trained({**parts.read_config(config), **given}):
        parts.say(f"wrote {path}")
    if receipts:
        parts.say(f"kept receipts, for their owner only: pcer receipt {out} --record ID")
    parts.say(f"next: pcer audit {out}")


def demo(
    out: Path = optional("Folder for the results.", "--out", "-o", default=Path("pcer-demo")),
    seeds: int = optional("Splits, and models per budget.", min=1, default=DEFAULT_SEEDS),
) -> None:
    """Train and audit COMPAS here: six budgets, real DP-SGD, bundled data."""
    named = {"source": "compas", "attributes": ["race"], "out": out, "budgets": BUDGETS}
    options = dict.fromkeys(inspect.signature(train).parameters) | parts.read_config(None) | named
    paths = _trained(options | {"seeds": seeds}, verb="demo")
    audits, releases, family = audit_all(paths, Plan())
    outputs = parts.Outputs(json=str(out / "compas.audit.json"), html=str(out / "report.html"))
    outputs.write(renderers(audits, releases, family))
    parts.show(brief_parts(as_shown(audits[0]), parts.columns()))
    parts.say(f"Release: {paths[0]}")
    outputs.print_places()


def _trained(options: Mapping[str, Any], *, verb: str = "train") -> list[Path]:
    """Releases of networks, or of the estimator or module that is named."""
    if options["estimator"] is not None and options["module"] is None:
        return _fitted(options)
    if options["settings"] and options["module"] is None:
        raise InputError(
            f"{spelling('settings', options)} are of an estimator or a module; name one with "
            "--estimator or --module."
        )
    parts.require_packages(parts.TRAINING)
    from pcer.sweep import run_sweep
    from pcer.train import EngineFlags

    flags = from_options(EngineFlags, options)
    sweep, out = _sweep(options), options["out"]
    name, n_models = sweep.dataset.name, len(sweep.budgets) * len(sweep.seeds)
    _note_if_large(sweep.dataset, sweep.attributes, n_models, len(sweep.budgets))
    with parts.Display("models", kept_in=out) as state:
        state.tell(f"calibrating {name}", done=0, total=n_models)
        paths = run_sweep(
            sweep,
            out,
            flags=flags,
            keep_scores=bool(options["keep_scores"]),
            on_progress=state.counter(name),
            on_step=state.step(name),
            on_note=parts.note,
        )
    parts.log_run(out, f"{verb} {name}", state, flags)
    return list(paths.values())


def _note_if_large(
    dataset: GroupedDataset, attributes: Iterable[str], n_models: int, n_settings: int
) -> None:
    """Say, before the work, that auditors must allow such a release by name."""
    n = max(len(dataset.attribute(name).group_names) for name in attributes)
    sizes = {"n_runs": n_models, "n_tables": n_models * n, "n_rows": n_settings * n}
    if any(size > getattr(LIMITS, name) for name, size in sizes.items()):
        parts.note(
            f"pcer: a release of {n_models:,} models and {n} groups is larger than what is read by "
            "default; whoever audits it will need --allow-large."
        )


def _sweep(options: Mapping[str, Any]) -> Sweep:
    """The sweep that the options of ``pcer train`` ask for."""
    from pcer.sweep import Sweep
    from pcer.train import TrainConfig, parse_budgets

    module = _module(options)
    budgets, n_seeds = parse_budgets(options["budgets"]), options["seeds"] or DEFAULT_SEEDS
    if (n_models := len(budgets) * n_seeds) > MOST_MODELS:
        raise InputError(
            f"--budgets times --seeds make {n_models:,} models, more than the {MOST_MODELS:,} "
            "that one sweep holds; ask for fewer."
        )
    dataset, hidden = _load(options["source"], options), options["hidden"]
    if hidden is not None:
        hidden = parts.parse_list(hidden, int, option="--hidden", what="whole numbers with commas")
    return from_options(
        Sweep,
        options,
        dataset=dataset,
        budgets=budgets,
        seeds=tuple(range(n_seeds)),
        config=from_options(TrainConfig, {**options, "hidden": hidden}),
        disclosure=parts.disclosure_rule(options),
        secret=_secret(options, dataset),  # the last: one may be made
        module=module,
    )


def _load(source: str, options: Mapping[str, Any]) -> GroupedDataset:
    """One of the benchmarks by name, or a person's own table, whose columns are accounted for."""
    from pcer.data import TablePlan, load, read_table
    from pcer.data.benchmarks import names

    if source in names():
        return load(source)
    if not Path(source).exists():
        raise InputError(
            f"{source} is neither a dataset ({', '.join(names())}) nor a file; check the name."
        )
    for name in ("label", "positive", "outcome"):
        if options[name] is None:
            raise InputError(f"{source}: say with --{name} what is predicted and what it means.")
    marks, public = (*TablePlan.missing, *(options["missing"] or ())), bool(options["public_data"])
    plan = from_options(TablePlan, options, missing=marks, public=public)
    with parts.working("Reading"):
        own = read_table(source, plan)
    parts.show_table(account_table(own), stderr=True)
    return own.dataset


def account_table(own: OwnTable) -> Table:
    """What became of every column of a person's own table, to be shown before training."""
    rows = tuple(
        (line.column, line.role, f"{line.n_values:,}", f"{line.n_missing:,}", line.remark)
        for line in own.account
    )
    heads = ("column", "taken as", "values", "missing", "remark")
    return Table(f"Columns of {own.dataset.name}", heads, rows, n_labels=2)


def _secret(options: Mapping[str, Any], dataset: GroupedDataset) -> bytes:
    """The secret behind noise, splits and digests: as given, or one that is made and kept.

    A folder that was begun finds its secret again by the name that it keeps of it.
    """
    from pcer.sweep import begun_with

    if options["secret_file"] is not None:
        return read_secret(options["secret_file"])
    if dataset.public:
        return b""
    name = begun_with(options["out"], dataset, options["attributes"])
    if name is None:
        secret = new_secret()
        parts.note(
            f"{secret_path(secret_name(secret))}: made a secret for noise, splits and digests. "
            "Keep it from others: who has it can take the noise out. It is needed to resume; "
            "destroy it when done."
        )
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
        raise InputError("--estimator and --module both say what to train; give one of them.")
    _refuse(
        NOT_FOR_MODULES,
        options,
        "not for modules: Opacus trains what --module makes, one after another on this machine's "
        "cores; leave it out.",
    )
    from pcer.train import NamedModule

    return NamedModule(name=options["module"], folder=Path.cwd(), settings=_model_settings(options))


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
    parts.require_packages(FOR_ESTIMATORS)
    _refuse(
        OF_NETWORKS,
        options,
        "about pcer's own networks; with --estimator give its settings in [train.settings] of "
        "--config, and leave this out.",
    )
    estimator = _estimator(options)
    dataset, out = _load(options["source"], options), options["out"]
    attributes = [dataset.attribute(name) for name in options["attributes"]]
    paths = [out / file_name(dataset.name, attribute.name) for attribute in attributes]
    work = out / file_name(dataset.name, "scores").removesuffix(".release.json")
    for path in paths:
        if path.exists() and not work.exists():
            raise InputError(f"{path} is there already; remove it, or choose another folder.")
    make_folder(out, parents=True)
    made = _fitted_releases(options, dataset, attributes, estimator, work)
    write_files({path: release.to_json() for path, release in zip(paths, made, strict=True)})
    if not options["keep_scores"]:
        shutil.rmtree(work)
    return paths


def _estimator(options: Mapping[str, Any]) -> Any:
    """The estimator that ``--estimator package.module:Name`` makes of its settings."""
    name, example = options["estimator"], "sklearn.ensemble:RandomForestClassifier"
    with parts.about("--estimator"):
        make = object_named(name, folder=Path.cwd(), example=example)
        try:
            return make(**_model_settings(options))
        except (TypeError, ValueError) as error:
            what = name.partition(":")[2]
            raise InputError(f"{what} does not take this: {error}.") from None


def _fitted_releases(
    options: Mapping[str, Any],
    dataset: GroupedDataset,
    attributes: Iterable[ProtectedAttribute],
    estimator: Any,
    work: Path,
) -> list[Release]:
    """Fits are made once, for the first attribute; the others find them."""
    from sklearn.impute import SimpleImputer
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    from pcer.models import Options, release_from_estimator

    secret = given_secret(options["secret_file"], is_needed=not dataset.public)
    keyed = hmac.new(secret, b"pcer splits", hashlib.sha256).digest()[:8]
    random_state = int.from_bytes(keyed, "little") if secret else 0
    n_splits = options["seeds"] or DEFAULT_SPLITS
    _note_if_large(dataset, options["attributes"], n_splits, 1)
    shared = from_options(
        Options,
        {**options, "budgets": None},
        dataset=dataset.name,
        notes=dataset.notes,
        n_jobs=options["jobs"] or os.cpu_count(),
        store=work,
        public_data=dataset.public,
        secret=secret,
    )
    model = make_pipeline(SimpleImputer(keep_empty_features=True), StandardScaler(), estimator)
    with parts.Display("models", kept_in=options["out"]) as state:
        return [
            release_from_estimator(
                model,
                np.array(dataset.features),
                np.array(dataset.labels),
                sensitive_features={
                    a.name: np.array([*a.group_names, None], dtype=object)[a.codes]
                },
                outcome=dataset.outcome,
                positive_label=1,
                n_splits=n_splits,
                random_state=random_state,
                progress=state.counter(dataset.name, doing="fitting"),
                options=replace(shared, groups=a.group_names),
            )
            for a in attributes
        ]


def receipt(
    folder: Path = typer.Argument(metavar="FOLDER", help="Of a sweep with receipts."),
    record: str = required("Id of the record; in your own table its row, from 0."),
) -> None:
    """Print what was promised to one person, what was spent, and what it allows; for them only."""
    parts.require_packages(parts.TRAINING)
    from pcer.sweep import person_receipts

    index, rows = person_receipts(folder, record)
    if not any(len(row.receipt) for row in rows):
        is_bare = index.has_models_without_privacy and not index.settings
        typer.echo((ALL_BARE if is_bare else NOT_TRAINED_ON).format(index.dataset, record))
        return
    parts.show_table(receipt_table(index, rows, record))
    for sentence in receipt_words(index, rows):
        typer.echo(wrapped(sentence, parts.columns(), hanging=2))


def receipt_table(index: ReceiptIndex, rows: Sequence[SettingReceipts], record: str) -> Table:
    """One line for each budget; the numbers are of the models that were trained on the person."""
    from pcer.sweep import right_guesses

    cells = []
    for row in rows:
        if len(row.receipt):
            most = float(row.receipt.max())
            # In whole numbers, rounded up; who never had a gradient cannot be told from a coin.
            guesses = math.ceil(100 * right_guesses(most, index.dp_delta)) if most else 50
            spent = (row.realised.mean(), row.realised.max(), most)
            models = f"{len(row.receipt)}"
            first = (f"{row.setting.epsilon:g}", f"{row.nominal:.3f}", models)
            cells.append((*first, *(f"{epsilon:.3f}" for epsilon in spent), f"{guesses}"))
    heads = (
        *("promised\nepsilon", f"the same\nby {index.accountant}", "models\nwith you"),
        *("spent,\nmean", "spent,\nmost", "receipt,\nmost", "guesses right\nof 100, at most"),
    )
    return Table(f"Receipt of record {record} of {index.dataset}", heads, tuple(cells))


def receipt_words(index: ReceiptIndex, rows: Sequence[SettingReceipts]) -> list[str]:
    """What the numbers say, and what they do not."""
    several = any(len(row.receipt) > 1 for row in rows) or len(rows) > 1
    outside = [
        "the mean and the deviation of each feature, which the training records gave"
        * index.standardised,
        "models that were trained without privacy, for which no bound exists"
        * index.has_models_without_privacy,
    ]
    return [
        "Promised: by one such model nobody's odds that you were trained on change by more than a "
        f"factor of e^epsilon, but for a chance of {index.dp_delta:g}. That holds for everybody.",
        "Spent: the same for your own gradients in these runs, as papers print it; it describes "
        "and bounds nothing.",
        "Receipt: what was spent, rounded up to levels that were fixed before training, so that it "
        f"holds after the fact, with the chance {index.dp_delta:g} shared among levels.",
        MODES[index.mode],
        "Guesses: who knows everything else, sees every step and guesses whether you were trained "
        "on is right at most so often; a coin is right in 50 of 100.",
        *(["Every line is about one model; whoever sees several can add them up."] * several),
        *([f"Outside of it: {'; and '.join(filter(None, outside))}."] if any(outside) else []),
        "Keep it to yourself: many people's receipts together tell more than each.",
    ]
