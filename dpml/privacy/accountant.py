"""Compute the total guarantee of several releases about the same rows.

A release may depend on earlier results, but the types and budgets of all releases must be fixed in advance. For
Gaussian releases, it suffices to fix a limit on their total mu: docs/privacy.md, "Several releases".

>>> from dpml.privacy.accountant import Accountant
>>> spent = Accountant().spend(0.1, times=100)  # 100 answers, each 0.1-DP
>>> round(spent.eps(1e-5), 3)  # basic composition: 10
4.307
>>> round(spent.gaussian(1.0).eps(1e-5), 3)  # with an additional Gaussian release of mu = 1
6.539
"""

import math
from dataclasses import dataclass, replace

from dpml.errors import UserError
from dpml.privacy import gdp, pld
from dpml.privacy.guarantee import Guarantee
from dpml.privacy.proofs import objective_perturbation as minima
from dpml.privacy.safe import round_down, round_up, total

_HUGE = 1e4  # from this mu on (eps > 4e7), the eps of all releases are added
_PLAIN = 40.0  # a larger eps is just added to the total: tight, as randomised response lies with probability < e^-40


@dataclass(frozen=True)
class Accountant:
    """The total privacy loss of one row over several releases, or of one party if all guarantees protect parties.

    An (eps, delta)-DP release is treated as the worst such mechanism. For a perturbed objective, the whole privacy
    curve is used. The order of releases does not matter.

    Args:
        mu: The mu of all Gaussian releases together.
        spent: (eps, delta, number of times) of releases that are neither Gaussian nor in `objectives`.
        objectives: (sigma, ridge, number of times) of releases by objective perturbation with Gaussian noise.
    """

    mu: float = 0.0
    spent: tuple[tuple[float, float, int], ...] = ()
    objectives: tuple[tuple[float, float, int], ...] = ()

    def gaussian(self, mu: float, times: int = 1) -> "Accountant":
        """Return the accountant after `times` more releases, each of which is `mu`-GDP."""
        if not mu >= 0:
            raise UserError(f"a mu-GDP release needs a mu >= 0, got mu={mu}.")
        alone = self.mu == 0 and _counted(times) == 1
        return replace(self, mu=mu if alone else math.hypot(self.mu, mu * math.sqrt(_counted(times))) * (1 + 2**-50))

    def spend(self, eps: float, delta: float = 0.0, times: int = 1) -> "Accountant":
        """Return the accountant after `times` more releases, each of which is (`eps`, `delta`)-DP."""
        if not (eps >= 0 and 0 <= delta < 1):
            raise UserError(f"a release needs eps >= 0 and a delta in [0, 1), got eps={eps} and delta={delta}.")
        return replace(self, spent=(*self.spent, (float(eps), float(delta), _counted(times))))

    def objective(self, sigma: float, ridge: float, times: int = 1) -> "Accountant":
        """Return the accountant after `times` more releases by objective perturbation with Gaussian noise.

        The objective is ``sum_i loss_i(w) + ridge/2 ||w||^2 + N(0, sigma^2)'w``.
        """
        if not (0 < sigma < math.inf and 0 < ridge < math.inf):
            raise UserError(
                f"objective perturbation needs a positive sigma and ridge, got sigma={sigma} and ridge={ridge}."
            )
        return replace(self, objectives=(*self.objectives, (float(sigma), float(ridge), _counted(times))))

    def add(self, guarantee: Guarantee, times: int = 1) -> "Accountant":
        """Return the accountant after `times` releases with `guarantee`. Guarantees for parties also hold for rows."""
        if guarantee.mu is not None:
            return self.gaussian(guarantee.mu, times)
        if guarantee.curve is not None:
            sigma, ridge, other_mu = guarantee.curve
            return self.gaussian(other_mu, times).objective(sigma, ridge, times)
        return self.spend(guarantee.eps, guarantee.delta, times)

    def eps(self, delta: float) -> float:
        """Return the least eps that is proven for all releases together at `delta` in [0, 1), or inf."""
        if not 0 <= delta < 1:
            raise UserError(f"delta must lie in [0, 1), got delta={delta}.")
        if delta == 0:
            pure = self.mu == 0 and self._lost == 0 and not self.objectives
            return total((eps, times) for eps, _, times in self.spent) if pure else math.inf
        alone = self.mu == 0 and not self.objectives and len(self.spent) == 1
        if alone and self.spent[0][1:] == (delta, 1):
            return self.spent[0][0]  # a single release at its own delta needs no composition
        if self._added == math.inf or delta <= self._lost:
            return math.inf
        left = round_down((delta - self._lost) / (1 - self._lost)) if self._lost else delta
        eps = total([(self._plain, 1), (self._gaussian_eps(left), 1)])
        if self._composed:
            eps = min(eps, self._losses(delta=left).eps(left))
        return total([(self._added, 1), (eps, 1)])

    def delta(self, eps: float) -> float:
        """Return the least delta that is proven for all releases together at `eps` >= 0."""
        if not eps >= 0:
            raise UserError(f"eps must be a non-negative number, got eps={eps}.")
        if self._added == math.inf:
            return 1.0
        if self.objectives and not self._composed:
            return 1.0
        rest = -total([(-eps, 1), (self._added, 1), (0.0 if self._composed else self._plain, 1)])
        # delta(-eps) = 1 - e^-eps + e^-eps delta(eps), because neighbours can be exchanged
        at = abs(rest)
        finite = self._losses(eps=at).delta(at) if self._composed else math.exp(gdp.log_delta_of(self.mu, at))
        if self.mu and not self._composed:
            finite = math.nextafter(finite, 1.0)  # rounds up even if `finite` is 0
        if rest < 0:
            finite = round_up(-math.expm1(rest) + math.exp(rest) * finite)
        return min(round_up(self._lost + (1 - self._lost) * finite) if self._lost else finite, 1.0)

    @property
    def _lost(self) -> float:
        """The probability, rounded up, that at least one of the (eps, delta)-DP releases reveals everything."""
        return round_up(-math.expm1(math.fsum(times * math.log1p(-delta) for _, delta, times in self.spent)))

    @property
    def _added(self) -> float:
        """The sum, rounded up, of the eps of all releases with eps > 40, for which basic composition is tight."""
        return total((eps, times) for eps, _, times in self.spent if eps > _PLAIN)

    @property
    def _plain(self) -> float:
        """The sum of the eps of all releases with eps <= 40, rounded up."""
        return total(self._pure.items())

    @property
    def _pure(self) -> dict[float, int]:
        counts: dict[float, int] = {}
        for eps, _, times in self.spent:
            if 0 < eps <= _PLAIN:
                counts[eps] = counts.get(eps, 0) + times
        return counts

    @property
    def _composed(self) -> bool:
        """Whether to compose privacy loss distributions: if all mu < 1e4, for objectives or an eps in (0, 40]."""
        mus = [self.mu, *(2 / sigma for sigma, _, _ in self.objectives)]
        return bool(self._pure or self.objectives) and max(mus) < _HUGE

    def _gaussian_eps(self, delta: float) -> float:
        shares = (self.mu > 0) + sum(times for _, _, times in self.objectives)
        if not shares:
            return 0.0
        share = round_down(delta / shares) if shares > 1 else delta
        each = [(minima.eps_of(sigma, ridge, share), times) for sigma, ridge, times in self.objectives]
        return total([(gdp.eps_of(self.mu, share), 1), *each])

    def _losses(self, *, delta: float = 0.0, eps: float = 0.0) -> pld.Losses:
        parts = [(pld.pure(each, times), 1) for each, times in self._pure.items()]
        parts += [(minima.losses(sigma, ridge), times) for sigma, ridge, times in self.objectives]
        parts += [(pld.gaussian(self.mu), 1)] if self.mu else []
        return parts[0][0] if len(parts) == 1 and parts[0][1] == 1 else pld.compose(parts, delta=delta, eps=eps)


def _counted(times: int) -> int:
    if times != int(times) or times < 1:
        raise UserError(f"the number of releases must be a whole number of at least 1, got times={times}.")
    return int(times)
