"""Imtiaz et al. 2019: tests of claims about computed rows, not runs: variances of noise, bytes."""

from collections.abc import Sequence

import pandas as pd
from scipy.special import chdtr, fdtr

from dpml.reporting.claims import Check, Evidence, NotComputedError, Reading
from dpml.reporting.criteria import holm


def variances(evidence: Evidence, _: Reading) -> Check:
    """CAPE's variance over the pooled one, and conv's over CAPE's and M, do not differ significantly from 1."""
    rows = evidence.rows[evidence.rows["metric"].isin(("cape_over_pooled", "conv_over_cape"))]
    if not _has(rows, {"metric": ("cape_over_pooled", "conv_over_cape")}):
        raise NotComputedError(["noise_left"])
    values, texts = {}, []
    for M, n, metric, value in rows[["M", "samples", "metric", "value"]].itertuples(index=False):
        pooled = metric == "cape_over_pooled"
        lower = float(chdtr(n, n * value) if pooled else fdtr(n, n, value / M))
        values[f"{metric} {M:g}"] = 2 * min(lower, 1 - lower)
        texts.append(f"{metric} at M = {M:g}: {value:.4g}")
    return Check(not any(holm(values).values()), ", ".join(texts))


def uneven_sites(evidence: Evidence, _: Reading) -> Check:
    """H(n) is 1 for equal sites and grows with their unevenness; the sampled noise has the stated variances."""
    rows = evidence.rows[evidence.rows["metric"] == "variance_ratio"]
    if not _has(rows, {"reading": ("H(n)", "plain average", "weighted sum"), "algo": ("capefm", "conv")}):
        raise NotComputedError(["noise_of_uneven_sites"])
    formula = rows[rows["reading"] == "H(n)"].set_index(["M", "u"])["value"].sort_index()
    values, texts, least = {}, [], True
    for M, ours in formula.groupby(level="M"):
        ours = ours.droplevel("M")
        if 1 not in ours.index or len(ours) < 2:
            raise NotComputedError([f"equal sites and others for M = {M}"])
        # sizes are whole numbers of rows
        least &= abs(ours[1] - 1) < 1e-3 and bool((ours.diff().dropna() > 0).all())
        texts.append(f"H(n) {ours.iloc[0]:.4g} to {ours.iloc[-1]:.4g} for M = {M}")
    sampled = rows.loc[rows["reading"] != "H(n)", ["u", "algo", "reading", "M", "samples", "value"]]
    for u, algo, reading, M, n, value in sampled.itertuples(index=False):
        stated = formula[M, u] if reading == "plain average" else M if algo == "conv" else 1.0
        lower = float(chdtr(n, n * value / stated))
        values[algo, reading, M, u] = 2 * min(lower, 1 - lower)
        texts.append(f"{algo} {reading} at M = {M:g}, u = {u:g}: {value:.4g} for {stated:.4g}")
    return Check(bool(least) and not any(holm(values).values()), ", ".join(texts))


def communication(evidence: Evidence, reading: Reading) -> Check:
    """No slope of the bytes is more than 0.05 above the stated power, and the stated form fits them to 1 %."""
    rows = evidence.rows
    rows = rows[(rows["algo"] == reading.name) & rows["metric"].isin(("in_M", "in_d", "misfit"))]
    if not _has(rows, {"who": ("site", "aggregator"), "metric": ("in_M", "misfit")}):
        raise NotComputedError([f"bytes of {reading.name}"])
    holds, texts = True, []
    for who, metric, value in rows[["who", "metric", "value"]].itertuples(index=False):
        most = 0.01 if metric == "misfit" else 2.05 if (who, metric) == ("aggregator", "in_M") else 1.05
        holds &= value <= most
        texts.append(f"{who} {metric} {value:.3g}")
    return Check(holds, ", ".join(texts))


def _has(rows: pd.DataFrame, values: dict[str, Sequence[str]]) -> bool:
    """Whether all of the values occur in their columns."""
    return len(rows) > 0 and all(set(rows[key]) >= set(names) for key, names in values.items())


def same_gain(evidence: Evidence, _: Reading) -> Check:
    """However many sites drop out, the ratio of variances does not differ significantly from M."""
    rows = evidence.rows
    gains, mus = (rows[rows["metric"] == metric] for metric in ("gain", "mu"))
    if not len(gains) or not (gains["dropped"] > 0).any():
        raise NotComputedError(["noise_after_dropouts"])
    values, texts = {}, []
    for M, gone, n, gain in gains[["M", "dropped", "samples", "value"]].itertuples(index=False):
        lower = float(fdtr(n, n, gain / M))
        values[M, gone] = 2 * min(lower, 1 - lower)
        texts.append(f"M = {M:g}, {gone:g} dropped: {gain:.4g}")
    text = f"{', '.join(texts)}; the mu that is proven grows by up to {mus['value'].max():.3g}"
    return Check(not any(holm(values).values()), text)
