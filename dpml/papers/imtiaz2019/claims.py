"""Imtiaz et al. 2019: the claims.

What the paper plots as a loss is not the loss, so that most of its claims can be read in two ways: `plotted` is the
noisy objective at its own minimiser as its authors computed it, in absolute value; `true` is the loss of the released
model with the algorithms as the text defines them. *Agrees* is within a factor of two, the width that the published
optimiser's own lack of convergence has. capefm *reaches* the non-private value at 95 % of the way there from its value
at the smallest eps of the grid.
"""

from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np
from scipy import stats

from dpml.reporting.judging import (
    LEVEL,
    Check,
    Claim,
    Evidence,
    Reading,
    Test,
    agrees,
    beats,
    below,
    both,
    falls,
    holm,
    weak,
    welch,
)

REACH = 0.05

PRIVATE = ("capefm", "conv", "local", "dpfm", "objpert")
OURS = ("capefm", "conv", "local")
OTHERS = ("dpfm", "objpert", "conv", "local")

PLOTTED, TRUE = Reading("plotted", "authors", "noisy_objective"), Reading("true", "paper", "loss")
LOSS = (PLOTTED, TRUE)
DISTANCE = (Reading("authors", "authors", "err_w"), Reading("text", "paper", "err_w"))


def reaches(blocks: Sequence[str]) -> Test:
    """At some eps of the grid capefm has come 95 % of the way from its value at the smallest eps to nonpriv's."""

    def test(evidence: Evidence, reading: Reading) -> Check | None:
        found = {block: _reached(evidence, block, reading) for block in blocks}
        known = {block: eps for block, eps in found.items() if eps is not None}
        if not known:
            return None
        said = [f"{block}: {'never' if eps == np.inf else f'at eps = {eps:g}'}" for block, eps in known.items()]
        return bool(np.isfinite(list(known.values())).all()), ", ".join(said)

    return test


def reaches_sooner(low: str, high: str) -> Test:
    """The smallest eps at which capefm reaches nonpriv is smaller in the block `low` than in `high`."""

    def test(evidence: Evidence, reading: Reading) -> Check | None:
        first, second = (_reached(evidence, block, reading) for block in (low, high))
        if first is None or second is None or (first == second == np.inf):
            return None
        return bool(first < second), f"reached at eps = {first:g} ({low}) and {second:g} ({high})"

    return test


def depends_on_delta(block: str, yes: Sequence[str] = OURS, no: Sequence[str] = ("dpfm", "objpert")) -> Test:
    """The smallest delta is significantly worse than the largest for `yes`; for `no` neither is significantly worse."""

    def test(evidence: Evidence, reading: Reading) -> Check | None:
        worse: dict[str, float] = {}
        changed: dict[str, float] = {}
        said = []
        for algo in (*yes, *no):
            runs = evidence.runs(block, algo, reading)
            if runs.shape[1] < 2:
                continue
            first, last = runs.iloc[:, 0], runs.iloc[:, -1]
            (worse if algo in yes else changed)[algo] = below(last, first)
            if algo in no:
                changed[f"{algo} "] = below(first, last)
            said.append(f"{algo} {first.mean():.3g} to {last.mean():.3g}")
        if not said:
            return None
        good = all(holm(worse).values()) and not any(holm(changed).values())
        return good, f"{block}, smallest to largest: {', '.join(said)}"

    return test


# ---- the neural network (fig. 2): accuracies, larger is better

NETWORKS = ("nn_cape", "nn_conv")
POINTS = 0.05


def on_errors(test: Test) -> Test:
    """A test that takes less to be better, on the share of wrong labels instead of an accuracy."""

    def found(evidence: Evidence, reading: Reading) -> Check | None:
        rows = evidence.rows
        share = rows["metric"] == reading.metric
        checked = test(
            replace(evidence, rows=rows.assign(value=rows["value"].where(~share, 1 - rows["value"]))), reading
        )
        return checked and (checked[0], f"errors: {checked[1]}")

    return found


def near_reference(suffix: str, largest: float) -> Test:
    """At some x up to `largest` the mean accuracy of nn_cape is within five points of nn_nonpriv's."""

    def test(evidence: Evidence, reading: Reading) -> Check | None:
        block = _block(reading, suffix)
        ours, best = (evidence.runs(block, algo, reading).mean() for algo in ("nn_cape", "nn_nonpriv"))
        ours = ours[ours.index <= largest]
        if not len(ours) or not len(best):
            return None
        gap = (best[ours.index] - ours).min()
        return bool(gap <= POINTS), f"least distance to nn_nonpriv at {suffix} <= {largest:g}: {gap:.3g}"

    return test


def smaller_gap_at_the_start(suffix: str) -> Test:
    """The mean gap between nn_cape and nn_conv is significantly smaller at the smallest x than at the largest."""

    def test(evidence: Evidence, reading: Reading) -> Check | None:
        cape, conv = (evidence.runs(_block(reading, suffix), algo, reading) for algo in NETWORKS)
        if cape.shape[1] < 2 or conv.shape[1] < 2:
            return None
        first, last = (cape[x] - conv[x] for x in (cape.columns[0], cape.columns[-1]))
        return welch(
            first, last
        ) <= LEVEL, f"gap {first.mean():.3g} at {cape.columns[0]:g}, {last.mean():.3g} at {cape.columns[-1]:g}"

    return test


def within_points(published: str) -> Test:
    """For each algorithm nine in ten published points lie within five points of accuracy of our mean."""

    def test(evidence: Evidence, reading: Reading) -> Check | None:
        points = evidence.published
        points = points[(points["series"] == published) & (points["metric"] == reading.metric)]
        near: dict[str, list[bool]] = {}
        furthest: dict[str, float] = {}
        for algo in ("nn_nonpriv", *NETWORKS):
            means = evidence.runs(_block(reading, "eps"), algo, reading).mean()
            for x, theirs in points.loc[points["algo"] == algo, ["x", "mean"]].itertuples(index=False):
                close = np.flatnonzero(np.isclose(means.index.to_numpy(dtype=float), x))
                if len(close):
                    distance = abs(float(means.iloc[close[0]]) - theirs)
                    near.setdefault(algo, []).append(distance <= POINTS)
                    furthest[algo] = max(distance, furthest.get(algo, 0.0))
        said = ", ".join(f"{a} {sum(n)} of {len(n)}, furthest {furthest[a]:.2g}" for a, n in near.items())
        return (all(np.mean(found) >= 0.9 for found in near.values()), said) if near else None

    return test


def of_networks(make: Callable[[Sequence[str]], Test], *suffixes: str) -> Test:
    """A test of several blocks, on those of the reading's variant and N sweep."""

    def test(evidence: Evidence, reading: Reading) -> Check | None:
        return make([_block(reading, suffix) for suffix in suffixes])(evidence, reading)

    return test


def _block(reading: Reading, suffix: str) -> str:
    """The block that a reading is about: `nn_eps`, `text_N`, `authors_N`; `authorshalf_N` for a sweep at eps = 0.5."""
    if suffix == "eps":
        return "nn_eps"
    kind = "authors" if reading.variant == "authors" else "text"
    return f"{kind}{'half' if reading.name.endswith('0.5') else ''}_{suffix}"


# ---- the curves of delta (figs. 5, 6), and Lemma 1


def below_conventional(blocks: Sequence[str], ours: str, theirs: str) -> Test:
    """Wherever conv's delta is less than 1, CAPE's is less than conv's (`digits` is log10(1/delta))."""

    def test(evidence: Evidence, reading: Reading) -> Check | None:
        good, said = True, []
        for block in blocks:
            rows = evidence.rows[evidence.rows["block"] == block]
            if not len(rows):
                continue
            table = rows.pivot_table(index=block.split("_")[-1], columns=["algo", "reading"], values="value")
            cape, conv = table["cape", ours], table["conv", theirs]
            compared = conv > 0
            below = int((cape[compared] > conv[compared]).sum())
            good &= below == compared.sum() > 0
            said.append(f"{block}: below at {below} of {compared.sum()}")
        return (good, ", ".join(said)) if said else None

    return test


def variances(evidence: Evidence, reading: Reading) -> Check | None:
    """CAPE's variance over the pooled one, and conv's over CAPE's and M, do not differ significantly from 1."""
    rows = evidence.rows[evidence.rows["metric"].isin(("cape_over_pooled", "conv_over_cape"))]
    if not len(rows):
        return None
    values, said = {}, []
    for M, n, metric, value in rows[["M", "samples", "metric", "value"]].itertuples(index=False):
        pooled = metric == "cape_over_pooled"
        below = float(stats.chi2.cdf(n * value, n) if pooled else stats.f.cdf(value / M, n, n))
        values[f"{metric} {M:g}"] = 2 * min(below, 1 - below)
        said.append(f"{metric} at M = {M:g}: {value:.4g}")
    return not any(holm(values).values()), ", ".join(said)


def communication(evidence: Evidence, reading: Reading) -> Check | None:
    """Every slope of the bytes is at most 0.05 above the stated power, and the stated form fits them to 1 %."""
    rows = evidence.rows
    rows = rows[(rows["algo"] == reading.name) & rows["metric"].isin(("in_M", "in_d", "misfit"))]
    if not len(rows):
        return None
    good, said = True, []
    for who, metric, value in rows[["who", "metric", "value"]].itertuples(index=False):
        most = 0.01 if metric == "misfit" else 2.05 if (who, metric) == ("aggregator", "in_M") else 1.05
        good &= value <= most
        said.append(f"{who} {metric} {value:.3g}")
    return good, ", ".join(said)


def _reached(evidence: Evidence, block: str, reading: Reading) -> float | None:
    """The smallest eps from which on capefm is within REACH of nonpriv; inf when there is none, None without rows."""
    ours, best = (evidence.runs(block, algo, reading).mean() for algo in ("capefm", "nonpriv"))
    if len(ours) < 2 or len(best) == 0:
        return None
    gap = (ours - best).abs()
    near = gap <= REACH * gap.iloc[0]
    far = np.flatnonzero(~near)
    first = far[-1] + 1 if len(far) else 0
    return float(ours.index[first]) if first < len(ours) else float("inf")


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
_STORED = "The values that the authors stored are what their recipe gives."

_FIG3, _FIG4, _FIG7 = "imtiaz2019/fig3", "imtiaz2019/fig4", "imtiaz2019/fig7"
_FIG2, _FIG5, _FIG6 = "imtiaz2019/fig2", "imtiaz2019/fig5", "imtiaz2019/fig6"

_ACCURACY = tuple(
    Reading(f"{name}, N sweep at eps = {eps}", variant, "accuracy")
    for name, variant in (("authors", "authors"), ("text", "paper"))
    for eps in ("0.01", "0.5")
)
_CURVES = (Reading("as plotted", "paper", "digits"), Reading("exact", "paper", "digits"))


def _delta_below(blocks: Sequence[str]) -> Test:
    def test(evidence: Evidence, reading: Reading) -> Check | None:
        kind = "as plotted" if reading.name == "as plotted" else "whole view"
        return below_conventional(blocks, kind, kind)(evidence, reading)

    return test


_BELOW = (
    "at every point where conv's delta is less than 1, CAPE's is less than conv's: both as plotted (2Q against the "
    "textbook's formula), and both exact, CAPE's for the whole view of the aggregator and the colluders"
)

CLAIMS = (
    Claim(
        "I2.1",
        _FIG2,
        "The accuracy of cape and conv grows with eps and with N.",
        "test accuracy of nn_cape and nn_conv: from the smallest to the largest eps, and N, the errors fall "
        "significantly, and no step in between raises them significantly",
        on_errors(of_networks(lambda blocks: falls(blocks, NETWORKS), "eps", "N")),
        _ACCURACY,
    ),
    Claim(
        "I2.2",
        _FIG2,
        "cape is more accurate than conv, and reaches the non-private accuracy at moderate eps.",
        "test errors of nn_cape are significantly below nn_conv's at more than half of the eps and N, and "
        "significantly above at none; and at some eps <= 1 nn_cape is within five points of nn_nonpriv",
        both(
            on_errors(of_networks(lambda blocks: beats(blocks, "nn_cape", ("nn_conv",)), "eps", "N")),
            near_reference("eps", 1.0),
        ),
        _ACCURACY,
    ),
    Claim(
        "I2.3",
        _FIG2,
        "When N is small the gap between cape and conv is small.",
        "the mean gap in test accuracy is significantly (Welch, 5 %) smaller at the smallest N than at the largest",
        smaller_gap_at_the_start("N"),
        _ACCURACY,
    ),
    Claim(
        "I2.4",
        _FIG2,
        "Gradient descent converges faster under cape than under conv.",
        "the training loss, averaged over ten moments of the training, is significantly lower for nn_cape than for "
        "nn_conv at more than half of the eps, and significantly higher at none",
        of_networks(lambda blocks: beats(blocks, "nn_cape", ("nn_conv",)), "eps"),
        (Reading("authors", "authors", "path_loss"), Reading("text", "paper", "path_loss")),
    ),
    Claim(
        "I2.P",
        _FIG2,
        _STORED,
        "for each algorithm at least nine in ten published accuracies lie within five points of our mean",
        within_points("nn_eps"),
        (
            Reading("authors, training", "authors", "train_accuracy"),
            Reading("authors, test", "authors", "accuracy"),
        ),
    ),
    Claim(
        "I5.1",
        _FIG5,
        "At the same accuracy, CAPE's delta is always below conv's.",
        _BELOW,
        _delta_below(["small_tau", "large_tau"]),
        _CURVES,
    ),
    Claim(
        "I6.1",
        _FIG6,
        "Whatever the share of colluders, CAPE's delta is below conv's.",
        _BELOW,
        _delta_below(["small_share", "large_share"]),
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
    Claim("I3.P", _FIG3, _STORED, _AGREES, agrees(_SYNTHETIC, PRIVATE), (PLOTTED,)),
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
    Claim("I4.P", _FIG4, _STORED, _AGREES, agrees(_REAL, PRIVATE), (PLOTTED,)),
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
        _STORED,
        _AGREES,
        agrees(_SYNTHETIC | {"d20n5000_eps": "synth20n5000_eps"}, PRIVATE),
        DISTANCE[:1],
    ),
)
