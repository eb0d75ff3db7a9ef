"""`dpml`: its commands and their options. Each command is in the module of its name, which is loaded when it runs."""

import argparse
import sys
from functools import cache
from pathlib import Path
from typing import Any

from dpml import packs
from dpml.cli import load
from dpml.cli.errors import exit_on_mistakes
from dpml.cli.files import add_own_file, add_written
from dpml.cli.words import refuse_dashed_keys, refuse_settings
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
    refuse_settings(more, arguments)
    if more:
        commands.error(f"unrecognized arguments: {' '.join(more)}")
    packs.add(getattr(arguments, "pack", []))
    load(arguments.command).run(arguments)


class _Parser(argparse.ArgumentParser):
    """No option may be shortened: `--delta 1e-5` would be taken for `--delta-anyway`."""

    def __init__(self, **options: Any) -> None:
        super().__init__(allow_abbrev=False, **options)


@cache  # reading a command line changes nothing in it
def parser() -> argparse.ArgumentParser:
    """All commands and their options."""
    parser = _Parser(
        prog="dpml", description="Multiparty differentially private learning. Runs and sweeps: see dpml-run --help."
    )
    parser.add_argument("--version", action="version", version=f"dpml {__version__}")
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    for add in (_about_guarantees, _for_papers, _data, _about_sums, _release, _after_a_release, _others):
        add(commands)
    return parser


def _command(commands: Any, name: str, description: str, verb: str = "", more: str = "") -> argparse.ArgumentParser:
    """A command. Its description is a noun phrase after a verb, or without one a sentence of its own."""
    text = f"{verb} {description}" if verb else f"{description[:1].upper()}{description[1:]}"
    parser: argparse.ArgumentParser = commands.add_parser(name, help=description, description=f"{text}{more or '.'}")
    return parser


def _config_dir(parser: argparse.ArgumentParser) -> None:
    help_ = "your own options: DIR/algo/NAME.yaml and so on"
    parser.add_argument("--config-dir", "-cd", metavar="DIR", type=Path, help=help_)


def _settings(parser: argparse.ArgumentParser, help_: str) -> None:
    """KEY=VALUE, as many as there are, and the folder of options of one's own."""
    _config_dir(parser)
    parser.add_argument("overrides", nargs="*", metavar="KEY=VALUE", help=help_)


def _json(parser: argparse.ArgumentParser, help_: str) -> None:
    parser.add_argument("--json", action="store_true", help=help_)


def _certificate(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--certificate", type=Path, metavar="FILE", help="write what `dpml verify` computes it from")


def _output(parser: argparse.ArgumentParser, metavar: str | None = None, **options: Any) -> None:
    parser.add_argument("-o", "--output", type=Path, metavar=metavar, **options)


def _about_guarantees(commands: Any) -> None:
    said = "what a release is guaranteed in every view; touches no data"
    guarantee = _command(commands, "guarantee", said, "Print")
    help_ = "as for dpml-run, one value each; M, N and d may be any numbers (default: the data set's own)"
    _settings(guarantee, help_)
    _json(guarantee, "a JSON list with one entry per view and basis")
    _certificate(guarantee)
    said = "what an attacker achieves against a release, beside what is claimed and proven"
    more = ". The data are made up: the worst neighbours that a proof or a search knows."
    audit = _command(commands, "audit", said, "Print", more)
    help_ = (
        "as for dpml-run, one value; N (default 2000 M; algo.unit=party: 100 M; networks, wdgd: 20 M), d (2), "
        "draws (100000), algo.rounds (20) and algo.epochs (10) are the audit's own"
    )
    _settings(audit, help_)
    help_ = "draw what attacks achieve: FILE.png and FILE.svg, a panel a view"
    audit.add_argument("--figure", type=Path, metavar="FILE", help=help_)
    _json(audit, "a JSON list with one entry per view")
    said = "what a training recipe of anybody guarantees in every view, beside what is claimed"
    check = _command(commands, "check", said, "Print", ": docs/howto/check.md.")
    check.add_argument("overrides", nargs="*", metavar="RECIPE.yaml | KEY=VALUE", help="rounds, noise_multiplier, ...")
    _json(check, "a JSON list with one entry per view")
    _certificate(check)


def _data(commands: Any) -> None:
    data = _command(commands, "data", "data sets: what there is, what is here; fetch and verify")
    actions = data.add_subparsers(dest="data_command", required=True, metavar="ACTION")

    def action(name: str, description: str) -> argparse.ArgumentParser:
        parser = _command(actions, name, description)
        _config_dir(parser)
        help_ = "a folder with data files, which is only read (default: $DPML_DATA)"
        parser.add_argument("--data-dir", metavar="DIR", help=help_)
        parser.set_defaults(mirror=None, offline=True)
        return parser

    action("list", "every data set, and whether it is here")
    get = action("get", "fetch, verify and parse data sets")
    get.add_argument("names", nargs="+", metavar="NAME", help="as in `dpml data list`, or all")
    help_ = "fetch from here, laid out as a data folder (default: $DPML_MIRROR)"
    get.add_argument("--mirror", metavar="URL", help=help_)
    get.add_argument("--into", metavar="DIR", help="put the files there (default: the user's cache)")
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
    _settings(partition, "as for dpml-run, one value each")
    partition.add_argument("--figure", type=Path, metavar="FILE", help="draw what parties hold: FILE.png and FILE.svg")


def _describe(actions: Any) -> None:
    said = "what a run would make of a CSV or Parquet file of your own"
    more = (
        ": the type, the values and the gaps of each column, the task and the steps. "
        "All of it is read from the rows and is as private as they are."
    )
    describe = _command(actions, "describe", said, "Print", more)
    describe.add_argument("file", type=Path, metavar="FILE", help="FILE.csv, .csv.gz, or .parquet")
    add_own_file(describe)
    help_ = "count the values outside what this file states"
    describe.add_argument("--bounds", type=Path, metavar="FILE.yaml", help=help_)
    help_ = "write a file for dataset.bounds, to be edited"
    describe.add_argument("--bounds-out", type=Path, metavar="FILE.yaml", help=help_)


def _pack(parser: argparse.ArgumentParser) -> None:
    help_ = "a paper's folder, with its card.yaml; may be given more than once"
    parser.add_argument("--pack", metavar="DIR", type=Path, action="append", default=[], help=help_)


def _for_papers(commands: Any) -> None:
    plot = _command(commands, "plot", "a figure for a paper, of a run, a sweep or a figure", "Draw")
    _rows(plot)
    plot.add_argument("--x", help="eps, delta, M, N, another setting, or inverse_eps (default: what varies)")
    help_ = "axes with a log scale: x, y, xy or none (default: as it suits)"
    plot.add_argument("--log", choices=("x", "y", "xy", "none"), help=help_)
    plot.add_argument("--width", default="3.3in", help="in in, cm, mm or pt (default: %(default)s, a column)")
    help_ = "lines NAME: TEXT, for algorithms, entries of the legend, settings and metrics"
    plot.add_argument("--labels", type=Path, metavar="FILE.yaml", help=help_)
    _output(plot, default=Path("figure.pdf"), help=".pdf, .png or .svg (default: %(default)s)")
    table = _command(commands, "table", "a table for a paper, of a run, a sweep or a figure", "Write")
    _rows(table)
    _output(table, help=".md, .csv, .parquet or .tex (default: print Markdown)")
    for parser in (plot, table):
        parser.add_argument("--force", action="store_true", help="replace the file")
    cite = _command(commands, "cite", "BibTeX of dpml, and of the papers whose figures it regenerates", "Print")
    _pack(cite)
    cite.add_argument("name", nargs="?", help="dpml, or a paper as in results/ (default: all)")


def _rows(parser: argparse.ArgumentParser) -> None:
    """Which rows: of a run, and those of them with some metrics and settings."""
    help_ = "the folder of a run or a sweep, or RESULTS/PAPER/FIGURE"
    parser.add_argument("path", type=Path, metavar="RUN", help=help_)
    help_ = "the metrics (default: accuracy or rmse, and the optimality gap)"
    parser.add_argument("--y", "--metric", dest="metric", nargs="+", action="extend", metavar="METRIC", help=help_)
    help_ = "only rows with these settings: algo=capefm,fm M=5"
    parser.add_argument("--where", nargs="+", action="extend", default=[], metavar="KEY=VALUE", help=help_)


def _about_sums(commands: Any) -> None:
    said = "a secure sum of random vectors by the real protocol: is it right, how long did it take, how many bytes"
    secagg = _command(commands, "secagg", said, "Run")
    secagg.add_argument("-M", type=int, default=10, help="parties (default: %(default)s)")
    secagg.add_argument("-d", type=int, default=10_000, help="entries of each vector (default: %(default)s)")
    secagg.add_argument("--drop", type=float, default=0.0, help="share of parties that vanish before they send theirs")
    said = "one model of the rows of parties on machines of their own"
    federate = _command(commands, "federate", said, more=": docs/federation.md.")
    actions = federate.add_subparsers(dest="action", required=True, metavar="ACTION")
    for add in (_begin, _agree, _take_part):
        add(actions)


def _plan(parser: argparse.ArgumentParser) -> None:
    """What a release of parties is, and against whom it protects them."""
    parser.add_argument("--bounds", type=Path, required=True, metavar="FILE.yaml", help="what is stated")
    help_ = (
        "algo, algo.*, eps, delta, loss, count_errors, dataset.label, dataset.drop, dataset.missing, dataset.steps, "
        "dataset.na, dataset.encoding, dataset.separator, dataset.decimal"
    )
    parser.add_argument(
        "--set", dest="overrides", nargs="+", action="extend", required=True, metavar="KEY=VALUE", help=help_
    )


def _adversary(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--colluders", type=int, default=1, metavar="C", help="default: %(default)s")
    parser.add_argument("--dropouts", type=int, metavar="D", help="default: as many as can be done without")
    _floating(parser)
    _any_delta(parser)


def _begin(actions: Any) -> None:
    said = "a folder for each party and the aggregator, with the steps of a release"
    begin = _command(actions, "init", said)
    _plan(begin)
    begin.add_argument("parties", nargs="+", metavar="NAME", help="the parties' names, or how many there are")
    begin.add_argument("--aggregator", required=True, metavar="HOST:PORT", help="where parties will call")
    _adversary(begin)
    begin.add_argument("-o", "--folder", type=Path, required=True)
    trial = _command(actions, "try", "all of it on this machine, a party for each file")
    _plan(trial)
    trial.add_argument("files", type=Path, nargs="+", metavar="FILE.csv")
    _adversary(trial)
    _waiting(trial, answers=True)
    _output(trial, "model.json", required=True)


def _agree(actions: Any) -> None:
    card = _command(actions, "card", "a party's card for a plan: how many rows it has, and its verification key")
    _plan(card)
    card.add_argument("data", type=Path, metavar="FILE.csv")
    card.add_argument("--key", type=Path, required=True, help="the signing key, made if there is none; tell nobody")
    _output(card, "NAME.card", required=True)
    plan = _command(actions, "plan", "put cards together to the plan that all agree on")
    _plan(plan)
    plan.add_argument("cards", type=Path, nargs="+", metavar="NAME.card")
    _adversary(plan)
    _output(plan, "plan.json", required=True)
    sign = _command(actions, "sign", "sign a plan, and take in the signatures of other copies of it")
    sign.add_argument("plan", type=Path, metavar="plan.json")
    sign.add_argument("--key", type=Path, help="the signing key; without it signatures are only put together")
    help_ = "that others signed"
    sign.add_argument("--copies", type=Path, nargs="+", action="extend", default=[], metavar="plan.json", help=help_)


def _take_part(actions: Any) -> None:
    said = "an authority, ca.pem, and the aggregator's certificate by it, server.pem and server.key"
    tls = _command(actions, "tls", said)
    tls.add_argument("host", metavar="HOST", help="the name or address by which parties call the aggregator")
    tls.add_argument("-o", "--folder", type=Path, required=True)
    party = _command(actions, "party", "take part in a release: call the aggregator, answer, and get the model")
    party.add_argument("data", type=Path, metavar="FILE.csv")
    party.add_argument("--plan", type=Path, required=True)
    party.add_argument("--key", type=Path, required=True)
    party.add_argument("--aggregator", required=True, metavar="HOST:PORT")
    party.add_argument("--ca", type=Path, metavar="FILE.pem", help="the authority of the aggregator's certificate")
    party.add_argument("--ledger", type=Path, help="default: FILE.csv.ledger")
    _cap(party)
    _waiting(party)
    said = "take the sums of the parties that call, and make the model"
    aggregator = _command(actions, "aggregator", said)
    aggregator.add_argument("--plan", type=Path, required=True)
    aggregator.add_argument("--listen", required=True, metavar="HOST:PORT")
    aggregator.add_argument("--certificate", type=Path, metavar="FILE.pem", help="its certificate, for TLS")
    aggregator.add_argument("--certificate-key", type=Path, metavar="FILE.pem")
    _waiting(aggregator, answers=True)
    for parser in (party, aggregator):
        _output(parser, "model.json", required=True)


def _waiting(parser: argparse.ArgumentParser, answers: bool = False) -> None:
    parser.add_argument("--wait", type=float, default=60.0, help="seconds for all to be there (default: %(default)s)")
    if answers:
        help_ = "seconds for the answers of a round (default: %(default)s)"
        parser.add_argument("--timeout", type=float, default=60.0, help=help_)


def _cap(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--cap", type=float, metavar="EPS", help="refuse what would bring the ledger above this eps")
    help_ = "at this delta (default: %(default)g)"
    parser.add_argument("--cap-delta", type=float, default=1e-5, metavar="DELTA", help=help_)


def _floating(parser: argparse.ArgumentParser) -> None:
    help_ = "publish floating-point noise where there is no exact one: proven for real numbers, not for these bits"
    parser.add_argument("--floating", action="store_true", help=help_)


def _any_delta(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--delta-anyway", action="store_true", help="take a delta of 1/N or more")


def _release(commands: Any) -> None:
    said = "one model for publication: noise that nobody can know, entered into a ledger before it is drawn"
    release = _command(commands, "release", said, "Make")
    _config_dir(release)
    help_ = "a CSV or Parquet file, and settings as for dpml-run, one value each; no seed"
    release.add_argument("overrides", nargs="*", metavar="FILE | KEY=VALUE", help=help_)
    help_ = "what is publicly known of the file's columns (dataset.bounds)"
    release.add_argument("--bounds", type=Path, metavar="FILE.yaml", help=help_)
    add_own_file(release)
    _output(release, default=Path("model.json"), help="the model's file (default: %(default)s)")
    release.add_argument("--ledger", type=Path, metavar="FILE", help="default: beside the data, DATA.ledger")
    _any_delta(release)
    help_ = "publish what code that is not part of dpml says of itself, which nobody here has proven"
    release.add_argument("--declared", action="store_true", help=help_)
    _cap(release)
    _floating(release)


def _after_a_release(commands: Any) -> None:
    predict = _command(commands, "predict", "what a published model says of the rows of a file", "Print", ", as CSV.")
    predict.add_argument("model", type=Path, metavar="MODEL", help="the model's file")
    help_ = "a CSV file with the columns that the model needs"
    predict.add_argument("file", type=Path, nargs="?", metavar="FILE", help=help_)
    help_ = "draw what each feature contributes, from the model alone, into DIR"
    predict.add_argument("--shapes", type=Path, metavar="DIR", help=help_)
    predict.add_argument("--proba", action="store_true", help="print the probability of each class, and no prediction")
    predict.add_argument("--class", dest="wanted", metavar="CLASS", help="print the probability of this class only")
    add_written(predict)
    _output(predict, "FILE", help="where to (default: the screen)")
    said = "compute a published model's guarantees, or the verdicts and tables of results, anew"
    verify = _command(commands, "verify", said)
    _pack(verify)
    what = "a model, what `dpml guarantee --certificate` wrote, or results, a paper or a figure (default: %(default)s)"
    verify.add_argument("path", nargs="?", type=Path, default=Path("results"), metavar="FILE|FOLDER", help=what)
    said = "what has been released about some people, and what that adds up to"
    ledger = _command(commands, "ledger", said, "Print")
    ledger.add_argument("ledger", type=Path, metavar="FILE", help="the ledger, as `dpml release` names it")
    ledger.add_argument("--delta", type=float, default=1e-5, help="at which eps is told (default: %(default)g)")
    _json(ledger, "all that is in it, as JSON")


def _others(commands: Any) -> None:
    merge = _command(commands, "merge", "put the tables of several runs or sweeps together")
    merge.add_argument("folders", nargs="+", type=Path, help="folders that a dpml-run wrote to, with rows.csv in them")
    _output(merge, default=Path("results/merged"), help="default: %(default)s")
    said = "pages about all experiments, runs and sweeps of a folder: RESULTS/report/index.html"
    report = _command(commands, "report", said)
    _pack(report)
    report.add_argument("results", nargs="?", type=Path, default=Path("results"), help="default: %(default)s")
    said = "a script that completes dpml's commands and options in your shell: docs/howto/commands.md"
    completion = _command(commands, "completion", said, "Print")
    completion.add_argument("shell", choices=("bash", "zsh", "fish"))
