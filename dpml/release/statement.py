"""The guarantees of a release in words: it answers the questions of NIST SP 800-226 one by one.

NIST SP 800-226 is "Guidelines for Evaluating Differential Privacy Guarantees" (2025).
"""

from collections.abc import Sequence

from dpml.algorithms import Algorithm
from dpml.privacy import Guarantee, Problem, worst

NOT_THESE_BITS = "proven for real numbers, not for these bits"
NO_LEDGER = "This release was entered in no ledger: whoever made it has to add it to what else was released."

_VIEWS = {
    "release": "those who see the published model and nothing else",
    "aggregate": "those who see every sum that the parties release together",
    "client": "those who see all that one party sends",
    "transcript": "those who see all messages",
    "colluders": "the aggregator together with {colluders} of the {M} parties, who pool all that they know",
}

_TRUST = {
    True: "the one place that had all records and drew the noise is trusted with them.",
    False: "this release was computed in one place on behalf of {M} parties, and that place is trusted with all "
    "records. The views above hold for parties that run the protocol on their own machines.",
}
"""Keyed by whether there is only one party."""


def has_exact_noise(algorithm: Algorithm) -> bool:
    """Whether an algorithm's noise is discrete, so that the guarantee does not depend on floating-point arithmetic."""
    return getattr(algorithm, "noise", "continuous") == "discrete"


def statement(guarantees: Sequence[Guarantee], problem: Problem, trust: str | None = None) -> tuple[str, ...]:
    """Sentences about a release.

    Args:
        guarantees: the proven guarantees, for every view, or those that are `REAL`.
        problem: gives the number of parties and colluders.
        trust: a sentence about trusted parties; None: the single place of the computation is trusted.
    """
    unit = guarantees[0].unit
    what = "one record" if unit == "sample" else "all records of one party"
    weakest, exact = worst(guarantees), all(guarantee.basis == "proven" for guarantee in guarantees)
    proven = "proven" if exact else NOT_THESE_BITS
    sentences = [
        f"Unit of privacy: {what}. A person with several records is protected for one of them only."
        if unit == "sample"
        else f"Unit of privacy: {what}.",
        f"Neighbours: data sets in which {what} was replaced by any other. The number of records, of features and of "
        "parties is taken as public.",
        *(
            f"Against {_VIEWS[g.view].format(colluders=problem.colluders, M=problem.M)}: eps = {g.eps:.6g}, delta = "
            f"{g.delta:g}, {proven} ({g.source})."
            for g in guarantees
        ),
        f"What eps means: by what is seen, nobody can tell at odds of more than e^{weakest.eps:.4g} which of two "
        f"neighbours it was made from, but for a probability of delta = {weakest.delta:g}.",
    ]
    sentences.append(f"Trust: {_TRUST[problem.M == 1].format(M=problem.M) if trust is None else trust}")
    sentences.append(
        "Noise: exact integers from the operating system's random numbers; the guarantee holds for the numbers as they "
        "are published."
        if exact
        else "Noise: floating-point numbers made from the operating system's random numbers. What is said above is "
        f"{NOT_THESE_BITS}: the last bits of such numbers can tell neighbours apart (Mironov 2012)."
    )
    sentences += [
        "Preprocessing: by ranges and lists that were stated, not taken from the records; values outside were clipped. "
        "That they were stated without a look at the records is the publisher's word.",
        "Not covered: what was learned from the records before (the choice of features, algorithm and parameters), "
        "other releases about the same people (see the ledger), the time a computation takes, and what can be learned "
        "about a person from the records of others.",
    ]
    return tuple(sentences)
