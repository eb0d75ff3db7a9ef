"""Measure the gain of CAPE over conventional noise when sites drop out (Imtiaz et al. 2019), and the guarantee.

The paper states that the gain "remains the same irrespective of the number of dropped-out sites". With n of M sites
left, the gain is M. But the noise in the survivors' sum has variance ``n/M tau^2``, so mu increases by the factor
``sqrt(M/n)``.
"""

import math
from collections.abc import Sequence

import numpy as np
import pandas as pd

from dpml.privacy import noise
from dpml.protocols import Stage
from dpml.protocols.cape import cape_sum
from dpml.seeds import generator


def noise_after_dropouts(M: int, dropped: Sequence[int], samples: int = 20_000, seed: int = 0) -> pd.DataFrame:
    """Measure the variance of the noise in the survivors' average with the real protocol.

    For every number of sites that drop out before they send, `gain` is conv's variance over CAPE's, from `samples`
    values each, and `mu` is the factor ``sqrt(M/n)`` by which the survivors' mu exceeds the requested one.
    """
    rows = []
    for gone in dropped:
        left, rng = M - gone, generator(seed, "noise", "dropouts", str(M), str(gone))
        rounding, drawn = rng.spawn(1)[0], noise.cape_parties(rng, 1, M, samples)
        silent = dict.fromkeys(range(gone), Stage.MASKED)
        cape = cape_sum(np.zeros((M, samples)), np.ones((1, samples)), drawn, 1.0, rounding, dropouts=silent)
        conventional = noise.gaussian_messages(rng, 1, left, samples).reshape(left, samples).mean(axis=0)
        gain = float(np.mean(conventional**2) / np.mean((cape.total / left) ** 2))
        known = {"M": M, "dropped": gone, "algo": "cape", "samples": samples}
        rows += [
            known | {"metric": name, "value": value} for name, value in (("gain", gain), ("mu", math.sqrt(M / left)))
        ]
    return pd.DataFrame(rows)
