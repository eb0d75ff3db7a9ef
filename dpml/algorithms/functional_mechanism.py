"""The functional mechanism, at one curator and at M sites with noise of their own (Imtiaz, Mohammadi & Sarwate 2019).

What is released, and how its noise is counted: `noisy_coefficients`. Site k sends N_k/N of its own coefficients (the
weights of the paper's Remark 3), so that sites of any size behave alike: their messages move by the same amount when a
sample is replaced.
"""

import math
from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray

from dpml.algorithms import require_domain
from dpml.algorithms.coefficients import Scales
from dpml.algorithms.discrete_noise import NOISES, Noise
from dpml.algorithms.discrete_statistics import OnAGrid, PreparedIntegers
from dpml.algorithms.distributed_noise import IndependentNoise, NoiseSharing, TrustedCurator
from dpml.algorithms.hyperparameters import VARIANTS, Variant, check_choice, check_not_negative
from dpml.algorithms.noisy_coefficients import PreparedQuadratic
from dpml.arrays import Array
from dpml.data.partition import Parties
from dpml.errors import UserError
from dpml.optim.interior_point import stop_in_box, usual_start
from dpml.optim.quadratic import minimise_quadratic
from dpml.privacy import Adversary, Budget, Calibration, Problem, gdp

# The paper's L2 sensitivities of (L0, L1, L2), times N (Secs. 4.3 and H).
PUBLISHED_SENSITIVITY = {"squared": (1.0, 4.0, math.sqrt(2)), "logistic": (0.0, 1.0, math.sqrt(2) / 8)}


@dataclass(frozen=True)
class FunctionalFamily(OnAGrid):
    """What the improved functional mechanism at one trusted curator (Alg. 3) and all that are made of it share.

    Args:
        variant: `paper` solves, `published`, as Zhang et al. 2012, Sec. 6: add a ridge, and trim the spectrum if that
            is not enough; `tight`, by raising its eigenvalues to a floor (`noisy_coefficients.FLOOR`). `authors` is
            what the authors ran: minimise over the box [-1, 1]^d, and stop where their solver does, before it has
            converged if d is large (`dpml.optim.interior_point`).
        ridge: the published ridge, in units of the spectral edge of the noise on L2 (data-independent, so it costs no
            privacy).
    """

    claim: ClassVar[str]
    variants: ClassVar[tuple[str, ...]] = VARIANTS

    calibration: Calibration = "published"
    variant: Variant = "paper"
    ridge: float = 1.25

    def __post_init__(self) -> None:
        super().__post_init__()
        check_not_negative("algo.ridge", self.ridge)

    # What a distributed variant changes: the noise that its sites draw, and who can see which of it.

    @property
    def sharing(self) -> NoiseSharing:
        return TrustedCurator()

    def published_factor(self, M: int) -> float:
        """How much wider the published noise of the sum is than the central mechanism's."""
        return 1.0

    def rows(self, parties: Parties) -> slice:
        """Which private rows are used."""
        return slice(None)

    # What all have in common.

    def scales(self, budget: Budget, problem: Problem) -> Scales:
        if self.calibration == "tight" or math.isinf(budget.eps):
            return super().scales(budget, problem)
        delta = budget.require_delta(f"algo={self.name}")
        width = self.published_factor(problem.M) / gdp.classical_mu(budget.eps, delta)
        return Scales(*(width * sensitivity for sensitivity in PUBLISHED_SENSITIVITY[self.loss.name]))

    def prepare(self, parties: Parties, rng: Generator) -> PreparedQuadratic:
        require_domain(parties, self.loss)
        rows = self.rows(parties)
        X, y = parties.X[rows], parties.y[rows]
        n = len(y)
        return PreparedQuadratic(
            self,
            problem=parties.problem,
            count=n,
            constant=float(self.quadratic.constant(y).mean()),
            linear=self.quadratic.linear(y) @ X / n,
            square=self.quadratic.square * (X.T @ X) / n,
        )

    def minimisers(self, A: Array, b: Array, edges: Array) -> tuple[Array, NDArray[np.bool_]]:
        d = b.shape[-1]
        if self.variant == "authors":
            flat = stop_in_box(A.reshape(-1, d, d), b.reshape(-1, d), usual_start(d))
            return flat.reshape(b.shape), np.zeros(b.shape[:-1], dtype=bool)
        if self.calibration == "tight":
            return super().minimisers(A, b, edges)
        return minimise_quadratic(A + self.ridge * edges[:, None, None, None] * np.eye(d), b)


@dataclass(frozen=True)
class FunctionalMechanism(FunctionalFamily):
    """The improved functional mechanism at one trusted curator (Alg. 3).

    With discrete noise it is `ssp` of one party, who has all rows.

    Args:
        noise: `continuous`, or `discrete` (with `tight` noise): exact integers on a grid, the least noise that is
            proven to be enough (docs/privacy/discrete_noise.md).
    """

    name: ClassVar[str] = "fm"
    claim: ClassVar[str] = "Imtiaz et al. 2019, Thm 2"

    noise: Noise = "continuous"

    def __post_init__(self) -> None:
        super().__post_init__()
        check_choice("algo.noise", self.noise, NOISES)
        if self.noise == "discrete" and self.calibration != "tight":
            raise UserError(
                f"algo.noise=discrete of algo={self.name} is the least noise that is proven to be enough: set "
                "calibration=tight."
            )

    def prepare(self, parties: Parties, rng: Generator) -> PreparedQuadratic:
        pooled = super().prepare(parties, rng)
        return pooled if self.noise == "continuous" else self.on_a_grid(pooled, parties)

    def on_a_grid(self, pooled: PreparedQuadratic, parties: Parties) -> PreparedIntegers:
        """The rows as integers, with the noise of one curator who has those of all parties."""
        curator = replace(parties, offsets=np.array([0, len(parties.y)]), adversary=Adversary(0))
        return PreparedIntegers.of(replace(pooled, problem=curator.problem), curator, self.unit, "simulate")


class Conventional(FunctionalFamily):
    """`conv` (Sec. 4.4): every site releases its own coefficients by the functional mechanism, the aggregator averages.

    Each message is protected by its own noise alone, so the aggregator and any colluders see what one message shows.
    """

    name = "conv"
    claim = "Imtiaz et al. 2019, Sec. 4.4"

    def published_factor(self, M: int) -> float:
        return math.sqrt(M)

    @property
    def sharing(self) -> NoiseSharing:
        return IndependentNoise()


class Local(FunctionalFamily):
    """`local`: the functional mechanism at the last site, on its own rows. The other sites reveal nothing."""

    name = "local"
    claim = "Imtiaz et al. 2019, Thm 2"

    @property
    def sharing(self) -> NoiseSharing:
        return TrustedCurator(("release", "client"))

    def rows(self, parties: Parties) -> slice:
        return parties.of(len(parties.sizes) - 1)
