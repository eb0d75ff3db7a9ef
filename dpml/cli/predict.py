"""`dpml predict`: the predictions of a published model for the rows of a file."""

import sys
from argparse import Namespace
from pathlib import Path

import numpy as np
import pandas as pd

from dpml.arrays import Array
from dpml.atomic import write_atomically
from dpml.data.csv.columns import feature
from dpml.data.csv.reading import open_file, read
from dpml.errors import UserError, nearest
from dpml.printable import plain_cell
from dpml.release.model import Model, read_model


def run(arguments: Namespace) -> None:
    """Write a table with a prediction for every row of the file."""
    model = read_model(arguments.model)
    predicted = model.predictions(_rows(model, arguments.file))
    if model.task != "regression":
        predicted["prediction"] = [plain_cell(name) for name in predicted["prediction"]]
    table = pd.DataFrame(predicted).to_csv(index=False)
    if arguments.output is None:
        sys.stdout.write(table)
    else:
        write_atomically(arguments.output, table)


def _rows(model: Model, path: Path) -> Array:
    """The features (n, p) of the rows of a file, encoded by the columns that the model states.

    Raises:
        UserError: a column is missing or of another kind, or a value that the model needs is missing.
    """
    file, stated = open_file(path), model.stated
    names = list(stated.columns)
    for name in names:
        if name not in file.names:
            raise UserError(f"{path} has no column {name!r}, which the model needs: {nearest(name, file.names)}")
    kinds = {name: stated.kind(name) for name in names}
    columns = read(file, names, [name for name in names if kinds[name] == "category"])
    X = np.empty((len(columns.X), len(names)))
    for place, name in enumerate(names):
        known = stated.columns[name]
        X[:, place] = feature(columns, name, kinds[name], known if isinstance(known, tuple) else ())
        if kinds[name] == "category":
            X[np.isnan(X[:, place]), place] = -1.0
    missing = np.isnan(X)
    if missing.any() and "impute" not in model.steps:
        row, place = (int(index[0]) for index in np.nonzero(missing))
        raise UserError(f"{file.where(row)}, column {names[place]!r}: a value is missing, and the model needs one.")
    return X
