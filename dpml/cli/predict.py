"""Run `dpml predict`, which writes the predictions of a published model for the rows of a file."""

import sys
from argparse import Namespace
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pandas as pd

from dpml.arrays import Array
from dpml.cli.files import refuse_replacing, written
from dpml.data.csv.column_bounds import WRITTEN
from dpml.data.csv.columns import features_of, matrix
from dpml.data.csv.reading import Dialect, FileColumn, dialect, open_file, read
from dpml.data.preprocess import levels_of
from dpml.errors import UserError, nearest
from dpml.files import write_atomically
from dpml.release.model import PROBABILITY, Model, read_model
from dpml.screen import plain_cell


def run_predict(arguments: Namespace) -> None:
    """Write a table with the prediction for every row of a file, in the file's order."""
    model = read_model(arguments.model)
    refuse_replacing(arguments.output, arguments.model, arguments.file)
    stated = {key: value for key, value in model.stated.reading.items() if key in WRITTEN}
    rows = _rows(model, arguments.file, dialect(**{**stated, **written(arguments)}))
    found = pd.DataFrame(model.predictions(rows))
    if model.task != "regression":
        found["prediction"] = [plain_cell(name) for name in found["prediction"]]
    if arguments.proba or arguments.wanted is not None:
        found = found[_probabilities(model, list(found.columns), arguments.wanted)]
    table = found.to_csv(index=False, float_format="%.6g")
    if arguments.output is None:
        sys.stdout.write(table)
    else:
        write_atomically(arguments.output, table)


def _probabilities(model: Model, columns: Sequence[str], wanted: str | None) -> list[str]:
    found = [name for name in columns if name.startswith(PROBABILITY)]
    if not found:
        what = "a number" if model.task == "regression" else f"a class by the loss {model.loss}"
        raise UserError(f"this model predicts {what} and gives no probabilities: leave out --proba and --class.")
    if wanted is not None and wanted not in model.stated.classes:
        raise UserError(f"--class {wanted} is not a class of this model: {nearest(wanted, model.stated.classes)}")
    return found if wanted is None else [PROBABILITY + wanted]


def _rows(model: Model, path: Path, written: Dialect) -> Array:
    file, kinds = open_file(path, written), model.stated.kinds
    columns = read(file, list(kinds), model.stated.texts)
    X, names = matrix(columns, kinds), list(model.stated.columns)
    for place in np.flatnonzero(levels_of(features_of(kinds))):
        X[np.isnan(X[:, place]), place] = -1.0
        _note_unknown(columns[names[place]], X[:, place], kinds[names[place]].values)
    missing = np.isnan(X)
    if missing.any() and "impute" not in model.steps:
        row, column = (int(index[0]) for index in np.nonzero(missing))
        raise UserError(f"{file.where(row)}, column {names[column]!r}: a value is missing, but the model needs one.")
    return X


def _note_unknown(column: FileColumn, codes: Array, values: Sequence[str]) -> None:
    unknown = np.flatnonzero(codes < 0)
    if len(unknown):
        code = column.codes[unknown[0]]
        what = "a missing value" if code < 0 else repr(column.texts[code][:40])
        known = ", ".join(values[:20]) + (", ..." if values[20:] else "")
        print(
            f"note: {len(unknown):,} of {len(codes):,} rows have none of the model's values in the column "
            f"{column.name!r}, the first of them {what}: the model treats them as none of {known}.",
            file=sys.stderr,
        )
