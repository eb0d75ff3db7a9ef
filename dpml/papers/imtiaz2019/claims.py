"""Imtiaz et al. 2019: the claims.

What the paper plots as a loss is not the loss, so that most of its claims can be read in two ways: `plotted` is the
noisy objective at its own minimiser as its authors computed it, in absolute value; `true` is the loss of the released
model with the algorithms as the text defines them. *Agrees* is within a factor of two, the width that the published
optimiser's own lack of convergence has. capefm *reaches* the non-private value at 95 % of the way there from its value
at the smallest eps of the grid.
"""

from collections.abc import Sequence

import numpy as np
import pandas as pd
from scipy import stats

from dpml.papers.imtiaz2019 import network
from dpml.papers.imtiaz2019.network import STORED
from dpml.reporting.criteria import agrees, beats, both, falls, on_runs, several, weak
from dpml.reporting.judging import Check, Claim, Evidence, NotComputedError, Reading, Runs, Test
from dpml.reporting.statistics import below, holm

REACH = 0.05

PRIVATE = ("capefm", "conv", "local", "dpfm", "objpert")
OURS = ("capefm", "conv", "local")
OTHERS = ("dpfm", "objpert", "conv", "local")
TOWARDS = ("capefm", "nonpriv")

PLOTTED, TRUE = Reading("plotted", "authors", "noisy_objective"), Reading("true", "paper", "loss")
LOSS = (PLOTTED, TRUE)
DISTANCE = (Reading("authors", "authors", "err_w"), Reading("text", "paper", "err_w"))


def reaches(blocks: Sequence[str]) -> Test:
    """At some eps of the grid capefm has come 95 % of the way from its value at the smallest eps to nonpriv's."""

    def decide(runs: Runs, _: Reading) -> Check:
        reached = {block: _reached(runs, block) for block in blocks}
        texts = [f"{block}: {'never' if eps == np.inf else f'at eps = {eps:g}'}" for block, eps in reached.items()]
        return Check(bool(np.isfinite(list(reached.values())).all()), ", ".join(texts))

    return on_runs(lambda _: dict.fromkeys(blocks, TOWARDS), decide)


def reaches_sooner(low: str, high: str) -> Test:
    """The smallest eps at which capefm reaches nonpriv is smaller in the block `low` than in `high`."""

    def decide(runs: Runs, _: Reading) -> Check:
        first, second = _reached(runs, low), _reached(runs, high)
        if first == second == np.inf:
            raise NotComputedError(["an eps at which capefm reaches nonpriv"])
        return Check(bool(first < second), f"reached at eps = {first:g} ({low}) and {second:g} ({high})")

    return on_runs(lambda _: dict.fromkeys((low, high), TOWARDS), decide)


def _reached(runs: Runs, block: str) -> float:
    """The smallest eps from which on capefm is within REACH of nonpriv; inf when there is none."""
    ours, best = (runs[block, algorithm].mean() for algorithm in TOWARDS)
    grid = several(runs[block, TOWARDS[0]], block)
    gap = (ours - best).abs()
    far = np.flatnonzero(gap > REACH * gap.iloc[0])
    first = far[-1] + 1 if len(far) else 0
    return float(grid[first]) if first < len(grid) else float("inf")


def depends_on_delta(block: str, yes: Sequence[str] = OURS, no: Sequence[str] = ("dpfm", "objpert")) -> Test:
    """The smallest delta is significantly worse than the largest for `yes`; for `no` neither is significantly worse."""

    def decide(runs: Runs, _: Reading) -> Check:
        worse: dict[str, float] = {}
        changed: dict[tuple[str, str], float] = {}
        means = []
        for key, values in runs.items():
            algorithm = key[1]
            grid = several(values, block)
            first, last = values[grid[0]], values[grid[-1]]
            if algorithm in yes:
                worse[algorithm] = below(last, first)
            else:
                changed[algorithm, "falls"] = below(last, first)
                changed[algorithm, "rises"] = below(first, last)
            means.append(f"{algorithm} {first.mean():.3g} to {last.mean():.3g}")
        holds = all(holm(worse).values()) and not any(holm(changed).values())
        return Check(holds, f"{block}, smallest to largest: {', '.join(means)}")

    return on_runs(lambda _: {block: (*yes, *no)}, decide)


# ---- the curves of delta (figs. 5, 6), Lemma 1, and Table 1: rows without runs


def below_conventional(blocks: Sequence[str]) -> Test:
    """Wherever conv's delta is less than 1, CAPE's is less than conv's (`digits` is log10(1/delta)).

    Both as plotted, or both exact: then of all that the aggregator and the colluders see.
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
        lower = float(stats.chi2.cdf(n * value, n) if pooled else stats.f.cdf(value / M, n, n))
        values[f"{metric} {M:g}"] = 2 * min(lower, 1 - lower)
        texts.append(f"{metric} at M = {M:g}: {value:.4g}")
    return Check(not any(holm(values).values()), ", ".join(texts))


def communication(evidence: Evidence, reading: Reading) -> Check:
    """Every slope of the bytes is at most 0.05 above the stated power, and the stated form fits them to 1 %."""
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
    """Whether each of the values stands in its column."""
    return len(rows) > 0 and all(set(rows[key]) >= set(names) for key, names in values.items())


_FALLS = (
    "capefm, conv and local: from the smallest to the largest eps, and N, the mean falls significantly, and no step in "
    "between rises significantly"
)
_BEATS = (
    "against each of the others capefm is significantly below at more than half of the eps and N, and significantly "
    "above at none; and it reaches nonpriv at some eps of the grid"
)
_SOONER = "capefm reaches nonpriv at a smaller eps for d = 20 than for d = 50"
_DEPENDS = (
    "capefm, conv and local are significantly worse at the smallest N (and get significantly worse at no step to the "
    "largest), and at the smallest delta, than at the largest; "
    "dpfm and objpert do not change significantly between the smallest and the largest delta"
)
_AGREES = "for each private algorithm at least nine in ten published points lie within a factor of two of our mean"

_SYNTHETIC = {"d20_eps": "synth20_eps", "d20_N": "synth20_N", "d20_delta": "synth20_delta"}
_REAL = {f"{name}_{x}": f"{name}_{x}" for name in ("crime", "twitter") for x in ("eps", "N", "delta")}

_EPS_AND_N = ["d20_eps", "d50_eps", "d20_N", "d50_N"]
_REAL_EPS_AND_N = [block for block in _REAL if not block.endswith("delta")]
_HURT = both(falls(["d20_N", "d50_N"], OURS), both(depends_on_delta("d20_delta"), depends_on_delta("d50_delta")))

_FIG3, _FIG4, _FIG7 = "imtiaz2019/fig3", "imtiaz2019/fig4", "imtiaz2019/fig7"
_FIG5, _FIG6 = "imtiaz2019/fig5", "imtiaz2019/fig6"

_CURVES = (Reading("as plotted", "paper", "digits"), Reading("exact", "paper", "digits"))


_BELOW = (
    "at every point where conv's delta is less than 1, CAPE's is less than conv's: both as plotted (2Q against the "
    "textbook's formula), and both exact, CAPE's for the whole view of the aggregator and the colluders"
)

CLAIMS = (
    *network.CLAIMS,
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
        "IT.2",
        "imtiaz2019/table1",
        "A site sends and receives O(M + d), the aggregator O(M^2 + M d).",
        "measured bytes: every slope on a log-log scale is at most 0.05 above the stated power, and the stated form "
        "(1, M and d; for the aggregator times M; on a ring with the number of neighbours for M) fits them to 1 %",
        communication,
        (Reading("everybody", "paper", "in_M"), Reading("ring", "paper", "in_M")),
    ),
    Claim(
        "I3.1",
        _FIG3,
        "The loss falls as eps grows and as there are more samples.",
        _FALLS,
        falls(_EPS_AND_N, OURS),
        LOSS,
    ),
    Claim(
        "I3.2",
        _FIG3,
        "capefm has a lower loss than dpfm, objpert, conv and local, and comes down to the non-private loss.",
        _BEATS,
        both(beats(_EPS_AND_N, "capefm", OTHERS), reaches(["d20_eps", "d50_eps"])),
        LOSS,
    ),
    Claim(
        "I3.3",
        _FIG3,
        "With fewer features capefm comes down to the non-private loss at a smaller eps.",
        _SOONER,
        reaches_sooner("d20_eps", "d50_eps"),
        LOSS,
    ),
    Claim(
        "I3.4",
        _FIG3,
        "Few samples or a small delta hurt capefm, conv and local; dpfm and objpert do not depend on delta.",
        _DEPENDS,
        _HURT,
        LOSS,
    ),
    Claim("I3.P", _FIG3, STORED, _AGREES, agrees(_SYNTHETIC, PRIVATE), (PLOTTED,)),
    Claim(
        "I4.1",
        _FIG4,
        "On real data the loss falls as eps grows and as there are more samples.",
        _FALLS,
        falls(_REAL_EPS_AND_N, OURS),
        LOSS,
    ),
    Claim(
        "I4.2",
        _FIG4,
        "On real data capefm has a lower loss than dpfm, objpert, conv and local, and comes down to the "
        "non-private loss.",
        _BEATS,
        both(beats(_REAL_EPS_AND_N, "capefm", OTHERS), reaches(["crime_eps", "twitter_eps"])),
        LOSS,
    ),
    Claim(
        "I4.3",
        _FIG4,
        "On real data the loss depends only weakly on delta.",
        "capefm, conv and local: over the delta grid the mean changes by less than a factor of two",
        weak(["crime_delta", "twitter_delta"], OURS),
        LOSS,
    ),
    Claim("I4.P", _FIG4, STORED, _AGREES, agrees(_REAL, PRIVATE), (PLOTTED,)),
    Claim(
        "I7.1",
        _FIG7,
        "The distance to the true weights falls as eps grows and as there are more samples.",
        _FALLS,
        falls(_EPS_AND_N, OURS),
        DISTANCE,
    ),
    Claim(
        "I7.2",
        _FIG7,
        "capefm comes closer to the true weights than dpfm, objpert, conv and local, and as close as without privacy.",
        _BEATS,
        both(beats(_EPS_AND_N, "capefm", OTHERS), reaches(["d20_eps", "d50_eps"])),
        DISTANCE,
    ),
    Claim(
        "I7.3",
        _FIG7,
        "With fewer features capefm comes as close as without privacy at a smaller eps.",
        _SOONER,
        reaches_sooner("d20_eps", "d50_eps"),
        DISTANCE,
    ),
    Claim(
        "I7.4",
        _FIG7,
        "Few samples or a small delta hurt capefm, conv and local; dpfm and objpert do not depend on delta.",
        _DEPENDS,
        _HURT,
        DISTANCE,
    ),
    Claim(
        "I7.P",
        _FIG7,
        STORED,
        _AGREES,
        agrees(_SYNTHETIC | {"d20n5000_eps": "synth20n5000_eps"}, PRIVATE),
        DISTANCE[:1],
    ),
)
