"""Imtiaz et al. 2019: the gain of CAPE over conventional noise when sites drop out, and what is then proven.

"Even in the case of site drop-out, we achieve sum e_s = 0, as long as the number of active sites is above some
threshold. Therefore, the performance gain of CAPE remains the same irrespective of the number of dropped-out sites."

With n of M sites left, the average of what they sent has a noise of variance ``tau^2/(M n)``, and that of conventional
messages ``tau^2/n``. The gain is M. What is proven for the survivors is not the same: the noise in their sum has the
variance ``n/M tau^2``, so that mu is larger by ``sqrt(M/n)``.
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
    """Variances of the average's noise among the survivors, through the real protocol, in units of tau^2.

    Metrics, for every number of sites that drop out before they send: `gain`, conv's variance over CAPE's, from
    `samples` values each; `mu`, by how much the survivors' noise proves less than was asked for, ``sqrt(M/n)``.
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
