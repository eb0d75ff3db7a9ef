"""Options of commands that read a file of the user's own, and mistakes in it in the words of these options."""

import argparse
import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from dpml.errors import UserError

_KEYS = ("encoding", "separator", "decimal", "na", "drop", "label")
_KEY = re.compile(rf"dataset\.({'|'.join(_KEYS)})(?:=(?:\[([^\]]*)\]|(\S+?)(?=[,;.:)]*(?:\s|$))))?")


def add_written(parser: argparse.ArgumentParser) -> None:
    """Add the options that say how a file is written."""
    help_ = "utf-8 (the default), utf-16, latin-1, cp1252, ... (dataset.encoding)"
    parser.add_argument("--encoding", default="utf-8", metavar="NAME", help=help_)
    help_ = "the character between values, or comma, semicolon, tab, bar (default: found out)"
    parser.add_argument("--separator", metavar="CHARACTER", help=help_)
    parser.add_argument("--decimal", default="point", metavar="NAME", help="point (the default) or comma")
    help_ = "texts that stand for a missing value, besides the usual ones (dataset.na)"
    parser.add_argument("--na", nargs="+", default=[], metavar="TEXT", help=help_)


def written(arguments: argparse.Namespace) -> dict[str, Any]:
    """What the options of `add_written` say."""
    return {key: getattr(arguments, key) for key in ("encoding", "separator", "decimal")} | {"na": tuple(arguments.na)}


@contextmanager
def in_options() -> Iterator[None]:
    """Raise a mistake that names keys of dataset=csv again, with the options of the same names."""
    try:
        yield
    except UserError as error:
        raise UserError(_KEY.sub(_option, str(error))) from None


def _option(found: "re.Match[str]") -> str:
    value = found[2].replace(",", " ") if found[2] is not None else found[3]
    return f"--{found[1]}" + (f" {value}" if value else "")
