"""Record how a release was made; from these facts, derive its privacy guarantees and the text that states them.

If some of the `Facts` violate an assumption of the proof, the proven eps is infinite, with the reason. The guarantee
that would hold without the violation is listed as *conditional*. Floating-point noise is proven for real numbers only
(basis `REAL`), because the last bits of a number can reveal its input (Mironov 2012).
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
from dpml.release.certificate import certificate, same_for_all


@dataclass(frozen=True)
class Facts:
    """Facts about how a release was made, on which the release's guarantees depend."""

    algorithm: str
    problem: Problem  # the public numbers of rows, parties, features and colluders
    given: tuple[Guarantee, ...]  # by the algorithm's proof, if the facts below satisfy its assumptions
    randomness: Literal["system", "seed"] = "system"  # noise from the operating system, or from a generator with a seed
    ranges: Literal["stated", "fitted"] = "stated"  # ranges come from the publisher (stated) or from the rows (fitted)
    labels: bool = False  # whether the set of classes was read from the records and is published
    dealt: Literal["one place", "natural", "at random", "by labels"] = "one place"  # how rows were assigned to parties
    missing: bool = False  # whether rows may have been left out because of their values
    trust: str | None = None  # a sentence about who saw rows; None: one place had all of them
    certificate: Mapping[str, Any] | None = None  # from `certificate.certificate`; None: there is no noise
    tight: bool = True  # whether the noise is the least that is proven to suffice, instead of that of a paper
    author: str | None = None  # the class outside dpml that declares the guarantees; None: dpml proves them
    exact: bool = True  # whether noise and sums are integers, so that the proof holds for the numbers as published
    noiseless: bool = False  # whether there is no noise: a baseline, or eps = inf

    @property
    def unit(self) -> Literal["sample", "party"]:
        return self.given[0].unit

    @property
    def open(self) -> tuple[str, ...]:
        """Return the reasons why nothing is proven about a release, as words that follow "because"."""
        reasons = {
            "the noise was made from a seed, and anybody who knows or guesses the seed can subtract the noise":
                self.randomness == "seed",
            "ranges were fitted to the private rows, which no budget accounts for": self.ranges == "fitted",
            "rows were dealt to parties by their private labels, on which the parties' sizes then depend":
                self.dealt == "by labels",
            "rows were left out because of their content, so that a replaced row can change the number of rows":
                self.missing,
            "the parties were formed at random, so that a guarantee for one party protects nobody":
                self.unit == "party" and self.dealt == "at random",
        }  # fmt: skip
        return tuple(reason for reason, holds in reasons.items() if holds)

    @property
    def guarantees(self) -> tuple[Guarantee, ...]:
        """Return the guarantees of a release, with eps = inf if a fact violates an assumption of the proof."""
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
        return tuple(guarantee for guarantee in self.guarantees if guarantee.basis in HELD)

    def require_proof(self, eps: float, declared: bool = False) -> None:
        """Raise UserError unless each observer's eps is at most `eps` and proven (or, if `declared`, only declared)."""
        if self.open:
            raise UserError(f"nothing can be proven about this release, because {self.open[0]}.")
        if self.author and not declared:
            raise UserError(
                f"the guarantee of algo={self.algorithm} is declared by {self.author}, which is not part of dpml, and "
                "dpml has not proven it: attack the algorithm with `dpml audit`, and publish with --declared."
            )
        least = worst(self.held).eps if self.held else math.inf
        if least > eps:
            found = "nothing" if math.isinf(least) else f"eps={written(least)}"
            remedy = "" if self.tight else "set calibration=tight, or "
            raise UserError(
                f"you asked for eps={eps:g}, but {found} is proven for algo={self.algorithm} against the strongest "
                f"observer: {remedy}choose another algorithm."
            )

    def require_messages(self) -> None:
        """Raise UserError if the certificate describes no messages, because nobody could then verify the model."""
        described = self.certificate or {"messages": [], "views": {}}
        if not all(described["messages"] or view.get("messages") for view in described["views"].values()):
            raise UserError(
                f"no certificate can describe the noisy messages of algo={self.algorithm}, so nobody could verify the "
                "privacy guarantee of its model: choose another algorithm."
            )

    @property
    def delta(self) -> float:
        return max(guarantee.delta for guarantee in self.held)

    def require_small_delta(self) -> None:
        units = self.problem.M if self.unit == "party" else self.problem.N
        if message := large_delta(self.delta, self.problem.N, units):
            raise UserError(message)


def facts_about(algorithm: Algorithm, problem: Problem, budget: Budget, away: int = 0, **others: Any) -> Facts:
    """Return the facts of a release: the given `others`, and its guarantees if up to `away` parties drop out."""
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
    if away:
        given = same_for_all(held)
    return Facts(
        algorithm.name, problem, tuple(given), certificate=described,
        tight=algorithm.calibration == "tight", author=who, exact=exact,
        noiseless=math.isinf(budget.eps) or any(guarantee.source == "no noise" for guarantee in held), **others,
    )  # fmt: skip


def has_exact_noise(algorithm: Algorithm) -> bool:
    """Return whether an algorithm's noise is discrete, so that rounding cannot weaken the guarantee."""
    return getattr(algorithm, "noise", "continuous") == "discrete"


def require_linear_model(algorithm: Algorithm) -> None:
    """Raise UserError unless an algorithm may publish models and the models are linear."""
    if type(algorithm).__module__.startswith(f"{packs.__name__}."):
        raise UserError(
            f"algo={algorithm.name} is for experiments and audits only: choose another algorithm, such as algo=wdgd."
        )
    if not getattr(algorithm, "linear", True):
        raise UserError(f"algo={algorithm.name} releases no linear model: choose another algorithm, such as algo=wdgd.")


def option_node(name: str) -> dict[Any, Any]:
    """Return the content of the configuration file of an algorithm."""
    files = (folder / "algo" / f"{name}.yaml" for folder in (shipped_folder("conf"), *packs.options()))
    content: Any = OmegaConf.to_container(OmegaConf.load(next(file for file in files if file.is_file())))
    return dict(content)


def exact_algorithm(node: Mapping[Any, Any], loss: Loss, calibration: str | None) -> Algorithm:
    """Return the algorithm of a configuration `node`, by default with discrete noise if the algorithm supports it."""
    if "noise" not in node:
        with suppress(UserError):  # raised if there is no discrete noise; any other error is raised again below
            return algorithm_of({**node, "noise": "discrete"}, loss, calibration)
    return algorithm_of(node, loss, calibration)


def require_exact(algorithm: Algorithm) -> None:
    """Raise UserError unless an algorithm's noise consists of exact integers."""
    if not has_exact_noise(algorithm):
        raise UserError(
            f"algo={algorithm.name} would publish floating-point noise, whose last bits can reveal a record: choose "
            "exact noise (calibration=tight with algo.noise=discrete, or algo=wdgd). With --floating, dpml releases "
            "the model and states that the guarantee is proven for real numbers, not for floating-point numbers."
        )


HIGH = 10.0
"""The eps above which a statement warns: e^10 is 22,026."""


def statement(facts: Facts) -> tuple[str, ...]:
    """Return the sentences of a release's statement; the first three give the unit, the guarantee and the noise."""
    weakest = worst(facts.held)
    if facts.certificate and math.isfinite(weakest.eps):
        proven = verify.statement(dict(facts.certificate))
    else:
        proven = (f"Unit of privacy: {verify.UNITS[facts.unit]} (replace one).", _nothing(facts), _noise(facts))
    weights = () if facts.algorithm == Regression.name else (_FOR_PREDICTION,)
    return (*proven, *_warnings(facts), _trust(facts), _public(facts), _ranges(facts), _NOT_COVERED, *weights)


def gaps(values: list[str]) -> tuple[str, ...]:
    """Return a sentence about the `values` that replace missing values; return () if `values` is empty."""
    said = f"Preprocessing: of missing values, {'; '.join(values)}."
    if not re.fullmatch(verify.FREE, said):  # a name in `values` looks like a guarantee: leave names out
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
        return "Noise: from a generator with a seed, for tests only: anybody who knows the seed can subtract the noise."
    return f"Noise: {'exact integers' if facts.exact else 'floating-point numbers'}."


def _warnings(facts: Facts) -> list[str]:
    found, eps = [], worst(facts.held).eps
    if HIGH < eps < math.inf:
        found.append(f"Warning: this guarantee excludes little, because it allows odds of e^{written(eps)} to one.")
    if facts.delta * facts.problem.N >= 1:  # publishing one random record satisfies such a delta
        often = facts.delta * facts.problem.M if facts.unit == "party" else 1.0  # publishes a random party
        chance = f", with a probability of {often:.3g}" if often < 1 else ""
        found.append(
            "Warning: a guarantee that fails with a probability of 1/N or more allows that one of the "
            f"N = {facts.problem.N:,} records is published{chance}."
        )
    return found


def _trust(facts: Facts) -> str:
    if facts.problem.M == 1:
        return "Trust: one place had all records and drew the noise, and it is trusted with the records."
    where = facts.trust or (
        "one place computed this release on behalf of several parties, and it is trusted with all records. The "
        "guarantees are about parties that run the protocol on their own machines"
    )
    alone = (facts.certificate or {"noise": {}})["noise"].get("colluders") == 0
    party = " No guarantee holds against another party, which knows its own share of the noise."
    return f"Trust: {where}.{party if alone else ''}"


def _public(facts: Facts) -> str:
    parties = ", the number of each party's records, and the party of each record" if facts.problem.M > 1 else ""
    classes = "; and which classes the records have: one of them alone may show that it is there" * facts.labels
    return f"Public: the number of records{parties}; the number of features{classes}."


def _ranges(facts: Facts) -> str:
    if facts.ranges == "fitted":
        return "Preprocessing: ranges were taken from the private records."
    return (
        f"Preprocessing: ranges{'' if facts.labels else ' and lists of values'} were stated, not taken from the "
        "records, as the publisher vouches; values outside were clipped."
    )


_FOR_PREDICTION = (
    "Not covered: effects. The weights are for prediction; they estimate no effect, and no interval is known for them."
)
_NOT_COVERED = (
    "Not covered: what was learned from the records before (features, algorithm, parameters), other releases about the "
    "same people (see the ledger), the other records of a person who has several, the time a computation takes, and "
    "what others' records tell about a person."
)
