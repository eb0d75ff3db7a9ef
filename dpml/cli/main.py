"""`dpml`: its commands and their options. Each command is in the module of its name, which is loaded when it runs."""

import argparse
import sys
from pathlib import Path
from typing import Any

from dpml.cli import load
from dpml.cli.errors import exit_on_mistakes
from dpml.cli.files import add_written
from dpml.cli.words import refuse_dashed_keys
from dpml.errors import UserError
from dpml.version import __version__


def main() -> None:
    """Run `dpml`."""
    exit_on_mistakes("dpml", _main)


def _main() -> None:
    if sys.argv[1:2] == ["run"]:
        raise UserError("runs and sweeps have a command of their own: write dpml-run, with a dash.")
    commands = parser()
    arguments, more = commands.parse_known_args()
    refuse_dashed_keys(sys.argv[1:], more)
    if "overrides" in arguments:  # argparse takes overrides only before an option
        arguments.overrides += [word for word in more if not word.startswith("-")]
        more = [word for word in more if word.startswith("-")]
    if more:
        commands.error(f"unrecognized arguments: {' '.join(more)}")
    load(arguments.command).run(arguments)


class _Parser(argparse.ArgumentParser):
    """No option may be shortened: `--delta 1e-5` would be taken for `--delta-anyway`."""

    def __init__(self, **options: Any) -> None:
        super().__init__(allow_abbrev=False, **options)


def parser() -> argparse.ArgumentParser:
    """All commands and their options."""
    parser = _Parser(
        prog="dpml", description="Multiparty differentially private learning. Runs and sweeps: see dpml-run --help."
    )
    parser.add_argument("--version", action="version", version=f"dpml {__version__}")
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    parts = (
        _guarantee,
        _audit,
        _check,
        _plot,
        _table,
        _cite,
        _data,
        _merge,
        _secagg,
        _federate,
        _forecast,
        _release,
        _predict,
        _verify,
        _ledger,
        _report,
        _completion,
    )
    for add in parts:
        add(commands)
    return parser


def _guarantee(commands: Any) -> None:
    description = "what a release is guaranteed in every view; touches no data"
    guarantee = commands.add_parser("guarantee", help=description, description=f"Print {description}.")
    _config_dir(guarantee)
    guarantee.add_argument(
        "overrides",
        nargs="*",
        metavar="KEY=VALUE",
        help="as for dpml-run, one value each; M, N and d may be any numbers (default: the data set's own)",
    )
    guarantee.add_argument("--json", action="store_true", help="a JSON list with one entry per view and basis")
    guarantee.add_argument("--certificate", type=Path, metavar="FILE", help="write what `dpml verify` computes it from")


def _audit(commands: Any) -> None:
    description = "what an attacker achieves against a release, beside what is claimed and proven"
    audit = commands.add_parser(
        "audit",
        help=description,
        description=f"Print {description}. The data are made up: the worst neighbours that a proof or a search knows.",
    )
    _config_dir(audit)
    audit.add_argument(
        "overrides",
        nargs="*",
        metavar="KEY=VALUE",
        help="as for dpml-run, one value; N (default 2000 M; algo.unit=party: 100 M; networks, wdgd: 20 M), d (2), "
        "draws (100000), algo.rounds (20) and algo.epochs (10) are the audit's own",
    )
    audit.add_argument(
        "--figure", type=Path, metavar="FILE", help="draw what attacks achieve: FILE.png and FILE.svg, a panel a view"
    )
    audit.add_argument("--json", action="store_true", help="a JSON list with one entry per view")


def _check(commands: Any) -> None:
    description = "what a training recipe of anybody guarantees in every view, beside what is claimed"
    check = commands.add_parser("check", help=description, description=f"Print {description}: docs/howto/check.md.")
    check.add_argument("overrides", nargs="*", metavar="RECIPE.yaml | KEY=VALUE", help="rounds, noise_multiplier, ...")
    check.add_argument("--json", action="store_true", help="a JSON list with one entry per view")
    check.add_argument("--certificate", type=Path, metavar="FILE", help="write what `dpml verify` computes it from")


def _data(commands: Any) -> None:
    description = "data sets: what there is, what is here; fetch and verify"
    data = commands.add_parser("data", help=description, description=f"{description.capitalize()}.")
    actions = data.add_subparsers(dest="data_command", required=True, metavar="ACTION")

    def action(name: str, description: str) -> argparse.ArgumentParser:
        parser: argparse.ArgumentParser = actions.add_parser(
            name, help=description, description=f"{description.capitalize()}."
        )
        _config_dir(parser)
        parser.add_argument(
            "--data-dir", metavar="DIR", help="where data files lie (default: $DPML_DATA, else a cache)"
        )
        parser.set_defaults(mirror=None, offline=True)
        return parser

    action("list", "every data set, and whether it is here")
    get = action("get", "fetch, verify and parse data sets")
    get.add_argument("names", nargs="+", metavar="NAME", help="as in `dpml data list`, or all")
    get.add_argument(
        "--mirror", metavar="URL", help="fetch from here, laid out as a data folder (default: $DPML_MIRROR)"
    )
    get.add_argument("--offline", action="store_true", help="fetch nothing (as does DPML_OFFLINE=1)")
    get.set_defaults(offline=False)
    check = action("check", "read every raw file that is here again and compare its content")
    check.add_argument("names", nargs="*", metavar="NAME", help="which sets (default: all)")
    path = action("path", "where data files and parsed arrays lie")
    path.add_argument("names", nargs="*", metavar="NAME", help="the raw files of these sets (default: the folders)")
    _describe(actions)
    partition = actions.add_parser(
        "partition",
        help="how unequal parties are: rows, classes, mixes of classes",
        description="Deal the rows of a data set as a run would, and print how unequal parties are.",
    )
    _config_dir(partition)
    partition.add_argument("overrides", nargs="*", metavar="KEY=VALUE", help="as for dpml-run, one value each")
    partition.add_argument("--figure", type=Path, metavar="FILE", help="draw what parties hold: FILE.png and FILE.svg")


def _describe(actions: Any) -> None:
    description = "what a run would make of a CSV or Parquet file of your own"
    describe = actions.add_parser(
        "describe",
        help=description,
        description=f"Print {description}: the type, the values and the gaps of each column, the task and the steps. "
        "All of it is read from the rows and is as private as they are.",
    )
    describe.add_argument("file", type=Path, metavar="FILE", help="FILE.csv, .csv.gz, or .parquet")
    describe.add_argument("--label", metavar="COLUMN", help="the column to predict (dataset.label)")
    describe.add_argument("--party", metavar="COLUMN", help="the column that says whose a row is (dataset.party)")
    describe.add_argument(
        "--drop", nargs="+", default=[], metavar="COLUMN", help="columns that are not used (dataset.drop)"
    )
    add_written(describe)
    describe.add_argument(
        "--bounds", type=Path, metavar="FILE.yaml", help="count the values outside what this file states"
    )
    describe.add_argument(
        "--bounds-out", type=Path, metavar="FILE.yaml", help="write a file for dataset.bounds, to be edited"
    )


def _config_dir(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--config-dir",
        "-cd",
        metavar="DIR",
        type=Path,
        help="your own options: DIR/algo/NAME.yaml and so on",
    )


def _plot(commands: Any) -> None:
    description = "a figure for a paper, of a run, a sweep or a figure"
    plot = commands.add_parser("plot", help=description, description=f"Draw {description}.")
    _part(plot)
    plot.add_argument("--x", help="eps, delta, M, N, another setting, or inverse_eps (default: what varies)")
    help_ = "axes with a log scale: x, y, xy or none (default: as it suits)"
    plot.add_argument("--log", choices=("x", "y", "xy", "none"), help=help_)
    plot.add_argument("--width", default="3.3in", help="in in, cm, mm or pt (default: %(default)s, a column)")
    help_ = "lines NAME: TEXT, for algorithms, entries of the legend, settings and metrics"
    plot.add_argument("--labels", type=Path, metavar="FILE.yaml", help=help_)
    plot.add_argument(
        "-o", "--output", type=Path, default=Path("figure.pdf"), help=".pdf, .png or .svg (default: %(default)s)"
    )
    plot.add_argument("--force", action="store_true", help="replace the file")


def _table(commands: Any) -> None:
    description = "a table for a paper, of a run, a sweep or a figure"
    table = commands.add_parser("table", help=description, description=f"Write {description}.")
    _part(table)
    table.add_argument("-o", "--output", type=Path, help=".md, .csv or .tex (default: print Markdown)")
    table.add_argument("--force", action="store_true", help="replace the file")


def _part(parser: argparse.ArgumentParser) -> None:
    help_ = "the folder of a run or a sweep, or RESULTS/PAPER/FIGURE"
    parser.add_argument("path", type=Path, metavar="RUN", help=help_)
    help_ = "the metrics (default: accuracy or rmse, and the optimality gap)"
    parser.add_argument("--y", "--metric", dest="metric", nargs="+", metavar="METRIC", help=help_)
    help_ = "only rows with these settings: algo=capefm,fm M=5"
    parser.add_argument("--where", nargs="+", default=[], metavar="KEY=VALUE", help=help_)


def _cite(commands: Any) -> None:
    description = "BibTeX of dpml, and of the papers whose figures it regenerates"
    cite = commands.add_parser("cite", help=description, description=f"Print {description}.")
    cite.add_argument("name", nargs="?", help="dpml, or a paper as in results/ (default: all)")


def _merge(commands: Any) -> None:
    merge = commands.add_parser("merge", help="put the tables of several runs or sweeps together")
    merge.add_argument("folders", nargs="+", type=Path, help="folders that a dpml-run wrote to, with rows.csv in them")
    merge.add_argument("-o", "--output", type=Path, default=Path("results/merged"), help="default: %(default)s")


def _secagg(commands: Any) -> None:
    description = (
        "a secure sum of random vectors by the real protocol: is it right, how long did it take, how many bytes"
    )
    secagg = commands.add_parser("secagg", help=description, description=f"Run {description}.")
    secagg.add_argument("-M", type=int, default=10, help="parties (default: %(default)s)")
    secagg.add_argument("-d", type=int, default=10_000, help="entries of each vector (default: %(default)s)")
    secagg.add_argument("--drop", type=float, default=0.0, help="share of parties that vanish before they send theirs")


def _federate(commands: Any) -> None:
    description = "one model of the rows of parties on machines of their own"
    federate = commands.add_parser(
        "federate", help=description, description=f"{description.capitalize()}: docs/federation.md."
    )
    actions = federate.add_subparsers(dest="action", required=True, metavar="ACTION")

    def action(name: str, description: str, *, setting: bool = False) -> argparse.ArgumentParser:
        parser: argparse.ArgumentParser = actions.add_parser(
            name, help=description, description=f"{description.capitalize()}."
        )
        if setting:
            parser.add_argument("--bounds", type=Path, required=True, metavar="FILE.yaml", help="what is stated")
            parser.add_argument(
                "--set",
                dest="overrides",
                nargs="+",
                required=True,
                metavar="KEY=VALUE",
                help="algo, algo.*, eps, delta, loss, dataset.label, dataset.drop, dataset.missing, dataset.steps",
            )
        return parser

    def adversary(parser: argparse.ArgumentParser) -> None:
        parser.add_argument("--colluders", type=int, default=1, metavar="C", help="default: %(default)s")
        parser.add_argument("--dropouts", type=int, metavar="D", help="default: as many as can be done without")

    begin = action(
        "init", "a folder for each party and the aggregator, and a rehearsal with made-up rows", setting=True
    )
    begin.add_argument("parties", nargs="+", metavar="NAME", help="the parties' names, or how many there are")
    begin.add_argument("--aggregator", required=True, metavar="HOST:PORT", help="where parties will call")
    help_ = "of each party in the rehearsal, made up (default: %(default)s)"
    begin.add_argument("--rows", type=int, default=200, metavar="N", help=help_)
    adversary(begin)
    _floating(begin)
    begin.add_argument("-o", "--folder", type=Path, required=True)
    _add_agreeing(action, adversary)
    _add_taking_part(action)
    trial = action("try", "all of it on this machine, a party for each file", setting=True)
    trial.add_argument("files", type=Path, nargs="+", metavar="FILE.csv")
    adversary(trial)
    _floating(trial)
    _waiting(trial, answers=True)
    trial.add_argument("-o", "--output", type=Path, required=True, metavar="model.json")


def _add_agreeing(action: Any, adversary: Any) -> None:
    card = action("card", "a party's card for a plan: how many rows it has, and its verification key", setting=True)
    card.add_argument("data", type=Path, metavar="FILE.csv")
    card.add_argument("--key", type=Path, required=True, help="the signing key, made if there is none; tell nobody")
    card.add_argument("-o", "--output", type=Path, required=True, metavar="NAME.card")
    plan = action("plan", "put cards together to the plan that all agree on", setting=True)
    plan.add_argument("cards", type=Path, nargs="+", metavar="NAME.card")
    adversary(plan)
    _floating(plan)
    plan.add_argument("-o", "--output", type=Path, required=True, metavar="plan.json")
    sign = action("sign", "sign a plan, and take in the signatures of other copies of it")
    sign.add_argument("plan", type=Path, metavar="plan.json")
    sign.add_argument("--key", type=Path, help="the signing key; without it signatures are only put together")
    sign.add_argument("--copies", type=Path, nargs="+", default=[], metavar="plan.json", help="that others signed")


def _add_taking_part(action: Any) -> None:
    tls = action("tls", "an authority, ca.pem, and the aggregator's certificate by it, server.pem and server.key")
    tls.add_argument("host", metavar="HOST", help="the name or address by which parties call the aggregator")
    tls.add_argument("-o", "--folder", type=Path, required=True)
    party = action("party", "take part in a release: call the aggregator, answer, and get the model")
    party.add_argument("data", type=Path, metavar="FILE.csv")
    party.add_argument("--plan", type=Path, required=True)
    party.add_argument("--key", type=Path, required=True)
    party.add_argument("--aggregator", required=True, metavar="HOST:PORT")
    party.add_argument("--ca", type=Path, metavar="FILE.pem", help="the authority of the aggregator's certificate")
    party.add_argument("--ledger", type=Path, help="default: FILE.csv.ledger")
    party.add_argument("--cap", type=float, metavar="EPS", help="refuse what would bring the ledger above this eps")
    party.add_argument(
        "--cap-delta", type=float, default=1e-5, metavar="DELTA", help="of the cap (default: %(default)s)"
    )
    _waiting(party)
    party.add_argument("-o", "--output", type=Path, required=True, metavar="model.json")
    aggregator = action("aggregator", "take the sums of the parties that call, and make the model")
    aggregator.add_argument("--plan", type=Path, required=True)
    aggregator.add_argument("--listen", required=True, metavar="HOST:PORT")
    aggregator.add_argument("--certificate", type=Path, metavar="FILE.pem", help="its certificate, for TLS")
    aggregator.add_argument("--certificate-key", type=Path, metavar="FILE.pem")
    _waiting(aggregator, answers=True)
    aggregator.add_argument("-o", "--output", type=Path, required=True, metavar="model.json")


def _waiting(parser: argparse.ArgumentParser, answers: bool = False) -> None:
    parser.add_argument("--wait", type=float, default=60.0, help="seconds for all to be there (default: %(default)s)")
    if answers:
        parser.add_argument(
            "--timeout", type=float, default=60.0, help="seconds for the answers of a round (default: %(default)s)"
        )


def _release(commands: Any) -> None:
    description = "one model for publication: noise that nobody can know, entered into a ledger before it is drawn"
    release = commands.add_parser("release", help=description, description=f"Make {description}.")
    _config_dir(release)
    release.add_argument("overrides", nargs="*", metavar="KEY=VALUE", help="as for dpml-run, one value each; no seed")
    release.add_argument(
        "-o", "--output", type=Path, default=Path("model.json"), help="the model's file (default: %(default)s)"
    )
    help_ = "a card for the public registry of deployments, as YAML, with what is known of the release"
    release.add_argument("--card", type=Path, metavar="FILE", help=help_)
    release.add_argument("--ledger", type=Path, metavar="FILE", help="default: beside the data, DATA.ledger")
    release.add_argument("--delta-anyway", action="store_true", help="take a delta of 1/N or more")
    help_ = "publish what code that is not part of dpml says of itself, which nobody here has proven"
    release.add_argument("--declared", action="store_true", help=help_)
    release.add_argument("--cap", type=float, metavar="EPS", help="refuse what would bring the ledger above this eps")
    release.add_argument(
        "--cap-delta", type=float, default=1e-5, metavar="DELTA", help="at this delta (default: %(default)g)"
    )
    _floating(release)


def _floating(parser: argparse.ArgumentParser) -> None:
    help_ = "publish floating-point noise where there is no exact one: proven for real numbers, not for these bits"
    parser.add_argument("--floating", action="store_true", help=help_)


def _verify(commands: Any) -> None:
    description = "compute a published model's guarantees, or a results folder's verdicts and tables, anew"
    verify = commands.add_parser("verify", help=description, description=f"{description.capitalize()}.")
    what = "a model, what `dpml guarantee --certificate` wrote, or a folder of results (default: %(default)s)"
    verify.add_argument("path", nargs="?", type=Path, default=Path("results"), metavar="FILE|FOLDER", help=what)
    drawn = "of a folder: draw every claim under each of its readings, FIGURE_readings.svg"
    verify.add_argument("--pictures", action="store_true", help=drawn)


def _forecast(commands: Any) -> None:
    description = "what accuracy to expect of a release by wdgd, from public tables; reads no row"
    forecast = commands.add_parser("forecast", help=description, description=f"Print {description}.")
    _config_dir(forecast)
    forecast.add_argument(
        "overrides",
        nargs="*",
        metavar="KEY=VALUE",
        help="as for dpml guarantee: eps, delta, loss, M, N, d, or a data set that has a size",
    )


def _predict(commands: Any) -> None:
    description = "what a published model says of the rows of a file"
    predict = commands.add_parser("predict", help=description, description=f"Print {description}, as CSV.")
    predict.add_argument("model", type=Path, metavar="MODEL", help="the model's file")
    predict.add_argument(
        "file", type=Path, nargs="?", metavar="FILE", help="a CSV file with the columns that the model needs"
    )
    predict.add_argument(
        "--shapes", type=Path, metavar="DIR", help="draw what each feature contributes, from the model alone, into DIR"
    )
    predict.add_argument("--proba", action="store_true", help="print the probability of each class, and no prediction")
    predict.add_argument("--class", dest="wanted", metavar="CLASS", help="print the probability of this class only")
    add_written(predict)
    predict.add_argument("-o", "--output", type=Path, metavar="FILE", help="where to (default: the screen)")


def _ledger(commands: Any) -> None:
    description = "what has been released about some people, and what that adds up to"
    ledger = commands.add_parser("ledger", help=description, description=f"Print {description}.")
    ledger.add_argument("ledger", type=Path, metavar="FILE", help="the ledger, as `dpml release` names it")
    ledger.add_argument("--delta", type=float, default=1e-5, help="at which eps is told (default: %(default)g)")
    ledger.add_argument("--json", action="store_true", help="all that is in it, as JSON")


def _completion(commands: Any) -> None:
    description = "a script that completes dpml's commands and options: source it in the start file of your shell"
    completion = commands.add_parser("completion", help=description, description=f"Print {description}.")
    completion.add_argument("shell", choices=("bash", "zsh", "fish"))


def _report(commands: Any) -> None:
    report = commands.add_parser("report", help="pages about all experiments: RESULTS/report/index.html")
    _config_dir(report)
    report.add_argument("results", nargs="?", type=Path, default=Path("results"), help="default: %(default)s")
