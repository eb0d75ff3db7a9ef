"""Read the options about the format of a user's file, and refuse to overwrite files by mistake."""

import argparse
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from dpml.config.words import word_of
from dpml.errors import UserError

AS_PRIVATE = "All this is computed from the rows without noise, and is as private as they are: do not publish it."

READING = ("encoding", "separator", "decimal", "na")


def written(arguments: argparse.Namespace) -> dict[str, Any]:
    """Return the command-line options that describe the format of a file, such as --encoding."""
    return _given(arguments, READING)


def own_options(arguments: argparse.Namespace) -> dict[str, Any]:
    """Return the command-line options that set options of dataset=csv, such as --label."""
    return _given(arguments, ("bounds", "label", "party", "drop", *READING))


def _given(arguments: argparse.Namespace, keys: Sequence[str]) -> dict[str, Any]:
    values = {key: getattr(arguments, key) for key in keys}
    return {key: tuple(said) if isinstance(said, list) else str(said) for key, said in values.items() if said}


def own_file(arguments: argparse.Namespace) -> list[str]:
    """Return the settings of `dpml release` as KEY=VALUE, also those for its data file and options such as --label."""
    words = arguments.overrides
    files = [word for word in words if "=" not in word and Path(word).suffix and not word.startswith(("-", "~", "+"))]
    if len(files) > 1:
        raise UserError(f"a release takes one file of rows, got {' and '.join(files)}.")
    given = ({"path": files[0]} if files else {}) | own_options(arguments)
    settings = [word_of(f"dataset.{key}", content) for key, content in given.items()]
    return ["dataset=csv"] * bool(files) + settings + [word for word in words if word not in files]


def refuse_replacing(output: Path | None, *read: Path | None) -> None:
    """Raise UserError if an output file would replace one of the files that a command reads."""
    for path in read:
        if output and path and output.exists() and path.exists() and output.samefile(path):
            raise UserError(f"-o {output} would replace the input {path}: choose another name.")


def refuse_overwriting(path: Path, force: bool, kinds: Sequence[str]) -> None:
    """Raise UserError if an output file exists and `force` is not set, or if the file's suffix is not in `kinds`."""
    if path.suffix[1:] not in kinds:
        raise UserError(f"-o {path} must end in .{', .'.join(kinds[:-1])} or .{kinds[-1]}.")
    if path.exists() and not force:
        raise UserError(f"{path} is there already: choose another name with -o, or add --force to replace it.")
