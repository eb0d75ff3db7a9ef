#!/usr/bin/env python3
"""Check what a published model guarantees, without dpml: ``python3 verify.py model.json``.

This file needs Python's standard library only and shares no code with dpml. It reads the certificate in a model, or one
that ``dpml guarantee --certificate FILE`` wrote: for every message how far one unit moves it at most, the law and width
of its noise, and how often it was sent; and who drew the noise. From these it computes for every view an eps that
holds, and compares it with the stated one. It does not see the rows: how far a message moves, and that the noise was
drawn as is said, is the word of whoever made the model. Where there is no noise but its ratio to the move, as `stated`,
only what follows from the ratio is computed, and this is said. Whatever else is in a certificate may weaken the rest:
it is rejected. Numbers are rational, or enclosed by such; what is uncertain counts against the guarantee. Used:

1. *Gaussian noise* of deviation s on a message that moves by at most D in L2 norm is mu-GDP with mu = D/s. Messages
   compose to ``mu^2 = sum times (D/s)^2``, adaptively chosen or not (Dong, Roth & Su 2019, Thm 2.7, Cor. 3.3).
2. mu-GDP is (eps, delta)-DP, ``delta = Q(z1) - e^eps Q(z2)``, z1 = eps/mu - mu/2, z2 = z1 + mu, Q the upper tail of
   N(0, 1) (Balle & Wang 2018, Thm 8). With the density phi and Mills' ratio m = Q/phi: phi(z1) (m(z1) - m(z2)).
3. *Discrete Gaussian noise* on integers, of h parties, of variance v >= 2 r^2 each, counts as Gaussian noise of ``h v -
   r^2``, r^2 = 13/4 + (binary digits of h k)/28 for k numbers, but for 1e-25 in mu (docs/privacy/discrete_noise.md).
4. *Laplace noise* of scale b, on reals or on integers: eps = D/b with the move D in L1 norm (Dwork et al. 2006; Ghosh,
   Roughgarden & Sundararajan 2009). Noise of density exp(-|z|/b): the same with the norm |.|. Such eps add up.
5. *Objective perturbation* (docs/privacy/perturbed_minima.md), logistic loss, Gaussian noise s, ridge R: the curve of
   mu = 2/s at eps <= 1/s^2 and at eps >= 2/R - 2/s^2; L2-Laplace noise of scale b, gradients below g and curvatures
   below c: eps = 2 g/b + c/R, and for the logistic loss, g = 1 and c = 1/4, only 2/b where R >= b. A model beside its
   minimiser, mu-GDP given that: `delta_with` (proofs/approximate_minima.py), 1e-6 of delta for what a grid misses.
   Softmax: K - 1 times the curve of 2 sqrt2/s at eps - k, if at least 2/s^2, k = (K - 1) log(1 + 1/(K R)).
6. *Views.* The noise of parties is as wide in each; one who knows the noise of all but h of M sees h/M of its variance.
   CAPE (Imtiaz, Mohammadi & Sarwate 2019) with zero-sum noise: docs/privacy/imtiaz2019.md.
"""

import hashlib
import json
import math
import sys
from collections.abc import Callable
from fractions import Fraction as Q
from pathlib import Path
from typing import Any

Pair = tuple[Q, Q]  # a lower and an upper bound
BITS = 180
FAR = 1 << 10  # e^-FAR is as good as 0
PI = Q(31415926535897932384626433832795028841971693993751058209749445, 10**61)  # the digits of pi, cut
VIEWS = ("release", "aggregate", "colluders", "client", "transcript", "another party")
NEIGHBOURS = ("replace one", "add or remove one", "zero out one")
VISIBLE = {"parties": 3, "open": 5, "cape": 5}  # how many of these there are, by whose noise it is; else it is said
SHARED, MOVED = "by parties colluders away", "sensitivity scale numbers"
READ = {  # all that may be said of noise that these draw, and of a message of such a law
    "curator": "by", "parties": SHARED, "open": SHARED, "cape": f"{SHARED} spread",
    "gaussian": "sensitivity deviation", "discrete gaussian": "sensitivity rounding blocks",
    "laplace": MOVED, "discrete laplace": MOVED, "l2 laplace": MOVED,
    "laplace objective": "deviation ridge slope curvature", "gaussian objective": "deviation ridge",
    "softmax objective": "deviation ridge classes",
}  # fmt: skip


def down(x: Q, bits: int) -> Q:
    """The largest multiple of 2^-bits that is at most x."""
    return Q((x.numerator << bits) // x.denominator, 1 << bits)


def root_above(x: Q) -> Q:
    """Just above the square root of x >= 0."""
    shift = BITS + max(0, x.denominator.bit_length() - x.numerator.bit_length())
    return Q(math.isqrt((x.numerator << 2 * shift) // x.denominator) + 1, 1 << shift)


ROOT_2PI: Pair = 1 / root_above(1 / (2 * PI)), root_above(2 * (PI + Q(1, 10**61)))


def exp_minus(x: Q) -> Pair:
    """e^-x for x >= 0: the series of e^-y, y = x/2^k below 1/16, squared k times."""
    if x > FAR:
        return Q(0), Q(1, 1 << FAR)
    k = math.ceil(x).bit_length() + 4
    w = BITS + 3 * int(x) // 2 + 2 * k + 16
    y = (x.numerator << w - k) // x.denominator
    total, term, n = 1 << w, 1 << w, 0
    while term:
        n, term = n + 1, (term * y >> w) // (n + 1)
        total += -term if n % 2 else term
    # a term is at most 2 units off, the terms that are left are less than 8, and y is less than 1 off
    low, high = total - 2 * n - 9, total + 2 * n + 9
    for _ in range(k):
        low, high = low * low >> w, (high * high >> w) + 1
    return Q(low, 1 << w), Q(high, 1 << w)


def log_above(x: Q) -> Q:
    """An upper bound on log(1 + x), x >= 0: a rounded logarithm where its exponential is as large, else x."""
    near = Q(math.log1p(x)) * (1 + Q(1, 10**14))
    return near if exp_minus(near)[1] * (1 + x) <= 1 else x


def density(z: Q) -> Pair:
    """phi(z)."""
    low, high = exp_minus(z * z / 2)
    return low / ROOT_2PI[1], high / ROOT_2PI[0]


def mills(z: Q) -> Pair:
    """m(z) = Q(z)/phi(z) for z >= 0; in whole numbers of 2^-BITS, for fractions take ten times as long."""
    one, p, q = 1 << BITS, z.numerator, z.denominator
    if z >= 5:  # Laplace's continued fraction 1/(z + 1/(z + 2/(z + ...))): the rest lies between z and z + n/z
        low, high = (p << BITS) // q, -(-((p * p + 200 * q * q) << BITS) // (p * q))
        for more in range(199 * q << BITS, 0, -q << BITS):
            low, high = ((p * high + more) << BITS) // (q * high), -(-((p * low + more) << BITS) // (q * low))
        return Q(one * one // high, one), Q(-(-one * one // low), one)
    k, total = 0, (term := (p << BITS) // q)
    while term > 1 or k < 40:  # then terms fall by more than half
        k, term = k + 1, -(-term * p * p // (q * q * (2 * k + 3)))
        total += term
    least, most = exp_minus(z * z / 2)
    error = Q(k + 8, 1 << BITS - 40)  # what is cut from z and from terms grows by less than e^(z^2/2) < 2^19
    return ROOT_2PI[0] / 2 / most - Q(total, one) - error, ROOT_2PI[1] / 2 / least - Q(total, one) + error


def delta_of(mu: Q, eps: Q) -> Q:
    """An upper bound on the least delta with which mu-GDP implies (eps, delta)-DP, eps >= 0."""
    if mu == 0:
        return Q(0)
    z1, z2 = eps / mu - mu / 2, eps / mu + mu / 2
    phi, first, second = density(z1), mills(abs(z1)), mills(z2)
    return phi[1] * (first[1] - second[0]) if z1 >= 0 else 1 - phi[0] * (first[0] + second[0])


def least_eps(delta_at: Callable[[Q], Q], delta: Q, low: Q) -> Q | None:
    """An eps above `low` at which a bound on delta is at most `delta`, to six digits; None: not below 2^30."""
    high = 2 * (low := -down(-max(low, Q(1, 1 << 40)), 60))
    while delta_at(high) > delta:
        low, high = high, 2 * high
        if high > 1 << 30:
            return None
    while high - low > high / 10**6:
        middle = down((low + high) / 2, 80)
        low, high = (middle, high) if delta_at(middle) > delta else (low, middle)
    return high


class RejectedError(ValueError):
    """A certificate that says nothing, or something impossible."""


def number(content: dict[str, Any], key: str, least: Q = Q(0)) -> Q:
    """A number of a certificate, exactly as it is written."""
    value: Any = content.get(key)
    fraction = isinstance(value, str) and value.replace("/", "", 1).isdigit() and len(value) < 200
    if not fraction and (type(value) not in (int, float) or not math.isfinite(value)):
        raise RejectedError(f"{key} is no number: {str(value)[:40]!r}")
    if Q(value) < least:
        raise RejectedError(f"{key}={value} is below {least}")
    return Q(value)


def whole(content: dict[str, Any], key: str, least: int = 0) -> int:
    """A whole number of a certificate."""
    if (found := number(content, key, Q(least))).denominator != 1:
        raise RejectedError(f"{key} is no whole number")
    return int(found)


def require_only(content: dict[str, Any], keys: str) -> None:
    """Raise RejectedError where something else is said, which may weaken the rest."""
    if more := set(content) - set(keys.split()):
        raise RejectedError(f"{min(more)[:40]!r} is not known here")


def unknown_noise(noise: dict[str, Any], view: str) -> tuple[int, int, Q]:
    """Of a view: the parties h whose noise it does not know, of how many n, and a factor of the variance h/n."""
    by = noise.get("by")
    require_only(noise, READ.get(str(by), ""))
    if by == "curator":
        return 1, 1, Q(1)
    M, C, away = whole(noise, "parties", 1), whole(noise, "colluders"), whole(noise, "away")
    honest = {"colluders": M - C, "another party": M - 1}.get(view, M) - away
    if C + away >= M or honest < 1:
        raise RejectedError(f"no noise is left: {C} of {M} parties collude, {away} are away")
    if by == "parties" or view in ("release", "aggregate"):
        return honest, M, Q(1)
    if by == "open":  # a message has its sender's noise alone
        return 1, M, Q(1)
    wide = number(noise, "spread") ** 2
    if view == "client":
        return 1, M, 1 + wide * (M - 1)
    return honest, M, 1 / (1 + Q(honest - 1, M) / (wide + Q(1, M)))


def squared_mu(message: dict[str, Any], heads: tuple[int, int, Q]) -> Q:
    """An upper bound on mu^2 of one sum with Gaussian noise, on reals or on integers."""
    h, n, factor = heads
    moved = number(message, "sensitivity")
    if message["law"] == "gaussian":
        return moved**2 * Q(n, h) / (number(message, "deviation") ** 2 * factor)
    widths = []
    for block in message["blocks"]:
        require_only(block, "numbers variance step")
        variance, count = number(block, "variance"), whole(block, "numbers", 1)
        rest = Q(13, 4) + Q((h * count).bit_length(), 28)
        step = number(block, "step")  # in units of the sensitivity
        if factor != 1 or variance < 2 * rest or step == 0:
            raise RejectedError("discrete noise is too narrow, or not of this kind")
        widths.append((h * variance - rest) * step**2)
    return (root_above(moved**2 / min(widths)) + number(message, "rounding") + len(widths) * Q(1, 10**25)) ** 2


def delta_with(messages: list[dict[str, Any]], heads: tuple[int, int, Q]) -> Callable[[Q], Q]:
    """An upper bound on the delta of all messages together, as a function of eps."""
    squares, pure, apart, missed = Q(0), Q(0), [], Q(0)
    for message in messages:
        times, law = whole(message, "times"), str(message.get("law"))
        if law not in READ or 0 in (message.get("scale"), message.get("deviation"), message.get("ridge")):
            raise RejectedError(f"unknown law {law[:40]!r}, or no noise, or no ridge")
        require_only(message, f"law times missed stated {READ[law]}")
        missed += times * number({"missed": 0} | message, "missed")
        if law.endswith("gaussian"):
            squares += times * squared_mu(message, heads)
        elif law.endswith("laplace"):
            pure += times * number(message, "sensitivity") / number(message, "scale")
        elif law != "laplace objective":
            classes = whole(message, "classes", 2) if law == "softmax objective" else 0
            apart += [(number(message, "deviation"), number(message, "ridge"), classes)] * min(times, 2)
        else:
            scale, ridge, slope, curvature = (number(message, key) for key in READ[law].split())
            free = slope == 1 and curvature == Q(1, 4) and ridge >= scale
            pure += times * (2 * slope / scale + (0 if free else curvature / ridge))
    mu = root_above(squares) if squares else Q(0)
    if len(apart) > 1 or (mu and any(classes for _, _, classes in apart)):
        raise RejectedError("objectives are not composed here")

    def delta_at(eps: Q) -> Q:
        low, tiny, share = exp_minus(eps)[0] if missed else Q(1), Q(bool(missed), 10**24), Q(bool(missed), 10**6)
        return max((1 + tiny) * counted(eps - tiny) / (1 - share), 4 * 10**6 * missed / low) if low else Q(1)

    def counted(eps: Q) -> Q:
        left = eps - pure
        if left < 0 or not apart:
            return Q(1) if left < 0 else delta_of(mu, left)
        ((deviation, ridge, classes),) = apart
        if classes:
            left -= (classes - 1) * log_above(1 / (classes * ridge))
            return (classes - 1) * delta_of(root_above(8 / deviation**2), left) if left >= 2 / deviation**2 else Q(1)
        paid = 2 / ridge - 2 / deviation**2  # the curvature of the loss costs nothing from here on
        if not mu:
            return delta_of(2 / deviation, left) if left <= 1 / deviation**2 or left >= paid else Q(1)
        z = (left - mu * mu / 2 - paid) / mu
        excess = delta_of(2 / deviation, 1 / deviation**2) * (density(z)[1] * mills(z)[1] if z >= 0 else 1)
        return delta_of(root_above(4 / deviation**2 + mu * mu), left) + excess

    return delta_at


def verify(certificate: dict[str, Any]) -> list[tuple[str, Q, Q | None]]:
    """For every view: its name, the stated eps, and an eps that holds, at most the stated one where that is proven."""
    require_only(certificate, "format declared unit neighbours delta noise messages views checksum")
    whole_delta, messages, views = number(certificate, "delta"), certificate["messages"], certificate["views"]
    known = certificate["neighbours"] in NEIGHBOURS and certificate["unit"] in ("sample", "party")
    if certificate["format"] != "dpml certificate 1" or not known:
        raise RejectedError("this is no certificate that this file can read")
    if not views or whole_delta >= 1 or set(VIEWS[: VISIBLE.get(certificate["noise"]["by"], 0)]) - set(views):
        raise RejectedError("there is no view, or one is left out, or no delta below 1")
    rows, found = certificate["unit"] == "sample", []  # theorem 5 is about these
    for view, stated in views.items():
        require_only(stated, "eps messages")
        sent = messages or stated.get("messages")
        if view not in VIEWS or not sent or not (rows or all("objective" not in message["law"] for message in sent)):
            raise RejectedError(f"nothing is known of what is sent, or seen in the view {view[:40]!r}")
        at, eps = delta_with(sent, unknown_noise(certificate["noise"], view)), number(stated, "eps")
        found.append((view, eps, eps if at(eps) <= whole_delta else least_eps(at, whole_delta, eps)))
    return found


def main(path: str) -> int:
    """Print what holds; 0 if every stated eps does, 1 if one does not, 2 if the file cannot be judged."""
    try:
        text = Path(path).read_text(encoding="utf-8")  # an object with a key twice is another one elsewhere: it is lost
        content = json.loads(text, object_pairs_hook=lambda each: dict(each) if len(dict(each)) == len(each) else {})
        seal = content.pop("checksum")
        if hashlib.sha256(json.dumps(content).encode()).hexdigest() != seal:
            raise RejectedError("the file is not as it was written: its checksum is another")
        certificate = content.get("certificate", content)
        results = verify(certificate)
        own = [certificate["delta"], certificate["unit"], "declared" in certificate]
        for each in content.get("guarantees", []):
            eps, basis = certificate["views"].get(each["view"], {}).get("eps"), each["basis"]
            same = [eps, *own] == [each["eps"], each["delta"], each["unit"], basis == "declared"]
            if not (same or basis in ("published", "conditional")):
                raise RejectedError("the model says something else than its certificate")
        given = ", given its ratio of move and noise" if '"stated": true' in json.dumps(content) else ""
        given += f", if what {str(certificate.get('declared'))[:80]!r} declares is right" * ("declared" in certificate)
    except (OSError, ValueError, LookupError, TypeError, ArithmeticError, AttributeError, RecursionError) as error:
        print(f"{path}: not verified: {error if isinstance(error, (RejectedError, OSError)) else repr(error)}")
        return 2
    print(f"of one {certificate['unit']} ({certificate['neighbours']}), at delta = {certificate['delta']}:")
    for view, stated, proven in results:
        least = "nothing" if proven is None else f"eps = {float(proven):.9g}"
        word = f"holds{given}" if proven == stated else f"is NOT VERIFIED: {least} is proven"
        print(f"{view}: eps = {float(stated):.9g} {word}")
    return 0 if all(stated == proven for _, stated, proven in results) else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]) if len(sys.argv) == 2 else "usage: python3 verify.py model.json")
