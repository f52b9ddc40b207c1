"""The trainer's verbs: ``pcer train`` and ``pcer demo``."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from pcer.auditing import Plan
from pcer.cli.audit import Outputs, audit_all, print_briefly
from pcer.cli.estimator import train_estimator
from pcer.cli.module import module_named
from pcer.cli.parts import (
    TRAINING,
    CertainCells,
    LeastPeople,
    PublicData,
    SmallGroupsRule,
    disclosure_rule,
    display,
    from_options,
    log_run,
    parse_list,
    require_packages,
    say,
    show_table,
    with_defaults,
    working,
)
from pcer.errors import InputError
from pcer.metrics import DEFAULT_BUDGETS, DEFAULT_SEEDS, NO_DP
from pcer.release import LEAST_PEOPLE, LIMITS, Outcome
from pcer.report import Table
from pcer.store import new_secret, read_secret, secret_name, secret_path, state_folder

if TYPE_CHECKING:
    from pcer.data import GroupedDataset, OwnTable
    from pcer.sweep import Sweep
    from pcer.train import EngineFlags

BUDGETS = ",".join("none" if epsilon == NO_DP else f"{epsilon:g}" for epsilon in DEFAULT_BUDGETS)
"""The cost that the demo shows beside the gap: free in every sweep."""


def register(app: typer.Typer) -> None:
    """Add the verbs to the command line."""
    example = "pcer train compas --attribute race --budgets none,0.5,5 --seeds 20 -o out"
    app.command(epilog=f"Example: {example}", cls=with_defaults(_settings))(train)
    app.command(epilog="Example: pcer demo -o pcer-demo")(demo)


def train(
    source: Annotated[str, typer.Argument(metavar="NAME|FILE", help="Dataset, or your table.")],
    attributes: Annotated[
        list[str], typer.Option("--attribute", help="Protected attribute; repeatable.")
    ],
    out: Annotated[Path, typer.Option("--out", "-o", help="Folder for the releases.")],
    budgets: Annotated[str, typer.Option(help="Epsilons; none is no privacy.")] = BUDGETS,
    seeds: Annotated[
        int, typer.Option(min=1, help="Splits, and models per budget.")
    ] = DEFAULT_SEEDS,
    epochs: Annotated[int | None, typer.Option(help="Passes over the data.")] = None,
    expected_batch: Annotated[
        int | None, typer.Option("--batch", help="Expected batch size.")
    ] = None,
    learning_rate: Annotated[float | None, typer.Option(help="Of SGD.")] = None,
    clip_norm: Annotated[float | None, typer.Option(help="Largest norm of one gradient.")] = None,
    hidden: Annotated[str | None, typer.Option(help="Units of the hidden layers.")] = None,
    dp_delta: Annotated[float | None, typer.Option(help="Delta of (epsilon, delta)-DP.")] = None,
    accountant: Annotated[
        Literal["pld", "prv", "rdp"] | None, typer.Option(help="Who calibrates the noise.")
    ] = None,
    adjacency: Annotated[
        Literal["zero-out", "add-or-remove"] | None,
        typer.Option(help="What epsilon compares; the second keeps the number of records secret."),
    ] = None,
    sample_rate: Annotated[
        float | None, typer.Option(help="Chance to join a step; default: from the batch.")
    ] = None,
    n_steps: Annotated[
        int | None, typer.Option(help="Steps of training; default: from the epochs.")
    ] = None,
    divisor: Annotated[
        int | None, typer.Option(help="What sums are divided by; default: the batch.")
    ] = None,
    receipts: Annotated[
        Literal["exact", "refreshed", "held"] | None,
        typer.Option(help="Account what each person spends; held is a rule of training too."),
    ] = None,
    refresh_every: Annotated[
        int | None,
        typer.Option(help="Steps between norms for receipts; default: an epoch or less."),
    ] = None,
    budget_per_person: Annotated[
        float | None, typer.Option(help="Epsilon after which a person is left out; with held.")
    ] = None,
    device: Annotated[str | None, typer.Option(help="cpu, cuda or cuda:N.")] = None,
    jobs: Annotated[
        int | None, typer.Option(help="Processes; default: cores. Changes only the speed.")
    ] = None,
    block_size: Annotated[
        int | None, typer.Option(help="Models that step together. Changes only the speed.")
    ] = None,
    engine: Annotated[
        Literal["local", "ray"] | None, typer.Option(help="This machine, or a Ray cluster.")
    ] = None,
    address: Annotated[
        str | None,
        typer.Option(help="Ray head, HOST:PORT or auto; default: a Ray node on this machine."),
    ] = None,
    keep_scores: Annotated[
        bool, typer.Option(help="Keep every model's score of every record, for attacks.")
    ] = False,
    estimator: Annotated[
        str | None,
        typer.Option(metavar="MODULE:NAME", help="A scikit-learn estimator instead of networks."),
    ] = None,
    module: Annotated[
        str | None,
        typer.Option(
            metavar="MODULE:NAME", help="What makes a torch module, to be trained through Opacus."
        ),
    ] = None,
    settings: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="NAME=VALUE", help="Of estimator or module; repeatable."),
    ] = None,
    secret_file: Annotated[
        Path | None, typer.Option(help="Secret behind the noise; own tables get a new one.")
    ] = None,
    label: Annotated[str | None, typer.Option(help="Own table: column to predict.")] = None,
    positive: Annotated[str | None, typer.Option(help="Own table: its positive value.")] = None,
    outcome: Annotated[
        Outcome | None, typer.Option(help="Own table: what a positive is for the person.")
    ] = None,
    drop: Annotated[
        list[str] | None, typer.Option(help="Own table: column to leave out; repeatable.")
    ] = None,
    categories: Annotated[
        list[str] | None,
        typer.Option("--category", help="Own table: column of numbers that are names; repeatable."),
    ] = None,
    missing: Annotated[
        list[str] | None,
        typer.Option(help="Own table: one more text for a missing value; repeatable."),
    ] = None,
    max_categories: Annotated[
        int | None, typer.Option(help="Own table: most values of a column of names.")
    ] = None,
    identifiers: Annotated[
        list[str] | None,
        typer.Option("--identifier", help="Own table: learn from a column that names people."),
    ] = None,
    public_data: PublicData = False,
    least_people: LeastPeople = LEAST_PEOPLE,
    small_groups: SmallGroupsRule = "join",
    certain_cells: CertainCells = True,
) -> None:
    """Train budgets x seeds and write one release per attribute; killed, it resumes."""
    for path in _trained(locals()):
        say(f"wrote {path}")
    if receipts:
        say(f"kept receipts, for their owner only: pcer receipt {out} --record ID")
    say(f"next: pcer audit {out}")


def _trained(said: Mapping[str, Any]) -> list[Path]:
    """Releases of networks, or of the estimator or module that is named."""
    if said["estimator"] is not None and said["module"] is None:
        if said["budgets"] != BUDGETS:
            raise InputError("--budgets is about pcer's own networks; leave it out.")
        return train_estimator(said, _load)
    if said["settings"] and said["module"] is None:
        raise InputError(
            "--set gives settings of an estimator or a module; name one with --estimator or "
            "--module."
        )
    require_packages(TRAINING)
    from pcer.train import EngineFlags

    flags = from_options(EngineFlags, said)
    return _run("train", _sweep(said), said["out"], flags, said["keep_scores"])


def demo(
    out: Annotated[Path, typer.Option("--out", "-o", help="Folder for the results.")] = Path(
        "pcer-demo"
    ),
    seeds: Annotated[
        int, typer.Option(min=1, help="Splits, and models per budget.")
    ] = DEFAULT_SEEDS,
) -> None:
    """Train and audit COMPAS here: six budgets, real DP-SGD, bundled data."""
    require_packages(TRAINING)
    _require_few_models(len(DEFAULT_BUDGETS) * seeds)
    from pcer.train import EngineFlags

    paths = _run("demo", _demo_sweep(seeds), out, EngineFlags())
    done = audit_all(paths, Plan())
    outputs = Outputs(json=str(out / "compas.audit.json"), html=str(out / "report.html"))
    outputs.write(done, [])
    print_briefly(done.audits)
    say(f"Release: {paths[0]}")
    outputs.print_places()


def account_table(own: OwnTable) -> Table:
    """What became of every column of a person's own table, to be shown before training."""
    rows = tuple(
        (line.column, line.role, f"{line.n_values:,}", f"{line.n_missing:,}", line.remark)
        for line in own.account
    )
    heads = ("column", "taken as", "values", "missing", "remark")
    return Table(f"Columns of {own.dataset.name}", heads, rows, n_labels=2)


def _settings() -> Iterable[type[Any]]:
    from pcer.data import TablePlan
    from pcer.train import EngineFlags, TrainConfig

    return TrainConfig, EngineFlags, TablePlan


def _sweep(said: Mapping[str, Any]) -> Sweep:
    """What the options of ``pcer train`` ask for."""
    from pcer.sweep import Sweep
    from pcer.train import RenyiAccounts, TrainConfig, parse_budgets

    module = module_named(said)
    budgets = parse_budgets(said["budgets"])
    _require_few_models(len(budgets) * said["seeds"])
    dataset = _load(said["source"], said)
    layers = {} if said["hidden"] is None else {"hidden": _layers(said["hidden"])}
    return from_options(
        Sweep,
        said,
        config=from_options(TrainConfig, said, **layers),
        dataset=dataset,
        budgets=budgets,
        seeds=tuple(range(said["seeds"])),
        secret=_secret(said, dataset),
        disclosure=disclosure_rule(said),
        accounts=RenyiAccounts() if said["receipts"] else None,
        module=module,
    )


def _require_few_models(n_models: int) -> None:
    if n_models > LIMITS.n_runs:
        raise InputError(
            f"--budgets times --seeds make {n_models:,} models, more than the {LIMITS.n_runs:,} "
            "that a release holds; ask for fewer."
        )


def _demo_sweep(n_seeds: int) -> Sweep:
    from pcer.data import load
    from pcer.sweep import Sweep
    from pcer.train import TrainConfig

    return Sweep(
        dataset=load("compas"),
        attributes=("race",),
        budgets=DEFAULT_BUDGETS,
        seeds=tuple(range(n_seeds)),
        config=TrainConfig(),
    )


def _run(
    verb: str, sweep: Sweep, out: Path, flags: EngineFlags, keep_scores: bool = False
) -> list[Path]:
    """Train what is missing, show how far it is, note it in the run log; gives the releases."""
    from pcer.sweep import run_sweep

    name, total = sweep.dataset.name, len(sweep.budgets) * len(sweep.seeds)
    with display("models", kept_in=out) as shown:
        tell = shown.sweep(name, total)
        paths = run_sweep(
            sweep,
            out,
            flags=flags,
            keep_scores=keep_scores,
            on_progress=tell,
            on_step=shown.step(name),
            on_note=_tell,
        )
    log_run(out, f"{verb} {name}", shown, flags)
    return list(paths.values())


def _tell(sentence: str) -> None:
    say(sentence, err=True)


def _load(source: str, said: Mapping[str, Any]) -> GroupedDataset:
    """One of the benchmarks by name, or a person's own table, whose columns are accounted for."""
    from pcer.data import TablePlan, load, read_table
    from pcer.data.benchmarks import names

    if source in names():
        return load(source)
    if not Path(source).exists():
        raise InputError(
            f"{source} is neither a dataset ({', '.join(names())}) nor a file; check the name."
        )
    for option in ("label", "positive"):
        if said[option] is None:
            raise InputError(f"{source}: say with --{option} what the model is to predict.")
    if said["outcome"] is None:
        raise InputError(f"{source}: say with --outcome benefit|harm what a positive means.")
    marks = (*TablePlan.missing, *(said["missing"] or ()))
    plan = from_options(TablePlan, said, missing=marks, public=said["public_data"])
    with working("Reading"):
        own = read_table(source, plan)
    show_table(account_table(own), stderr=True)
    return own.dataset


def _secret(said: Mapping[str, Any], dataset: GroupedDataset) -> bytes:
    """The secret behind noise, splits and digests: as given, or one that is made and kept.

    A folder that was begun finds its secret again by the name that it keeps of it.
    """
    from pcer.sweep import begun_with

    if said["secret_file"] is not None:
        return read_secret(said["secret_file"])
    if dataset.public:
        return b""
    name = begun_with(said["out"], dataset, said["attributes"])
    if name is None:
        secret = new_secret()
        _tell(
            f"{secret_path(secret_name(secret))}: made a secret for noise, splits and digests. "
            "Keep it from others: who has it can take the noise out. It is needed to resume; "
            "destroy it when done."
        )
        return secret
    if not secret_path(name).exists():
        raise InputError(
            f"{said['out']} was begun with a secret that is not in {state_folder()}; name it with "
            "--secret-file, or choose another folder."
        )
    return read_secret(secret_path(name))


def _layers(text: str) -> tuple[int, ...]:
    return tuple(parse_list(text, int, option="--hidden", what="whole numbers with commas"))
