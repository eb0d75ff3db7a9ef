"""Write the numbers of a table's column, means ± half their intervals, with one power of ten, as text or LaTeX."""

import math
import re
from collections.abc import Iterable

_WIDEST = 4  # numbers in a column share a power of ten if they span at most this many decades
SIGNED = ("noisy_objective",)
"""Metrics that are often negative. As in the papers, their absolute value is shown."""
ZERO = 1e-9  # means below this are zero, up to the error of an optimiser or rounding

SUPERSCRIPTS = dict(zip("⁻⁰¹²³⁴⁵⁶⁷⁸⁹", "-0123456789", strict=True))
_RAISED = {down: up for up, down in SUPERSCRIPTS.items()}
_NUMBER = re.compile(rf"\(?(-?[\d.]+)(?: ± ([\d.]+))?\)?(?:e([+-]?\d+)|·10([{''.join(SUPERSCRIPTS)}]+))?")


def numerals(means: Iterable[float], halves: Iterable[float]) -> tuple[int, list[str]]:
    """Return the power of ten in the head of a column, and the column's numbers: means ± half their intervals.

    Half an interval has two digits, and its mean is rounded to the same place. A mean without an interval has three
    digits. If a number is outside 0.001 to 9999, the column has one power of ten for all numbers; or each number has
    its own, if the numbers are more than four decades apart.

    >>> numerals([779000, -16700], [3e5, 6e2])
    (5, ['7.8 ± 3.0', '-0.1670 ± 0.0060'])
    >>> numerals([0.9163, 3e-8], [0.0034, 4e-9])
    (0, ['0.9163 ± 0.0034', '(3.00 ± 0.40)·10⁻⁸'])

    Args:
        means: the means; NaN and infinity are written as such.
        halves: half the width of each interval; NaN or 0 if there is none.
    """
    pairs = list(zip(means, halves, strict=True))
    exponents = [_exponent(size) for size in map(_size, pairs) if size]
    most, least = max(exponents, default=0), min(exponents, default=0)
    if most - least > _WIDEST:
        return 0, [number(*pair) for pair in pairs]
    power = 0 if -3 <= least <= most <= 3 else most
    return power, [_numeral(*pair, power) for pair in pairs]


def times(power: int) -> str:
    """Return a power of ten as a factor, such as ``·10⁻⁵``; empty for the power 0."""
    return f"·10{''.join(_RAISED[digit] for digit in str(power))}" if power else ""


def scientific(number: float) -> str:
    """Return a number with two digits as a multiple of a power of ten.

    >>> scientific(1e-5), scientific(2.5e7), scientific(3.0)
    ('10⁻⁵', '2.5·10⁷', '3')
    """
    digits, exponent = f"{number:.1e}".split("e")
    return f"{float(digits):g}{times(int(exponent))}".removeprefix("1·")


def tex_number(text: str) -> str | None:
    r"""Return a number of a table for LaTeX's package siunitx; None if the text is not a number.

    >>> tex_number("(1.2 ± 0.3)·10⁻⁵"), tex_number("1e-05"), tex_number("capefm")
    ('\\num{1.2 +- 0.3 e-5}', '\\num{1 e-5}', None)
    """
    found = _NUMBER.fullmatch(text)
    if found is None:
        return None
    mean, half, plain, raised = found.groups()
    power = int(plain or "".join(SUPERSCRIPTS[digit] for digit in raised or "") or 0)
    return rf"\num{{{mean}{f' +- {half}' if half else ''}{f' e{power}' if power else ''}}}"


def _size(pair: tuple[float, float]) -> float:
    """Return the larger absolute value of a mean and half its interval; 0 if neither is finite."""
    return max([abs(number) for number in pair if math.isfinite(number)], default=0.0)


def number(mean: float, half: float = math.nan) -> str:
    """Write a mean ± half its interval, with its own power of ten.

    >>> number(0.6543, 0.1234), number(0.6543), number(2e-8, 1e-9)
    ('0.65 ± 0.12', '0.654', '(2.00 ± 0.10)·10⁻⁸')
    """
    size = _size((mean, half))
    power = _exponent(size) if size else 0
    if -3 <= power <= 3 or not math.isfinite(mean):
        return _numeral(mean, half, 0)
    digits = _numeral(mean, half, power)
    return f"({digits}){times(power)}" if "±" in digits else f"{digits}{times(power)}"


def _numeral(mean: float, half: float, power: int) -> str:
    if not math.isfinite(mean):
        return "NaN" if math.isnan(mean) else "∞" if mean > 0 else "-∞"
    known = 0 < half < math.inf
    if not known and not mean:
        return "0"
    last = _exponent(float(f"{half:.1e}")) - 1 if known else _exponent(float(f"{mean:.2e}")) - 2
    numbers = [mean, half] if known else [mean]
    return " ± ".join(f"{round(number, -last) / 10.0**power:.{max(0, power - last)}f}" for number in numbers)


def _exponent(number: float) -> int:
    """Return the power of ten of the first digit."""
    return int(f"{abs(number):.15e}".split("e")[1])
