"""What a release guarantees, in sentences computed from its facts: who is protected, how well, and from whom.

They answer the questions of NIST SP 800-226, "Guidelines for Evaluating Differential Privacy Guarantees" (2025). What
follows from a certificate is in the words of `dpml.release.verify`, so that whoever reads a model can compare them.
"""

import math

from dpml.privacy import worst
from dpml.privacy.safe import written
from dpml.release import verify
from dpml.release.facts import Facts

HIGH = 10.0
"""An eps above which a guarantee excludes little: e^10 is 22,026."""


def statement(facts: Facts) -> tuple[str, ...]:
    """Return the sentences about a release: the first three are about its unit, its guarantee and its noise."""
    weakest = worst(facts.held)
    if facts.certificate and math.isfinite(weakest.eps):
        proven = verify.statement(dict(facts.certificate))
    else:
        proven = (f"Unit of privacy: {verify.UNITS[facts.unit]} (replace one).", _nothing(facts), _noise(facts))
    return (*proven, *_warnings(facts), _trust(facts), _public(facts), _ranges(facts), _NOT_COVERED)


def _nothing(facts: Facts) -> str:
    why = facts.open or ("no noise was added" if facts.noiseless else worst(facts.held).source,)
    rest = [g for g in facts.guarantees if g.basis == "conditional" and math.isfinite(g.eps)]
    would = "be declared" if facts.author else "hold"
    otherwise = f" Otherwise eps = {written(worst(rest).eps)} would {would}." if rest else ""
    return f"Guarantee: nothing is proven, because {'; and because '.join(why)}.{otherwise}"


def _noise(facts: Facts) -> str:
    if facts.noiseless:
        return "Noise: none."
    if facts.randomness == "seed":
        return "Noise: from a generator with a seed, for tests: whoever has the seed has the noise."
    return f"Noise: {'exact integers' if facts.exact else 'floating-point numbers'}."


def _warnings(facts: Facts) -> list[str]:
    found, eps = [], worst(facts.held).eps
    if HIGH < eps < math.inf:
        found.append(f"Warning: so weak a guarantee excludes little: odds of e^{written(eps)} to one.")
    if facts.may_show_a_record:
        often = facts.delta * facts.problem.M if facts.unit == "party" else 1.0
        chance = f", with a probability of {often:.3g}" if often < 1 else ""
        found.append(
            "Warning: a guarantee that fails with a probability of 1/N or more allows that one of the "
            f"N = {facts.problem.N:,} records is published{chance}."
        )
    return found


def _trust(facts: Facts) -> str:
    if facts.problem.M == 1:
        return "Trust: the one place that had all records and drew the noise is trusted with them."
    where = facts.trust or (
        "one place computed this release on behalf of several parties, and it is trusted with all records. The "
        "guarantees are about parties that run the protocol on their own machines"
    )
    alone = (facts.certificate or {"noise": {}})["noise"].get("colluders") == 0
    party = " None of them is against another party, which knows its own share of the noise."
    return f"Trust: {where}.{party if alone else ''}"


def _public(facts: Facts) -> str:
    parties = ", of the records of each party, and whose a record is" if facts.problem.M > 1 else ""
    classes = "; and which classes the records have: one of them alone may show that it is there" * facts.labels
    return f"Public: the number of records{parties}; the number of features{classes}."


def _ranges(facts: Facts) -> str:
    if facts.ranges == "fitted":
        return "Preprocessing: ranges were taken from the private records."
    return (
        f"Preprocessing: by ranges{'' if facts.labels else ' and lists'} that were stated, not taken from the records; "
        "values outside were clipped. That they were stated without a look at the records is the publisher's word."
    )


_NOT_COVERED = (
    "Not covered: what was learned from the records before (features, algorithm, parameters), other releases about the "
    "same people (see the ledger), the other records of a person who has several, the time a computation takes, and "
    "what others' records tell about a person."
)
