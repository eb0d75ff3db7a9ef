"""Hamm, Cao & Belkin 2016: how the risk that the noise costs falls with M and eps (Theorem 4, eq. 9).

The bounds have a term for the noise in proportion to ``M^-2 eps^-2`` for soft labels and to ``eps^-2`` for majority
votes. Measured is the risk that the noise adds: the optimality gap less that of the same seed without noise. Its
exponent is the slope of its logarithm against that of M or eps.
"""

from collections.abc import Mapping

import numpy as np
import pandas as pd

from dpml.reporting.claim_tests import fewest_seeds, several
from dpml.reporting.claims import Check, Claim, Evidence, NotComputedError, Reading, Test
from dpml.reporting.criteria import MetricScale, similar
from dpml.reporting.statistics import per_seed

SLOPES = MetricScale(log=False, up=False, matters=0.1, near=0.1)
GAP = Reading("measured", "paper", "optimality_gap")


def falls_as(block: str, free: str, stated: Mapping[str, float], M: float | None = None) -> Test:
    """The exponent of every algorithm is within 0.1 of the stated one.

    Args:
        block: runs over M or eps.
        free: runs over M without noise.
        stated: the exponents.
        M: of `block`, if it is over eps.
    """

    def test(evidence: Evidence, reading: Reading) -> Check:
        noisy = evidence.all_runs({block: tuple(stated)}, reading)
        shown, texts = {}, []
        for (_, algorithm), runs in noisy.items():
            base = evidence.runs(free, algorithm, reading)
            if base.empty:
                raise NotComputedError([f"{algorithm} in {free}"])
            grid = several(runs, block)
            places = {x: x if M is None else M for x in grid}
            missing = [f"{algorithm} in {free} at M = {at:g}" for at in places.values() if at not in base]
            if missing:
                raise NotComputedError(missing)
            added = pd.DataFrame({x: per_seed(runs[x]) - per_seed(base[at]) for x, at in places.items()})
            if (added <= 0).any(axis=None):
                raise NotComputedError([f"noise of {algorithm} in {block} that costs anything in every seed"])
            slopes = np.polyfit(np.log(np.array(grid, dtype=float)), np.log(added.to_numpy()).T, 1)[0]
            index = pd.MultiIndex.from_product([added.index, [0]], names=["seed", "draw"])
            found = pd.Series(slopes, index)
            shown[f"{algorithm}, {block}"] = similar(found, 0 * found + stated[algorithm], SLOPES)
            texts.append(f"{algorithm}: exponent {slopes.mean():.3f} (stated {stated[algorithm]:g})")
        check = Check.of(", ".join(texts), shown)
        return Check(check.holds, check.numbers, fewest_seeds(noisy), shown, check.rule)

    return test


_EXPONENT = "the mean exponent over seeds is within 0.1 of the stated one, by two one-sided tests"

CLAIMS = (
    Claim(
        "H6.1",
        "hamm2016/law",
        "Theorem 4 and eq. 9: what the noise costs falls as eps^-2, for soft labels and for votes.",
        _EXPONENT,
        falls_as("law_eps", "law_free", {"soft": -2.0, "vote": -2.0}, M=100),
        (GAP,),
    ),
    Claim(
        "H6.2",
        "hamm2016/law",
        "Theorem 4 and eq. 9: it falls as M^-2 for soft labels, and not with M for votes.",
        _EXPONENT,
        falls_as("law_M", "law_free", {"soft": -2.0, "vote": 0.0}),
        (GAP,),
    ),
)
