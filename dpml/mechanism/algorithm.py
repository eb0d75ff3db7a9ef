"""The interface of an algorithm, and the values that its options may have.

`prepare` sees the rows, `release` draws the noise, `guarantees` says what holds. `dpml.mechanism.program.Program`
defines all of it but the messages and the loop; a plug-in may define all itself.
"""

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
"""Which version of an algorithm: as the text defines it, or as the authors ran it."""
VARIANTS: tuple[Variant, ...] = ("paper", "authors")

Unit = Literal["sample", "party"]
"""What is protected: one sample, or all samples of one party."""
UNITS: tuple[Unit, ...] = ("sample", "party")

SumProtocol = Literal["simulate", "secagg"]
"""How the parties' messages are summed: their noise is simulated, or they go through the real secure aggregation."""
SUM_PROTOCOLS: tuple[SumProtocol, ...] = ("simulate", "secagg")

Noise = Literal["continuous", "discrete"]
"""Whether noise is floating-point numbers, or exact integers on a grid (docs/privacy/discrete_noise.md)."""
NOISES: tuple[Noise, ...] = ("continuous", "discrete")

SIMULATED: Mapping[str, Any] = {"protocols": ("simulate",), "noises": ("continuous",)}
"""Class keywords of programs that have no exact noise and no secure sums."""

Lam = Annotated[float, between(0, 1e6)]
"""Beyond, models are a millionth, and lam and its products are numbers in single precision."""
MOST_ROUNDS = 10**6
Rounds = Annotated[int, between(1, MOST_ROUNDS)]
"""More take hours and gigabytes, for a proof as for a model."""
Clip = Annotated[float, between(LEAST_CLIP, 1e6)]
"""Shorter slopes have no grid in single precision, and noise is as wide as a clip."""


@dataclass(frozen=True)
class Release:
    """Released models, `weights` (budgets, draws, d), and metrics of each that only the mechanism can compute.

    An algorithm that releases nothing, or models that are not linear, has weights = None and reports metrics only.
    `metrics` maps a name to values (budgets, draws), for example the value of a noisy objective at its minimiser. The
    draws of different budgets share their noise directions: a figure's curves are smoother and comparisons paired, but
    a sweep published as a whole would reveal the noise. Publish one release, not a sweep.

    A single release of `regression` also has its noisy sums, `moments`, from which intervals follow.
    """

    weights: Array | None
    metrics: Mapping[str, Array] = field(default_factory=dict)
    moments: Any = None


class Mechanism(Protocol):
    """An algorithm fitted to some parties' data, ready to be released under any number of budgets."""

    def release(self, budgets: Sequence[Budget], rng: Generator, draws: int) -> Release:
        """Draw the privacy noise `draws` times for every budget."""
        ...


class Algorithm(Protocol):
    """Hyper-parameters, as a frozen dataclass: the fields are the options of its YAML file.

    For its guarantees to hold, the noise that `Mechanism.release` draws must be the noise that `guarantees` counts:
    let both read one function. `prepare` must refuse data outside the domain that the sensitivity assumes
    (`require_domain` does it for unit-ball rows and the loss's labels). An algorithm that tunes on private rows
    declares how in a field `tuned`, which becomes a column of the results; without it hyper-parameters count as fixed.
    """

    auxiliary: ClassVar[float]
    """The default share of the training rows that is set aside as public auxiliary rows, in [0, 1)."""

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
    """Raise UserError unless private and auxiliary rows have norm at most 1 and the loss takes every label."""
    for kind, X, numbers in (
        ("training", parties.X, parties.order),
        ("auxiliary", parties.X_auxiliary, np.arange(len(parties.X_auxiliary))),
    ):
        norms = np.einsum("ij,ij->i", X, X)
        if not norms.max(initial=0) <= 1:  # also when NaN
            worst = int(np.argmax(np.where(np.isnan(norms), np.inf, norms)))
            raise UserError(
                f"{kind} row {numbers[worst]} of dataset={parties.data.name} has norm {np.sqrt(norms[worst]):.4g}, "
                f"but the guarantee needs rows in the unit ball: end dataset.steps with max_norm, sample_norm or clip."
            )
    loss.check_labels(parties.y)
