"""The interface of an algorithm: `prepare` sees the rows, `release` draws the noise, `guarantees` says what holds.

`dpml.mechanism.program.Program` defines all of it but the messages and the loop; a plug-in may define all itself.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import ClassVar, Protocol

import numpy as np
from numpy.random import Generator

from dpml.arrays import Array
from dpml.data.partition import Parties
from dpml.errors import UserError
from dpml.optim.losses import Loss
from dpml.privacy import Budget, Calibration, Guarantee, Problem


@dataclass(frozen=True)
class Release:
    """Released models, `weights` (budgets, draws, d), and metrics of each that only the mechanism can compute.

    An algorithm that releases nothing, or models that are not linear, has weights = None and reports metrics only.
    `metrics` maps a name to values (budgets, draws), for example the value of a noisy objective at its minimiser. The
    draws of different budgets share their noise directions: a figure's curves are smoother and comparisons paired, but
    a sweep published as a whole would reveal the noise. Publish one release, not a sweep.
    """

    weights: Array | None
    metrics: Mapping[str, Array] = field(default_factory=dict)


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
