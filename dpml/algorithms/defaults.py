"""Define default hyper-parameters, and name the data sets on which they were chosen.

All constants are public and do not depend on the rows of a run. "Adult" is UCI Adult with one-hot features in the unit
ball, with eps = .05 to 1 unless another eps is given. "Crime" is Communities and Crime.
"""

from dataclasses import dataclass
from typing import Literal

from dpml.mechanism.algorithm import Unit

QUADRATIC_NORM = {"squared": 2.0, "logistic": 4.0, "softmax": 2.0}
"""The norm of w at which `tight` noise minimises the noise in a quadratic objective's gradient, unless `radius` is set.
Chosen without data, except for softmax: 1 was as good, 4 and 8 were worse, on Adult and Bank with another column as
label, wine and synthetic rows."""

SPECTRAL_FLOOR = 0.42
"""The floor of a noisy Hessian's eigenvalues, in units of about its noise's largest eigenvalue. Chosen on Adult."""


@dataclass(frozen=True)
class DescentRule:
    """The hyper-parameters of `dpgd` for one loss and one unit of privacy (a row or a party).

    `noise_step` is half the standard deviation of the noise that a round adds to each coordinate of a model, and
    `largest` is the largest step size. With clip="step" the clip equals the step size.
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
"""The hyper-parameters of `dpgd` by loss and unit. Chosen on Adult for the logistic loss, and on Crime for the squared
loss. Softmax has twice the clip of the logistic loss, because a row has two slopes."""

COUNTING_SHARE = 0.05
"""The share of mu^2 that is spent on counting parties for an adaptive clip. Chosen on Adult."""
CLIP_QUANTILE = 0.25
"""The quantile of the norms of the parties' gradients that an adaptive clip follows. Chosen on Adult."""
CLIP_PACE = 0.3
"""How fast an adaptive clip shrinks: the decrease of its logarithm per round, divided by how much the share of
gradients below the clip exceeds the quantile. Chosen on Adult."""
FIRST_CLIP = 0.3
"""The first adaptive clip. Chosen on Adult."""

PRECONDITIONED_RULES: dict[tuple[str, Unit], tuple[int, float]] = {
    ("logistic", "sample"): (10, 0.3),
    ("logistic", "party"): (20, 0.1),
    ("squared", "sample"): (10, 0.3),
    ("squared", "party"): (20, 0.1),
}
"""The rounds T and the clip of `ssp_descent`. Chosen on Adult."""


@dataclass(frozen=True)
class WhitenedRule:
    """The hyper-parameters of the algorithm `wdgd` for one loss and one unit of privacy (a row or a party).

    If n mu/d exceeds `enough`, classifiers' clips are proportional to it, up to `longest`; a rare class can raise them
    up to `rare`. Steps are at most max(`largest`, 4 d clip), and grow over the rounds from 1 - `growth` to 1 + `growth`
    times their average. X'X spends the share `share` of mu^2, or the share `unseen` if noise would hide X'X anyway.
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
"""The hyper-parameters of `wdgd` by loss and unit. Chosen for the logistic loss on Adult, Bank, 401(k), card fraud and
Default. Softmax has twice the clip of the logistic loss; its other constants were chosen on 1,500 rows of Adult and of
Bank with another column as label, on wine, and on synthetic rows."""
HIDDEN = 0.5
"""Noise hides X'X/n if its largest eigenvalue exceeds this (X'X/n has trace at most 1). Chosen as `WHITENED_RULES`."""
FLAT = 0.1
"""Classifiers raise the eigenvalues of noisy X'X/n to this multiple of 1/d, the mean eigenvalue of unit rows, before
they whiten. Chosen on Adult."""
LABEL_SHARE = 0.02
"""The share of mu^2 that is spent on the sums of labels. Chosen as `WHITENED_RULES`."""
RARE = 0.015
"""The clip for a rare class is this number divided by the share of the rarer classes. Chosen as `WHITENED_RULES`."""
REACH = 0.2
"""About the largest noise_std in predictions of the squared loss, relative to the range of the targets. Chosen on
Crime, and on rows about wages, fares, marks and diabetes."""
LEAST_REACH = 0.12
"""The least noise_std in such predictions: this, over the root of n mu/d if that exceeds 1. Chosen as `REACH`."""
LAST_CLIP = 0.1
"""The least clip of the squared loss in the last half of the rounds, unless the first is smaller. Chosen as `REACH`."""

LOGISTIC_DISTANCE = 8.0
"""The norm that the noise of all rounds may reach, from which the step follows (`ruled_step`). Chosen on Adult."""
SQUARED_DISTANCE = 3.0
"""`LOGISTIC_DISTANCE` for the squared loss. Chosen on Adult with a clip of 2, which labels -1 and +1 need."""
SLOPE_CLIP = 0.3
"""The clip of slopes for `tight` noise of noisy descents. Chosen for the logistic loss on Adult, and for the squared
loss on Crime; the squared loss with labels -1 and +1 needs a larger clip."""
LARGEST_STEP = 4.0
"""The largest step with clipped slopes, as a multiple of 1/smoothness. Chosen on Adult."""

TYPICAL_NORM = 10.0
"""The norm of the true minimiser for which the ridges of `gop`, `objpert` and `psgd` are best. For small lam, the best
ridges for WDBC, Adult and synthetic rows correspond to norms of 8 to 27."""
