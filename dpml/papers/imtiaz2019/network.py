"""Imtiaz et al. 2019, Fig. 2: the claims about the neural network. They are about accuracies: higher is better."""

from collections.abc import Callable, Sequence

from dpml.papers.imtiaz2019.often import both_ways, how_often
from dpml.papers.imtiaz2019.stored import agrees
from dpml.reporting.claim_tests import beats, failing, improves, on_runs, reaches, several
from dpml.reporting.claims import Check, Claim, Evidence, Reading, Runs, Test
from dpml.reporting.criteria import better, scale

STORED = "The values that the authors stored are what their recipe gives."
NETWORKS = ("nn_cape", "nn_conv")


def smaller_gap_at_the_start(suffix: str) -> Test:
    """The mean gap between nn_cape and nn_conv is smaller at the smallest x than at the largest."""

    def decide(runs: Runs, reading: Reading) -> Check:
        block = _block(reading, suffix)
        cape, conv = (runs[block, algorithm] for algorithm in NETWORKS)
        grid = several(cape, block)
        first, last = ((cape[x] - conv[x]).dropna() for x in (grid[0], grid[-1]))
        text = f"gap {first.mean():.3g} at {grid[0]:g}, {last.mean():.3g} at {grid[-1]:g}"
        shown = better({block: (last, first)}, scale(reading.metric))
        return Check.of(text + failing("no smaller gap", shown), shown)

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
    return f"{kind}{_SWEEPS[reading.name.partition('eps = ')[2].partition(',')[0]]}_{suffix}"


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
        "test accuracy of nn_cape and nn_conv: better at the largest eps, and N, than at the smallest, and at no step "
        "in between worse",
        of_networks(lambda blocks: improves(blocks, NETWORKS), "eps", "N"),
        _ACCURACY,
    ),
    Claim(
        "I2.2",
        _FIG2,
        "cape is more accurate than conv.",
        "nn_cape is better than nn_conv at more than half of the eps and N (`mostly`), or at one at least (`somewhere`)"
        ", and worse at none",
        of_networks(lambda blocks: beats(blocks, "nn_cape", ("nn_conv",), how_often), "eps", "N"),
        both_ways(_ACCURACY),
    ),
    Claim(
        "I2.5",
        _FIG2,
        "cape reaches the non-private accuracy at moderate eps.",
        "at the largest eps <= 1 nn_cape is similar to nn_nonpriv",
        reaches(lambda reading: {_block(reading, "eps"): ("nn_cape", "nn_nonpriv")}, until=1.0),
        _ACCURACY,
    ),
    Claim(
        "I2.3",
        _FIG2,
        "When N is small the gap between cape and conv is small.",
        "the mean gap in test accuracy is smaller at the smallest N than at the largest: significantly, and by what "
        "matters",
        smaller_gap_at_the_start("N"),
        _ACCURACY,
    ),
    Claim(
        "I2.4",
        _FIG2,
        "Gradient descent converges faster under cape than under conv.",
        "the training loss, averaged over ten moments of the training, is better for nn_cape than for nn_conv at more "
        "than half of the eps, and worse at none",
        of_networks(lambda blocks: beats(blocks, "nn_cape", ("nn_conv",)), "eps"),
        (Reading("authors", "authors", "path_loss"), Reading("text", "paper", "path_loss")),
    ),
    Claim(
        "I2.P",
        _FIG2,
        STORED,
        "for each algorithm at least nine in ten published accuracies lie within five points of our mean, or "
        "within three standard errors of ours (theirs have none)",
        agrees({"nn_eps": "nn_eps"}, ("nn_nonpriv", *NETWORKS)),
        (
            Reading("authors, training", "authors", "train_accuracy"),
            Reading("authors, test", "authors", "accuracy"),
        ),
    ),
)
