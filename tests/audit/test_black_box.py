"""The audit of algorithms that tell nothing but their releases: liars are called a BUG, honest ones are not."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np
import pytest
from examples import LOGISTIC, SQUARED

from dpml.algorithms import Release, require_domain
from dpml.audit import Finding, audit
from dpml.audit.attacks import learn_direction, learn_medians, learn_normals
from dpml.audit.black_box import NORMALS, candidates
from dpml.errors import UserError
from dpml.optim.losses import LOSSES, Loss
from dpml.privacy import Budget, Guarantee, Problem, gdp, noise

PROBLEM, DRAWS = Problem(5, 50, 2), 20_000
PURE, APPROXIMATE = Budget(1.0), Budget(1.0, 1e-5)


@dataclass(frozen=True)
class Mean:
    """The mean of y x, plus Laplace noise, or Gaussian noise where there is a delta."""

    name: ClassVar[str] = "mean"
    loss: Loss
    kept: float = 1.0
    wrong: str = ""
    views: tuple[Any, ...] = ("release",)
    calibration: str = "tight"
    variant: str = "paper"
    lam: float = 0.0

    def guarantees(self, budget: Budget, problem: Problem) -> list[Guarantee]:
        mu = None if budget.delta is None else gdp.mu_of(budget.eps, budget.delta)
        return [Guarantee(view, "sample", budget.eps, budget.delta or 0.0, "proven", "", mu) for view in self.views]

    def prepare(self, parties, rng):
        require_domain(parties, self.loss)
        if self.wrong == "picky":
            raise UserError("not these rows.")
        return PreparedMean(self, parties.y @ parties.X / len(parties.y), parties.problem)


@dataclass(frozen=True)
class PreparedMean:
    algorithm: Mean
    mean: np.ndarray
    problem: Problem

    def release(self, budgets: Sequence[Budget], rng, draws: int) -> Release:
        (budget,), wrong, shape = budgets, self.algorithm.wrong, (draws, self.problem.d)
        if wrong == "silent":
            return Release(None)
        if budget.delta is None:
            draw, scale = noise.laplace, 2 * np.sqrt(self.problem.d) / (self.problem.N * budget.eps)
        else:
            draw, scale = noise.gaussian, 2 / (self.problem.N * gdp.mu_of(budget.eps, budget.delta))
        drawn = draw(np.random.default_rng() if wrong == "own" else rng, shape)
        if wrong == "same":
            drawn = draw(np.random.default_rng(0), (1, self.problem.d)) * np.ones(shape)
        if wrong == "branch" and self.mean[0] > 0:  # noise that is wider for some rows: no mean tells
            drawn = drawn + 4 * draw(rng, shape)
        at = 0 * self.mean if wrong == "branch" else self.mean
        if wrong == "fails":
            drawn, at = 0 * drawn, np.where(self.mean[0] > 0, np.nan, 0 * self.mean)
        return Release((at + self.algorithm.kept * scale * drawn)[None])


def found(algorithm: Any, budget: Budget, draws: int = DRAWS, seed: int = 0) -> Finding:
    return audit(algorithm, budget, PROBLEM, draws, seed)[0]


@pytest.mark.parametrize("kept", [0.0, 0.1])
@pytest.mark.parametrize(("loss", "budget"), [(SQUARED, APPROXIMATE), (LOGISTIC, PURE)])
def test_a_liar_is_called_a_bug(loss, budget, kept) -> None:
    """A tenth of the noise of a release that says eps = 1, which the attack has to exceed, or none at all."""
    finding = found(Mean(loss, kept=kept), budget)
    assert finding.verdict == "BUG"
    assert finding.attacked > 2
    assert (finding.declared, math.isnan(finding.proven)) == (budget.eps, True)


@pytest.mark.slow
@pytest.mark.parametrize(("loss", "budget"), [(SQUARED, APPROXIMATE), (LOGISTIC, PURE)])
def test_an_honest_one_is_not(loss, budget) -> None:
    """Over 20 seeds: a verdict is wrong with probability at most .001, so that one of these is with .02 at most."""
    verdicts = {found(Mean(loss), budget, 4_000, seed).verdict for seed in range(20)}
    assert verdicts <= {"consistent", "no violation seen"}


def test_with_power_an_honest_one_is_consistent() -> None:
    """The Laplace noise of a mean: neighbours show all of its eps, and half of the noise is called a bug."""
    finding = found(Mean(LOGISTIC), PURE)
    assert finding.verdict == "consistent"
    assert 0.8 < finding.power <= 1
    assert finding.notes == ()


@pytest.mark.parametrize(
    ("wrong", "verdict", "noted"),
    [
        ("branch", "BUG", "depends on the rows"),  # which its spread shows, and what is drawn
        ("fails", "BUG", ""),  # a fit that fails for some rows
        ("same", "BUG", ""),
        ("own", "no violation seen", "another generator"),  # the self-test cannot halve its noise
    ],
)
def test_what_is_wrong_with_its_noise(wrong, verdict, noted) -> None:
    finding = found(Mean(LOGISTIC, wrong=wrong), PURE)
    assert finding.verdict == verdict
    assert any(noted in note for note in (*finding.notes, ""))
    assert finding.attack.startswith(NORMALS) or wrong != "branch"


def test_a_power_is_shown_rounded_down() -> None:
    """A power of .7997 is not called .80, which is enough for another verdict."""
    finding = Finding("release", "sample", 1e-5, power=0.7997, verdict="no violation seen")
    assert "0.79" in finding.judgement
    assert "few draws" in replace(finding, power=1 - 1e-9).judgement


def test_what_a_client_sends_is_not_seen_in_a_release() -> None:
    release, client = audit(Mean(SQUARED, views=("release", "client")), APPROXIMATE, PROBLEM, 2_000)
    assert math.isfinite(release.attacked)
    assert (client.view, client.verdict, client.power) == ("client", "no violation seen", 0.0)
    assert math.isnan(client.attacked)


@pytest.mark.parametrize("loss", ["logistic", "squared", "softmax"])
@pytest.mark.parametrize("unit", ["sample", "party"])
def test_candidates_are_neighbours_in_the_domain(loss, unit) -> None:
    for first, second in candidates(LOSSES[loss], PROBLEM, unit):
        require_domain(first, LOSSES[loss])
        require_domain(second, LOSSES[loss])
        differ = np.flatnonzero(np.any(first.X != second.X, axis=1) | (first.y != second.y))
        assert differ.size
        assert differ.min() >= (PROBLEM.N - 1 if unit == "sample" else first.of(4).start)


def test_learned_scores_are_the_likelihood_ratios() -> None:
    """Of Laplace noise, 2 min(|z|, ...) between -2 and 2; of normal noise (z^2 - (z - 1)^2)/2; with 200,000 samples."""
    rng, z = np.random.default_rng(0), np.linspace(-3, 3, 13)[:, None]
    first, second = rng.laplace(size=(200_000, 1)), 2 + rng.laplace(size=(200_000, 1))
    assert learn_medians(first, second)(z) == pytest.approx((np.abs(z) - np.abs(z - 2))[:, 0], abs=0.05)
    first, second = rng.standard_normal((200_000, 1)), 1 + 2 * rng.standard_normal((200_000, 1))
    exact = z**2 / 2 - (z - 1) ** 2 / 8 - math.log(2)
    assert learn_normals(first, second)(z) == pytest.approx(exact[:, 0], abs=0.05)


def test_a_direction_is_learned_where_a_release_is_no_number() -> None:
    rng = np.random.default_rng(0)
    first, second = rng.standard_normal((2, 2000, 3))
    second[:, 0] += 1
    whole = learn_direction(first, second)(second)
    first[7, 2] = np.nan
    assert np.corrcoef(learn_direction(first, second)(second), whole)[0, 1] > 0.99
    second[::2, 1] = np.nan  # no number, and which release it is of tells the most
    score = learn_direction(first, second)
    assert np.mean(score(second)) > np.mean(whole)


@pytest.mark.parametrize(("wrong", "why"), [("silent", "releases none"), ("picky", "not these rows")])
def test_an_algorithm_that_takes_no_data_or_releases_no_model_cannot_be_audited(wrong, why) -> None:
    with pytest.raises(UserError, match=why):
        found(Mean(LOGISTIC, wrong=wrong), PURE, 1_000)
