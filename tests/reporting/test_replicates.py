"""What seeds vary: known from the data set's split, told beside intervals, and what a test file adds."""

import numpy as np
import pandas as pd
import pytest
from scipy.stats import binomtest, norm

from dpml.data.sets.official import Adult, BreastCancer
from dpml.reporting.replicates import (
    caution,
    error_of_difference,
    of_difference,
    of_test_file,
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
        kind: [kind().rows(y[:n], None, generator(seed, "data")) for seed in (0, 1)]
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
    assert list(varied(pd.DataFrame({"x": [1]}))) == ["seeds"]


def test_what_seeds_do_not_vary_is_told():
    told = caution(LINES)
    assert told.startswith(
        "on adult seeds vary the noise and who holds which row only (another test file of 15,060 rows: ±0.006)"
    )
    assert "on har seeds vary the noise only" in told
    assert "breast" not in told
    assert caution(LINES[3:5]) == ""
    assert caution(LINES[:1].assign(metric="loss")) == "on adult seeds vary the noise only"


@pytest.mark.parametrize(("a", "b", "both"), [(0.8, 0.75, 0.6), (0.9, 0.5, 0.41), (0.3, 0.2, 0.0)])
def test_the_interval_of_a_test_file_covers_other_files(a, b, both):
    """Files of 2,000 rows on which two classifiers are right together as seldom as they can be, or more often.

    Coverage over 4,000 files: .95, with a false alarm in 10^4 at 4 s.e.; of a difference it is at least that.
    """
    rng, n = np.random.default_rng(0), 2_000
    counts = rng.multinomial(n, [both, a - both, b - both, 1 - a - b + both], size=4_000) / n
    first, second = counts[:, 0] + counts[:, 1], counts[:, 0] + counts[:, 2]
    slack = 4 * np.sqrt(0.95 * 0.05 / 4_000)
    inside = np.abs(first - a) <= [of_test_file(x, n) for x in first]
    assert abs(inside.mean() - 0.95) < slack + 0.005  # the normal approximation
    apart = np.abs(first - second - (a - b)) <= [of_difference(x, y, n) for x, y in zip(first, second, strict=True)]
    assert apart.mean() > 0.95 - slack - 0.005
    assert of_difference(0.5, 0.5, 100) == pytest.approx(norm.ppf(0.975) * 0.1)


def test_the_error_of_a_difference_is_never_below_that_of_the_rows_themselves():
    """2,000 pairs of algorithms with up to 5 runs each, alike or not, beside the spread of p_i - q_i over the rows."""
    rng = np.random.default_rng(0)
    n, exact = 60, 0
    for _ in range(2_000):
        hard = rng.beta(*rng.uniform(0.2, 3, 2), n)  # rows that are difficult for both
        p, q = (
            (rng.random((runs, n)) < np.clip(hard + rng.normal(0, 0.3), 0, 1)).mean(axis=0)
            for runs in rng.integers(1, 6, 2)
        )
        known = (p - q).std() / np.sqrt(n)
        bound = error_of_difference(p.mean(), q.mean(), n)
        assert bound >= known - 1e-12
        exact += np.isclose(bound, known) and known > 0
    assert exact < 100
    # it is reached: one run each, never wrong on the same row
    p, q = np.repeat([1.0, 0.0, 1.0], [20, 5, 35]), np.repeat([0.0, 1.0, 1.0], [20, 5, 35])
    assert error_of_difference(p.mean(), q.mean(), n) == pytest.approx((p - q).std() / np.sqrt(n))


def test_it_finds_no_difference_that_mcnemars_exact_test_does_not():
    """All tables of two classifiers on 200 rows that are wrong together on at least 2, and right together as often.

    (Where that is seldom, the exact test is known to be wider than the normal approximation it is compared with.)
    """
    n, level, found = 200, 0.05, 0
    for first in range(0, 100, 7):
        for second in range(0, 100 - first, 7):
            for both_wrong in range(2, n - first - second - 1, 23):
                wrong = np.array([second + both_wrong, first + both_wrong]) / n
                error = error_of_difference(*wrong, n)
                if abs(first - second) / n <= norm.ppf(1 - level / 2) * error:
                    continue
                found += 1
                assert binomtest(first, first + second).pvalue <= level
    assert found > 300
