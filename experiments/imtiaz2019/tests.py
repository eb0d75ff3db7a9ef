"""Test claims of Imtiaz et al. 2019 about computed rows: variances of noise, and bytes."""

import math
from collections.abc import Mapping, Sequence

import pandas as pd
from scipy.special import chdtr, fdtr

from dpml.reporting.claims import Evidence, Group, NotComputedError
from dpml.reporting.criteria import Comparison, exact, holm


def variances(evidence: Evidence) -> list[Group]:
    """Test that, up to sampling errors, CAPE's variance is that of pooled data, and conv's is M times as large."""
    rows = evidence.rows[evidence.rows["metric"].isin(("cape_over_pooled", "conv_over_cape"))]
    if not _has(rows, {"metric": ("cape_over_pooled", "conv_over_cape")}):
        raise NotComputedError(["noise_left"])
    values = {}
    for M, n, metric, value in rows[["M", "samples", "metric", "value"]].itertuples(index=False):
        pooled = metric == "cape_over_pooled"
        lower = float(chdtr(n, n * value) if pooled else fdtr(n, n, value / M))
        values[metric, f"M = {M:g}"] = value, 1.0 if pooled else M, lower
    return [_ratios(values)]


def _ratios(values: Mapping[tuple[str, str], tuple[float, float, float]]) -> Group:
    """Return two-sided tests that ratios of variances have the stated values."""
    far = holm({key: 2 * min(lower, 1 - lower) for key, (*_, lower) in values.items()})
    shown = {
        " at ".join(key): Comparison(not far[key], f"{ratio:.4g}", f"{stated:.4g}", min(lower, 1 - lower))
        for key, (ratio, stated, lower) in values.items()
    }
    return Group("variances", "", "stated", shown)


def uneven_sites(evidence: Evidence) -> list[Group]:
    """Test that H(n) is 1 for equal sites and grows with unevenness, and that sampled variances agree with it."""
    rows = evidence.rows[evidence.rows["metric"] == "variance_ratio"]
    if not _has(rows, {"reading": ("H(n)", "plain average", "weighted sum"), "algo": ("capefm", "conv")}):
        raise NotComputedError(["noise_of_uneven_sites"])
    formula = rows[rows["reading"] == "H(n)"].set_index(["M", "u"])["value"].sort_index()
    shown = {}
    for M, ours in formula.groupby(level="M"):
        ours = ours.droplevel("M")
        if 1 not in ours.index or len(ours) < 2:
            raise NotComputedError([f"equal sites and others for M = {M}"])
        # sizes are whole numbers of rows, so H(n) can differ slightly from 1
        shown[f"equal sites, M = {M:g}"] = exact(ours[1], 1.001, 0.999)
        shown[f"smallest step, M = {M:g}"] = exact(ours.diff().min(), math.inf, math.ulp(0))
    sampled = rows.loc[rows["reading"] != "H(n)", ["u", "algo", "reading", "M", "samples", "value"]]
    values = {}
    for u, algo, reading, M, n, value in sampled.itertuples(index=False):
        stated = formula[M, u] if reading == "plain average" else M if algo == "conv" else 1.0
        values[f"{algo}, {reading}", f"M = {M:g}, u = {u:g}"] = value, stated, float(chdtr(n, n * value / stated))
    return [Group("H(n)", "", "", shown), _ratios(values)]


def communication(evidence: Evidence) -> list[Group]:
    """Test that no slope of the bytes exceeds the stated power by more than 0.05, and that the fit is within 1 %."""
    rows = evidence.rows
    rows = rows[(rows["algo"] == evidence.reading.name) & rows["metric"].isin(("in_M", "in_d", "misfit"))]
    if not _has(rows, {"who": ("site", "aggregator"), "metric": ("in_M", "misfit")}):
        raise NotComputedError([f"bytes of {evidence.reading.name}"])
    shown = {}
    for who, metric, value in rows[["who", "metric", "value"]].itertuples(index=False):
        most = 0.01 if metric == "misfit" else 2.05 if (who, metric) == ("aggregator", "in_M") else 1.05
        shown[f"{who}, {metric}"] = exact(value, most)
    return [Group("bytes", evidence.reading.name, "stated", shown)]


def _has(rows: pd.DataFrame, values: dict[str, Sequence[str]]) -> bool:
    return len(rows) > 0 and all(set(rows[key]) >= set(names) for key, names in values.items())


def same_gain(evidence: Evidence) -> list[Group]:
    """Test that the ratio of variances is not significantly different from M, for all numbers of drop-outs."""
    gains = evidence.rows[evidence.rows["metric"] == "gain"]
    if not len(gains) or not (gains["dropped"] > 0).any():
        raise NotComputedError(["noise_after_dropouts"])
    values = {
        ("gain", f"M = {M:g}, {gone:g} dropped"): (gain, M, float(fdtr(n, n, gain / M)))
        for M, gone, n, gain in gains[["M", "dropped", "samples", "value"]].itertuples(index=False)
    }
    return [_ratios(values)]
