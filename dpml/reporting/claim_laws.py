"""Tests of claims about laws and bounds: how fast something falls, and what is never above a bound."""

from collections.abc import Mapping

import numpy as np
import pandas as pd

from dpml.reporting.claim_tests import fewest_seeds, several
from dpml.reporting.claims import Check, Evidence, NotComputedError, Reading, Test
from dpml.reporting.criteria import MetricScale, similar
from dpml.reporting.statistics import per_seed

EXPONENTS = MetricScale(log=False, up=False, matters=0.1, near=0.1)


def falls_as(block: str, free: str, stated: Mapping[str, float], M: float | None = None) -> Test:
    """What noise adds to a metric falls as a power of x: the exponent of every algorithm is within 0.1 of the stated one.

    That is the metric less that of the same seed without noise; its exponent is the slope of its logarithm.

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
            shown[f"{algorithm}, {block}"] = similar(found, 0 * found + stated[algorithm], EXPONENTS)
            texts.append(f"{algorithm}: exponent {slopes.mean():.3f} (stated {stated[algorithm]:g})")
        check = Check.of(", ".join(texts), shown)
        return Check(check.holds, check.numbers, fewest_seeds(noisy), shown, check.rule)

    return test
