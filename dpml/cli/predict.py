"""`dpml predict`: the predictions of a published model for the rows of a file."""

import sys
from argparse import Namespace
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pandas as pd

from dpml.arrays import Array
from dpml.cli.files import in_options, refuse_replacing
from dpml.cli.files import written as written_as
from dpml.data.csv.column_bounds import WRITTEN
from dpml.data.csv.columns import levels_of, matrix
from dpml.data.csv.reading import Dialect, FileColumn, dialect, open_file, read
from dpml.errors import UserError, nearest
from dpml.files import write_atomically
from dpml.release.model import PROBABILITY, Model, read_model
from dpml.screen import plain_cell


def run_predict(arguments: Namespace) -> None:
    """Write a table with a prediction for every row of the file, in the file's order."""
    model = read_model(arguments.model)
    refuse_replacing(arguments.output, arguments.model, arguments.file)
    if arguments.shapes is not None:
        _draw_shapes(model, arguments.shapes)
    if arguments.file is None:
        if arguments.shapes is None:
            raise UserError("name a FILE of rows to predict, or --shapes DIR for what each feature contributes.")
        return
    with in_options():
        usual = {key: said for key, said in model.stated.reading.items() if key in WRITTEN}
        written = dialect(**{**usual, **written_as(arguments)})
        found = pd.DataFrame(model.predictions(_rows(model, arguments.file, written)))
    if model.task != "regression":
        found["prediction"] = [plain_cell(name) for name in found["prediction"]]
    table = _asked(model, found, arguments).to_csv(index=False)
    if arguments.output is None:
        sys.stdout.write(table)
    else:
        write_atomically(arguments.output, table)


def _draw_shapes(model: Model, folder: Path) -> None:
    from dpml.reporting import shapes  # slow to load

    try:
        if folder.exists() and any(folder.iterdir() if folder.is_dir() else [folder]):
            raise UserError(f"--shapes {folder} is there already, and not empty: choose another folder.")
        written = shapes.write(model, folder)
    except OSError as error:
        raise UserError(f"--shapes {folder} cannot be written: {error.strerror}.") from None
    said = f"{len(written)} files in {folder}: each feature as .png and .svg, and all numbers in shapes.csv"
    print(said, file=sys.stderr)  # stdout has the predictions


def _asked(model: Model, found: pd.DataFrame, arguments: Namespace) -> pd.DataFrame:
    if not arguments.proba and arguments.wanted is None:
        return found
    columns = [str(name) for name in found.columns if str(name).startswith(PROBABILITY)]
    if not columns:
        what = "a number" if model.task == "regression" else f"a class by the loss {model.loss}"
        raise UserError(f"{arguments.model} predicts {what} and gives no probabilities: leave out --proba and --class.")
    if arguments.wanted is None:
        return found[columns]
    if arguments.wanted not in model.stated.classes:
        known = nearest(arguments.wanted, model.stated.classes)
        raise UserError(f"--class {arguments.wanted} is no class of {arguments.model}: {known}")
    return found[[PROBABILITY + arguments.wanted]]


def _note_unknown(column: FileColumn, codes: Array, values: Sequence[str]) -> None:
    """Say that rows have a category that the model has no weight for: its spelling may be another."""
    unknown = np.flatnonzero(codes < 0)
    if len(unknown):
        code = column.codes[unknown[0]]
        what = "a missing value" if code < 0 else repr(column.texts[code][:40])
        known = ", ".join(values[:20]) + (", ..." if values[20:] else "")
        print(
            f"note: {len(unknown):,} of {len(codes):,} rows have none of the model's values in the column "
            f"{column.name!r}, the first of them {what}: they count as none of {known}.",
            file=sys.stderr,
        )


def _rows(model: Model, path: Path, written: Dialect) -> Array:
    """The features (n, p) of the rows of a file, encoded by the columns that the model states."""
    file, kinds = open_file(path, written), model.stated.kinds
    for name in kinds:
        if name not in file.names:
            raise UserError(f"{path} has no column {name!r}, which the model needs: {nearest(name, file.names)}")
    columns = read(file, list(kinds), model.stated.texts)
    X = matrix(columns, kinds)
    names = list(model.stated.columns)
    symbolic = np.flatnonzero(levels_of(kinds))
    X[:, symbolic] = np.nan_to_num(X[:, symbolic], nan=-1.0)
    for place in symbolic:
        _note_unknown(columns[names[place]], X[:, place], kinds[names[place]].statement())
    missing = np.isnan(X)
    if missing.any() and "impute" not in model.steps:
        row, number = (int(index[0]) for index in np.nonzero(missing))
        raise UserError(f"{file.where(row)}, column {names[number]!r}: a value is missing, and the model needs one.")
    return X
