"""Buzz in social media, Twitter (UCI 248): predict the mean number of active discussions from 77 features."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

import numpy as np

from dpml.data import Info, Raw
from dpml.data.table import RandomSplit, Table, read_csv

_UCI = "https://archive.ics.uci.edu"
_MEMBER = "regression.tar.gz!regression/Twitter/Twitter.data"


@dataclass(frozen=True)
class TwitterBuzz(RandomSplit):
    """583,250 rows: eleven features of a topic in each of seven weeks. Used by Imtiaz et al. 2019, fig. 4."""

    info: ClassVar[Info] = Info(
        name="twitter_buzz",
        title="Buzz in social media (Twitter, regression)",
        task="regression",
        citation="F. Kawala, A. Douzal-Chouakria, E. Gaussier, E. Diemert, MARAMI 2013; "
        "Buzz in social media, UCI, 2013",
        how_to_get="It is Twitter.data in regression.tar.gz of https://archive.ics.uci.edu/dataset/248.",
        homepage="https://archive.ics.uci.edu/dataset/248",
        licence="CC BY 4.0",
        files=(
            Raw(
                "Twitter.data",
                urls=(
                    f"{_UCI}/static/public/248/buzz+in+social+media.zip!{_MEMBER}",
                    f"{_UCI}/ml/machine-learning-databases/00248/{_MEMBER}",
                ),
                lines=583_250,
                fields=78,
                separator=",",
            ),
        ),
        rows=583_250,
        features=77,
        parties="M = 5 (Imtiaz et al. 2019, fig. 4)",
        schema="77 counts and shares; target: the mean number of active discussions in the two weeks that follow.",
        papers="Imtiaz et al. 2019 scale each feature by its largest absolute value over all rows, then all rows by "
        "the largest norm of the N = 500, ..., 30000 drawn; they report the training loss.",
        differences="A fifth of the rows, drawn at random, is for testing, and scaling is fitted on the training rows "
        "only. The authors' own samples are `twitter_authors`.",
        bounds="nothing caps its counts and its target: Twitter.names has the minima and maxima of these very rows",
    )
    steps: tuple[str, ...] = ("max_abs", "max_norm")

    def parse(self, paths: Mapping[str, Path]) -> Table:
        table = read_csv(paths["Twitter.data"], header=None, dtype=np.float64).to_numpy()
        return Table(table[:, :-1], table[:, -1])
