"""The step size of noisy descent: by a rule that reads no data, or by a choice among several that does.

*The rule.* T rounds add up to noise of standard deviation ``step s sqrt(T)`` in every coordinate, s that of the noise
in the gradient, so to a vector of length about ``step s sqrt(d T)``. For a convex loss and a step of at most 1/L the
models are on average at most ``W^2/(2 step T) + step d s^2`` above the minimum, W the way to it. That is least at
``step = W / (s sqrt(2 d T))``, where noise and way are about as long. So the rule is ``step = D / (s sqrt(d T))``,
and at most 1/L. D is 8 for all data (chosen on Adult).

*The rule with a clip.* Slopes that are cut to at most c < 1/2 pull on the model until the rows have scores of about
``b = log((1 - c)/c)``, and only from there on as they do without a clip from 0 on. So the way is longer, and D by as
much: ``D = 8 (1 + b)``. With it the clip hardly matters, nor does T, for it is the product ``step T`` that makes the
way and the noise. T only has to be large enough for a step that is stable, and more rounds cost time, not privacy. That
step may be more than 1/L, L = c (1 - c): that is the curvature of a row just beyond b, and clipped rows have none. The
mean curvature over scores that are spread over a range r is c/r, and the rule assumes a range of three: at most 4/L.
Where a regulariser forgets within T rounds, which is proven only for steps up to 2/(L + lam), the step is at most the
larger of 1/(L + lam) and 1/(lam T).

*Validation.* The simplest reading of a paper's cross-validation: every candidate descends once, with its own
noise, on four fifths of every client's rows; the least mean loss on the other fifth says which is released, trained on
all rows. One choice for each seed and budget; draws share it. It reads private rows outside the budget.
"""

import math
from dataclasses import replace
from typing import Literal

import numpy as np

from dpml.algorithms.defaults import LARGEST_STEP, LOGISTIC_DISTANCE, SQUARED_DISTANCE
from dpml.arrays import Array
from dpml.data.partition import Parties
from dpml.errors import UserError
from dpml.optim.slopes import Slopes

StepSelection = Literal["rule", "oracle", "validated", "fixed"]
STEP_SELECTIONS: tuple[StepSelection, ...] = ("rule", "oracle", "validated", "fixed")
UNCOUNTED: tuple[StepSelection, ...] = ("oracle", "validated")
"""Those that choose among several step sizes, by private rows outside the budget."""

HELD_OUT = 0.2
"""The share of every client's rows that validation keeps out of training."""


def distance(slopes: Slopes) -> float:
    """D, for a loss and its clip."""
    return SQUARED_DISTANCE if slopes.loss.name == "squared" else LOGISTIC_DISTANCE * (1 + slopes.bend)


def largest(slopes: Slopes, lam: float, rounds: int) -> float:
    """The largest step that the rule takes."""
    proven = 1 / (slopes.smoothness + lam)
    if not slopes.bend:
        return proven
    forgets = 1 / (lam * rounds) if lam else math.inf
    return max(proven, min(LARGEST_STEP / slopes.smoothness, forgets))


def rule(scale: float, d: int, rounds: int, most: float, far: float) -> float:
    """The step, at most `most`, from the standard deviation `scale` of the noise in the mean gradient; it reads no row.

    `far` is D.
    """
    length = scale * math.sqrt(d * rounds)
    return min(most, far / length) if length else most


def held_out(parties: Parties) -> tuple[Parties, Array, Array]:
    """The parties without a fifth of their rows, rounded down, and these rows X (n, d) with their labels (n,).

    Rows are dealt at random, so the last of every party are a random part of them.

    Raises:
        UserError: no party has five rows.
    """
    aside = (HELD_OUT * parties.sizes).astype(np.intp)
    if not aside.any():
        raise UserError(
            "algo.step_selection=validated holds a fifth of every client's rows out, and no client here has five rows."
        )
    out = np.concatenate([np.arange(size) >= size - few for size, few in zip(parties.sizes, aside, strict=True)])
    offsets = np.concatenate([[0], np.cumsum(parties.sizes - aside)])
    kept = replace(parties, order=parties.order[~out], offsets=offsets, X=parties.X[~out], y=parties.y[~out])
    return kept, parties.X[out], parties.y[out]
