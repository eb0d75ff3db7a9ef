"""A party's own rows, read with the plan's columns."""

import json
import tempfile
from pathlib import Path

import numpy as np

from dpml.algorithms import require_domain
from dpml.arrays import Array
from dpml.data import Dataset
from dpml.data.csv.column_bounds import ColumnBounds
from dpml.data.csv.csv_rows import read_rows
from dpml.data.partition import Parties
from dpml.data.preprocess import scale_target, stated_apply
from dpml.data.sets.csv import CSV
from dpml.errors import UserError
from dpml.federated.plan import FederationPlan, task_of, with_file


def own_rows(dataset: CSV, stated: ColumnBounds, path: Path) -> tuple[Array, Array]:
    """The rows X (n, d) and labels y (n,) of a file, in its order, by the statements about the columns.

    The file's columns may be in any order: features are in that of `stated`.
    """
    with tempfile.TemporaryDirectory() as folder:
        bounds = Path(folder) / "stated.json"
        bounds.write_text(json.dumps(stated.content()), encoding="utf-8")
        try:
            rows = read_rows(with_file(dataset, path, bounds))
        except UserError as error:
            raise UserError(str(error).replace(str(bounds), str(stated.path))) from None
    names = list(rows.stated)
    X = rows.X[:, [names.index(name) for name in stated.columns]]
    X, _, _ = stated_apply(dataset.steps, X, X[:0], stated.columns)
    y = rows.y if stated.target is None else scale_target(rows.y, rows.y[:0], stated.target)[0]
    return X, y


def agreed_rows(plan: FederationPlan, party: int, path: Path) -> tuple[Array, Array]:
    """The rows of a party, if they match the plan and satisfy the assumptions of the guarantee."""
    X, y = own_rows(plan.dataset, plan.stated, path)
    seat = plan.seats[party]
    if len(y) != seat.rows:
        raise UserError(
            f"{path} has {len(y):,} rows that can be used, and the plan says {seat.rows:,} of {seat.name!r}: agree on "
            "a new plan."
        )
    n = len(y)
    data = Dataset(str(path), task_of(plan.stated), X, y, X[:0], y[:0])
    require_domain(Parties(data, np.arange(n), np.array([0, n]), X, y, X[:0]), plan.algorithm.loss)
    return X, y
