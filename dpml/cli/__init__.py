"""The commands: `dpml-run` (Hydra: one run or a sweep) and `dpml` (everything about runs that needs no sweep)."""

import argparse
import json
import math
import os
import re
import sys
import traceback
from collections.abc import Callable, Iterable
from dataclasses import asdict
from pathlib import Path
from typing import Any, NoReturn

import hydra
import pandas as pd
from hydra.core.hydra_config import HydraConfig
from hydra.errors import ConfigCompositionException, HydraException, MissingConfigException, OverrideParseException
from hydra.experimental.callback import Callback
from hydra.types import RunMode
from omegaconf import DictConfig, OmegaConf
from omegaconf.errors import OmegaConfBaseException
from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table

from dpml import __version__, where
from dpml.atomic import write_atomically
from dpml.cli.data import add_command as add_data_command
from dpml.config.build import KEYS, build, build_algorithm, check_keys, instantiate, number, optional, whole
from dpml.config.compose import compose, register_experiments
from dpml.data import Source
from dpml.data.partition import party_sizes, set_aside
from dpml.errors import UserError, nearest
from dpml.privacy import Budget, Guarantee, Problem
from dpml.reporting.statistics import summarise
from dpml.running.rows import PRIVACY, SETTING
from dpml.running.run import execute
from dpml.seeds import generator

_CONFIG: Any = {"config_path": str(where.folder("conf")), "config_name": "config", "version_base": "1.3"}


_sweep_folder: Path | None = None


# ---- dpml-run


def dpml_run() -> None:
    """Entry point of `dpml-run`."""
    # Hydra would print its own summary of an exception; with this it hands the exception to us
    os.environ.setdefault("HYDRA_FULL_ERROR", "1")
    register_experiments()
    try:
        _exit_on_mistakes("dpml-run", _main)
    finally:
        if _sweep_folder and [path.name for path in _sweep_folder.glob("*")] == ["multirun.yaml"]:
            (_sweep_folder / "multirun.yaml").unlink()
            _remove_if_empty(_sweep_folder)


@hydra.main(**_CONFIG)
def _main(config: DictConfig) -> None:
    folder = Path(HydraConfig.get().runtime.output_dir)
    if HydraConfig.get().mode == RunMode.MULTIRUN:
        _run_in_sweep(config, folder)
        return
    try:
        if "experiment" in config:
            _remove_if_empty(folder)
            sys.exit(_experiment(config))
        _run(config, folder)
    except UserError as error:
        _remove_if_empty(folder)
        _fail("dpml-run", str(error))  # here, because Hydra would announce the exception first
    except BaseException:
        _remove_if_empty(folder)
        raise


def _experiment(config: DictConfig) -> int:
    from dpml.running.runner import run_experiment  # only experiments need it

    check_keys(config)
    return run_experiment(config, HydraConfig.get().overrides.task)


def _run(config: DictConfig, folder: Path) -> None:
    result = execute(build(config), OmegaConf.to_container(config, resolve=True))  # type: ignore[arg-type]
    result.write(folder)
    show(result.rows, result.guarantees)
    if _axes(result.rows):
        from dpml.reporting.figures import plot  # slow to load

        plot(result.rows, folder, " ".join(["dpml-run", *HydraConfig.get().overrides.task]))
    print(f"Written to {_relative(folder)}/: rows.csv, guarantees.csv, manifest.json")


def _run_in_sweep(config: DictConfig, folder: Path) -> None:
    """One job of a sweep. A failure is shown at once in one line and kept in error.txt; the other jobs go on."""
    job = " ".join(HydraConfig.get().overrides.task)
    try:
        if "experiment" in config:
            if _experiment(config):
                raise UserError("some of its cells failed, as said above.")
            return
        execute(build(config), OmegaConf.to_container(config, resolve=True)).write(folder)  # type: ignore[arg-type]
    except Exception as error:
        mistake = isinstance(error, UserError)
        write_atomically(folder / "error.txt", f"{error}\n" if mistake else traceback.format_exc())
        detail = (
            str(error) if mistake else f"{type(error).__name__}: {error} (traceback in {_relative(folder)}/error.txt)"
        )
        Console(stderr=True).print(f"failed: {job}: {detail}", style="red", markup=False, soft_wrap=True)
    else:
        Console().print(f"done: {job}", markup=False, highlight=False, soft_wrap=True)


class MergeSweep(Callback):
    """Hydra callback: when a sweep ends, put the jobs' tables together in the sweep's folder."""

    def on_multirun_start(self, config: DictConfig, **kwargs: Any) -> None:
        """Remember where the sweep goes: Hydra leaves a file there even when it cannot compose the jobs."""
        global _sweep_folder
        _sweep_folder = Path(config.hydra.sweep.dir)

    def on_multirun_end(self, config: DictConfig, **kwargs: Any) -> None:
        """Write the merged rows.csv and guarantees.csv and a figure; exit with 1 when a job failed."""
        folder = Path(config.hydra.sweep.dir)
        jobs = sorted(
            (path for path in folder.iterdir() if path.is_dir()), key=lambda path: (len(path.name), path.name)
        )
        failed = [job for job in jobs if (job / "error.txt").exists()]
        done = [job for job in jobs if (job / "rows.csv").exists()]
        if done:
            for name in ("guarantees.csv", "rows.csv"):
                merged = pd.concat([pd.read_csv(job / name) for job in done], ignore_index=True)
                write_atomically(folder / name, merged.to_csv(index=False))
            rows = pd.read_csv(folder / "rows.csv")
            show(rows, pd.read_csv(folder / "guarantees.csv"))
            if _axes(rows):
                from dpml.reporting.figures import plot  # slow to load

                plot(rows, folder, " ".join(["dpml-run -m", *config.hydra.overrides.task]))
            print(f"Written to {_relative(folder)}/: rows.csv and guarantees.csv of {len(done)} jobs")
        if failed:
            sys.exit(f"dpml-run: {len(failed)} of {len(jobs)} jobs failed; their folders hold error.txt")


def show(rows: pd.DataFrame, guarantees: pd.DataFrame) -> None:
    """The tables on screen: what was measured, and what was claimed and proven.

    One setting gets a line per metric and per view; several get a line each, with the main metrics and the worst view.
    """
    summary = summarise(rows)
    varying = [key for key in SETTING if summary[key].nunique(dropna=False) > 1]
    fixed = [key for key in SETTING if key not in varying and pd.notna(summary[key].iloc[0])]
    title = "  ".join(f"{key}={_short(summary[key].iloc[0])}" for key in fixed)
    console = Console()
    console.print(title, style="bold", highlight=False)
    for table in _sweep_tables(summary, varying) if varying else _single_tables(summary, guarantees):
        console.print(table)
    console.print(
        f"± is half a 95 % interval over {summary['count'].max()} draws. "
        "Draws and sweeps are experiments: publish one release.",
        style="dim",
    )


def _single_tables(summary: pd.DataFrame, guarantees: pd.DataFrame) -> list[Table]:
    measured = Table("metric", "mean", box=SIMPLE_HEAD)
    for _, row in summary.iterrows():
        measured.add_row(str(row["metric"]), _mean(row))
    private = Table("view", "claimed (eps, delta)", "proven (eps, delta)", "per", box=SIMPLE_HEAD)
    for view, group in guarantees.groupby("view", sort=False):
        pairs = {row["basis"]: f"({_short(row['eps'])}, {_short(row['delta'])})" for _, row in group.iterrows()}
        private.add_row(str(view), pairs.get("published", "-"), pairs["proven"], group["unit"].iloc[0])
    return [measured, private]


def _sweep_tables(summary: pd.DataFrame, varying: list[str]) -> list[Table]:
    present = set(summary["metric"])
    metrics = [name for name in ("loss", "accuracy", "rmse", "err_w") if name in present]
    table = Table(box=SIMPLE_HEAD, padding=(0, 1, 0, 0))
    for name in (*varying, *metrics, "claimed ε", "proven ε", "view"):
        table.add_column(name, no_wrap=True)
    for _, group in summary.groupby([*SETTING, *PRIVACY], sort=False, dropna=False):
        first, by_metric = group.iloc[0], group.set_index("metric")
        table.add_row(
            *(_short(first[key]) for key in varying),
            *(_mean(by_metric.loc[name]) if name in by_metric.index else "" for name in metrics),
            _short(first["claimed_eps"]),
            _short(first["proven_eps"]),
            str(first["proven_view"]),
        )
    return [table]


def _mean(row: Any) -> str:
    return f"{row['mean']:.3g}" + (f" ± {row['interval']:.1g}" if row["interval"] > 0 else "")


def _axes(rows: pd.DataFrame) -> list[str]:
    return [axis for axis in ("eps", "delta", "M", "N") if rows[axis].nunique() > 1]


def _short(value: Any) -> str:
    return f"{value:.4g}" if isinstance(value, float) else str(value)


# ---- mistakes


def _exit_on_mistakes(program: str, main: Callable[[], None]) -> None:
    """Run `main`; turn a user's mistake into one sentence on stderr and exit code 2, and Ctrl-C into 130."""
    try:
        main()
    except UserError as error:
        _fail(program, str(error))
    except (HydraException, OmegaConfBaseException) as error:
        _fail(program, _sentence(error))
    except KeyboardInterrupt:
        sys.exit(130)
    except BrokenPipeError:  # the reader of our output, such as head, has had enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(1)


def _fail(program: str, message: str) -> NoReturn:
    print(f"{program}: error: {message}", file=sys.stderr)
    sys.exit(2)


def _sentence(error: Exception) -> str:
    """What a Hydra error means, with the nearest valid name."""
    if isinstance(error, MissingConfigException) and error.missing_cfg_file:
        group, _, name = error.missing_cfg_file.rpartition("/")
        return f"unknown {group} {name!r}: {nearest(name, error.options or _options(group))}"
    if isinstance(error, OverrideParseException):
        return f"cannot read the override {error.override!r}: write KEY=VALUE, with quotes around special characters."
    if isinstance(error, ConfigCompositionException):
        unknown = re.search(r"Could not (?:override|append|delete|add) '([^']+)'", str(error))
        if unknown:
            return f"unknown key {unknown[1]!r}: {nearest(unknown[1], _known_keys(unknown[1]))}"
        several = re.search(r"Ambiguous value for argument '([^']+)'", str(error))
        if several:
            return f"{several[1]!r} has several values: add -m to sweep over them, or write a list, KEY=[A,B]."
    return str(error).strip().splitlines()[0]


def _options(group: str) -> list[str]:
    """The options of a configuration group that come with dpml."""
    return [path.stem for path in where.folder("conf").joinpath(group).glob("*.yaml")]


def _known_keys(like: str) -> list[str]:
    """The keys beside `like`: those of its group as composed from this command line's choices, or the top ones."""
    group, dot, _ = like.rpartition(".")
    if not dot:
        return KEYS
    choices = [word for word in sys.argv[1:] if word.partition("=")[0] in ("dataset", "partition", "algo")]
    try:
        node = OmegaConf.select(compose(choices), group)
        return [f"{group}.{key}" for key in node if key != "_target_"]
    except Exception:  # a second mistake on the same line: the top keys will do
        return KEYS


def _remove_if_empty(folder: Path) -> None:
    """Undo the creation of an output folder, and of empty folders above it, in which nothing was written."""
    here = Path.cwd()
    for path in (folder.resolve(), *folder.resolve().parents):
        if path == here or path in here.parents:
            return
        try:
            path.rmdir()
        except OSError:
            return


def _relative(path: Path) -> str:
    return os.path.relpath(path)


# ---- dpml


def dpml() -> None:
    """Entry point of `dpml`."""
    parser = argparse.ArgumentParser(
        prog="dpml", description="Multiparty differentially private learning. Runs and sweeps: see dpml-run --help."
    )
    parser.add_argument("--version", action="version", version=f"dpml {__version__}")
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")

    about = "what a release is guaranteed in every view; touches no data"
    guarantee = commands.add_parser("guarantee", help=about, description=f"Print {about}.")
    guarantee.add_argument(
        "overrides",
        nargs="*",
        metavar="KEY=VALUE",
        help="as for dpml-run, one value each; M, N and d may be any numbers (default: the data set's own)",
    )
    guarantee.add_argument("--json", action="store_true", help="a JSON list with one entry per view and basis")
    guarantee.set_defaults(action=_guarantee)

    about = "what an attacker achieves against a release, beside what is claimed and proven"
    attack = commands.add_parser(
        "audit",
        help=about,
        description=f"Print {about}. The data are made up: the worst neighbours that a proof or a search knows.",
    )
    attack.add_argument(
        "overrides",
        nargs="*",
        metavar="KEY=VALUE",
        help="as for dpml-run, one value; N (default 5 M), d (2), draws (100000), algo.rounds and algo.epochs (10) "
        "are the audit's own",
    )
    attack.add_argument("--json", action="store_true", help="a JSON list with one entry per view")
    attack.set_defaults(action=_audit)

    figure = commands.add_parser("plot", help="a figure of a run's or a sweep's rows.csv")
    figure.add_argument("folder", type=Path, help="the folder of a run or sweep, with rows.csv in it")
    figure.add_argument("--x", help="eps, delta, M or N (default: what varies)")
    figure.add_argument("--metric", nargs="+", help="one panel for each (default: loss, and accuracy or rmse)")
    figure.set_defaults(action=_plot)

    add_data_command(commands)
    union = commands.add_parser("merge", help="put the tables of several runs or sweeps together")
    union.add_argument("folders", nargs="+", type=Path, help="folders that a dpml-run wrote to, with rows.csv in them")
    union.add_argument("-o", "--output", type=Path, default=Path("results/merged"), help="default: %(default)s")
    union.set_defaults(action=_merge)

    about = "a secure sum of random vectors by the real protocol: is it right, how long did it take, how many bytes"
    secagg = commands.add_parser("secagg", help=about, description=f"Run {about}.")
    secagg.add_argument("-M", type=int, default=10, help="parties (default: %(default)s)")
    secagg.add_argument("-d", type=int, default=10_000, help="entries of each vector (default: %(default)s)")
    secagg.add_argument("--drop", type=float, default=0.0, help="share of parties that vanish before they send theirs")
    secagg.add_argument("--tcp", action="store_true", help="parties in processes of their own, over loopback TCP")
    secagg.set_defaults(action=_secagg)

    report = commands.add_parser("report", help="one page about all experiments: RESULTS/index.html")
    report.add_argument("results", nargs="?", type=Path, default=Path("results"), help="default: %(default)s")
    report.set_defaults(action=_report)

    arguments = parser.parse_args()
    _exit_on_mistakes("dpml", lambda: arguments.action(arguments))


def _guarantee(arguments: argparse.Namespace) -> None:
    guarantees = guarantees_for(arguments.overrides)
    if arguments.json:
        # JSON has no infinity; 1e999 is a number that every parser reads as one
        print(json.dumps([asdict(guarantee) for guarantee in guarantees], indent=2).replace("Infinity", "1e999"))
        return
    table = Table("view", "unit", "eps", "delta", "basis", "source", box=SIMPLE_HEAD)
    for g in guarantees:
        table.add_row(g.view, g.unit, f"{g.eps:.6g}", f"{g.delta:g}", g.basis, g.source)
    Console().print(table)


def guarantees_for(overrides: Iterable[str]) -> list[Guarantee]:
    """What `dpml guarantee` prints, for overrides as on its command line."""
    config, d = _one_release(overrides, "guarantee")
    dataset: Source = instantiate(config.dataset, "dataset")
    N, own_d = dataset.size(optional(whole)(config.N, "N"))
    rule = instantiate(config.partition, "partition")
    aside = set_aside(rule, N)
    problem = Problem(whole(config.M, "M"), N - aside, own_d if d is None else d, aside)
    problem = problem.of_sizes(party_sizes(rule, N, problem.M, generator(whole(config.seed, "seed"), "partition")))
    return build_algorithm(config, dataset).guarantees(_budget(config), problem)


def _one_release(overrides: Iterable[str], command: str) -> tuple[DictConfig, int | None]:
    """The configuration of one setting, and the number of features if `d=` says it."""
    overrides = list(overrides)
    features = [word.removeprefix("d=") for word in overrides if word.startswith("d=")]
    config = compose(word for word in overrides if not word.startswith("d="))
    check_keys(config)
    for key in ("eps", "delta", "M", "N"):
        if OmegaConf.is_list(config[key]):
            raise UserError(f"dpml {command} takes one {key}, got {key}={list(config[key])}.")
    try:
        return config, int(features[-1]) if features else None
    except ValueError:
        raise UserError(f"d must be a whole number, got d={features[-1]}.") from None


def _budget(config: DictConfig) -> Budget:
    return Budget(number(config.eps, "eps"), optional(number)(config.delta, "delta"))


def _audit(arguments: argparse.Namespace) -> None:
    from dpml.audit import CONFIDENCE, DRAWS, ROUNDS, ROWS, audit  # only this command needs it

    config, d = _one_release(arguments.overrides, "audit")
    given = {word.partition("=")[0] for word in arguments.overrides}
    for key in ("rounds", "epochs"):  # few say as much as many, and sooner
        if key in config.algo and f"algo.{key}" not in given:
            config.algo[key] = ROUNDS
    algorithm = build_algorithm(config, instantiate(config.dataset, "dataset"))
    M = whole(config.M, "M")
    N = whole(config.N, "N") if config.N is not None else ROWS * M
    problem = Problem(M, N, 2 if d is None else d, auxiliary=10, classes=2)
    draws = whole(config.draws, "draws") if "draws" in given else DRAWS
    findings = audit(algorithm, _budget(config), problem, draws, whole(config.seed, "seed"))
    if arguments.json:
        print(json.dumps([asdict(finding) for finding in findings], indent=2).replace("Infinity", "1e999"))
    else:
        table = Table(
            "view", "per", "delta", "claimed", "proven", "this pair", "attacked", "by", "verdict", box=SIMPLE_HEAD
        )
        for f in findings:
            numbers = [("-" if math.isnan(eps) else f"{eps:.4g}") for eps in (f.claimed, f.proven, f.exact, f.attacked)]
            table.add_row(f.view, f.unit, f"{f.delta:g}", *numbers, f.attack, f.verdict)
        Console().print(table)
        print(f"eps; attacked: a lower bound at {CONFIDENCE:.0%} confidence from {draws:,} releases of either data set")
    if any(finding.verdict == "BUG" for finding in findings):
        sys.exit(1)


def _plot(arguments: argparse.Namespace) -> None:
    source = arguments.folder / "rows.csv"
    if not source.is_file():
        raise UserError(f"there is no {source}: give the folder that a dpml-run wrote to.")
    from dpml.reporting.figures import plot  # slow to load

    rows = pd.read_csv(source)
    for path in plot(rows, arguments.folder, f"dpml plot {arguments.folder}", arguments.x, arguments.metric):
        print(path)


def _merge(arguments: argparse.Namespace) -> None:
    from dpml.reporting.tables import merge  # only this command needs it

    for path in merge(arguments.folders, arguments.output):
        print(path)


def _secagg(arguments: argparse.Namespace) -> None:
    from dpml.protocols.costs import measure  # only this command needs it

    for name, value in measure(arguments.M, arguments.d, arguments.drop, arguments.tcp).items():
        print(f"{name:22} {value}")


def _report(arguments: argparse.Namespace) -> None:
    from dpml.reporting.html import write_report  # slow to load

    print(write_report(arguments.results))
