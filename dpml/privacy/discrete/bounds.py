"""Real numbers between integers: bounds on exponentials and on cumulative weights, at any precision."""

from bisect import bisect_right
from collections.abc import Callable
from fractions import Fraction
from itertools import accumulate

Bounds = tuple[list[int], list[int]]
"""Ascending real numbers c, each as lower <= 2^bits c <= upper."""

_GUARD = 64  # additional bits of intermediate results


def exp_minus(gamma: Fraction, bits: int) -> tuple[int, int]:
    """Return integers ``lower <= 2^bits e^-gamma <= upper`` for gamma >= 0, at most two apart."""
    return _exp_minus(gamma.numerator, gamma.denominator, bits)


def _exp_minus(above: int, below: int, bits: int) -> tuple[int, int]:
    """Return the same for ``gamma = above / below``, which need not be in lowest terms.

    e^-x for ``x = gamma / 2^halvings <= 1/2`` by its series, then squared as often. In units of 2^-w, a term is at most
    4 below the truth, because e' <= e/2 + 2. The first term that is 0 is then at most 4, and the later ones, of
    alternating sign, are smaller. x is cut to a multiple of the unit, which shifts e^-x by at most 1.
    """
    if above >= bits * below:  # e^-gamma < 2^-bits
        return 0, 1
    halvings = (2 * (above // below) + 1).bit_length()
    w = bits + _GUARD + 2 * halvings
    x = (above << w - halvings) // below
    total = term = 1 << w
    terms = 1
    while term:
        term = (term * x >> w) // terms
        total += -term if terms % 2 else term
        terms += 1
    lower, upper = total - 4 * terms - 5, total + 4 * terms + 4
    for _ in range(halvings):
        lower, upper = lower * lower >> w, (upper * upper >> w) + 1
    return lower >> w - bits, (upper >> w - bits) + 1


def cumulative(variance: Fraction, bits: int) -> Bounds:
    """Bound ``Pr[V <= k]``, k = 0, 1, ..., for ``Pr[V = k]`` proportional to ``e^(-k^2/2 variance)``, k >= 0.

    It ends where less than 2^-bits is left: weights above k fall by ``e^-y``, ``y = (2k + 1)/2 variance``, or faster,
    and ``1/(1 - e^-y) <= 1 + 1/y``.
    """
    w = bits + _GUARD
    weights: list[tuple[int, int]] = []
    twice, per = 2 * variance.numerator, variance.denominator  # whole numbers take half the time of fractions
    while True:
        k = len(weights)
        lower, upper = _exp_minus(k * k * per, twice, w)
        odd = (2 * k + 1) * per
        rest = upper * (odd + twice) // odd + 1
        if rest < 1 << _GUARD - 4:
            break
        weights.append((lower, upper))
    least = list(accumulate(lower for lower, _ in weights))
    most = list(accumulate(upper for _, upper in weights))
    total_least, total_most = least[-1], most[-1] + rest
    return [(part << bits) // total_most for part in least], [-(-(part << bits) // total_least) for part in most]


def geometric(rate: Fraction, bits: int) -> Bounds:
    """Bound ``Pr[V <= k] = 1 - e^(-rate (k + 1))``, k = 0, 1, ..., for ``Pr[V = k]`` proportional to e^(-rate k).

    It ends where less than 2^-bits is left. A product of two bounds is off by at most one unit of 2^-(bits + 64) more.
    """
    w = bits + _GUARD
    least, most = exp_minus(rate, w)
    left, at_most = 1 << w, 1 << w
    lower: list[int] = []
    upper: list[int] = []
    while not upper or upper[-1] < 1 << bits:
        left, at_most = left * least >> w, (at_most * most >> w) + 1
        lower.append(max((1 << bits) - (at_most >> _GUARD) - 1, 0))
        upper.append((1 << bits) - (left >> _GUARD))
    return lower, upper


def settle(prefix: int, bits: int, numbers: Callable[[int], Bounds], more: Callable[[], int]) -> int:
    """Return how many of the real `numbers` are at most U, whose first `bits` binary digits are `prefix`.

    The last upper bound is at least 2^bits, so that a U above the last lower bound is undecided. Where bounds at this
    precision do not decide, `more` gives the next 64 digits of U. U is uniform, so this ends with probability 1.
    """
    while True:
        lower, upper = numbers(bits)
        k = bisect_right(lower, prefix)  # U < number k
        if k == 0 or upper[k - 1] <= prefix:
            return k
        prefix, bits = prefix << 64 | more(), bits + 64
