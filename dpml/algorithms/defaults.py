"""The constants that were chosen on data, and on which: the rows of no other data set had a say.

All are public, and none is read from the rows of a run. "Adult" is UCI Adult with one-hot features in the unit ball,
eps = .05 to 1 unless said otherwise; "Crime" is Communities and Crime.
"""

from dataclasses import dataclass
from typing import Literal

from dpml.mechanism.algorithm import Unit

QUADRATIC_NORM = {"squared": 2.0, "logistic": 4.0, "softmax": 2.0}
"""The norm of w at which `tight` makes the noise in a quadratic objective's gradient least, unless `radius` says
otherwise; on no data. For w of any norm up to 8, the published split of the same mu has at least 1.3 times the energy
of that noise (squared), or at least 0.95 times (logistic). Softmax has that of the squared
loss: 1 is as good, 4 and 8 are worse, on Adult and Bank with another column as label, wine and synthetic rows."""

SPECTRAL_FLOOR = 0.42
"""The least eigenvalue that a noisy L2 is left with, in units of the spectral edge of its noise. On Adult."""


@dataclass(frozen=True)
class DescentRule:
    """Hyper-parameters of `dpgd`: T, the clip, half of how far noise moves a model in a round, and the largest step.

    A clip called `step` is as long as the step: then it is 1 on a mean of gradients, 2 over the squared loss's
    smoothness.
    """

    rounds: int
    clip: float | Literal["adaptive", "step"]
    noise_step: float
    largest: float


DESCENT_RULES: dict[tuple[str, Unit], DescentRule] = {
    ("logistic", "sample"): DescentRule(300, 0.1, 0.1, 60.0),
    ("logistic", "party"): DescentRule(400, "adaptive", 0.05, 60.0),
    ("softmax", "sample"): DescentRule(300, 0.2, 0.1, 60.0),
    ("softmax", "party"): DescentRule(400, "adaptive", 0.05, 60.0),
    ("squared", "sample"): DescentRule(100, "step", 0.01, 0.3),
    ("squared", "party"): DescentRule(100, "step", 0.01, 0.3),
}
"""Those for the logistic loss on Adult, and as they are for softmax, but a clip of twice that, as a row has two slopes;
those for the squared loss on Crime."""

COUNTING_SHARE = 0.05
"""The part of mu^2 that the counts of an adaptive clip get. On Adult."""
CLIP_QUANTILE = 0.25
"""The quantile of the parties' lengths that an adaptive clip follows. On Adult."""
CLIP_PACE = 0.3
"""By how much an adaptive clip moves in a round, in logarithms, if no party's gradient is below it, or all are. On
Adult."""
FIRST_CLIP = 0.3
"""Where an adaptive clip starts. On Adult."""

PRECONDITIONED_RULES: dict[tuple[str, Unit], tuple[int, float]] = {
    ("logistic", "sample"): (10, 0.3),
    ("logistic", "party"): (20, 0.1),
    ("squared", "sample"): (10, 0.3),
    ("squared", "party"): (20, 0.1),
}
"""T and the clip of `ssp_descent`. On Adult."""


@dataclass(frozen=True)
class WhitenedRule:
    """Hyper-parameters of `wdgd`: T, the least clip, half of how far noise moves a model in a round, and limits.

    The clip grows in proportion to n mu/d from `enough` on, up to `longest`; for a rare class to `rare` at most. A step
    is at most `largest`, or what the curvature allows if that is more; steps grow from 1 - `growth` of what they are on
    average to 1 + `growth`. X'X gets the part `share` of mu^2, or `unseen` where its noise hides it.
    """

    rounds: int
    clip: float
    longest: float
    noise_step: float = 0.1
    enough: float = 20.0
    rare: float = 0.5
    largest: float = 8.0
    growth: float = 0.0
    share: float = 0.2
    unseen: float = 0.2


WHITENED_RULES: dict[tuple[str, Unit], WhitenedRule] = {
    ("logistic", "sample"): WhitenedRule(150, 0.1, 1.0),
    ("logistic", "party"): WhitenedRule(400, 0.3, 1.0, noise_step=0.05, largest=60.0),
    ("softmax", "sample"): WhitenedRule(150, 0.2, 1.41, noise_step=0.12, growth=0.5, share=0.1, unseen=0.02),
    ("softmax", "party"): WhitenedRule(400, 0.3, 1.41, noise_step=0.05, largest=60.0),
    ("squared", "sample"): WhitenedRule(200, 1e-3, 4.0),
    ("squared", "party"): WhitenedRule(200, 0.3, 4.0, noise_step=0.01, largest=0.3),
}
"""Those for the logistic loss on Adult, Bank, 401(k), card fraud and Default; softmax as it, with twice the clip. What
else softmax has on 1,500 rows of Adult and of Bank with another column as label, on wine, and on synthetic rows; a
share that follows n mu/d was as good there, and dropped for what it did to HAR."""
HIDDEN = 0.5
"""The edge of the noise's spectrum from which on it hides X'X/n, whose eigenvalues add up to 1 at most. On the same."""
FLAT = 0.1
"""The least eigenvalue of noisy X'X/n that classifiers whiten with, in units of 1/d: the mean of unit rows'. On
Adult."""
LABEL_SHARE = 0.02
"""The part of mu^2 that the sums of labels get. On the same."""
RARE = 0.015
"""How long a clip is, times the share of the rarer classes. On the same."""
REACH = 0.2
"""By how much noise may move predictions of the squared loss, about, in units of the targets' range. On Crime, and on
rows about wages, fares, marks and diabetes."""
LEAST_REACH = 0.12
"""By how much it moves them at least, where n mu/d is at most 1; beyond, over its root. On the same."""
LAST_CLIP = 0.1
"""The least clip of the squared loss in the last half of the rounds, unless it was smaller before. On the same."""

LOGISTIC_DISTANCE = 8.0
"""D of the step rule (`ruled_step`): how long a vector the noise of all rounds may add up to. On Adult."""
SQUARED_DISTANCE = 3.0
"""D of the squared loss. On Adult, with a clip of 2, as labels of -1 and +1 need it."""
SLOPE_CLIP = 0.3
"""The clip of slopes for `tight` noise of noisy descents. On Adult for the logistic loss, and for the squared loss, of
which labels of -1 and +1 need more, on Crime."""
LARGEST_STEP = 4.0
"""How many times 1/L a step may be where slopes are cut. On Adult."""

TYPICAL_NORM = 10.0
"""The norm of w* that the ridges of `gop`, `objpert` and `psgd` are best for. Where lam is small, the best ridges for
WDBC, Adult and synthetic rows are those for norms of 8 to 27."""
