"""What happened in a release: one value, from which all that is said of it is computed.

Whoever carries a release out makes its `Facts`. The guarantees, the statement, the model's file and the ledger's entry
follow from them; nothing else says what is proven of a release. Facts under which the proof does not hold make the
proven eps infinite, with the reason; what would hold otherwise then stands beside it as *conditional*.
"""

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any, Literal

from dpml.algorithms import Algorithm
from dpml.data.partition import LabelRule, Natural, Parties, Partition
from dpml.errors import UserError
from dpml.mechanism.declared import author, guaranteed
from dpml.privacy import Budget, Guarantee, Problem, worst
from dpml.privacy.entropy import check_tail
from dpml.privacy.guarantee import HELD, REAL
from dpml.privacy.safe import written
from dpml.release.certificate import certificate
from dpml.release.exactness import has_exact_noise, of_these_bits

Randomness = Literal["system", "seed"]
Ranges = Literal["stated", "fitted"]
Dealt = Literal["one place", "natural", "at random", "by labels"]


@dataclass(frozen=True)
class Facts:
    """What a guarantee depends on, beside the mathematics of its algorithm.

    Attributes:
        algorithm: its name.
        problem: the public facts about the data: rows, parties, features, colluders.
        given: what the algorithm's proof says of every view, if all that follows is as the proof assumes.
        randomness: the operating system's random numbers, or a generator with a seed.
        ranges: ranges, categories and classes were stated, or fitted to the rows.
        labels: whether the set of classes was read off the records, and is taken as public.
        dealt: how rows came to their parties.
        missing: whether rows may have been left out for what is in them.
        trust: a sentence about who saw rows; None: one place had all of them.
        certificate: the messages, as `certificate.certificate` describes them; None: there is no noise.
        tight: whether the noise is the least that is proven, not a paper's.
        author: the class outside dpml whose word the guarantees are; None: they are proven.
        floating: whether the noise of such a class is floating-point numbers.
        noiseless: whether there is no noise, as of a baseline or at eps = inf.
    """

    algorithm: str
    problem: Problem
    given: tuple[Guarantee, ...]
    randomness: Randomness = "system"
    ranges: Ranges = "stated"
    labels: bool = False
    dealt: Dealt = "one place"
    missing: bool = False
    trust: str | None = None
    certificate: Mapping[str, Any] | None = None
    tight: bool = True
    author: str | None = None
    floating: bool = False
    noiseless: bool = False

    @property
    def unit(self) -> Literal["sample", "party"]:
        """What is protected."""
        return self.given[0].unit

    @property
    def exact(self) -> bool:
        """Whether noise and sums are integers, so that the proof is about the very numbers that are published."""
        return not (self.floating or any(guarantee.basis == REAL for guarantee in self.given))

    @property
    def open(self) -> tuple[str, ...]:
        """Why nothing is proven, in the words that follow "because"; nothing where the proof holds."""
        return tuple(self._open())

    def _open(self) -> Iterator[str]:
        if self.randomness == "seed":
            yield "the noise was made from a seed, and whoever has or guesses it can subtract the noise"
        if self.ranges == "fitted":
            yield "ranges were fitted to the private rows, which no budget counts"
        if self.dealt == "by labels":
            yield "rows were dealt to parties by their private labels, on which the parties' sizes then depend"
        if self.missing:
            yield "rows were left out because of what is in them, so that a replaced row changes how many there are"
        if self.unit == "party" and self.dealt == "at random":
            yield "the parties were made up by chance, so that a guarantee for one of them protects nobody"

    @property
    def guarantees(self) -> tuple[Guarantee, ...]:
        """What is proven of every view, and what would be proven if the facts were those that the proof assumes."""
        if not self.open:
            return self.given
        why = "; ".join(self.open)
        found: list[Guarantee] = []
        for guarantee in self.given:
            if guarantee.basis not in HELD:
                found.append(guarantee)
                continue
            basis = guarantee.basis if self.author else "proven"
            found.append(replace(guarantee, eps=math.inf, basis=basis, source=why, mu=None, curve=None))
            found.append(replace(guarantee, basis="conditional"))
        return tuple(found)

    @property
    def held(self) -> tuple[Guarantee, ...]:
        """What is proven of every view, or declared."""
        return tuple(guarantee for guarantee in self.guarantees if guarantee.basis in HELD)

    def require_proof(self, eps: float, declared: bool = False) -> None:
        """Raise UserError unless at most `eps` is proven of every view; or declared, where that is enough."""
        if self.open:
            raise UserError(f"nothing can be proven of this release, because {self.open[0]}.")
        if self.author and not declared:
            raise UserError(
                f"what algo={self.algorithm} guarantees is declared by {self.author}, which is not part of dpml, and "
                "nobody here has proven it: attack it with `dpml audit`, and say --declared to publish it; its file "
                "then says so."
            )
        least = worst(self.held).eps if self.held else math.inf
        if least > eps:
            found = "nothing" if math.isinf(least) else f"eps={written(least)}"
            remedy = "" if self.tight else "set calibration=tight, or "
            raise UserError(
                f"eps={eps:g} was asked for, and {found} is proven of algo={self.algorithm} in its worst view: "
                f"{remedy}take another algorithm."
            )

    def require_messages(self) -> None:
        """Raise UserError where the certificate lists nothing that is sent, so that nobody could verify a model."""
        described = self.certificate or {"messages": [], "views": {}}
        if not all(described["messages"] or view.get("messages") for view in described["views"].values()):
            raise UserError(
                f"what algo={self.algorithm} sends cannot be described in a certificate, so that nobody could verify "
                "its model: take another algorithm."
            )

    @property
    def delta(self) -> float:
        """The largest delta of a view."""
        return max(guarantee.delta for guarantee in self.held)

    @property
    def may_show_a_record(self) -> bool:
        """Whether delta is 1/N or more: what publishes one of the N records, chosen by chance, has it, too.

        For a party it has, if it does so with a probability of delta M: of a random party, a random record.
        """
        return self.delta * self.problem.N >= 1

    def require_small_delta(self) -> None:
        """Raise UserError where delta says nothing of a single record."""
        if self.may_show_a_record:
            N = self.problem.N
            smaller = 10.0 ** math.floor(-math.log10(N) - 1)
            raise UserError(
                f"delta={self.delta:g} is 1/N or more, so that the release may publish a record of the N={N:,} as it "
                f"is: choose a smaller delta, such as {smaller:g}, or say --delta-anyway."
            )


def facts_of(algorithm: Algorithm, parties: Parties, rule: Partition, budget: Budget, **others: Any) -> Facts:
    """The facts of a release of parties that `rule` made, in one place; `others` are fields of `Facts`."""
    problem = parties.problem
    by_labels = isinstance(rule, LabelRule)
    dealt: Dealt = "natural" if isinstance(rule, Natural) else "by labels" if by_labels else "at random"
    return facts_about(algorithm, problem, budget, dealt=dealt, **others)


def facts_about(algorithm: Algorithm, problem: Problem, budget: Budget, away: int = 0, **others: Any) -> Facts:
    """The facts of a release about which this much is public, of whose colluders so many may just be `away`.

    `others` are fields of `Facts`.
    """
    if problem.M == 1:
        others["dealt"] = "one place"
    exact = has_exact_noise(algorithm)
    if others.get("randomness") != "seed" and math.isfinite(budget.eps):
        check_tail(budget.delta or 0.0, exact)
    given = of_these_bits(guaranteed(algorithm, budget, problem), algorithm)
    who, held = author(algorithm), [guarantee for guarantee in given if guarantee.basis in HELD]
    finite = all(math.isfinite(guarantee.eps) for guarantee in held)
    described = certificate(algorithm, budget, problem, held, away) if held and finite else None
    return Facts(
        algorithm.name, problem, tuple(given), certificate=described,
        tight=algorithm.calibration == "tight", author=who, floating=bool(who) and not exact,
        noiseless=math.isinf(budget.eps) or any(guarantee.source == "no noise" for guarantee in held), **others,
    )  # fmt: skip
