#!/usr/bin/env python3
"""Check the privacy guarantee of a published model without dpml: ``python3 verify.py model.json``.

This file needs only Python's standard library. dpml reads models with it, but computes no privacy number with it.

For every message, a model's certificate states the sensitivity (how far one unit can change the message), the law and
size of the noise, how often the message was sent, and who drew the noise. These statements are the publisher's word.
From them, this program computes an eps against every kind of observer (view). It rejects a model that says more about
privacy than its certificate proves, or that has unknown content, which may weaken the guarantee. It computes with
fractions, or with decimals of 100 digits and an error margin, so rounding never favours the publisher. The theorems:

1. *Gaussian noise* of standard deviation s: a message of L2 sensitivity D is mu-GDP with mu = D/s. The mu^2 of messages
   add up, each as often as it was sent, even if they are chosen adaptively (Dong, Roth & Su 2019, Thm 2.7, Cor. 3.3).
2. *From mu to eps.* mu-GDP is (eps, delta)-DP with ``delta = Q(z1) - e^eps Q(z2)``, z1 = eps/mu - mu/2, z2 = z1 + mu
   and Q the upper tail of N(0, 1) (Balle & Wang 2018, Thm 8). Delta equals phi(z1) (m(z1) - m(z2)) with the density phi
   and Mills' ratio m = Q/phi.
3. *Discrete Gaussian noise* on blocks of k integers (docs/privacy/discrete_noise.md). If r^2 = 13/4 + (number of binary
   digits of h k)/28, h parties' noise of variance v >= 2 r^2 each counts as Gaussian noise of variance ``h v - r^2``.
   Of all blocks, the least noise counts. Mu increases by 1e-25 for each block, and by the stated effect of rounding.
4. *Laplace noise* of scale b on reals or integers of L1 sensitivity D: eps = D/b (Dwork et al. 2006; Ghosh, Roughgarden
   & Sundararajan 2009). For a density proportional to exp(-|z|/b), D is in the norm |.|. The eps of messages add up.
5. *Objective perturbation* with the ridge R (Theorem 2 of docs/privacy/rajkumar2012.md, Theorem 5 of
   docs/privacy/imtiaz2019.md). For the logistic loss and Gaussian noise of standard deviation s, delta is at most that
   of 2/s-GDP if eps <= 1/s^2 or eps >= 2/R - 2/s^2. L2-Laplace noise of scale b gives eps = 2 g/b + c/R for a loss of
   x'w whose first two derivatives are bounded by g and c, and 2/b for the logistic loss (g = 1, c = 1/4) if R >= b.
6. *Views.* All parties add the same amount of noise. Against an observer who knows the noise of all but h of M parties,
   h/M of the variance counts. CAPE (Imtiaz, Mohammadi & Sarwate 2019) adds zero-sum noise: docs/privacy/imtiaz2019.md.
"""

import hashlib
import json
import math
import re
import sys
from collections.abc import Callable
from decimal import Context, Decimal, localcontext
from fractions import Fraction as Q
from pathlib import Path
from typing import Any, NamedTuple

VIEWS = {
    "release": "those who see the published model and nothing else",
    "aggregate": "those who see every sum that the parties release together",
    "colluders": "the aggregator together with the colluding parties",
    "client": "those who see all that one party sends",
    "transcript": "those who see all messages",
}
VISIBLE = {"parties": 3, "open": 5, "cape": 5}  # how many of the first VIEWS a certificate needs, by who adds the noise
NEIGHBOURS = ("replace one", "add or remove one", "zero out one")
UNITS = {"sample": "one record", "party": "all records of one party"}
SHARED, MOVED = "by parties colluders away", "sensitivity scale"
READ = {"curator": "by", "parties": SHARED, "open": SHARED, "cape": f"{SHARED} spread"}  # keys, by who adds the noise
LAWS = {  # the keys of a message, by the law of its noise
    "gaussian": "sensitivity deviation", "discrete gaussian": "sensitivity rounding blocks",
    "laplace": MOVED, "discrete laplace": MOVED, "l2 laplace": MOVED,
    "laplace objective": "deviation ridge slope curvature", "gaussian objective": "deviation ridge",
}  # fmt: skip
CERTIFICATE, MODEL, REAL = "dpml certificate 1", "dpml model 2", "proven for real numbers"
FLOATING = "floating-point numbers, whose low bits can tell neighbours apart (Mironov 2012)"
NOISES = {  # what a statement says about guarantee and noise, by the basis of the guarantees
    "proven": ("proven", "exact integers; the guarantee holds for the numbers as they are published"),
    REAL: (f"{REAL}, not for these bits", f"real numbers, rounded to {FLOATING}"),
    "declared": ("declared by {}, which is not part of dpml, and proven by nobody here", f"its own; {FLOATING}"),
}
KEYS = "format task loss label stated steps offset scale guarantees statement setting versions weights certificate"
SUMS = "square linear labels square_noise linear_noise rows scaled_up"
ROUND = "at gradient hessian meat noise scaled_up"
FREE = r"(Trust|Public|Preprocessing|Not covered|Warning|Counted|Errors): ((?!\beps\b|\bdelta ?=|collu|ε|δ).)*"


ROOT_2PI = Decimal("2.50662827463100050241576528481104525300698674060993831662992357634")
DIGITS = Context(prec=100, Emin=-999_999, Emax=999_999)
ERROR = Decimal("1e-50")  # far more than the relative error of Mills' ratio and of numbers of 100 digits
FAR = Decimal(1000)  # for larger x, e^-x is bounded by 0 and e^-1000


def decimal(x: Q) -> Decimal:
    """Return a fraction as a decimal number, with the precision of the current decimal context."""
    return Decimal(x.numerator) / Decimal(x.denominator)


def root_above(x: Q) -> Q:
    """Return a number just above the square root of x >= 0."""
    with localcontext(DIGITS):
        return Q(decimal(x).sqrt() * (1 + ERROR))


def shortened(x: Q) -> Q:
    """Round a long number x >= 0 up to fewer digits, so that a sum over many messages does not take hours."""
    if x.denominator < 10**1000:
        return x
    with localcontext(DIGITS):
        return Q(decimal(x) * (1 + ERROR))


def mills(z: Decimal) -> Decimal:
    """Return Mills' ratio Q(z)/phi(z) of the normal distribution for z >= 0, with a relative error below 1e-54."""
    if z >= 5:  # Laplace's continued fraction z + 1/(z + 2/(z + ... + 200/z)) for phi(z)/Q(z), cut off after 200
        rest = z
        for n in range(200, 0, -1):
            rest = z + n / rest
        return 1 / rest
    term = total = z
    for k in range(3, 400, 2):  # z + z^3/3 + z^5/(3 * 5) + ... = (1/2 - Q(z))/phi(z)
        term *= z * z / k
        total += term
    return ROOT_2PI / 2 * (z * z / 2).exp() - total


def delta_of(mu: Q, eps: Q) -> Q:
    """Return an upper bound on the least delta such that mu-GDP implies (eps, delta)-DP, for eps >= 0."""
    if mu == 0:
        return Q(0)
    with localcontext(DIGITS):
        z1, z2 = decimal(eps / mu - mu / 2), decimal(eps / mu + mu / 2)
        x, first, second = z1 * z1 / 2, mills(abs(z1)), mills(z2)
        density = (-min(x, FAR)).exp() / ROOT_2PI
        if z1 >= 0:
            return Q(density * (1 + ERROR) * (first * (1 + ERROR) - second * (1 - ERROR)))
        return Q(1 + ERROR - density * (first + second)) if x < FAR else Q(1)  # the product is at most 1


def least_eps(delta_at: Callable[[Q], Q], delta: Q, low: Q) -> Q | None:
    """Return the least eps > `low` with delta_at(eps) <= delta, rounded up to six digits; None if it exceeds 2^30."""
    high = 2 * (low := Q(math.ceil(max(low, Q(1, 1 << 40)) * 2**60), 2**60))
    while delta_at(high) > delta:
        low, high = high, 2 * high
        if high > 1 << 30:
            return None
    while high - low > high / 10**6:
        middle = Q(math.floor((low + high) * 2**79), 2**80)
        low, high = (middle, high) if delta_at(middle) > delta else (low, middle)
    return high


class RejectedError(Exception):
    """Report that a file is not a model or certificate, contradicts itself, or has unknown content."""


def require(holds: object, why: str) -> None:
    """Raise RejectedError with the reason `why` unless `holds` is true."""
    if not holds:
        raise RejectedError(why)


def number(content: dict[str, Any], key: str, least: Q | None = None) -> Q:
    """Return the exact number under a JSON key; raise RejectedError unless it is >= `least` (default: positive)."""
    value: Any = content.get(key)
    fraction = isinstance(value, str) and len(value) < 200 and re.fullmatch("[0-9]+(/[0-9]+)?", value)
    require(fraction or (type(value) in (int, float) and math.isfinite(value)), f"{key} is not a number")
    require(Q(value) > 0 if least is None else Q(value) >= least, f"{key}={value} is too small")
    return Q(value)


def whole(content: dict[str, Any], key: str, least: int = 0) -> int:
    """Return the whole number under a JSON key; raise RejectedError unless it is at least `least`."""
    require((found := number(content, key, Q(least))).denominator == 1, f"{key} is not a whole number")
    return int(found)


def require_only(content: dict[str, Any], keys: str) -> None:
    """Raise RejectedError if an object has keys other than `keys`, because unknown keys may weaken the guarantee."""
    if more := set(content) - set(keys.split()):
        raise RejectedError(f"the key {min(more)[:40]!r} is unknown")


def unknown_noise(noise: dict[str, Any], view: str) -> tuple[int, int, Q]:
    """Return h, n, f: `view` does not know h of n parties' noise, f h/n of the stated variance (f = 1 unless CAPE)."""
    by = noise.get("by")
    require_only(noise, READ.get(str(by), ""))
    if by == "curator":
        return 1, 1, Q(1)
    M, C, away = whole(noise, "parties", 1), whole(noise, "colluders"), whole(noise, "away")
    honest = (M - C if view == "colluders" else M) - away
    require(C + away < M, f"no noise is left: of {M} parties {C} collude and {away} may be missing")
    if by == "parties" or view in ("release", "aggregate"):
        return honest, M, Q(1)
    if by == "open":  # a message has only its sender's noise
        return 1, M, Q(1)
    wide = number(noise, "spread") ** 2
    if view == "client":
        return 1, M, 1 + wide * (M - 1)
    return honest, M, 1 / (1 + Q(honest - 1, M) / (wide + Q(1, M)))


def squared_mu(message: dict[str, Any], heads: tuple[int, int, Q]) -> Q:
    """Return an upper bound on mu^2 of one message with continuous or discrete Gaussian noise."""
    h, n, factor = heads
    D = number(message, "sensitivity")
    if message["law"] == "gaussian":
        return D**2 * Q(n, h) / (number(message, "deviation") ** 2 * factor)
    widths = []
    for block in message["blocks"]:
        require_only(block, "numbers variance step")
        variance, count = number(block, "variance"), whole(block, "numbers", 1)
        rest = Q(13, 4) + Q((h * count).bit_length(), 28)
        require(factor == 1 and variance >= 2 * rest, "the discrete noise is too small, or cannot be split like this")
        widths.append((h * variance - rest) * number(block, "step") ** 2)
    return (root_above(D**2 / min(widths)) + number(message, "rounding", Q(0)) + len(widths) * Q(1, 10**25)) ** 2


class Total(NamedTuple):
    """The parameters that determine the delta of all messages together at every eps."""

    mu: Q  # the mu of all Gaussian noise
    pure: Q  # the eps of all Laplace noise
    objective: tuple[Q, Q] | None  # instead of these: noise_std and ridge of a perturbed objective

    def delta(self, eps: Q) -> Q:
        """Return an upper bound on the delta of all messages together at the given eps."""
        if self.objective is None:
            return delta_of(self.mu, eps - self.pure) if eps >= self.pure else Q(1)
        deviation, ridge = self.objective
        known = eps <= 1 / deviation**2 or eps >= 2 / ridge - 2 / deviation**2
        return delta_of(2 / deviation, eps) if known else Q(1)


def total(messages: list[dict[str, Any]], heads: tuple[int, int, Q]) -> Total:
    """Return the joint guarantee of messages against an observer, given the noise that the observer does not know."""
    squares, pure, objectives = Q(0), Q(0), []
    for message in messages:
        times, law = whole(message, "times", 1), message["law"]
        require(law in LAWS, f"unknown law {str(law)[:40]!r}")
        require_only(message, f"law times stated {LAWS[law]}")
        require(message.get("stated", True) is True, "stated must be true")
        if law.endswith("gaussian"):
            squares += times * squared_mu(message, heads)
        elif law.endswith("laplace"):
            pure += times * number(message, "sensitivity") / number(message, "scale")
        elif law == "gaussian objective":
            objectives += [(number(message, "deviation"), number(message, "ridge"))] * min(times, 2)
        else:
            scale, ridge, slope, curvature = (number(message, key) for key in LAWS[law].split())
            free = slope == 1 and curvature == Q(1, 4) and ridge >= scale
            pure += times * (2 * slope / scale + (0 if free else curvature / ridge))
        squares, pure = shortened(squares), shortened(pure)
    require(not objectives or (len(objectives) == 1 and not squares and not pure), "an objective is not alone")
    return Total(root_above(squares) if squares else Q(0), pure, objectives[0] if objectives else None)


def totals(certificate: dict[str, Any]) -> dict[str, Total]:
    """Return, for each view (kind of observer) in a certificate, the joint guarantee of all messages."""
    require_only(certificate, "format declared unit neighbours delta noise messages views")
    unit, views, by = certificate["unit"], certificate["views"], certificate["noise"]["by"]
    require(certificate["format"] == CERTIFICATE, f"its format is neither {MODEL!r} nor {CERTIFICATE!r}")
    require(unit in UNITS and certificate["neighbours"] in NEIGHBOURS, "its unit or its neighbours are unknown")
    require(views and set(list(VIEWS)[: VISIBLE.get(by, 0)]) <= set(views), "a view is missing")
    require(number(certificate, "delta", Q(0)) < 1, "its delta is not below 1")
    require(re.fullmatch(r"[\w.<>]{1,200}", certificate.get("declared", "dpml")), "declared names nobody")
    found = {}
    for view, stated in views.items():
        require_only(stated, "eps messages")
        sent = certificate["messages"] or stated.get("messages")
        require(view in VIEWS and sent, f"the view {view[:40]!r} is unknown, or it has no messages")
        require(unit == "sample" or "objective" not in json.dumps(sent), "objectives protect records only")
        found[view] = total(sent, unknown_noise(certificate["noise"], view))
    return found


def verify(certificate: dict[str, Any]) -> list[tuple[str, Q, Q | None]]:
    """Return each view's name, its stated eps, and what is proven: the stated eps, else the least eps, else None."""
    delta, found = number(certificate, "delta", Q(0)), []
    for view, sent in totals(certificate).items():
        eps = number(certificate["views"][view], "eps", Q(0))
        found.append((view, eps, eps if sent.delta(eps) <= delta else least_eps(sent.delta, delta, eps)))
    return found


def basis_of(certificate: dict[str, Any]) -> str:
    """Return whether guarantees are declared by a class outside dpml, proven, or proven for real-number noise only."""
    sent = certificate["messages"] or [one for view in certificate["views"].values() for one in view["messages"]]
    exact = sent and all(message["law"].startswith("discrete") for message in sent)
    return "declared" if "declared" in certificate else "proven" if exact else REAL


def written(x: float) -> str:
    """Round a proven number up, to four significant digits; round down only if the relative change is at most 1e-6."""
    near = float(f"{x:.4g}")
    return f"{near if near >= x * (1 - 1e-6) else near + 10.0 ** (math.floor(math.log10(near)) - 3):.4g}"


def statement(certificate: dict[str, Any]) -> tuple[str, str, str]:
    """Return the first three sentences of a model's statement: the unit of privacy, the guarantee and the noise."""
    noise, delta = certificate["noise"], float(number(certificate, "delta", Q(0)))
    how, drawn = NOISES[basis_of(certificate)]
    who = "One trusted place adds it."
    if noise["by"] != "curator":
        who = "{parties} parties add it, of whom {colluders} may collude and {away} more may be missing."
    stated = {VIEWS[view]: written(float(number(of, "eps", Q(0)))) for view, of in certificate["views"].items()}
    against = "; ".join(f"eps = {eps} against {whom}" for whom, eps in stated.items())
    return (
        f"Unit of privacy: {UNITS[certificate['unit']]} ({certificate['neighbours']}).",
        f"Guarantee: {against}; delta = {delta:.6g}: {how.format(certificate.get('declared'))}. Two neighbours make "
        "what is published equally likely up to a factor of e^eps, but for a probability of delta.",
        f"Noise: {drawn}. {who.format(**noise)}",
    )


def without_repeats(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Return a JSON object; raise RejectedError if a key occurs twice, because the key's value is then ambiguous."""
    require(len(dict(pairs)) == len(pairs), "a key occurs twice")
    return dict(pairs)


def flat(value: Any, depth: int = 2) -> list[Any]:
    """Return all numbers of a matrix or vector in one list."""
    return [x for each in value for x in flat(each, depth - 1)] if depth and isinstance(value, list) else [value]


def check_form(content: dict[str, Any]) -> None:
    """Raise RejectedError unless a model's file has all keys of a model, with values of the right types."""
    rest = {"errors", "moments"}  # only some models have these
    require({*content, *rest} == {*KEYS.split(), *rest}, "its keys are not those of a model")
    require(all(isinstance(content[key], str) for key in ("loss", "label", "setting")), "a word is not text")
    require(content["task"] in ("binary", "multiclass", "regression"), "its task is unknown")
    rows, errors = content["weights"], content.get("errors", {})
    require(all(isinstance(each, str) for each in (*content["steps"], *content["statement"])), "a sentence is not text")
    require(rows and all(row and len(row) == len(rows[0]) for row in rows), "it has no weights")
    require_only(errors, "measure of rows error deviation level low high")
    moments = content.get("moments", {})
    rounds = [moments[name] for name in ("first", "before", "last") if name in moments]
    require_only(moments, "first before last rows" if rounds else SUMS)
    for each in rounds:
        require_only(each, ROUND)
    sums = (x for each in rounds or [moments] for of in each.values() for x in flat(of))
    counted = (x for key, x in errors.items() if key not in ("measure", "of"))
    numbers = (content["offset"], content["scale"], moments.get("rows", 0), *counted, *flat(rows), *sums)
    require(all(type(x) in (int, float) and math.isfinite(x) for x in numbers), "a weight or an error is not a number")
    require_only(content["versions"], "dpml python numpy scipy pandas scikit-learn hydra-core")
    require(all(re.fullmatch(r"[\w.+!-]{1,40}", of) for of in content["versions"].values()), "a version is not valid")


def check_model(content: dict[str, Any]) -> None:
    """Raise RejectedError unless everything that a model says about privacy follows from its certificate."""
    check_form(content)
    certificate, given, said = content["certificate"], content["guarantees"], content["statement"]
    if certificate is None:
        finite = any(each["eps"] is not None and each["basis"] not in ("published", "conditional") for each in given)
        nothing = "".join(said[1:2]).startswith("Guarantee: nothing is proven")
        require(nothing and not finite, "it states a guarantee, but has no certificate")
        return
    found, basis = totals(certificate), basis_of(certificate)
    require([each["view"] for each in given] == list(found), "the model and its certificate name different views")
    for each, sent in zip(given, found.values(), strict=True):
        require_only(each, "view unit eps delta basis source mu curve")
        same = {"delta": certificate["delta"], "unit": certificate["unit"], "basis": basis}
        same["eps"] = certificate["views"][each["view"]]["eps"]
        mu = each["mu"] is None or (0 < sent.mu <= Q(each["mu"] * (1 + 1e-12)) and not sent.pure)
        curve = each["curve"] is None or (sent.objective is not None and each["curve"] == [*sent.objective, 0])
        require(mu and curve and {**each, **same} == each, "the model and its certificate state different guarantees")
    require(tuple(said[:3]) == statement(certificate), "its statement does not agree with its certificate")
    require(all(re.fullmatch(FREE, each) for each in said[3:]), "its statement says more than its certificate")
    asked = re.findall(r"(?<!\S)eps=([0-9.e+-]+)(?!\S)", content["setting"])[-1:]
    more = "count_errors=" in content["setting"]  # counting errors has its own eps
    enough = all(float(eps) > 0.999999 * each["eps"] for eps in asked for each in given)
    require(more or enough, "its setting asks for a smaller eps than it guarantees")


def read(path: str | Path) -> dict[str, Any]:
    """Return the content of a model's or certificate's file; raise RejectedError if the content is not valid."""
    try:
        content = json.loads(Path(path).read_text(encoding="utf-8"), object_pairs_hook=without_repeats)
        seal, plain = content.pop("checksum"), json.dumps(content)
        require(hashlib.sha256(plain.encode()).hexdigest() == seal, "its checksum does not match: it was cut or edited")
        require(not re.search(r"\\u00([01]|7f)", plain), "it has control characters")
        if content["format"] == MODEL:
            check_model(content)
        else:
            _ = totals(content), statement(content)
    except (ValueError, LookupError, TypeError, ArithmeticError, AttributeError, RecursionError) as error:
        raise RejectedError(f"it is no model or certificate, {error!r}"[:200]) from None
    return content


def main(path: str) -> int:
    """Print which stated eps hold. Return 0 if all stated eps hold, 1 if not, and 2 if the file is rejected."""
    try:
        content = read(path)
        certificate = content.get("certificate", content)
        require(certificate, "nothing is proven of it")
        results, (unit, _, noise) = verify(certificate), statement(certificate)
    except (OSError, RejectedError) as error:
        print(f"{path}: not verified: {getattr(error, 'strerror', None) or error}")
        return 2
    given = ", given its stated ratio of sensitivity and noise" * ('"stated": true' in json.dumps(certificate))
    given += f", if the declaration of {certificate.get('declared')!r} is right" * ("declared" in certificate)
    print(f"{unit}\n{noise}\nAt delta = {certificate['delta']}:")
    for view, stated, proven in results:
        least = "nothing" if proven is None else f"eps = {float(proven):.9g}"
        word = f"holds{given}" if proven == stated else f"is NOT VERIFIED: {least} is proven"
        print(f"{view}: eps = {float(stated):.9g} {word}")
    return 0 if all(stated == proven for _, stated, proven in results) else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]) if len(sys.argv) == 2 else "usage: python3 verify.py model.json")
