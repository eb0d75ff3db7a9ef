"""Tests of claims about laws: how fast something falls, and what is on average below a bound."""

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np
import pandas as pd

from dpml.reporting.claim_tests import fewest_seeds, several
from dpml.reporting.claims import Check, Evidence, Group, NotComputedError, Reading, Test, every
from dpml.reporting.criteria import MetricScale, scale, similar
from dpml.reporting.statistics import per_seed

EXPONENTS = MetricScale(log=False, up=False, matters=0.1, near=0.1)


def falls_as(block: str, free: str, stated: Mapping[str, float], M: float | None = None) -> Test:
    """What noise adds to a metric falls as a power of x: its exponent is within 0.1 of the one stated for an algorithm.

    That is the metric less that of the same seed without noise; its exponent is the slope of its logarithm.

    Args:
        block: runs over M or eps.
        free: runs over M without noise.
        stated: the exponents.
        M: of `block`, if it is over eps.
    """

    def test(evidence: Evidence, reading: Reading) -> Check:
        noisy = evidence.all_runs({block: tuple(stated)}, reading)
        groups = []
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
            one = similar(found, 0 * found + stated[algorithm], EXPONENTS)
            one = replace(one, value=f"exponent {slopes.mean():.3f}", needs=f"{stated[algorithm]:g} up to 0.1")
            groups.append(Group(block, algorithm, "the stated exponent", {"": one}, one.holds))
        return Check(groups, fewest_seeds(runs[x] for runs in noisy.values() for x in runs))

    return test


def below_bound(blocks: Sequence[str], algorithm: str, metric: str, key: str) -> Test:
    """In every block, for every variant, x and value of the setting `key`, the mean of a metric is at most its bound.

    The bound is the metric of the reading.
    """

    def test(evidence: Evidence, reading: Reading) -> Check:
        groups, seeds, missing = [], [], []
        on = scale(metric)
        for block in blocks:
            own = evidence.rows[evidence.rows["block"] == block]
            for variant, value in own[["variant", key]].drop_duplicates().itertuples(index=False):
                part = replace(evidence, rows=own[own[key] == value])
                name = f"{block}, {variant}, {key.rpartition('.')[2]} = {value:g}"
                risk, bound = (part.runs(block, algorithm, Reading("", variant, m)) for m in (metric, reading.metric))
                if risk.empty or bound.empty:
                    missing.append(name)
                    continue
                shown = {x: similar(risk[x], bound[x], on, 0.0, better_too=True) for x in risk}
                groups.append(Group(name, algorithm, "the bound", shown, every(one.holds for one in shown.values())))
                seeds.append(risk.index.get_level_values("seed").nunique())
            if not len(own):
                missing.append(block)
        if missing or not groups:
            raise NotComputedError(missing)
        return Check(groups, min(seeds))

    return test
