"""What several releases about the same sample guarantee together, adaptively chosen or not.

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
from dpml.privacy.safe import down, total, up

_HUGE = 1e4  # a mu whose eps is above 4e7, to which the others' are added
_PLAIN = 40.0  # an eps above this is added: randomised response then lies with a probability below e^-40


@dataclass(frozen=True)
class Accountant:
    """The privacy budget spent on one sample (or one party, where every release is accounted for that unit).

    Gaussian releases add exactly, ``mu^2 = sum mu_i^2``. An (eps, delta)-DP release counts as the worst of its kind:
    with probability delta everything is revealed, else it is a randomised response with odds e^eps (Kairouz, Oh &
    Viswanath 2015, Thm 3.3). Equal ones compose in closed form, different ones by privacy loss
    distributions (`pld`), whose errors only ever raise the answer. The order of releases does not matter.

    Args:
        mu: of all Gaussian releases together.
        spent: (eps, delta, how many times) of all others.
    """

    mu: float = 0.0
    spent: tuple[tuple[float, float, int], ...] = ()

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

    def add(self, guarantee: Guarantee, times: int = 1) -> "Accountant":
        """The accountant after `times` releases of this `guarantee`. One for a party holds for each of its samples."""
        if guarantee.mu is not None:
            return self.gaussian(guarantee.mu, times)
        return self.spend(guarantee.eps, guarantee.delta, times)

    def eps(self, delta: float) -> float:
        """The least eps that is proven at `delta` in [0, 1) for all releases together; inf where there is none."""
        if not 0 <= delta < 1:
            raise UserError(f"delta must lie in [0, 1), got delta={delta}.")
        if delta == 0:
            pure = self.mu == 0 and self._lost == 0
            return total((eps, times) for eps, _, times in self.spent) if pure else math.inf
        if self.mu == 0 and [(once, times) for _, once, times in self.spent] == [(delta, 1)]:
            return self.spent[0][0]  # one release, at its own delta
        if self._added == math.inf or delta <= self._lost:
            return math.inf
        left = down((delta - self._lost) / (1 - self._lost)) if self._lost else delta
        eps = total([(self._plain, 1), (gdp.eps_of(self.mu, left), 1)])
        if self._pure and self.mu < _HUGE:
            eps = min(eps, self._losses(delta=left).eps(left))
        return total([(self._added, 1), (eps, 1)])

    def delta(self, eps: float) -> float:
        """The least delta that is proven at `eps` >= 0 for all releases together."""
        if not eps >= 0:
            raise UserError(f"eps must be a non-negative number, got eps={eps}.")
        if self._added == math.inf:
            return 1.0
        composed = bool(self._pure) and self.mu < _HUGE
        rest = -total([(-eps, 1), (self._added, 1), (0.0 if composed else self._plain, 1)])
        # replace-one adjacency is symmetric: the curve below 0 follows from that above
        at = abs(rest)
        finite = self._losses(eps=at).delta(at) if composed else math.exp(gdp.log_delta_of(self.mu, at))
        if self.mu and not composed:
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

    def _losses(self, *, delta: float = 0.0, eps: float = 0.0) -> pld.Losses:
        parts = [pld.pure(each, times) for each, times in self._pure.items()]
        parts += [pld.gaussian(self.mu)] if self.mu else []
        return parts[0] if len(parts) == 1 else pld.compose([(part, 1) for part in parts], delta=delta, eps=eps)


def _counted(times: int) -> int:
    if times != int(times) or times < 1:
        raise UserError(f"times must be a whole number of at least 1, got times={times}.")
    return int(times)
