"""Write a mean ± half the width of its confidence interval, as text or in LaTeX."""

import math
import re

SIGNED = ("noisy_objective",)
"""Metrics that are often negative. As in the papers, their absolute value is shown."""
ZERO = 1e-9  # a mean below this is zero, up to the error of an optimiser or rounding

SUPERSCRIPTS = dict(zip("⁻⁰¹²³⁴⁵⁶⁷⁸⁹", "-0123456789", strict=True))
_RAISED = {down: up for up, down in SUPERSCRIPTS.items()}
_NUMBER = re.compile(rf"\(?(-?[\d.]+)(?: ± ([\d.]+))?\)?(?:e([+-]?\d+)|·10([{''.join(SUPERSCRIPTS)}]+))?")


def number(mean: float, half: float = math.nan) -> str:
    """Write a mean ± half its interval, with a power of ten if the larger number is below 0.001 or above 9999.

    `half` has two significant digits, and the mean is rounded to the same place. If `half` is NaN or 0, the mean has
    three significant digits.

    >>> number(0.6543, 0.1234), number(0.6543), number(2e-8, 1e-9)
    ('0.65 ± 0.12', '0.654', '(2.00 ± 0.10)·10⁻⁸')
    """
    known = 0 < half < math.inf
    if not math.isfinite(mean):
        return "NaN" if math.isnan(mean) else "∞" if mean > 0 else "-∞"
    if not known and not mean:
        return "0"
    power = _exponent(max(abs(mean), half) if known else mean)
    power = 0 if -3 <= power <= 3 else power
    last = _exponent(float(f"{half:.1e}")) - 1 if known else _exponent(float(f"{mean:.2e}")) - 2
    numbers = [mean, half] if known else [mean]
    digits = " ± ".join(f"{round(number, -last) / 10.0**power:.{max(0, power - last)}f}" for number in numbers)
    return f"{f'({digits})' if known and power else digits}{_times(power)}"


def _exponent(number: float) -> int:
    return int(f"{abs(number):.15e}".split("e")[1])


def _times(power: int) -> str:
    return f"·10{''.join(_RAISED[digit] for digit in str(power))}" if power else ""


def scientific(number: float) -> str:
    """Write a number with two digits, times a power of ten.

    >>> scientific(1e-5), scientific(2.5e7), scientific(3.0)
    ('10⁻⁵', '2.5·10⁷', '3')
    """
    digits, exponent = f"{number:.1e}".split("e")
    return f"{float(digits):g}{_times(int(exponent))}".removeprefix("1·")


def plain(number: float) -> str:
    """Return a number as text for titles and axes, such as 0.5 or 10⁻⁵. Whole numbers have thousands separators."""
    written = f"{number:,.0f}" if number >= 1 and float(number).is_integer() else f"{number:g}"
    return scientific(number) if "e" in written else written


def tex_number(text: str) -> str | None:
    r"""Return a number of a table in the form that LaTeX's package siunitx reads; None if the text is not a number.

    >>> tex_number("(1.2 ± 0.3)·10⁻⁵"), tex_number("1e-05"), tex_number("capefm")
    ('\\num{1.2 +- 0.3 e-5}', '\\num{1 e-5}', None)
    """
    found = _NUMBER.fullmatch(text)
    if found is None:
        return None
    mean, half, plain, raised = found.groups()
    power = int(plain or "".join(SUPERSCRIPTS[digit] for digit in raised or "") or 0)
    return rf"\num{{{mean}{f' +- {half}' if half else ''}{f' e{power}' if power else ''}}}"
