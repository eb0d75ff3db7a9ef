"""Imtiaz et al. 2019, Fig. 2: the claims about the neural network. They are about accuracies: higher is better."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from dpml.papers.imtiaz2019.near import within
from dpml.papers.imtiaz2019.stored import agrees, difference
from dpml.reporting.claim_tests import beats, both, failing, falls, on_runs, several
from dpml.reporting.claims import NEAR, Check, Claim, Evidence, NotComputedError, Reading, Runs, Test, some
from dpml.reporting.statistics import algorithm_below, matters, shows

STORED = "The values that the authors stored are what their recipe gives."
NETWORKS = ("nn_cape", "nn_conv")


def on_errors(test: Test) -> Test:
    """A test in which smaller is better, applied to the share of wrong labels instead of the accuracy."""

    def inverted(evidence: Evidence, reading: Reading) -> Check:
        rows = evidence.rows
        errors = rows["value"].where(rows["metric"] != reading.metric, 1 - rows["value"])
        check = test(replace(evidence, rows=rows.assign(value=errors)), reading)
        return replace(check, numbers=f"errors: {check.numbers}")

    return inverted


def near_reference(suffix: str, largest: float) -> Test:
    """At some x up to `largest` the mean accuracy of nn_cape is within five points of nn_nonpriv's."""

    def decide(runs: Runs, reading: Reading) -> Check:
        block = _block(reading, suffix)
        ours, best = (runs[block, algorithm] for algorithm in ("nn_cape", "nn_nonpriv"))
        places: Sequence[Any] = list(ours.columns)
        grid = [x for x in places if x <= largest]
        if not grid:
            raise NotComputedError([f"{block} at {suffix} <= {largest:g}"])
        near = [within(ours[x], best[x], NEAR) for x in grid]
        least = min(abs(best[x].mean() - ours[x].mean()) for x in grid)
        text = f"least distance to nn_nonpriv at {suffix} <= {largest:g}: {least:.3g}"
        return Check.of(some(point.holds for point in near), text, near)

    return on_runs(lambda reading: {_block(reading, suffix): ("nn_cape", "nn_nonpriv")}, decide)


def smaller_gap_at_the_start(suffix: str) -> Test:
    """The mean gap between nn_cape and nn_conv is significantly smaller at the smallest x than at the largest."""

    def decide(runs: Runs, reading: Reading) -> Check:
        block = _block(reading, suffix)
        cape, conv = (runs[block, algorithm] for algorithm in NETWORKS)
        grid = several(cape, block)
        first, last = ((cape[x] - conv[x]).dropna() for x in (grid[0], grid[-1]))
        text = f"gap {first.mean():.3g} at {grid[0]:g}, {last.mean():.3g} at {grid[-1]:g}"
        shown = shows({block: (first, last)}, matters(reading.metric), algorithm_below)
        return Check.of(shown[block].holds, text + failing("no smaller gap", shown), shown.values())

    return on_runs(lambda reading: {_block(reading, suffix): NETWORKS}, decide)


def of_networks(make: Callable[[Sequence[str]], Test], *suffixes: str) -> Test:
    """A test of several blocks, applied to those of the reading's variant and N sweep."""

    def test(evidence: Evidence, reading: Reading) -> Check:
        return make([_block(reading, suffix) for suffix in suffixes])(evidence, reading)

    return test


def _block(reading: Reading, suffix: str) -> str:
    """The block of a reading: `nn_eps`, `text_N`, `authors_N`; `authorshalf_N` for a sweep at eps = 0.5."""
    if suffix == "eps":
        return "nn_eps"
    kind = "authors" if reading.variant == "authors" else "text"
    return f"{kind}{_SWEEPS.get(reading.name.rpartition(' = ')[2], '')}_{suffix}"


_FIG2 = "imtiaz2019/fig2"
_SWEEPS = {"0.001": "low", "0.01": "", "0.5": "half"}
_ACCURACY = tuple(
    Reading(f"{name}, N sweep at eps = {eps}", variant, "accuracy")
    for name, variant, sweeps in (("authors", "authors", ("0.01", "0.5")), ("text", "paper", _SWEEPS))
    for eps in sweeps
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
        "the mean gap in test accuracy is significantly smaller at the smallest N than at the largest",
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
        STORED,
        "for each algorithm at least nine in ten published accuracies lie within five points of our mean, or "
        "within three standard errors of ours (theirs have none)",
        agrees({"nn_eps": "nn_eps"}, ("nn_nonpriv", *NETWORKS), difference, NEAR),
        (
            Reading("authors, training", "authors", "train_accuracy"),
            Reading("authors, test", "authors", "accuracy"),
        ),
    ),
)
