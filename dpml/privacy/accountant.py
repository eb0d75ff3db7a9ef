"""What several releases about the same sample guarantee together; each may depend on the results of those before it.

Their kinds and budgets may not, or a total of different ones is not proven (Rogers, Roth, Ullman & Vadhan 2016): they
are fixed beforehand. Gaussian releases whose budgets depend on results, but stay below a total mu that was fixed
beforehand, are mu-GDP together (Smith & Thakurta 2022).

>>> from dpml.privacy.accountant import Accountant
>>> spent = Accountant().spend(0.1, times=100)  # 100 answers, each 0.1-DP
>>> round(spent.eps(1e-5), 3)  # plainly added: 10
4.307
>>> round(spent.gaussian(1.0).eps(1e-5), 3)  # and one Gaussian release of mu = 1 beside them
6.539
"""

import math
from dataclasses import dataclass, replace

from dpml.errors import UserError
from dpml.privacy import gdp, pld
from dpml.privacy.guarantee import Guarantee
from dpml.privacy.proofs import objective_perturbation as minima
from dpml.privacy.safe import down, total, up

_HUGE = 1e4  # a mu whose eps is above 4e7, to which the others' are added
_PLAIN = 40.0  # an eps above this is added: randomised response then lies with a probability below e^-40


@dataclass(frozen=True)
class Accountant:
    """The privacy budget spent on one sample (or one party, where every release is accounted for that unit).

    Gaussian releases add exactly, ``mu^2 = sum mu_i^2``. An (eps, delta)-DP release counts as the worst of its kind:
    with probability delta everything is revealed, else it is a randomised response with odds e^eps (Kairouz, Oh &
    Viswanath 2015, Thm 3.3); the minimiser of a perturbed objective by its whole curve. Equal ones compose in closed
    form, different ones by privacy loss distributions (`pld`), whose errors only ever raise the answer. The order of
    releases does not matter.

    Args:
        mu: of all Gaussian releases together.
        spent: (eps, delta, how many times) of all others.
        objectives: (sigma, ridge, how many times) of minimisers of objectives with a Gaussian linear term.
    """

    mu: float = 0.0
    spent: tuple[tuple[float, float, int], ...] = ()
    objectives: tuple[tuple[float, float, int], ...] = ()

    def gaussian(self, mu: float, times: int = 1) -> "Accountant":
        """The accountant after `times` further releases that are `mu`-GDP each."""
        if not mu >= 0:
            raise UserError(f"mu of a Gaussian release must be a non-negative number, got mu={mu}.")
        alone = self.mu == 0 and _counted(times) == 1
        return replace(self, mu=mu if alone else math.hypot(self.mu, mu * math.sqrt(_counted(times))) * (1 + 2**-50))

    def spend(self, eps: float, delta: float = 0.0, times: int = 1) -> "Accountant":
        """The accountant after `times` further releases that are (`eps`, `delta`)-DP each."""
        if not (eps >= 0 and 0 <= delta < 1):
            raise UserError(f"A release needs eps >= 0 and delta in [0, 1), got eps={eps} and delta={delta}.")
        return replace(self, spent=(*self.spent, (float(eps), float(delta), _counted(times))))

    def objective(self, sigma: float, ridge: float, times: int = 1) -> "Accountant":
        """The accountant after `times` minimisers of ``sum_i loss_i(w) + ridge/2 ||w||^2 + N(0, sigma^2 I)'w``."""
        if not (0 < sigma < math.inf and 0 < ridge < math.inf):
            raise UserError(f"objective perturbation needs a positive sigma and ridge, got {sigma} and {ridge}.")
        return replace(self, objectives=(*self.objectives, (float(sigma), float(ridge), _counted(times))))

    def add(self, guarantee: Guarantee, times: int = 1) -> "Accountant":
        """The accountant after `times` releases of this `guarantee`. One for a party holds for each of its samples."""
        if guarantee.mu is not None:
            return self.gaussian(guarantee.mu, times)
        if guarantee.curve is not None:
            sigma, ridge, beside = guarantee.curve
            return self.gaussian(beside, times).objective(sigma, ridge, times)
        return self.spend(guarantee.eps, guarantee.delta, times)

    def eps(self, delta: float) -> float:
        """The least eps that is proven at `delta` in [0, 1) for all releases together; inf where there is none."""
        if not 0 <= delta < 1:
            raise UserError(f"delta must lie in [0, 1), got delta={delta}.")
        if delta == 0:
            pure = self.mu == 0 and self._lost == 0 and not self.objectives
            return total((eps, times) for eps, _, times in self.spent) if pure else math.inf
        alone = self.mu == 0 and not self.objectives and len(self.spent) == 1
        if alone and self.spent[0][1:] == (delta, 1):
            return self.spent[0][0]  # one release, at its own delta
        if self._added == math.inf or delta <= self._lost:
            return math.inf
        left = down((delta - self._lost) / (1 - self._lost)) if self._lost else delta
        eps = total([(self._plain, 1), (self._apart(left), 1)])
        if self._composed:
            eps = min(eps, self._losses(delta=left).eps(left))
        return total([(self._added, 1), (eps, 1)])

    def delta(self, eps: float) -> float:
        """The least delta that is proven at `eps` >= 0 for all releases together."""
        if not eps >= 0:
            raise UserError(f"eps must be a non-negative number, got eps={eps}.")
        if self._added == math.inf:
            return 1.0
        if self.objectives and not self._composed:
            return 1.0
        rest = -total([(-eps, 1), (self._added, 1), (0.0 if self._composed else self._plain, 1)])
        # replace-one adjacency is symmetric: the curve below 0 follows from that above
        at = abs(rest)
        finite = self._losses(eps=at).delta(at) if self._composed else math.exp(gdp.log_delta_of(self.mu, at))
        if self.mu and not self._composed:
            finite = math.nextafter(finite, 1.0)  # also where nothing is as small
        if rest < 0:
            finite = up(-math.expm1(rest) + math.exp(rest) * finite)
        return min(up(self._lost + (1 - self._lost) * finite) if self._lost else finite, 1.0)

    @property
    def _lost(self) -> float:
        """The probability that some (eps, delta)-DP release reveals everything, rounded up."""
        return up(-math.expm1(math.fsum(times * math.log1p(-delta) for _, delta, times in self.spent)))

    @property
    def _added(self) -> float:
        """The sum of the eps above `_PLAIN`, for which basic composition is exact to rounding; rounded up."""
        return total((eps, times) for eps, _, times in self.spent if eps > _PLAIN)

    @property
    def _plain(self) -> float:
        """The sum of all other eps, rounded up."""
        return total(self._pure.items())

    @property
    def _pure(self) -> dict[float, int]:
        """How often every other eps was spent."""
        counts: dict[float, int] = {}
        for eps, _, times in self.spent:
            if 0 < eps <= _PLAIN:
                counts[eps] = counts.get(eps, 0) + times
        return counts

    @property
    def _composed(self) -> bool:
        """Whether privacy losses are composed: not needed for Gaussian releases alone, not possible with little
        noise."""
        mus = [self.mu, *(2 / sigma for sigma, _, _ in self.objectives)]
        return bool(self._pure or self.objectives) and max(mus) < _HUGE

    def _apart(self, delta: float) -> float:
        """The eps of the Gaussian releases and of all objectives at equal shares of `delta`, added."""
        shares = (self.mu > 0) + sum(times for _, _, times in self.objectives)
        if not shares:
            return 0.0
        share = down(delta / shares) if shares > 1 else delta
        each = [(minima.eps_of(sigma, ridge, share), times) for sigma, ridge, times in self.objectives]
        return total([(gdp.eps_of(self.mu, share), 1), *each])

    def _losses(self, *, delta: float = 0.0, eps: float = 0.0) -> pld.Losses:
        parts = [(pld.pure(each, times), 1) for each, times in self._pure.items()]
        parts += [(minima.losses(sigma, ridge), times) for sigma, ridge, times in self.objectives]
        parts += [(pld.gaussian(self.mu), 1)] if self.mu else []
        return parts[0][0] if len(parts) == 1 and parts[0][1] == 1 else pld.compose(parts, delta=delta, eps=eps)


def _counted(times: int) -> int:
    if times != int(times) or times < 1:
        raise UserError(f"times must be a whole number of at least 1, got times={times}.")
    return int(times)
