"""`dpml`: its commands and their options. The module of a command is loaded when it runs."""

import argparse
import sys
from functools import cache
from pathlib import Path
from typing import Any

from dpml import packs
from dpml.cli import completion, load
from dpml.cli.errors import exit_on_mistakes, refuse_dashed_keys
from dpml.cli.files import add_own_file, add_written
from dpml.errors import UserError, nearest
from dpml.version import __version__

_EXAMPLES = """\
examples:
  dpml data describe FILE.csv --label COLUMN --bounds-out bounds.yaml
  dpml release FILE.csv --bounds bounds.yaml eps=1 delta=1e-6
  dpml show model.json
  dpml predict model.json NEW.csv
  dpml guarantee algo=capefm eps=0.1 --why
  dpml federate try A.csv B.csv C.csv --bounds bounds.yaml --set eps=1 delta=1e-6"""


def main() -> None:
    """Run `dpml`."""
    exit_on_mistakes("dpml", _main)


def _main() -> None:
    if sys.argv[1:2] == ["run"]:
        raise UserError("runs and sweeps have a command of their own: write dpml-run, with a dash.")
    arguments, more = parser().parse_known_args()
    refuse_dashed_keys(sys.argv[1:], more)
    if "overrides" in arguments:  # argparse takes overrides only before an option
        arguments.overrides += [word for word in more if not word.startswith("-")]
        more = [word for word in more if word.startswith("-")]
    if more:
        arguments.parser.error(f"unrecognized arguments: {' '.join(more)}")
    packs.add(getattr(arguments, "pack", []))
    module, function = arguments.run.split(".")
    getattr(load(module), function)(arguments)


class _Parser(argparse.ArgumentParser):
    """A parser that suggests the nearest name, and allows no option to be shortened: `--delta` is a setting."""

    def __init__(self, **options: Any) -> None:
        super().__init__(allow_abbrev=False, **options)

    def _check_value(self, action: argparse.Action, value: Any) -> None:
        if action.choices is not None and value not in action.choices:
            name = action.metavar or next(iter(action.option_strings), action.dest)
            raise UserError(f"unknown {str(name).lower()} {value!r}: {nearest(value, action.choices)}")


@cache  # reading a command line changes nothing in it
def parser() -> argparse.ArgumentParser:
    """Return the parser of all commands and their options."""
    parser = _Parser(
        prog="dpml",
        description="Multiparty differentially private learning. Runs and sweeps: see dpml-run --help.",
        epilog=_EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--version", action="version", version=f"dpml {__version__}")
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    for add in (_data, _models, _guarantees, _federate, _papers, _others):
        add(commands)
    return parser


def _command(commands: Any, name: str, run: str, text: str, more: str = ".") -> argparse.ArgumentParser:
    """Add a command that `run`, MODULE.FUNCTION of this package, carries out; its own help shows `text` and `more`."""
    command: argparse.ArgumentParser = commands.add_parser(
        name, help=text, description=text[:1].upper() + text[1:] + more
    )
    command.set_defaults(run=run, parser=command)
    return command


# ---- options that several commands have


def _config_dir(command: argparse.ArgumentParser) -> None:
    help_ = "your own options: DIR/algo/NAME.yaml and so on"
    command.add_argument("--config-dir", "-cd", metavar="DIR", type=Path, help=help_)


def _settings(command: argparse.ArgumentParser, help_: str, metavar: str = "KEY=VALUE") -> None:
    _config_dir(command)
    words = command.add_argument("overrides", nargs="*", metavar=metavar, help=help_)
    words.complete = completion.SETTINGS  # type: ignore[attr-defined]


def _output(command: argparse.ArgumentParser, metavar: str | None = None, **options: Any) -> None:
    command.add_argument("-o", "--output", type=Path, metavar=metavar, **options)


def _pack(command: argparse.ArgumentParser) -> None:
    help_ = "a paper's folder, with its card.yaml; may be given more than once"
    command.add_argument("--pack", metavar="DIR", type=Path, action="append", default=[], help=help_)


def _figure(command: argparse.ArgumentParser, what: str) -> None:
    command.add_argument("--figure", type=Path, metavar="FILE", help=f"draw {what}: FILE.png and FILE.svg")


def _json(command: argparse.ArgumentParser) -> None:
    command.add_argument("--json", action="store_true", help="print JSON instead of a table")


def _certificate(command: argparse.ArgumentParser) -> None:
    command.add_argument("--certificate", type=Path, metavar="FILE", help="write what `dpml verify` computes it from")


def _cap(command: argparse.ArgumentParser) -> None:
    command.add_argument("--cap", type=float, metavar="EPS", help="refuse what would bring the ledger above this eps")
    help_ = "at this delta (default: %(default)g)"
    command.add_argument("--cap-delta", type=float, default=1e-5, metavar="DELTA", help=help_)


def _floating(command: argparse.ArgumentParser) -> None:
    help_ = "publish floating-point noise where there is no exact one: proven for real numbers, not for these bits"
    command.add_argument("--floating", action="store_true", help=help_)


def _any_delta(command: argparse.ArgumentParser) -> None:
    command.add_argument("--delta-anyway", action="store_true", help="take a delta of 1/N or more")


# ---- commands


def _data(commands: Any) -> None:
    data = _command(commands, "data", "", "list, fetch, verify and describe data sets")
    actions = data.add_subparsers(dest="data_command", required=True, metavar="ACTION")

    def action(name: str, text: str, names: str | None = None, number: str = "*") -> argparse.ArgumentParser:
        command = _command(actions, name, f"data.run_{name}", text)
        _config_dir(command)
        help_ = "a folder with data files, which is only read (default: $DPML_DATA)"
        command.add_argument("--data-dir", metavar="DIR", help=help_)
        if names:
            command.add_argument("names", nargs=number, metavar="NAME", help=names)
        command.set_defaults(mirror=None, offline=True)
        return command

    action("list", "list every data set, and whether it is here")
    get = action("get", "fetch, verify and parse data sets", "as in `dpml data list`, or all", "+")
    help_ = "fetch from here, laid out as a data folder (default: $DPML_MIRROR)"
    get.add_argument("--mirror", metavar="URL", help=help_)
    get.add_argument("--into", metavar="DIR", help="put the files there (default: the user's cache)")
    get.add_argument("--offline", action="store_true", help="fetch nothing (as does DPML_OFFLINE=1)")
    get.set_defaults(offline=False)
    action("check", "read every raw file that is here again and compare its content", "which sets (default: all)")
    names = "the raw files of these sets (default: the folders)"
    action("path", "print where data files and parsed arrays are", names)
    text = "print how a run would read a CSV or Parquet file of your own"
    more = ". All of it is read from the rows and is as private as they are."
    describe = _command(actions, "describe", "describe.run", text, more)
    describe.add_argument("file", type=Path, metavar="FILE", help="FILE.csv, .csv.gz, or .parquet")
    add_own_file(describe)
    help_ = "count the values outside what this file states"
    describe.add_argument("--bounds", type=Path, metavar="FILE.yaml", help=help_)
    help_ = "write a file for dataset.bounds, to be edited"
    describe.add_argument("--bounds-out", type=Path, metavar="FILE.yaml", help=help_)
    text = "deal the rows of a data set as a run would, and print how unequal the parties are"
    partition = _command(actions, "partition", "data.run_partition", text)
    _settings(partition, "as for dpml-run, one value each")
    _figure(partition, "what parties hold")


def _models(commands: Any) -> None:
    text = "make one model for publication, with secret noise; a ledger records it first"
    release = _command(commands, "release", "models.run_release", text)
    help_ = "a CSV or Parquet file, and settings as for dpml-run, one value each; no seed"
    _settings(release, help_, "FILE | KEY=VALUE")
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

    show = _command(commands, "show", "models.run_show", "print what a published model says, and its coefficients")
    show.add_argument("model", type=Path, metavar="MODEL", help="the model's file")
    help_ = "draw what each feature contributes, from the model alone, into DIR"
    show.add_argument("--shapes", type=Path, metavar="DIR", help=help_)

    text = "print the predictions of a published model for the rows of a file"
    predict = _command(commands, "predict", "predict.run_predict", text, ", as CSV.")
    predict.add_argument("model", type=Path, metavar="MODEL", help="the model's file")
    help_ = "a CSV file with the columns that the model needs"
    predict.add_argument("file", type=Path, metavar="FILE", help=help_)
    predict.add_argument("--proba", action="store_true", help="print the probability of each class, and no prediction")
    help_ = "print the probability of this class, and no prediction"
    predict.add_argument("--class", dest="wanted", metavar="CLASS", help=help_)
    add_written(predict)
    _output(predict, help="where the table is written (default: the screen)")

    text = "print what has been released about some people, and its total"
    ledger = _command(commands, "ledger", "models.run_ledger", text)
    ledger.add_argument("ledger", type=Path, metavar="FILE", help="the ledger, as `dpml release` names it")
    ledger.add_argument("--delta", type=float, default=1e-5, help="at which eps is computed (default: %(default)g)")
    _json(ledger)

    text = "compute a model's guarantees, or the verdicts and tables of results, again"
    verify = _command(commands, "verify", "papers.run_verify", text)
    _pack(verify)
    what = "a model, what `dpml guarantee --certificate` wrote, or results, a paper or a figure (default: %(default)s)"
    verify.add_argument("path", nargs="?", type=Path, default=Path("results"), metavar="FILE|FOLDER", help=what)


def _guarantees(commands: Any) -> None:
    text = "compute the guarantees of a release in every view; touches no data"
    guarantee = _command(commands, "guarantee", "privacy.run_guarantee", text)
    help_ = "as for dpml-run, one value each; M, N and d may be any numbers (default: the data set's own)"
    _settings(guarantee, help_)
    guarantee.add_argument("--why", action="store_true", help="print message, sensitivity, noise and composition")
    _json(guarantee)
    _certificate(guarantee)
    text = "attack a release, and compare the result with what is claimed and proven"
    more = ". The data are synthetic: the worst neighbours known from a proof or a search."
    audit = _command(commands, "audit", "privacy.run_audit", text, more)
    help_ = (
        "as for dpml-run, one value; N (default 2000 M; algo.unit=party: 100 M; networks, wdgd: 20 M), d (2), "
        "draws (100000), algo.rounds (20) and algo.epochs (10) are the audit's own"
    )
    _settings(audit, help_)
    _figure(audit, "what attacks achieve, a panel a view")
    _json(audit)
    text = "compute what anybody's training recipe guarantees in every view"
    check = _command(commands, "check", "privacy.run_check", text, ": docs/howto/check.md.")
    check.add_argument("overrides", nargs="*", metavar="RECIPE.yaml | KEY=VALUE", help="rounds, noise_multiplier, ...")
    _json(check)
    _certificate(check)


def _federate(commands: Any) -> None:
    text = "train one model on the rows of parties that keep them on their own machines"
    federate = _command(commands, "federate", "", text, ": docs/federation.md.")
    actions = federate.add_subparsers(dest="action", required=True, metavar="ACTION")

    def action(name: str, text: str) -> argparse.ArgumentParser:
        return _command(actions, name, f"federate.run_{name}", text)

    trial = action("try", "rehearse all of it on this machine, one party per file; charges no ledger")
    _plan(trial)
    trial.add_argument("files", type=Path, nargs="+", metavar="FILE.csv")
    _adversary(trial)
    _waiting(trial, answers=True)
    trial.add_argument("--release", action="store_true", help="make the model, and enter it into every party's ledger")
    help_ = "options of one party's file, such as --reading ayr encoding=cp1252 decimal=comma"
    trial.add_argument("--reading", nargs="+", action="append", default=[], metavar="NAME KEY=VALUE", help=help_)
    _output(trial, "model.json", default=Path("model.json"), help="default: %(default)s")
    begin = action("init", "write a folder for each party and the aggregator, with the steps of a release")
    _plan(begin)
    begin.add_argument("parties", nargs="+", metavar="NAME", help="the parties' names, or how many there are")
    begin.add_argument("--aggregator", required=True, metavar="HOST:PORT", help="where parties will call")
    _adversary(begin)
    begin.add_argument("-o", "--folder", type=Path, required=True)
    card = action("card", "write a party's card for a plan: its number of rows and its verification key")
    _plan(card)
    card.add_argument("data", type=Path, metavar="FILE.csv")
    card.add_argument("--key", type=Path, required=True, help="the signing key, made if there is none; tell nobody")
    add_written(card)
    _output(card, "NAME.card", required=True)
    plan = action("plan", "put cards together to the plan that all agree on")
    _plan(plan)
    plan.add_argument("cards", type=Path, nargs="+", metavar="NAME.card")
    _adversary(plan)
    _output(plan, "plan.json", required=True)
    sign = action("sign", "sign a plan, and take in the signatures of other copies of it")
    sign.add_argument("plan", type=Path, metavar="plan.json")
    sign.add_argument("--key", type=Path, help="the signing key; without it signatures are only put together")
    help_ = "that others signed"
    sign.add_argument("--copies", type=Path, nargs="+", action="extend", default=[], metavar="plan.json", help=help_)
    tls = action("tls", "write an authority, ca.pem, and the aggregator's certificate by it, server.pem and server.key")
    tls.add_argument("host", metavar="HOST", help="the name or address by which parties call the aggregator")
    tls.add_argument("-o", "--folder", type=Path, required=True)
    party = action("party", "take part in a release: call the aggregator, answer, and get the model")
    party.add_argument("data", type=Path, metavar="FILE.csv")
    party.add_argument("--plan", type=Path, required=True)
    party.add_argument("--key", type=Path, required=True)
    party.add_argument("--aggregator", required=True, metavar="HOST:PORT")
    party.add_argument("--ca", type=Path, metavar="FILE.pem", help="the authority of the aggregator's certificate")
    party.add_argument("--ledger", type=Path, help="default: FILE.csv.ledger")
    _cap(party)
    _waiting(party)
    add_written(party)
    _output(party, "model.json", required=True)
    aggregator = action("aggregator", "take the sums of the parties that call, and make the model")
    aggregator.add_argument("--plan", type=Path, required=True)
    aggregator.add_argument("--listen", required=True, metavar="HOST:PORT")
    aggregator.add_argument("--certificate", type=Path, metavar="FILE.pem", help="its certificate, for TLS")
    aggregator.add_argument("--certificate-key", type=Path, metavar="FILE.pem")
    _waiting(aggregator, answers=True)
    _output(aggregator, "model.json", required=True)


def _plan(command: argparse.ArgumentParser) -> None:
    command.add_argument("--bounds", type=Path, required=True, metavar="FILE.yaml", help="what is stated")
    help_ = "eps, delta, algo (default: wdgd), algo.*, loss, count_errors, and dataset.* about the columns"
    words = {"nargs": "+", "action": "extend", "required": True, "metavar": "KEY=VALUE", "help": help_}
    command.add_argument("--set", dest="overrides", **words)  # type: ignore[arg-type]


def _adversary(command: argparse.ArgumentParser) -> None:
    command.add_argument("--colluders", type=int, default=1, metavar="C", help="default: %(default)s")
    help_ = "parties that may drop out (default: the maximum)"
    command.add_argument("--dropouts", type=int, metavar="D", help=help_)
    _floating(command)
    _any_delta(command)


def _waiting(command: argparse.ArgumentParser, answers: bool = False) -> None:
    command.add_argument("--wait", type=float, default=60.0, help="seconds for all to be there (default: %(default)s)")
    if answers:
        help_ = "seconds for the answers of a round (default: %(default)s)"
        command.add_argument("--timeout", type=float, default=60.0, help=help_)


def _papers(commands: Any) -> None:
    plot = _command(commands, "plot", "papers.run_plot", "draw a figure for a paper from a run, a sweep or a figure")
    table = _command(commands, "table", "papers.run_table", "write a table for a paper from a run, a sweep or a figure")
    for command in (plot, table):
        help_ = "the folder of a run or a sweep, or RESULTS/PAPER/FIGURE"
        command.add_argument("path", type=Path, metavar="RUN", help=help_)
        help_ = "the metrics (default: accuracy or rmse, and the optimality gap)"
        metric = {"nargs": "+", "action": "extend", "metavar": "METRIC", "help": help_}
        command.add_argument("--y", "--metric", dest="metric", **metric)  # type: ignore[arg-type]
        help_ = "only rows with these settings: algo=capefm,fm M=5"
        command.add_argument("--where", nargs="+", action="extend", default=[], metavar="KEY=VALUE", help=help_)
        command.add_argument("--force", action="store_true", help="replace the file")
    plot.add_argument("--x", help="eps, delta, M, N, another setting, or inverse_eps (default: what varies)")
    help_ = "axes with a log scale: x, y, xy or none (default: automatic)"
    plot.add_argument("--log", choices=("x", "y", "xy", "none"), help=help_)
    plot.add_argument("--width", default="3.3in", help="such as 3.3in or 8cm (default: %(default)s, a column)")
    help_ = "lines NAME: TEXT, for algorithms, entries of the legend, settings and metrics"
    plot.add_argument("--labels", type=Path, metavar="FILE.yaml", help=help_)
    _output(plot, default=Path("figure.pdf"), help=".pdf, .png or .svg (default: %(default)s)")
    _output(table, help=".md, .csv, .parquet or .tex (default: print Markdown)")
    merge = _command(commands, "merge", "papers.run_merge", "put the tables of several runs or sweeps together")
    merge.add_argument("folders", nargs="+", type=Path, help="folders that a dpml-run wrote to, with rows.csv in them")
    _output(merge, default=Path("results/merged"), help="default: %(default)s")
    text = "write pages about all experiments, runs and sweeps of a folder: RESULTS/report/index.html"
    report = _command(commands, "report", "papers.run_report", text)
    _pack(report)
    report.add_argument("results", nargs="?", type=Path, default=Path("results"), help="default: %(default)s")
    text = "print BibTeX of dpml and of the papers whose figures it regenerates"
    cite = _command(commands, "cite", "papers.run_cite", text)
    _pack(cite)
    cite.add_argument("name", nargs="?", help="dpml, or a paper as in results/ (default: all)")


def _others(commands: Any) -> None:
    text = "run a secure sum of random vectors by the real protocol; print its time and its bytes"
    secagg = _command(commands, "secagg", "privacy.run_secagg", text)
    secagg.add_argument("-M", type=int, default=10, help="parties (default: %(default)s)")
    secagg.add_argument("-d", type=int, default=10_000, help="entries of each vector (default: %(default)s)")
    secagg.add_argument("--drop", type=float, default=0.0, help="share of parties that vanish before they send theirs")
    text = "print a script that completes commands, options and settings in your shell"
    shell = _command(commands, "completion", "completion.run_completion", text, ": docs/howto/commands.md.")
    shell.add_argument("shell", choices=("bash", "zsh", "fish"))
