"""Statistics of rows."""

from collections.abc import Sequence

import numpy as np
import pandas as pd
from scipy.special import stdtrit

from dpml.running.rows import PRIVACY, SETTING


def summarise(rows: pd.DataFrame, also: Sequence[str] = ()) -> pd.DataFrame:
    """Mean, standard deviation, number and 95 % t-interval (half width) of every metric over seeds and draws.

    Columns in `also` tell settings apart, too.
    """
    table = (
        rows.groupby([*SETTING, *also, "metric", *PRIVACY, "tuned"], sort=False, dropna=False)["value"]
        .agg(["mean", "std", "count"])
        .reset_index()
    )
    table["interval"] = stdtrit(np.maximum(table["count"] - 1, 1), 0.975) * table["std"] / np.sqrt(table["count"])
    return table
