"""Tests of claims about laws and bounds: how fast something falls, and what is never above a bound."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd

from dpml.reporting.claim_tests import failing, fewest_seeds, several
from dpml.reporting.claims import Check, Evidence, NotComputedError, Reading, Test, every
from dpml.reporting.criteria import Comparison, MetricScale, scale, similar
from dpml.reporting.statistics import per_seed

EXPONENTS = MetricScale(log=False, up=False, matters=0.1, near=0.1)


def one_value(values: pd.Series) -> float:
    """The only value of a series; NaN if there are several."""
    return float(values.iloc[0]) if values.nunique(dropna=False) == 1 else math.nan


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
        return replace(Check.of(", ".join(texts), shown), seeds=fewest_seeds(noisy))

    return test


def below_bound(blocks: Sequence[str], algorithm: str, metric: str, key: str) -> Test:
    """In every block, for every variant, x and value of the setting `key`, the mean of a metric is at most its bound.

    The bound is the metric of the reading.
    """

    def test(evidence: Evidence, reading: Reading) -> Check:
        rows, ratios, seeds, missing = evidence.rows, [], [], []
        shown: dict[Any, Comparison] = {}
        for block in blocks:
            own = rows[rows["block"] == block]
            for variant, value in own[["variant", key]].drop_duplicates().itertuples(index=False):
                part = replace(evidence, rows=own[own[key] == value])
                name = f"{block}, {variant}, {key.rpartition('.')[2]} = {value:g}"
                risk, bound = (part.runs(block, algorithm, Reading("", variant, m)) for m in (metric, reading.metric))
                if risk.empty or bound.empty:
                    missing.append(name)
                    continue
                on = scale(metric)
                shown |= {(name, x): similar(risk[x], bound[x], on, 0.0, better_too=True) for x in risk}
                ratios += [float(bound[x].mean() / risk[x].mean()) for x in risk]
                seeds.append(risk.index.get_level_values("seed").nunique())
            if not len(own):
                missing.append(block)
        if missing or not shown:
            raise NotComputedError(missing)
        below = sum(one.holds is True for one in shown.values())
        text = f"below at {below} of {len(shown)}; the bound is {min(ratios):.3g}"
        text += f" to {max(ratios):.3g} times the {metric.replace('_', ' ')}{failing('above', shown)}"
        return replace(Check.of(text, shown), seeds=min(seeds))

    return test


def exceeds(blocks: Sequence[str], algorithm: str, other: str, kind: str, said: str) -> Test:
    """In every block, wherever the other's value is above 0, the algorithm's is larger: of computed rows, no runs.

    Args:
        blocks: of rows with one value for every x.
        algorithm: the one, and `other` the other.
        other: than which it is larger.
        kind: the `reading` of the rows.
        said: the word for it in the numbers.
    """

    def test(evidence: Evidence, reading: Reading) -> Check:
        rows = evidence.rows[evidence.rows["metric"] == reading.metric]
        if not len(rows):
            raise NotComputedError(blocks)
        rows = rows[rows["reading"] == kind]
        missing = [
            f"{name} in {block}"
            for block in blocks
            for name in (algorithm, other)
            if not ((rows["block"] == block) & (rows["algo"] == name)).any()
        ]
        if missing:
            raise NotComputedError(missing)
        holds, counts = True, []
        for block in blocks:
            x = evidence.axis(block)
            own = rows[(rows["block"] == block) & rows["algo"].isin([algorithm, other])]
            table = own.pivot_table("value", x, "algo", one_value, dropna=False)
            if table.isna().any(axis=None):
                raise NotComputedError([f"{algorithm} and {other} in {block} with one value each at every {x}"])
            table = table[table[other] > 0]
            larger = int((table[algorithm] > table[other]).sum())
            holds &= larger == len(table) > 0
            counts.append(f"{block}: {said} at {larger} of {len(table)}")
        return Check(holds, ", ".join(counts))

    return test


def as_stated(metric: str, least: bool = False) -> Test:
    """In every setting the value of a computed row is the stated one to 1 %; with `least` it is at least that.

    The rows of the reading have its name as `reading`, those of what is stated have ``stated``.
    """

    def test(evidence: Evidence, reading: Reading) -> Check:
        rows = evidence.rows
        if "reading" not in rows or not (rows["metric"] == metric).any():
            raise NotComputedError([metric])
        rows = rows[(rows["metric"] == metric) & rows["reading"].isin([reading.name, "stated"])]
        table = rows.pivot_table("value", "setting", "reading", one_value, dropna=False)
        if not {reading.name, "stated"} <= {*table}:
            raise NotComputedError([f"{metric} [{reading.name}]"])
        table = table.loc[rows["setting"][rows["reading"] == reading.name].unique()]
        if missing := [*table.index[table.isna().any(axis=1)]]:
            raise NotComputedError(
                [f"one value, and one that is stated, of {metric} for {', '.join(map(str, missing))}"]
            )
        pairs = {name: (ours, stated) for name, ours, stated in table[[reading.name, "stated"]].itertuples()}
        holds = [ours >= s * 0.99 and (least or ours <= s * 1.01) for ours, s in pairs.values()]
        return Check(every(holds), ", ".join(f"{name}: {v:.3g}, stated {s:.3g}" for name, (v, s) in pairs.items()))

    return test
