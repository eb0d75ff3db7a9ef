"""Whether a mean comes within a limit of another, as far as the seeds can show."""

import numpy as np
import pandas as pd
from scipy.special import stdtrit

from dpml.reporting.statistics import LEVEL, Comparison, per_seed


def within(a: pd.Series, b: pd.Series, limit: float) -> Comparison:
    """Whether the means of a and b differ by at most `limit`, by the 95 % t-interval of their difference.

    The test is paired over seeds, or over draws if there is one seed. It is undecided if the interval contains `limit`
    or -`limit`.

    Args:
        a: runs, indexed by (seed, draw).
        b: runs of the same seeds.
        limit: in the units of both.

    Returns:
        If undecided (None), also the number of seeds that would decide, assuming the same mean and spread.
    """
    gaps = (per_seed(a) - per_seed(b)).dropna()
    if len(gaps) < 2:
        gaps = (a - b).dropna()
    n, middle = len(gaps), abs(float(gaps.mean()))
    if n < 2:
        return Comparison(None, 2)
    half = float(stdtrit(n - 1, 1 - LEVEL / 2) * gaps.std() / np.sqrt(n))
    if middle + half <= limit:
        return Comparison(True)
    if middle - half > limit:
        return Comparison(False)
    return Comparison(None, int(min(n * (half / abs(middle - limit)) ** 2, 1e6)) + 1 if middle != limit else None)
