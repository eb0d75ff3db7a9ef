"""What seeds vary: known from the data set's split, told beside intervals, and what a test file adds."""

import numpy as np
import pandas as pd

from dpml.data.sets.official import Adult, BreastCancer
from dpml.reporting.statistics import (
    caution,
    official,
    same_rows,
    varied,
)
from dpml.seeds import generator

LINES = pd.DataFrame(
    {
        "dataset": ["adult", "adult", "adult", "breast_cancer", "plug_in", "har"],
        "N": [30_162, 30_162, 20_000, 559, 30_162, 7_352],
        "M": [1, 10, 1, 1, 1, 1],
        "metric": "accuracy",
        "mean": [0.84, 0.8, 0.8, 0.9, 0.8, 0.9],
    }
)


def test_an_official_split_in_full_has_the_same_rows_for_every_seed():
    y = np.zeros(45_222)
    drawn = {
        kind: [kind().split(y[:n], None, generator(seed, "data")) for seed in (0, 1)]
        for kind, n in ((Adult, 45_222), (BreastCancer, 699))
    }
    sets = {kind: [frozenset(train.tolist()) for train, _ in both] for kind, both in drawn.items()}
    assert len(set(sets[Adult])) == 1
    assert len(set(sets[BreastCancer])) == 2
    assert official("adult") == (30_162, 15_060)
    assert official("breast_cancer") is None
    assert official("a_plug_in") is None
    assert official("csv") is None  # a file of the user's, which has no name
    assert list(same_rows(LINES)) == [True, True, False, False, False, True]
    assert list(varied(LINES)) == ["noise", "parties", "seeds", "seeds", "seeds", "noise"]


def test_the_interval_of_a_test_file_is_that_of_a_share():
    """Of 15,060 rows, at an accuracy of 0.8: 1.96 sqrt(0.8 * 0.2 / 15,060) = 0.0064; of a loss nothing is known."""
    assert caution(LINES[1:2]).endswith("(another test file of 15,060 rows: ±0.006)")
    assert "test file" not in caution(LINES[:1].assign(metric="loss"))
    assert caution(LINES[3:5]) == ""
