"""Files of the user's own: options that say how one is written, mistakes in it, and none that is overwritten."""

import argparse
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from dpml.errors import UserError

AS_PRIVATE = "All this is computed from the rows without noise, and as private as they are: do not publish it."

_KEYS = ("encoding", "separator", "decimal", "na", "drop", "label")
_KEY = re.compile(rf"dataset\.({'|'.join(_KEYS)})(?:=(?:\[([^\]]*)\]|(\S+?)(?=[,;.:)]*(?:\s|$))))?")

_FILES = " (dataset.path, dataset.test_path)"  # the file has no option: it is an argument


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
        raise UserError(_KEY.sub(_option, str(error).replace(_FILES, ""))) from None


def _option(found: "re.Match[str]") -> str:
    value = found[2].replace(",", " ") if found[2] is not None else found[3]
    return f"--{found[1]}" + (f" {value}" if value else "")


def stem(figure: Path) -> Path:
    """The path of a figure's files, which have suffixes of their own."""
    if not figure.name or figure.is_dir():
        raise UserError(f"--figure {figure} is no name of a file: FILE makes FILE.png and FILE.svg.")
    return figure.with_suffix("")


def refuse_replacing(output: Path | None, *read: Path | None) -> None:
    """Raise UserError where a file that is read would be replaced by what is made of it."""
    for path in read:
        if output and path and output.exists() and path.exists() and output.samefile(path):
            raise UserError(f"-o {output} would replace {path}, which is read: choose another name.")


def refuse_overwriting(path: Path, force: bool, kinds: Sequence[str]) -> None:
    """Raise UserError unless a file can be written there: it is new, or may be replaced, and of one of some kinds."""
    if path.suffix[1:] not in kinds:
        raise UserError(f"-o {path} must end in .{', .'.join(kinds[:-1])} or .{kinds[-1]}.")
    if path.exists() and not force:
        raise UserError(f"{path} is there already: choose another name with -o, or add --force to replace it.")
