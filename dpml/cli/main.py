"""Define the commands of `dpml` and their options. The module of a command is loaded only when the command runs."""

import argparse
import sys
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

from dpml import packs
from dpml.cli import load
from dpml.cli.errors import exit_on_mistakes, refuse_dashed_keys
from dpml.errors import UserError, nearest
from dpml.version import __version__

_EXAMPLES = """\
examples:
  dpml data describe FILE.csv --label COLUMN --bounds-out bounds.yaml
  dpml release FILE.csv --bounds bounds.yaml eps=1 delta=1e-6
  dpml show model.json
  dpml predict model.json NEW.csv
  dpml ledger FILE.csv.ledger
  dpml guarantee algo=capefm eps=0.1 --why
  dpml audit algo=wddp eps=1
  dpml check rounds=100 noise_multiplier=10 delta=1e-5 claimed_eps=3
  dpml federate try A.csv B.csv C.csv --bounds bounds.yaml --set eps=1 delta=1e-6
  dpml plot RUN --x eps
  dpml table RUN -o table.tex
  dpml verify results/kang2019/fig1"""

_COMPLETED = {"bash": "_dpml_settings", "zsh": "_dpml_settings"}
"""The function that completes KEY=VALUE, for each shell that has one."""

# bash splits a word at "=": the function looks at both parts, and returns the part after "="
_BASH = """\
_dpml_settings() {
  local word="$1" before="${COMP_WORDS[COMP_CWORD-1]}"
  [[ $word == "=" ]] && word="$before="
  [[ $before == "=" ]] && word="${COMP_WORDS[COMP_CWORD-2]}=$1"
  compgen -W "@SETTINGS" -- "$word" | if [[ $word == *=* ]]; then sed 's/^[^=]*=//'; else cat; fi
}"""
_ZSH = "_dpml_settings() { compadd -S '' -- @SETTINGS }"


def _option(metavar: str | None, text: str | None = None, **more: Any) -> dict[str, Any]:
    return {"metavar": metavar, "help": text, **more}


def _path(metavar: str | None, text: str | None = None, **more: Any) -> dict[str, Any]:
    return _option(metavar, text, type=Path, **more)


def _number(kind: type, default: float | None, text: str, metavar: str | None = None) -> dict[str, Any]:
    return _option(
        metavar, f"{text} (default: %(default)s)" if default is not None else text, type=kind, default=default
    )


def _flag(text: str) -> dict[str, Any]:
    return {"action": "store_true", "help": text}


_SEVERAL: dict[str, Any] = {"nargs": "+", "action": "extend", "default": []}
_SHORT = {"--output": "-o", "--folder": "-o", "--config-dir": "-cd"}
_AGREED = (
    "settings on which all parties agree: eps, delta, algo (default: wdgd), algo.*, loss, count_errors, dataset.label, "
    "dataset.drop, dataset.missing, dataset.steps, dataset.na, dataset.encoding, dataset.separator, dataset.decimal"
)
_OPTIONS = {
    "overrides": _option("KEY=VALUE", "settings as for dpml-run, with one value each", nargs="*"),
    "--config-dir": _path("DIR", "a folder with your own options, such as DIR/algo/NAME.yaml"),
    "--pack": _path("DIR", "the folder of a paper, with its card.yaml; can be repeated", action="append", default=[]),
    "--json": _flag("print JSON instead of a table"),
    "--output": _path(None, "the file to write (default: %(default)s)"),
    "--folder": _path("DIR", "write the files into this new folder", required=True),
    "--figure": _path("FILE", "also draw a figure: FILE.png and FILE.svg"),
    "--certificate": _path("FILE", "write a certificate, from which `dpml verify` recomputes the guarantee"),
    "--why": _flag("also print the messages, their sensitivity and noise, and the guarantee that follows"),
    "--fail-on": _option(
        None,
        "exit with status 1 if a claim is false or not proven (unproven, the default), if a claim is false (false), or "
        "never",
        choices=("false", "unproven", "never"),
        default="unproven",
    ),
    "--format": _option(
        None,
        "print tables (default), or annotations for a GitHub workflow",
        choices=("table", "github"),
        default="table",
    ),
    "names": _option("NAME", "data sets, as in `dpml data list` (default: all)", nargs="*"),
    "--data-dir": _option("DIR", "a folder with data files, in which nothing is written (default: $DPML_DATA)"),
    "--into": _option("DIR", "store the files in this folder (default: the user's cache)"),
    "file": _path("FILE", "the file of the rows: FILE.csv, FILE.csv.gz or FILE.parquet"),
    "model": _path("MODEL", "the file of a published model"),
    "--label": _option("COLUMN", "the column to predict (dataset.label)"),
    "--party": _option("COLUMN", "the column that names the party of each row (dataset.party)"),
    "--drop": _option("COLUMN", "columns that are not used (dataset.drop)", **_SEVERAL),
    "--encoding": _option("NAME", "the encoding: utf-8 (the default), utf-16, latin-1, cp1252, ... (dataset.encoding)"),
    "--separator": _option(
        "CHARACTER", "the character between two values, or comma, semicolon, tab or bar (default: detected)"
    ),
    "--decimal": _option("NAME", "the decimal mark: point (the default) or comma"),
    "--na": _option("TEXT", "texts that mean a missing value, in addition to the usual texts (dataset.na)", **_SEVERAL),
    "--bounds": _path("FILE.yaml", "public ranges and categories of the file's columns (dataset.bounds)"),
    "--bounds-out": _path("FILE.yaml", "write a draft of the file for --bounds, which you then edit"),
    "--proba": _flag("print the probability of each class instead of the prediction"),
    "--class": _option("CLASS", "print the probability of this class only", dest="wanted"),
    "--shapes": _path("DIR", "draw how each feature contributes to the score, into DIR; needs no data"),
    "--ledger": _path("FILE", "the ledger that records the release (default: FILE.csv.ledger next to the data)"),
    "--cap": _number(float, None, "refuse a release that would raise the ledger's total above this eps", "EPS"),
    "--cap-delta": _number(float, 1e-5, "the delta at which the eps of the cap is computed", "DELTA"),
    "--delta": _number(float, 1e-5, "the delta at which eps is computed"),
    "--declared": _flag("allow a guarantee that other code declares, and that dpml has not proven"),
    "--floating": _flag("allow floating-point noise, whose proof is for real numbers and not for the published bits"),
    "files": _path("FILE.csv", "the rows of each party", nargs="+"),
    "data": _path("FILE.csv", "the rows of this party"),
    "cards": _path("NAME.card", "the cards of all parties", nargs="+"),
    "plan": _path("plan.json", "the plan of the release"),
    "parties": _option("NAME", "the parties' names, or how many there are", nargs="+"),
    "host": _option("HOST", "the name or address by which parties call the aggregator"),
    "--set": _option("KEY=VALUE", _AGREED, dest="overrides", required=True, nargs="+", action="extend"),
    "--colluders": _number(int, 1, "how many parties may share their knowledge with the aggregator", "C"),
    "--dropouts": _number(int, None, "how many parties may drop out (default: the largest possible number)", "D"),
    "--wait": _number(float, 60.0, "seconds to wait until the aggregator and all parties are connected"),
    "--timeout": _number(float, 60.0, "seconds to wait for the parties' answers in each round"),
    "--release": _flag("make a real release, and record it in every party's ledger"),
    "--reading": _option(
        "NAME KEY=VALUE",
        "options of one party's file, such as --reading ayr encoding=cp1252 decimal=comma",
        nargs="+",
        action="append",
        default=[],
    ),
    "--plan": _path(None, "the plan that all parties have signed", required=True),
    "--key": _path(None, "the signing key, which `card` creates; keep it secret", required=True),
    "--copies": _path("plan.json", "copies of the plan that other parties have signed", **_SEVERAL),
    "--aggregator": _option("HOST:PORT", "the address that parties call", required=True),
    "--listen": _option("HOST:PORT", "the address at which the aggregator listens", required=True),
    "--ca": _path("FILE.pem", "the aggregator's certificate, or the certificate of the authority that has signed it"),
    "--certificate-key": _path("FILE.pem", "the private key of the certificate"),
    "path": _path("RUN", "the folder of a run or a sweep, RESULTS/PAPER/FIGURE, or a model of algo=regression"),
    "folders": _path("RUN", "folders of runs or sweeps, which contain rows.csv", nargs="+"),
    "results": _path(None, "the folder of all results (default: %(default)s)", nargs="?", default=Path("results")),
    "--x": _option(None, "the x axis: eps, delta, M, N, inverse_eps or a setting (default: the first one that varies)"),
    "--y": _option(
        "METRIC", "the metrics to show (default: accuracy or rmse, and the optimality gap)", nargs="+", action="extend"
    ),
    "--where": _option("KEY=VALUE", "use only rows with these settings, such as algo=capefm,fm M=5", **_SEVERAL),
    "--width": _option(
        None, "the width of the figure, such as 8cm (default: %(default)s, one column)", default="3.3in"
    ),
    "--level": _number(float, 0.95, "the confidence level of a model's intervals"),
    "--per": _option("COLUMN=NUMBER", "print the effect of an increase of COLUMN by NUMBER (default: 1)", **_SEVERAL),
    "--force": _flag("replace an existing file"),
    "name": _option(None, "the entry to print: dpml, or the name of a paper in results/ (default: all)", nargs="?"),
    "-M": _number(int, 10, "the number of parties"),
    "-d": _number(int, 10_000, "the number of entries of each vector"),
    "shell": _option(None, choices=("bash", "zsh", "fish")),
}

_SETTING = ("overrides", "--config-dir")
_COLUMNS = ("--label", "--party", "--drop")
_WRITTEN = ("--encoding", "--separator", "--decimal", "--na")
_STATED = ("--bounds", _path("FILE.yaml", "public ranges and categories of the columns", required=True))
_AGREED_ON = (_STATED, "--label", "--set")
_ADVERSARY = ("--colluders", "--dropouts", "--floating")
_LOCAL = ("--config-dir", "--data-dir")
_CHOSEN = ("path", "--y", "--where", "--force")
_CAP = ("--ledger", "--cap", "--cap-delta")
_MODEL = ("--output", _path("model.json", "the file to write (default: %(default)s)", default=Path("model.json")))


def _to(metavar: str) -> tuple[str, dict[str, Any]]:
    return "--output", _path(metavar, required=True)


@cache  # parsing a command line does not change the parser
def parser() -> argparse.ArgumentParser:
    """Return the parser of all commands and their options."""
    top = _Parser(
        prog="dpml",
        description="Multiparty differentially private learning. Runs and sweeps: see dpml-run --help.",
        epilog=_EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    top.add_argument("--version", action="version", version=f"dpml {__version__}")
    commands = top.add_subparsers(required=True, metavar="COMMAND")

    add = _adder(commands, "data.run_{}", "list, fetch, verify and describe data sets", "data")
    add("list", "list all data sets, and say whether their files are on this machine", *_LOCAL, "--json")
    add(
        "get",
        "fetch, verify and parse data sets",
        *_LOCAL,
        ("names", _option("NAME", "data sets, or all", nargs="+")),
        "--into",
    )
    add("check", "check that the raw files on this machine have the expected content", *_LOCAL, "names")
    text = "print how a run would read a CSV or Parquet file of your own. The output is as private as the rows"
    bounds = ("--bounds", _path("FILE.yaml", "count the values outside of the bounds in this file"))
    written = ("--bounds-out", "--json")
    add("describe", text, "file", *_COLUMNS, *_WRITTEN, bounds, *written, run="describe.run_describe")
    text = "deal the rows of a data set as a run would, and print how unequal the parties are"
    add("partition", text, *_SETTING, "--figure", "--json")

    add = _adder(commands, "models.run_{}")
    words = (
        "overrides",
        _option("FILE | KEY=VALUE", "the file of the rows, and settings as for dpml-run, but no seed", nargs="*"),
    )
    text = "release one model for publication, with secret noise; a ledger records its eps first"
    own_file = ("--bounds", *_COLUMNS, *_WRITTEN)
    add("release", text, words, "--config-dir", *own_file, _MODEL, *_CAP, "--declared", "--floating")
    add("show", "print the guarantees and the coefficients of a published model", "model", "--shapes")
    text = "print the predictions of a published model for the rows of a file, as CSV"
    table = ("--output", _path(None, "the CSV file to write (default: print the predictions)"))
    add("predict", text, "model", "file", "--proba", "--class", *_WRITTEN, table, run="predict.run_predict")
    ledger = ("ledger", _path("FILE", "the ledger, whose path `dpml release` prints"))
    add("ledger", "print all releases in a ledger, and their total eps", ledger, "--delta", "--json")

    add = _adder(commands, "privacy.run_{}")
    text = "compute the guarantees of a release in every view, without data: M, N and d can be any numbers"
    add("guarantee", text, *_SETTING, "--why", "--json", "--certificate")
    text = "attack releases of synthetic data, and compare the result with the claimed and the proven eps"
    own = "N=2000 M (algo.unit=party: 100 M; networks, wdgd: 20 M), d=2, draws=100000, algo.rounds=20, algo.epochs=10"
    words = ("overrides", _option("KEY=VALUE", f"settings as for dpml-run, but with the defaults {own}", nargs="*"))
    add("audit", text, words, "--config-dir", "--figure", "--json")
    words = (
        "overrides",
        _option("RECIPE.yaml | KEY=VALUE", "files of recipes, and keys of a recipe, such as rounds=100", nargs="*"),
    )
    text = "compute the guarantees of any training recipe in every view (see docs/howto/check.md)"
    add("check", text, words, "--fail-on", "--format", "--json", "--certificate")
    text = "run the protocol for secure sums on random vectors, and print the time and the bytes that it takes"
    drop = ("--drop", _number(float, 0.0, "the share of parties that drop out before they send their vector"))
    add("secagg", text, "-M", "-d", drop)

    _add_federation(commands)
    add = _adder(commands, "papers.run_{}")
    figure = (
        "--output",
        _path(None, "the .pdf, .png or .svg to write (default: %(default)s)", default=Path("figure.pdf")),
    )
    add("plot", "draw a figure for a paper from a run, a sweep or a figure", *_CHOSEN, "--x", "--width", figure)
    table = ("--output", _path(None, "the .md, .csv, .parquet or .tex to write (default: print Markdown)"))
    text = "write a table for a paper from a run, a sweep or a figure, or from a model's coefficients"
    add("table", text, *_CHOSEN, "--level", "--per", table)
    merged = ("--output", _path(None, "the folder to write (default: %(default)s)", default=Path("results/merged")))
    add("merge", "merge the tables of several runs or sweeps", "folders", merged)
    text = "write web pages about the results in a folder, which start at RESULTS/report/index.html"
    add("report", text, "--pack", "results")
    add("cite", "print BibTeX of dpml and of the papers whose figures dpml regenerates", "--pack", "name")
    text = "a model, a certificate, or the folder of results, a paper or a figure (default: %(default)s)"
    stored = ("path", _path("FILE|FOLDER", text, nargs="?", default=Path("results")))
    add("verify", "recompute a model's guarantees, or the verdicts and tables of results", "--pack", stored, "--json")
    text = "print a script with which your shell completes commands, options and settings"
    _adder(commands, "main.run_{}")("completion", text, "shell")
    return top


def _add_federation(commands: Any) -> None:
    text = "train one model on rows that parties keep on their own machines (see docs/federation.md)"
    add = _adder(commands, "federate.run_{}", text, "federate")
    text = "rehearse a release on this machine, with one party per file and without an entry in a ledger"
    waits = ("--wait", "--timeout")
    add("try", text, *_AGREED_ON, "files", *_ADVERSARY, *waits, "--release", "--reading", _MODEL)
    text = "write a folder for each party and the aggregator, with the steps of a release"
    add("init", text, *_AGREED_ON, "parties", "--aggregator", *_ADVERSARY, "--folder")
    text = "write a party's card for a plan: its number of rows and its verification key"
    add("card", text, *_AGREED_ON, "data", "--key", *_WRITTEN, _to("NAME.card"))
    text = "combine the cards into the plan that all parties sign"
    add("plan", text, *_AGREED_ON, "cards", *_ADVERSARY, _to("plan.json"))
    key = ("--key", _path(None, "the signing key (default: only add the signatures of other copies)"))
    add("sign", "sign a plan, and add the signatures of other copies of the plan", "plan", key, "--copies")
    text = "write the aggregator's certificate server.pem and its key server.key, and ca.pem for the parties"
    add("tls", text, "host", "--folder")
    text = "take part in a release: call the aggregator, answer its requests, and receive the model"
    joined = ("data", "--plan", "--key", "--aggregator", "--ca", *_CAP, "--wait", *_WRITTEN)
    add("party", text, *joined, _to("model.json"))
    text = "wait for the parties, sum their messages, and compute the model from the sums"
    certificate = ("--certificate", _path("FILE.pem", "the aggregator's certificate, for TLS"))
    add("aggregator", text, "--plan", "--listen", certificate, "--certificate-key", *waits, _to("model.json"))


def _adder(commands: Any, run: str, text: str = "", group: str = "") -> Callable[..., None]:
    """Return a function that adds commands to the parser; the commands are subcommands of `group` if it is set."""
    if group:
        parent = commands.add_parser(group, help=text, description=f"{text[:1].upper()}{text[1:]}.")
        commands = parent.add_subparsers(required=True, metavar="ACTION")

    def add(name: str, text: str, *options: str | tuple[str, dict[str, Any]], run: str = run) -> None:
        command = commands.add_parser(name, help=text, description=f"{text[:1].upper()}{text[1:]}.")
        command.set_defaults(run=run.format(name), parser=command)
        for option in options:
            key, how = (option, _OPTIONS[option]) if isinstance(option, str) else option
            argument = command.add_argument(*([_SHORT[key]] if key in _SHORT else []), key, **how)
            if key == "overrides":
                argument.complete = _COMPLETED

    return add


class _Parser(argparse.ArgumentParser):
    def __init__(self, **options: Any) -> None:
        super().__init__(allow_abbrev=False, **options)

    def _check_value(self, action: argparse.Action, value: Any) -> None:
        if action.choices is not None and value not in action.choices:
            name = action.metavar or next(iter(action.option_strings), action.dest)
            raise UserError(f"unknown {str(name).lower()} {value!r}: {nearest(value, action.choices)}")


def main() -> None:
    """Run `dpml`."""
    exit_on_mistakes("dpml", _main)


def _main() -> None:
    if sys.argv[1:2] == ["run"]:
        raise UserError("runs and sweeps have their own command: write dpml-run, with a dash.")
    arguments, more = parser().parse_known_args()
    refuse_dashed_keys(sys.argv[1:], more)
    if "overrides" in arguments:  # argparse leaves overrides after an option in `more`
        arguments.overrides += [word for word in more if not word.startswith("-")]
        more = [word for word in more if word.startswith("-")]
    if more:
        arguments.parser.error(f"unrecognized arguments: {' '.join(more)}")
    packs.add(getattr(arguments, "pack", []))
    module, function = arguments.run.split(".")
    getattr(load(module), function)(arguments)


def run_completion(arguments: argparse.Namespace) -> None:
    """Print a script with which a shell completes commands, options and settings."""
    import shtab

    from dpml.config.build import GROUPS, KEYS
    from dpml.config.compose import options

    words = [f"{group}={name}" for group in GROUPS for name in options(group)]
    words += [f"{key}=" for key in KEYS if key not in GROUPS]
    preamble = {shell: text.replace("@SETTINGS", " ".join(words)) for shell, text in (("bash", _BASH), ("zsh", _ZSH))}
    print(shtab.complete(parser(), arguments.shell, preamble=preamble))  # type: ignore[arg-type]
