"""Round privacy numbers to the safe side, and format them."""

import math
from collections.abc import Iterable
from fractions import Fraction

ROUNDING = 1e-13  # covers 450 operations on positive numbers, each with a relative error below 2^-52
SPARE = 1e-12  # the relative excess of calibrated noise, so that it meets its budget after later rounding
_UNSEEN = 1e-6  # a formatted bound may be off to the wrong side by this relative amount


def round_up(number: float) -> float:
    """Return an upper bound on a formula's exact value, given its computed value `number` > 0 (see `ROUNDING`)."""
    return number * (1 + ROUNDING)


def round_down(number: float) -> float:
    """Return a lower bound on a formula's exact value, given its computed value `number` > 0 (see `ROUNDING`)."""
    return number * (1 - ROUNDING)


def with_slack(noise: float) -> float:
    """Return a slightly larger scale of noise, so that the noise meets its budget despite rounding."""
    return noise * (1 + SPARE)


def above(number: Fraction | int) -> float:
    """Return the least floating-point number that is at least the exact `number`."""
    try:
        nearest = float(number)
    except OverflowError:
        return math.inf
    return nearest if Fraction(nearest) >= number else math.nextafter(nearest, math.inf)


def total(terms: Iterable[tuple[float, int]]) -> float:
    """Return the sum of ``number * times`` over pairs (number, times), computed exactly and rounded up once."""
    terms = list(terms)
    if not all(math.isfinite(x) for x, _ in terms):
        return math.inf
    return above(sum(Fraction(x) * times for x, times in terms))


def written(number: float, digits: int = 4) -> str:
    """Format a proven number with `digits` digits; round up if the nearest is lower by more than 0.0001 %.

    >>> written(1.0000000001), written(1.0001), written(4.37718), written(1e-5)
    ('1', '1.001', '4.378', '1e-05')
    """
    return _written(number, digits, 1)


def written_below(number: float, digits: int = 4) -> str:
    """Format a lower bound with `digits` digits; round down if the nearest is higher by more than 0.0001 %.

    >>> written_below(0.97465), written_below(0.99999999), written_below(10.0), written_below(9.9996)
    ('0.9746', '1', '10', '9.999')
    """
    return _written(number, digits, -1)


def _written(number: float, digits: int, side: int) -> str:
    nearest = f"{number:.{digits}g}"
    if not math.isfinite(number) or number == 0 or side * float(nearest) >= side * number * (1 - side * _UNSEEN):
        return nearest
    place = math.floor(math.log10(abs(number))) - digits + 1
    return f"{float(nearest) + side * 10.0**place:.{digits}g}"
