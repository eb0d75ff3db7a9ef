"""What a release guarantees, in six sentences computed from its facts: who is protected, how well, and from whom.

They answer the questions of NIST SP 800-226, "Guidelines for Evaluating Differential Privacy Guarantees" (2025), in its
order: the unit and the neighbours, the parameters, the trust model, the mechanism, the data's processing, what is left.
"""

import math
from collections.abc import Collection

from dpml.data.csv.column_bounds import ColumnBounds
from dpml.privacy import worst
from dpml.privacy.safe import written
from dpml.release.exactness import NOT_THESE_BITS
from dpml.release.facts import Facts

HIGH = 10.0
"""An eps above which the odds say little: e^10 is 22,026."""

_SEEN = {
    "release": "those who see the published model and nothing else",
    "aggregate": "those who see every sum that the parties release together",
    "client": "those who see all that one party sends",
    "transcript": "those who see all messages",
    "colluders": "the aggregator together with {C} of the {M} parties",
}


def statement(facts: Facts) -> tuple[str, ...]:
    """Six sentences about a release: its unit, its guarantee, who is trusted, its noise, its ranges, what is left
    out."""
    return _unit(facts), _guarantee(facts), _trust(facts), _noise(facts), _ranges(facts), _NOT_COVERED


def gaps(stated: ColumnBounds, steps: Collection[str]) -> tuple[str, ...]:
    """Return a sentence about what stands for missing values, with every value; none if nothing does."""
    values = [f"{name} counts as {value}" for name, value in stated.filled.items()]
    values += [f"a feature marks where {name} is missing" for name in stated.indicators.values()]
    if "impute" in steps:
        middles = {name: stated.middle(name) for name in stated.sources if name not in stated.fills}
        values += [f"{name} counts as {middle}, the middle of its range" for name, middle in middles.items() if middle]
    return (f"Missing values: {'; '.join(values)}.",) if values else ()


def _unit(facts: Facts) -> str:
    public = "The number of records" + (", of each party, and whose a record is," if facts.problem.M > 1 else "")
    if facts.unit == "sample":
        what = "one record: it is replaced by any other; a person with several records is protected for one of them"
    else:
        what = "all records of one party: they are replaced by any others"
    which = ", and so is which classes the records have: one of them alone may show that it is there" * facts.labels
    return f"Unit of privacy: {what}. {public} and of features is taken as public{which}."


def _guarantee(facts: Facts) -> str:
    if facts.noiseless:
        return "Guarantee: nothing is proven, because no noise was added."
    weakest = worst(facts.held)
    if math.isinf(weakest.eps):
        rest = [g for g in facts.guarantees if g.basis == "conditional"]
        otherwise = (
            f" Otherwise eps = {written(worst(rest).eps)} would {'be declared' if facts.author else 'hold'}."
            if rest
            else ""
        )
        why = "; and because ".join(facts.open or (weakest.source,))
        return f"Guarantee: nothing is proven, because {why}.{otherwise}"
    most = "whoever sees most"
    if facts.another is not None and float(written(facts.another)) > float(written(weakest.eps)):
        most += " and is no party to it"
    proven = f"proven for {most}" if facts.exact else NOT_THESE_BITS
    if facts.author:
        proven = f"declared by {facts.author}, which is not part of dpml, and proven by nobody here; if it is right"
    high = f" So large an eps excludes little: odds of e^{written(weakest.eps)} to one." if weakest.eps > HIGH else ""
    if facts.may_show_a_record:
        high += f" So large a delta, 1/N or more, allows that one of the N = {facts.problem.N:,} records is published"
        often = facts.delta * facts.problem.M if facts.unit == "party" else 1.0
        high += f", with a probability of {often:.3g}." if often < 1 else "."
    return (
        f"Guarantee: eps = {written(weakest.eps)}, delta = {written(weakest.delta, 6)}, {proven}"
        f"{',' if facts.author else ':'} from what is seen nobody can tell at odds above e^{written(weakest.eps)}, "
        f"but for a probability of {written(weakest.delta, 6)}, which of two such neighbours it was made from.{high}"
    )


def _trust(facts: Facts) -> str:
    M, C = facts.problem.M, facts.problem.colluders
    if M == 1:
        return "Trust: the one place that had all records and drew the noise is trusted with them."
    own = ", ".join(f"eps = {written(g.eps)} against {_SEEN[g.view].format(C=C, M=M)}" for g in facts.held)
    where = facts.trust or (
        f"this release was computed in one place on behalf of {M} parties, and that place is trusted with all records; "
        "the rest is about parties that run the protocol on their own machines"
    )
    other = ""
    if facts.another is not None:
        what = f"eps = {written(facts.another)}" if math.isfinite(facts.another) else "nothing is proven"
        other = f"; {what} against one other party, who knows its noise"
    return f"Trust: {where}: {own}{other}."


def _noise(facts: Facts) -> str:
    if facts.noiseless:
        return "Noise: none."
    if facts.randomness == "seed":
        return "Noise: from a generator with a seed, for tests: whoever has the seed has the noise."
    if facts.author:
        floating = ", and are floating-point numbers, whose low bits can tell neighbours apart (Mironov 2012)"
        return (
            "Noise: drawn by that code, which was given the operating system's random numbers; its sums and what it "
            f"releases are its own{'' if facts.exact else floating}."
        )
    if facts.exact:
        return (
            "Noise: exact integers from the operating system's random numbers; the guarantee holds for the numbers as "
            "they are published."
        )
    return (
        "Noise: floating-point numbers from the operating system's random numbers, whose low bits can tell neighbours "
        "apart (Mironov 2012)."
    )


def _ranges(facts: Facts) -> str:
    if facts.ranges == "fitted":
        return "Preprocessing: ranges were taken from the private records."
    return (
        f"Preprocessing: by ranges{'' if facts.labels else ' and lists'} that were stated, not taken from the records; "
        "values outside were clipped. That they were stated without a look at the records is the publisher's word."
    )


_NOT_COVERED = (
    "Not covered: what was learned from the records before (features, algorithm, parameters), other releases about the "
    "same people (see the ledger), the time a computation takes, and what others' records tell about a person."
)
