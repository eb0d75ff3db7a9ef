"""Define the interface of an algorithm, and the values that shared options may have."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Annotated, Any, ClassVar, Literal, Protocol

import numpy as np
from numpy.random import Generator

from dpml.arrays import Array
from dpml.data.partition import Parties
from dpml.errors import UserError
from dpml.optim.gradients import LEAST_CLIP
from dpml.optim.losses import Loss
from dpml.options import between
from dpml.privacy import Budget, Calibration, Guarantee, Problem

Variant = Literal["paper", "authors"]
"""The version of an algorithm: as the paper defines it, or as the authors ran it."""
VARIANTS: tuple[Variant, ...] = ("paper", "authors")

Unit = Literal["sample", "party"]
"""The unit that is protected: one sample, or all samples of one party."""
UNITS: tuple[Unit, ...] = ("sample", "party")

SumProtocol = Literal["simulate", "secagg"]
"""How the parties' messages are summed: in a simulation, or by the real secure aggregation protocol."""
SUM_PROTOCOLS: tuple[SumProtocol, ...] = ("simulate", "secagg")

Noise = Literal["continuous", "discrete"]
"""Whether noise is floating-point numbers or exact integers on a grid (docs/privacy/discrete_noise.md)."""
NOISES: tuple[Noise, ...] = ("continuous", "discrete")

SIMULATED: Mapping[str, Any] = {"protocols": ("simulate",), "noises": ("continuous",)}
"""Class keywords of algorithms that have neither exact noise nor secure sums."""

Lam = Annotated[float, between(0, 1e6)]
"""The type of `lam`. Larger values would give models of norm 1e-6, which lose digits in single precision."""
MOST_ROUNDS = 10**6
Rounds = Annotated[int, between(1, MOST_ROUNDS)]
"""The type of a number of rounds. More rounds would take hours and gigabytes, for a proof as well as for a model."""
Clip = Annotated[float, between(LEAST_CLIP, 1e6)]
"""The type of a clip. Single precision cannot represent much smaller slopes, and noise grows with the clip."""


@dataclass(frozen=True)
class Release:
    """The released models `weights` (budgets, draws, d), and metrics that only the algorithm can compute.

    An algorithm without linear models has weights = None. `metrics` maps a name to values (budgets, draws). All budgets
    get the same noise, multiplied by different factors, so publish the release of one budget only: two of them reveal
    the noise. `moments` are the noisy sums of `regression`, if there is one budget and one noise draw.
    """

    weights: Array | None
    metrics: Mapping[str, Array] = field(default_factory=dict)
    moments: Any = None


class Mechanism(Protocol):
    """An algorithm that has the parties' rows and can release models under any privacy budgets."""

    def release(self, budgets: Sequence[Budget], rng: Generator, draws: int) -> Release: ...


class Algorithm(Protocol):
    """The interface of an algorithm: a frozen dataclass whose fields are the options in its YAML file.

    The guarantees hold only if `Mechanism.release` draws the noise that `guarantees` assumes, so compute both from one
    function. `prepare` must refuse rows that violate an assumption of the sensitivity, for example by `require_domain`.
    An algorithm that tunes on private rows says so in a field `tuned`, a column of the results.
    """

    auxiliary: ClassVar[float]
    """The default share of the training rows that are set aside as public auxiliary rows, in [0, 1)."""

    @property
    def name(self) -> str: ...
    @property
    def loss(self) -> Loss: ...
    @property
    def calibration(self) -> Calibration: ...
    @property
    def variant(self) -> str: ...
    @property
    def lam(self) -> float: ...
    def prepare(self, parties: Parties, rng: Generator) -> Mechanism: ...
    def guarantees(self, budget: Budget, problem: Problem) -> list[Guarantee]: ...


def require_domain(parties: Parties, loss: Loss) -> None:
    """Raise UserError unless all rows have norm at most 1 and the loss accepts every label."""
    for kind, X, numbers in (
        ("training", parties.X, parties.order),
        ("auxiliary", parties.X_auxiliary, np.arange(len(parties.X_auxiliary))),
    ):
        norms = np.einsum("ij,ij->i", X, X)
        if not norms.max(initial=0) <= 1:  # also true for NaN
            worst = int(np.argmax(np.where(np.isnan(norms), np.inf, norms)))
            raise UserError(
                f"{kind} row {numbers[worst]} of dataset={parties.data.name} has norm {np.sqrt(norms[worst]):.4g}, "
                f"but the guarantee needs rows in the unit ball: end dataset.steps with max_norm, sample_norm or clip."
            )
    loss.check_labels(parties.y)
