"""Whether a mean comes within a limit of another, as far as the seeds can tell."""

import numpy as np
import pandas as pd
from scipy.special import stdtrit

from dpml.reporting.statistics import LEVEL, Shown, per_seed


def within(a: pd.Series, b: pd.Series, limit: float) -> Shown:
    """Whether the means of a and b differ by at most `limit`: by the 95 % t-interval of their difference.

    In pairs over seeds, over draws where there is one seed; undecided where an end of the limit lies in the interval.

    Args:
        a: runs, whose index is (seed, draw).
        b: runs of the same seeds.
        limit: in the units of both.

    Returns:
        With None, the number of seeds that would decide if mean and spread stay.
    """
    gaps = (per_seed(a) - per_seed(b)).dropna()
    if len(gaps) < 2:
        gaps = (a - b).dropna()
    n, middle = len(gaps), abs(float(gaps.mean()))
    if n < 2:
        return Shown(None, 2)
    half = float(stdtrit(n - 1, 1 - LEVEL / 2) * gaps.std() / np.sqrt(n))
    if middle + half <= limit:
        return Shown(True)
    if middle - half > limit:
        return Shown(False)
    return Shown(None, int(min(n * (half / abs(middle - limit)) ** 2, 1e6)) + 1 if middle != limit else None)
