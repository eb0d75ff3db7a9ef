"""`dpml`: its commands and their options. The module of a command is loaded when it runs."""

import argparse
import sys
from functools import cache
from pathlib import Path
from typing import Any

from dpml import packs
from dpml.cli import load
from dpml.cli.errors import exit_on_mistakes, refuse_dashed_keys
from dpml.cli.files import add_written
from dpml.errors import UserError, nearest
from dpml.files import shipped_folder
from dpml.version import __version__

_EXAMPLES = """\
examples:
  dpml data describe FILE.csv --label COLUMN --bounds-out bounds.yaml
  dpml release FILE.csv --bounds bounds.yaml eps=1 delta=1e-6
  dpml show model.json
  dpml predict model.json NEW.csv
  dpml guarantee algo=capefm eps=0.1 --why
  dpml federate try A.csv B.csv C.csv --bounds bounds.yaml --set eps=1 delta=1e-6"""


_COMPLETED = {"bash": "_dpml_settings", "zsh": "_dpml_settings"}
"""The functions that complete KEY=VALUE, in the shells that have one."""

# bash splits a word at "=": the function looks at both parts, and returns the part that follows
_BASH = """\
_dpml_settings() {
  local word="$1" before="${COMP_WORDS[COMP_CWORD-1]}"
  [[ $word == "=" ]] && word="$before="
  [[ $before == "=" ]] && word="${COMP_WORDS[COMP_CWORD-2]}=$1"
  compgen -W "@SETTINGS" -- "$word" | if [[ $word == *=* ]]; then sed 's/^[^=]*=//'; else cat; fi
}"""
_ZSH = "_dpml_settings() { compadd -S '' -- @SETTINGS }"


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


def run_completion(arguments: argparse.Namespace) -> None:
    """Print a script that completes commands, options and settings in a shell."""
    import shtab
    import yaml

    conf = shipped_folder("conf")
    groups = ("algo", "dataset", "partition")
    words = [f"{group}={path.stem}" for group in groups for path in sorted((conf / group).glob("*.yaml"))]
    keys = yaml.safe_load((conf / "config.yaml").read_text(encoding="utf-8"))
    words += [f"{key}=" for key in keys if key not in ("defaults", "hydra", *groups)]
    preamble = {shell: text.replace("@SETTINGS", " ".join(words)) for shell, text in (("bash", _BASH), ("zsh", _ZSH))}
    print(shtab.complete(parser(), arguments.shell, preamble=preamble))  # type: ignore[arg-type]


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


def _path(
    command: argparse.ArgumentParser, name: str, metavar: str | None, text: str | None = None, **more: Any
) -> None:
    """Add an argument or an option that is a path."""
    command.add_argument(name, type=Path, metavar=metavar, help=text, **more)


def _output(command: argparse.ArgumentParser, metavar: str | None = None, text: str | None = None, **more: Any) -> None:
    command.add_argument("-o", "--output", type=Path, metavar=metavar, help=text, **more)


def _several(command: argparse.ArgumentParser, name: str, metavar: str, text: str | None = None, **more: Any) -> None:
    command.add_argument(name, nargs="+", action="extend", metavar=metavar, help=text, **more)


def _flag(command: argparse.ArgumentParser, name: str, text: str) -> None:
    command.add_argument(name, action="store_true", help=text)


def _settings(command: argparse.ArgumentParser, text: str, metavar: str = "KEY=VALUE") -> None:
    _config_dir(command)
    words = command.add_argument("overrides", nargs="*", metavar=metavar, help=text)
    words.complete = _COMPLETED  # type: ignore[attr-defined]


def _config_dir(command: argparse.ArgumentParser) -> None:
    help_ = "your own options: DIR/algo/NAME.yaml and so on"
    command.add_argument("--config-dir", "-cd", metavar="DIR", type=Path, help=help_)


def _pack(command: argparse.ArgumentParser) -> None:
    text = "a paper's folder, with its card.yaml; may be given more than once"
    _path(command, "--pack", "DIR", text, action="append", default=[])


def _figure(command: argparse.ArgumentParser, what: str) -> None:
    _path(command, "--figure", "FILE", f"draw {what}: FILE.png and FILE.svg")


def _json(command: argparse.ArgumentParser) -> None:
    _flag(command, "--json", "print JSON instead of a table")


def _certificate(command: argparse.ArgumentParser) -> None:
    _path(command, "--certificate", "FILE", "write what `dpml verify` computes it from")


def _cap(command: argparse.ArgumentParser) -> None:
    command.add_argument("--cap", type=float, metavar="EPS", help="refuse what would bring the ledger above this eps")
    help_ = "at this delta (default: %(default)g)"
    command.add_argument("--cap-delta", type=float, default=1e-5, metavar="DELTA", help=help_)


def _floating(command: argparse.ArgumentParser) -> None:
    text = "publish floating-point noise where there is no exact one: proven for real numbers, not for these bits"
    _flag(command, "--floating", text)


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
        return command

    action("list", "list every data set, and whether it is here")
    get = action("get", "fetch, verify and parse data sets", "as in `dpml data list`, or all", "+")
    get.add_argument("--into", metavar="DIR", help="put the files there (default: the user's cache)")
    action("check", "read every raw file that is here again and compare its content", "which sets (default: all)")
    text = "print how a run would read a CSV or Parquet file of your own"
    more = ". All of it is read from the rows and is as private as they are."
    describe = _command(actions, "describe", "describe.run", text, more)
    _path(describe, "file", "FILE", "FILE.csv, .csv.gz, or .parquet")
    describe.add_argument("--label", metavar="COLUMN", help="the column to predict (dataset.label)")
    describe.add_argument("--party", metavar="COLUMN", help="the column that says whose a row is (dataset.party)")
    _several(describe, "--drop", "COLUMN", "columns that are not used (dataset.drop)", default=[])
    add_written(describe)
    _path(describe, "--bounds", "FILE.yaml", "count the values outside what this file states")
    _path(describe, "--bounds-out", "FILE.yaml", "write a file for dataset.bounds, to be edited")
    text = "deal the rows of a data set as a run would, and print how unequal the parties are"
    partition = _command(actions, "partition", "data.run_partition", text)
    _settings(partition, "as for dpml-run, one value each")
    _figure(partition, "what parties hold")


def _models(commands: Any) -> None:
    text = "make one model for publication, with secret noise; a ledger records it first"
    release = _command(commands, "release", "models.run_release", text)
    text = "a CSV or Parquet file, and settings as for dpml-run, one value each; no seed"
    _settings(release, text, "FILE | KEY=VALUE")
    _path(release, "--bounds", "FILE.yaml", "what is publicly known of the file's columns (dataset.bounds)")
    _output(release, None, "the model's file (default: %(default)s)", default=Path("model.json"))
    _path(release, "--ledger", "FILE", "default: beside the data, DATA.ledger")
    _flag(release, "--declared", "publish a guarantee that code from outside dpml declares, and nobody has proven")
    _cap(release)
    _floating(release)

    show = _command(commands, "show", "models.run_show", "print what a published model says, and its coefficients")
    _path(show, "model", "MODEL", "the model's file")
    _path(show, "--shapes", "DIR", "draw what each feature contributes, from the model alone, into DIR")

    text = "print the predictions of a published model for the rows of a file"
    predict = _command(commands, "predict", "predict.run_predict", text, ", as CSV.")
    _path(predict, "model", "MODEL", "the model's file")
    _path(predict, "file", "FILE", "a CSV file with the columns that the model needs")
    _flag(predict, "--proba", "print the probability of each class, and no prediction")
    predict.add_argument("--class", dest="wanted", metavar="CLASS", help="print the probability of this class only")
    add_written(predict)
    _output(predict, None, "where the table is written (default: the screen)")

    text = "print what has been released about some people, and its total"
    ledger = _command(commands, "ledger", "models.run_ledger", text)
    _path(ledger, "ledger", "FILE", "the ledger, as `dpml release` names it")
    ledger.add_argument("--delta", type=float, default=1e-5, help="at which eps is computed (default: %(default)g)")
    _json(ledger)

    text = "compute a model's guarantees, or the verdicts and tables of results, again"
    verify = _command(commands, "verify", "papers.run_verify", text)
    _pack(verify)
    text = "a model, what `dpml guarantee --certificate` wrote, or results, a paper or a figure (default: %(default)s)"
    _path(verify, "path", "FILE|FOLDER", text, nargs="?", default=Path("results"))


def _guarantees(commands: Any) -> None:
    text = "compute the guarantees of a release in every view; touches no data"
    guarantee = _command(commands, "guarantee", "privacy.run_guarantee", text)
    _settings(guarantee, "as for dpml-run, one value each; M, N and d may be any numbers (default: the data set's own)")
    _flag(guarantee, "--why", "print message, sensitivity, noise and composition")
    _json(guarantee)
    _certificate(guarantee)
    text = "attack a release, and compare the result with what is claimed and proven"
    more = ". The data are synthetic: the worst neighbours known from a proof or a search."
    audit = _command(commands, "audit", "privacy.run_audit", text, more)
    text = (
        "as for dpml-run, one value; N (default 2000 M; algo.unit=party: 100 M; networks, wdgd: 20 M), d (2), "
        "draws (100000), algo.rounds (20) and algo.epochs (10) are the audit's own"
    )
    _settings(audit, text)
    _figure(audit, "what attacks achieve, a panel a view")
    _json(audit)
    text = "compute what anybody's training recipe guarantees in every view"
    check = _command(commands, "check", "privacy.run_check", text, ": docs/howto/check.md.")
    check.add_argument("overrides", nargs="*", metavar="RECIPE.yaml | KEY=VALUE", help="rounds, noise_multiplier, ...")
    text = "exit with 1 if a claim is false, also if it is unproven (default), or never"
    check.add_argument("--fail-on", choices=("false", "unproven", "never"), default="unproven", help=text)
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
    _path(trial, "files", "FILE.csv", nargs="+")
    _adversary(trial)
    _waiting(trial, answers=True)
    _flag(trial, "--release", "make the model, and enter it into every party's ledger")
    help_ = "options of one party's file, such as --reading ayr encoding=cp1252 decimal=comma"
    trial.add_argument("--reading", nargs="+", action="append", default=[], metavar="NAME KEY=VALUE", help=help_)
    _output(trial, "model.json", "default: %(default)s", default=Path("model.json"))
    begin = action("init", "write a folder for each party and the aggregator, with the steps of a release")
    _plan(begin)
    begin.add_argument("parties", nargs="+", metavar="NAME", help="the parties' names, or how many there are")
    begin.add_argument("--aggregator", required=True, metavar="HOST:PORT", help="where parties will call")
    _adversary(begin)
    begin.add_argument("-o", "--folder", type=Path, required=True)
    card = action("card", "write a party's card for a plan: its number of rows and its verification key")
    _plan(card)
    _path(card, "data", "FILE.csv")
    _path(card, "--key", None, "the signing key, made if there is none; tell nobody", required=True)
    add_written(card)
    _output(card, "NAME.card", required=True)
    plan = action("plan", "put cards together to the plan that all agree on")
    _plan(plan)
    _path(plan, "cards", "NAME.card", nargs="+")
    _adversary(plan)
    _output(plan, "plan.json", required=True)
    sign = action("sign", "sign a plan, and take in the signatures of other copies of it")
    _path(sign, "plan", "plan.json")
    _path(sign, "--key", None, "the signing key; without it signatures are only put together")
    _several(sign, "--copies", "plan.json", "that others signed", type=Path, default=[])
    tls = action("tls", "write an authority, ca.pem, and the aggregator's certificate by it, server.pem and server.key")
    tls.add_argument("host", metavar="HOST", help="the name or address by which parties call the aggregator")
    tls.add_argument("-o", "--folder", type=Path, required=True)
    party = action("party", "take part in a release: call the aggregator, answer, and get the model")
    _path(party, "data", "FILE.csv")
    _path(party, "--plan", None, required=True)
    _path(party, "--key", None, required=True)
    party.add_argument("--aggregator", required=True, metavar="HOST:PORT")
    _path(party, "--ca", "FILE.pem", "the authority of the aggregator's certificate")
    _path(party, "--ledger", None, "default: FILE.csv.ledger")
    _cap(party)
    _waiting(party)
    add_written(party)
    _output(party, "model.json", required=True)
    aggregator = action("aggregator", "take the sums of the parties that call, and make the model")
    _path(aggregator, "--plan", None, required=True)
    aggregator.add_argument("--listen", required=True, metavar="HOST:PORT")
    _path(aggregator, "--certificate", "FILE.pem", "its certificate, for TLS")
    _path(aggregator, "--certificate-key", "FILE.pem")
    _waiting(aggregator, answers=True)
    _output(aggregator, "model.json", required=True)


def _plan(command: argparse.ArgumentParser) -> None:
    _path(command, "--bounds", "FILE.yaml", "what is stated of the columns", required=True)
    help_ = (
        "eps, delta, algo (default: wdgd), algo.*, loss, count_errors, dataset.label, dataset.drop, dataset.missing, "
        "dataset.steps, dataset.na, dataset.encoding, dataset.separator, dataset.decimal"
    )
    _several(command, "--set", "KEY=VALUE", help_, dest="overrides", required=True)


def _adversary(command: argparse.ArgumentParser) -> None:
    command.add_argument("--colluders", type=int, default=1, metavar="C", help="default: %(default)s")
    command.add_argument("--dropouts", type=int, metavar="D", help="parties that may drop out (default: the maximum)")
    _floating(command)


def _waiting(command: argparse.ArgumentParser, answers: bool = False) -> None:
    command.add_argument("--wait", type=float, default=60.0, help="seconds for all to be there (default: %(default)s)")
    if answers:
        help_ = "seconds for the answers of a round (default: %(default)s)"
        command.add_argument("--timeout", type=float, default=60.0, help=help_)


def _papers(commands: Any) -> None:
    plot = _command(commands, "plot", "papers.run_plot", "draw a figure for a paper from a run, a sweep or a figure")
    table = _command(commands, "table", "papers.run_table", "write a table for a paper from a run, a sweep or a figure")
    for command in (plot, table):
        _path(command, "path", "RUN", "the folder of a run or a sweep, or RESULTS/PAPER/FIGURE")
        help_ = "the metrics (default: accuracy or rmse, and the optimality gap)"
        _several(command, "--y", "METRIC", help_, dest="metric")
        _several(command, "--where", "KEY=VALUE", "only rows with these settings: algo=capefm,fm M=5", default=[])
        _flag(command, "--force", "replace the file")
    plot.add_argument("--x", help="eps, delta, M, N, another setting, or inverse_eps (default: what varies)")
    plot.add_argument("--width", default="3.3in", help="such as 3.3in or 8cm (default: %(default)s, a column)")
    _output(plot, None, ".pdf, .png or .svg (default: %(default)s)", default=Path("figure.pdf"))
    _output(table, None, ".md, .csv, .parquet or .tex (default: print Markdown)")
    merge = _command(commands, "merge", "papers.run_merge", "put the tables of several runs or sweeps together")
    _path(merge, "folders", None, "folders that a dpml-run wrote to, with rows.csv in them", nargs="+")
    _output(merge, None, "default: %(default)s", default=Path("results/merged"))
    text = "write pages about all experiments, runs and sweeps of a folder: RESULTS/report/index.html"
    report = _command(commands, "report", "papers.run_report", text)
    _pack(report)
    _path(report, "results", None, "default: %(default)s", nargs="?", default=Path("results"))
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
    shell = _command(commands, "completion", "main.run_completion", text, ": docs/howto/commands.md.")
    shell.add_argument("shell", choices=("bash", "zsh", "fish"))
