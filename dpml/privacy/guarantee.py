"""Define privacy budgets and guarantees for data sets that differ in one row or in all rows of one party."""

import math
from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any, Literal, NoReturn

import numpy as np

from dpml.arrays import Index
from dpml.errors import UserError

Calibration = Literal["published", "tight"]
CALIBRATIONS: tuple[Calibration, ...] = ("published", "tight")

View = Literal["release", "aggregate", "client", "transcript", "colluders"]
"""An observer. `release` sees the released model, `aggregate` all sums or averages, `client` one party's messages,
`transcript` all messages to the aggregator, `colluders` what aggregator and colluding parties (`Adversary`) see."""


@dataclass(frozen=True)
class Adversary:
    """The number of parties that collude with the aggregator and tell it everything they know.

    Args:
        colluders: The number of colluding parties, or their share of the M parties (below 1), rounded down. None: fewer
            than a third, ``ceil(M/3) - 1`` (Imtiaz et al. 2019, Sec. 2), which is 0 for M <= 3 and 1 for M = 4 to 6.
    """

    colluders: float | None = None

    def __post_init__(self) -> None:
        given = self.colluders
        if given is not None and not (0 <= given < 1 or (given >= 1 and float(given).is_integer())):
            raise UserError(
                f"adversary.colluders must be a whole number of parties, or a share of parties below 1, got {given}."
            )

    def count(self, M: int) -> int:
        if self.colluders is None:
            return math.ceil(M / 3) - 1
        number = math.floor(self.colluders * M * (1 + 1e-12)) if self.colluders < 1 else int(self.colluders)
        if number >= M:
            raise UserError(
                f"adversary.colluders={number} leaves no honest party among M={M}: set it to at most {M - 1}."
            )
        return number


@dataclass(frozen=True)
class Budget:
    """A privacy budget (eps, delta): ``eps=inf`` means no noise, and ``delta=None`` means that no delta was chosen."""

    eps: float
    delta: float | None = None

    def __post_init__(self) -> None:
        if not self.eps > 0:  # also true for NaN
            raise UserError(f"eps must be a positive number, or inf for no noise, got eps={self.eps}.")
        if self.delta is not None and not 0 < self.delta < 1:
            raise UserError(
                f"delta must lie strictly between 0 and 1 (or be null for pure eps-DP), got delta={self.delta}."
            )

    def require_delta(self, who: str) -> float:
        """Return delta; if delta is None, raise a UserError that names the algorithm `who`."""
        if self.delta is None:
            raise UserError(f"{who} adds Gaussian noise and needs a delta: set delta=1e-5, for example.")
        return self.delta


Basis = Literal["published", "proven", "conditional", "proven for real numbers", "declared"]
REAL: Literal["proven for real numbers"] = "proven for real numbers"
"""The basis of a guarantee of floating-point noise: the proof is about real numbers, not about rounded ones."""
DECLARED: Literal["declared"] = "declared"
"""The basis of a guarantee that a class outside dpml returns; dpml has not proven it."""
HELD: tuple[Basis, ...] = ("proven", REAL, DECLARED)
"""The bases of guarantees that are proven or declared, in contrast to published claims and conditional guarantees."""


@dataclass(frozen=True)
class Guarantee:
    """An (eps, delta) guarantee of a release for one `unit` (sample or party) against one observer (`view`).

    `basis` says how the guarantee is known, and `source` where it is proven or claimed. A `conditional` guarantee would
    hold if the hyper-parameters had been fixed in advance; the proven eps is then inf. `mu` is set if mu-GDP is proven,
    which implies (eps(delta), delta)-DP for every delta. `curve` is set for objective perturbation with Gaussian noise,
    for use by `Accountant`: (noise_std, ridge, mu of an additional Gaussian release or 0).
    """

    view: View
    unit: Literal["sample", "party"]
    eps: float
    delta: float
    basis: Basis
    source: str
    mu: float | None = None
    curve: tuple[float, float, float] | None = None

    @property
    def shown(self) -> dict[str, Any]:
        """The fields that tables show: all fields except `curve`."""
        return {key: value for key, value in vars(self).items() if key != "curve"}

    def __post_init__(self) -> None:
        if self.curve is not None:  # a curve that was read from a file is a list
            object.__setattr__(self, "curve", tuple(self.curve))


@dataclass(frozen=True)
class Problem:
    """The public numbers on which noise and guarantees depend: M parties, N private training rows, d features.

    `auxiliary` is the number of public auxiliary rows. `classes` is the number of classes of a multiclass task if it is
    public, otherwise 1. `sizes` are the parties' numbers of rows; () means equal sizes. `colluders` is the number of
    colluding parties; -1 means the default of `Adversary`.
    """

    M: int
    N: int
    d: int
    auxiliary: int = 0
    classes: int = 1
    sizes: tuple[int, ...] = ()
    colluders: int = -1

    def __post_init__(self) -> None:
        for key, value in (("M", self.M), ("N", self.N), ("d", self.d)):
            if value < 1:
                raise UserError(f"{key} must be at least 1, got {key}={value}.")
        if self.M > self.N:
            raise UserError(f"M={self.M} parties need at least one training row each, but N={self.N}.")
        if self.colluders < 0:
            object.__setattr__(self, "colluders", Adversary().count(self.M))
        if self.sizes and (len(self.sizes), sum(self.sizes)) != (self.M, self.N):  # after replace(problem, N=...)
            raise UserError(
                f"sizes has {len(self.sizes)} parties with {sum(self.sizes)} rows, but M={self.M} and N={self.N}."
            )

    def of_sizes(self, sizes: Index) -> "Problem":
        """Return a copy of the problem in which the parties have `sizes` (M,) rows."""
        return replace(self, N=int(sizes.sum()), sizes=tuple(map(int, sizes)))

    def units(self, unit: str) -> int:
        """Return the number of protected units: M parties if `unit` is party, otherwise N rows."""
        return self.M if unit == "party" else self.N

    @property
    def smallest(self) -> int:
        """The number of rows of the smallest party."""
        return min(self.sizes) if self.sizes else self.N // self.M

    def squares(self, parties: int) -> float:
        """Return the sum of (N_k/N)^2 over the `parties` smallest parties, where party k has N_k of the N rows."""
        if not self.sizes:
            return parties / self.M**2
        return float(((np.sort(self.sizes) / self.N) ** 2)[:parties].sum())

    @property
    def honest(self) -> int:
        return self.M - self.colluders


class UnsizedProblem(Problem):
    """A `Problem` whose parties have unknown numbers of rows; reading `sizes` raises a UserError that says `why`."""

    def __init__(self, problem: Problem, why: str) -> None:
        vars(self).update(vars(problem), why=why)  # the property `sizes` below hides the copied `sizes`

    @property
    def sizes(self) -> NoReturn:
        raise UserError(vars(self)["why"])


def large_delta(delta: float, N: int, units: int | None = None) -> str | None:
    """Return a warning if delta is at least 1/N for N records, otherwise None.

    If the units are M parties, the warning's example publishes a record only with probability delta * M (if below 1).
    """
    if delta * N < 1:
        return None
    chance = delta * (units or N)
    often = f", with a probability of {chance:.3g}," if chance < 1 else ""
    return (
        f"delta={delta:g} is 1/N or more, with N={N:,}: a mechanism that publishes one random record as it is{often} "
        f"also satisfies this delta. Choose a smaller one, such as delta={10.0 ** math.floor(-math.log10(N) - 1):g}."
    )


def worst(guarantees: Iterable[Guarantee]) -> Guarantee:
    """Return the guarantee with the largest eps, and replace its delta by the largest delta of all guarantees.

    The result has a `mu` or a `curve` only if all guarantees have one, because a guarantee with a smaller eps but
    without a mu may compose to a larger total.
    """
    guarantees = list(guarantees)
    mus = [each.mu for each in guarantees if each.mu is not None]
    curves = {each.curve for each in guarantees}
    return replace(
        max(reversed(guarantees), key=lambda guarantee: guarantee.eps),
        delta=max(each.delta for each in guarantees),
        mu=max(mus) if len(mus) == len(guarantees) else None,
        curve=curves.pop() if len(curves) == 1 else None,
    )
