"""Bank Marketing (UCI 222), bank-additional-full: does a client subscribe to a term deposit? 41,188 rows."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

import numpy as np

from dpml.data import Info, Range, Raw
from dpml.data.info import Column, values
from dpml.data.table import RandomSplit, Table, encode, read_csv

_SYMBOLIC = (1, 2, 3, 4, 5, 6, 7, 8, 9, 14)
_MEMBER = "bank-additional.zip!bank-additional/bank-additional-full.csv"
_UCI = "https://archive.ics.uci.edu"
_ASKED = values("no yes unknown")
_COLUMNS: dict[str, Column] = {
    "age": Range(0, 100),
    "job": values(
        "admin. blue-collar entrepreneur housemaid management retired self-employed services student technician "
        "unemployed unknown"
    ),
    "marital": values("divorced married single unknown"),
    "education": values(
        "basic.4y basic.6y basic.9y high.school illiterate professional.course university.degree unknown"
    ),
    "default": _ASKED,
    "housing": _ASKED,
    "loan": _ASKED,
    "contact": values("cellular telephone"),
    "month": values("jan feb mar apr may jun jul aug sep oct nov dec"),
    "day_of_week": values("mon tue wed thu fri"),
    "duration": Range(0, 3600, log=True),
    "campaign": Range(1, 100, log=True),
    "pdays": Range(0, 999),
    "previous": Range(0, 100, log=True),
    "poutcome": values("failure nonexistent success"),
    "emp.var.rate": Range(-4, 2),
    "cons.price.idx": Range(92, 95),
    "cons.conf.idx": Range(-60, -20),
    "euribor3m": Range(0, 6),
    "nr.employed": Range(4900, 5300),
}


@dataclass(frozen=True)
class Bank(RandomSplit):
    """41,188 rows, ten numeric and ten symbolic features. Used by Kang et al. 2019."""

    info: ClassVar[Info] = Info(
        name="bank",
        title="Bank Marketing (bank-additional-full)",
        task="binary",
        citation="S. Moro, P. Cortez, P. Rita, Decision Support Systems 62:22-31, 2014; UCI, doi:10.24432/C5K306",
        how_to_get="It is bank-additional-full.csv in https://archive.ics.uci.edu/dataset/222/bank+marketing.",
        homepage="https://archive.ics.uci.edu/dataset/222/bank+marketing",
        licence="CC BY 4.0",
        files=(
            Raw(
                "bank-additional-full.csv",
                urls=(
                    f"{_UCI}/static/public/222/bank+marketing.zip!{_MEMBER}",
                    f"{_UCI}/ml/machine-learning-databases/00222/{_MEMBER}",
                ),
                sha256=("74adfc578bf77a7ff4bb1ba4a9f8709d9e3c6907342959c2c8416847e0afb4d8",),
            ),
        ),
        rows=41_188,
        features=63,
        classes={-1: 36_548, +1: 4_640},
        parties="M = 2, 4, 8, 16, 32 (Kang et al. 2019)",
        schema="Ten numeric features, then one 0/1 column for every value of the ten symbolic ones (`unknown` is a "
        "value like any other): 10 + 53 = 63. Label +1: the client subscribed. "
        "12 rows are exact duplicates, as published.",
        papers="Kang et al. 2019 use all 41,188 rows; split and scaling are not stated.",
        differences="A fifth of the rows, drawn at random, is for testing; each feature is scaled to [0, 1], then all "
        "rows by the largest training norm. The values of the symbolic features are those of all rows, test rows among "
        "them. `duration`, known only after the call, is kept, as the papers do not "
        "say that they drop it.",
        columns=_COLUMNS,
        bounds="The lists of values are those of bank-additional-names.txt, and so are 999 days for a client who was "
        "never contacted before; no row has `jan` or `feb`, and the rows have all other values. By what they mean: "
        "ages up to 100, calls of up to an hour, and up to 100 contacts. The five economic indicators are national "
        "statistics of May 2008 to November 2010, in which no client has a share: their published values, rounded "
        "outwards.",
    )
    steps: tuple[str, ...] = ("one_hot", "min_max", "max_norm")

    def parse(self, paths: Mapping[str, Path]) -> Table:
        table = read_csv(paths["bank-additional-full.csv"], sep=";")
        X, levels = encode([table.iloc[:, :20]], _SYMBOLIC, self.stated)
        return Table(X, np.where(table["y"] == "yes", 1.0, -1.0), levels)
