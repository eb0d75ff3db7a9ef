"""Imtiaz et al. 2019: claims about computed rows, not runs: curves of delta, variances of noise, bytes."""

from collections.abc import Sequence

import pandas as pd
from scipy.special import chdtr, fdtr

from dpml.reporting.claims import Check, Claim, Evidence, NotComputedError, Reading, Test
from dpml.reporting.criteria import holm


def below_conventional(blocks: Sequence[str]) -> Test:
    """Wherever conv's delta is less than 1, CAPE's is less than conv's (`digits` is log10(1/delta)).

    Both curves are as plotted, or both are exact for the whole view of the aggregator and the colluders.
    """

    def test(evidence: Evidence, reading: Reading) -> Check:
        kind = "as plotted" if reading.name == "as plotted" else "whole view"
        rows = evidence.rows[evidence.rows["metric"] == reading.metric]
        if not len(rows):
            raise NotComputedError(blocks)
        rows = rows[rows["reading"] == kind]
        missing = [
            f"{algorithm} in {block}"
            for block in blocks
            for algorithm in ("cape", "conv")
            if not ((rows["block"] == block) & (rows["algo"] == algorithm)).any()
        ]
        if missing:
            raise NotComputedError(missing)
        holds, counts = True, []
        for block in blocks:
            x = evidence.axis(block)
            own = rows[rows["block"] == block].drop_duplicates([x, "algo", "value"])
            table = own.pivot(index=x, columns="algo", values="value")
            table = table[table["conv"] > 0]
            smaller = int((table["cape"] > table["conv"]).sum())
            holds &= smaller == len(table) > 0
            counts.append(f"{block}: below at {smaller} of {len(table)}")
        return Check(holds, ", ".join(counts))

    return test


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


_FIG5, _FIG6 = "imtiaz2019/fig5", "imtiaz2019/fig6"
_CURVES = (Reading("as plotted", "paper", "digits"), Reading("exact", "paper", "digits"))
_BELOW = (
    "at every point where conv's delta is less than 1, CAPE's is less than conv's: both as plotted (2Q against the "
    "textbook's formula), and both exact, CAPE's for the whole view of the aggregator and the colluders"
)

CLAIMS = (
    Claim(
        "I5.1",
        _FIG5,
        "At the same accuracy, CAPE's delta is always below conv's.",
        _BELOW,
        below_conventional(["small_tau", "large_tau"]),
        _CURVES,
    ),
    Claim(
        "I6.1",
        _FIG6,
        "Whatever the share of colluders, CAPE's delta is below conv's.",
        _BELOW,
        below_conventional(["small_share", "large_share"]),
        _CURVES,
    ),
    Claim(
        "IT.1",
        _FIG5,
        "CAPE's average is as noisy as the pooled one (Lemma 1), and conv's variance is M times that (Prop. 1).",
        "variances of 20,000 samples: CAPE's over the pooled one does not differ significantly from 1 (chi-squared), "
        "nor conv's over M times CAPE's (F), two-sided at 5 %, Holm-corrected",
        variances,
        (Reading("samples", "paper", "cape_over_pooled"),),
    ),
    Claim(
        "IT.3",
        "imtiaz2019/remark3",
        "The plain average of CAPE is H(n) = (N^2/M^3) sum 1/N_k^2 times as noisy as the pooled one, least, 1, for "
        "sites of equal size; a weighted sum can have the pooled noise for any sizes.",
        "H(n) is 1 for equal sites and grows with their unevenness; variances of 20,000 samples do not differ "
        "significantly from it for the plain average, from 1 for what capeFM releases, and from M for conv "
        "(chi-squared, two-sided at 5 %, Holm-corrected)",
        uneven_sites,
        (Reading("samples", "paper", "variance_ratio"),),
    ),
    Claim(
        "IT.2",
        "imtiaz2019/table1",
        "A site sends and receives O(M + d), the aggregator O(M^2 + M d).",
        "measured bytes: every slope on a log-log scale is at most 0.05 above the stated power, and the stated form "
        "(1, M and d; for the aggregator times M; on a ring the number of neighbours too) fits them to 1 %",
        communication,
        (Reading("everybody", "paper", "in_M"), Reading("ring", "paper", "in_M")),
    ),
)
