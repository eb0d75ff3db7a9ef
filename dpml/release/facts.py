"""The facts of a release, and all that is said of it: which noise it has, what is proven, and its statement in words.

Whoever carries a release out makes its `Facts`. The guarantees, the statement, the model's file and the ledger's entry
follow from them. Facts under which the proof does not hold make the proven eps infinite, with the reason; the guarantee
that would hold otherwise is listed as *conditional*.

Floating-point noise has gaps, which depend on the number that it is added to: the last bits of a published number can
tell neighbours apart (Mironov 2012). Its proof is about real numbers. So a release with such noise has to be asked for,
and its guarantees carry the basis `REAL`, in the model, the statement and the ledger.
"""

import math
import re
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any, Literal

from omegaconf import OmegaConf

from dpml import packs
from dpml.algorithms import Algorithm
from dpml.algorithms.quadratic.regression import Regression
from dpml.config.build import algorithm_of
from dpml.errors import UserError
from dpml.files import shipped_folder
from dpml.mechanism.guarantees import author, guaranteed
from dpml.optim.losses import Loss
from dpml.privacy import Budget, Guarantee, Problem, worst
from dpml.privacy.entropy import check_tail
from dpml.privacy.guarantee import HELD, REAL, large_delta
from dpml.privacy.safe import written
from dpml.release import verify
from dpml.release.certificate import certificate

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
        reasons = {
            "the noise was made from a seed, and whoever has or guesses it can subtract the noise":
                self.randomness == "seed",
            "ranges were fitted to the private rows, which no budget counts": self.ranges == "fitted",
            "rows were dealt to parties by their private labels, on which the parties' sizes then depend":
                self.dealt == "by labels",
            "rows were left out because of what is in them, so that a replaced row changes how many there are":
                self.missing,
            "the parties were made up by chance, so that a guarantee for one of them protects nobody":
                self.unit == "party" and self.dealt == "at random",
        }  # fmt: skip
        return tuple(reason for reason, holds in reasons.items() if holds)

    @property
    def guarantees(self) -> tuple[Guarantee, ...]:
        """What is proven of every view, and what would be proven if the facts were those that the proof assumes."""
        if not self.open:
            return self.given
        why = "; ".join(self.open)
        found: list[Guarantee] = []
        for each in self.given:
            if each.basis in HELD:
                basis = each.basis if self.author else "proven"
                found.append(replace(each, eps=math.inf, basis=basis, source=why, mu=None, curve=None))
                each = replace(each, basis="conditional")
            found.append(each)
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

    def require_small_delta(self) -> None:
        """Raise UserError where delta says nothing of a single record."""
        units = self.problem.M if self.unit == "party" else self.problem.N
        if message := large_delta(self.delta, self.problem.N, units):
            raise UserError(message)


def facts_about(algorithm: Algorithm, problem: Problem, budget: Budget, away: int = 0, **others: Any) -> Facts:
    """Return the facts of a release; up to `away` of the colluders may only be missing; `others` are more fields."""
    if problem.M == 1:
        others["dealt"] = "one place"
    exact = has_exact_noise(algorithm)
    if others.get("randomness") != "seed" and math.isfinite(budget.eps):
        check_tail(budget.delta or 0.0, exact)
    given = guaranteed(algorithm, budget, problem)
    if not exact:
        given = [replace(g, basis=REAL) if g.basis == "proven" and math.isfinite(g.eps) else g for g in given]
    who, held = author(algorithm), [guarantee for guarantee in given if guarantee.basis in HELD]
    finite = all(math.isfinite(guarantee.eps) for guarantee in held)
    described = certificate(algorithm, budget, problem, held, away) if held and finite else None
    return Facts(
        algorithm.name, problem, tuple(given), certificate=described,
        tight=algorithm.calibration == "tight", author=who, floating=bool(who) and not exact,
        noiseless=math.isinf(budget.eps) or any(guarantee.source == "no noise" for guarantee in held), **others,
    )  # fmt: skip


# ---- exact and floating-point noise


NOT_THESE_BITS = "proven for real numbers, not for these bits"


def has_exact_noise(algorithm: Algorithm) -> bool:
    """Whether an algorithm's noise is discrete, so that the guarantee does not depend on floating-point arithmetic."""
    return getattr(algorithm, "noise", "continuous") == "discrete"


def require_linear_model(algorithm: Algorithm) -> None:
    """Raise UserError unless an algorithm releases linear models to others, which an algorithm of a pack does not."""
    if type(algorithm).__module__.startswith(f"{packs.__name__}."):
        raise UserError(f"algo={algorithm.name} is for experiments and audits only: choose another, such as algo=wdgd.")
    if not getattr(algorithm, "linear", True):
        raise UserError(f"algo={algorithm.name} releases no linear model: choose another, such as algo=wdgd.")


def option_node(name: str) -> dict[Any, Any]:
    """Return the content of the file of the algorithm `name`, of dpml or of a pack."""
    files = (folder / "algo" / f"{name}.yaml" for folder in (shipped_folder("conf"), *packs.options()))
    content: Any = OmegaConf.to_container(OmegaConf.load(next(file for file in files if file.is_file())))
    return dict(content)


def exact_algorithm(node: Mapping[Any, Any], loss: Loss, calibration: str | None) -> Algorithm:
    """The algorithm of the option `node`, with exact noise where it has some and the node does not say which."""
    if "noise" not in node:
        with suppress(UserError):  # it has no such noise; another mistake is found again below
            return algorithm_of({**node, "noise": "discrete"}, loss, calibration)
    return algorithm_of(node, loss, calibration)


def require_exact(algorithm: Algorithm) -> None:
    """Raise UserError unless the algorithm's noise is exact."""
    if not has_exact_noise(algorithm):
        raise UserError(
            f"algo={algorithm.name} is asked to publish floating-point noise, whose last bits can tell neighbours "
            "apart: set calibration=tight with algo.noise=discrete or with algo=wdgd, whose noise is exact, or say "
            f"--floating, and what is proven is {NOT_THESE_BITS}."
        )


# ---- the statement, which answers the questions of NIST SP 800-226 (2025)


HIGH = 10.0
"""An eps above which a guarantee excludes little: e^10 is 22,026."""


def statement(facts: Facts, rescaled: bool = False) -> tuple[str, ...]:
    """Return the sentences about a release: the first three are about its unit, its guarantee and its noise.

    If each row was `rescaled` to length 1, no weights are effects.
    """
    weakest = worst(facts.held)
    if facts.certificate and math.isfinite(weakest.eps):
        proven = verify.statement(dict(facts.certificate))
    else:
        proven = (f"Unit of privacy: {verify.UNITS[facts.unit]} (replace one).", _nothing(facts), _noise(facts))
    weights = () if facts.algorithm == Regression.name and not rescaled else (_FOR_PREDICTION,)
    return (*proven, *_warnings(facts), _trust(facts), _public(facts), _ranges(facts), _NOT_COVERED, *weights)


def gaps(values: list[str]) -> tuple[str, ...]:
    """Return a sentence about what stands for missing values (`ColumnBounds.gaps`), if anything does."""
    said = f"Preprocessing: of missing values, {'; '.join(values)}."
    if not re.fullmatch(verify.FREE, said):  # a column's name looks like a guarantee
        said = "Preprocessing: what stands for missing values is stated with the columns."
    return (said,) if values else ()


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
    if facts.delta * facts.problem.N >= 1:  # a mechanism that publishes a random record has such a delta
        often = facts.delta * facts.problem.M if facts.unit == "party" else 1.0  # one of a random party
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


_FOR_PREDICTION = (
    "Not covered: effects. The weights are for prediction; they estimate no effect, and no interval is known for them."
)
_NOT_COVERED = (
    "Not covered: what was learned from the records before (features, algorithm, parameters), other releases about the "
    "same people (see the ledger), the other records of a person who has several, the time a computation takes, and "
    "what others' records tell about a person."
)
