"""What is proven of a release, composed anew from the messages that are declared."""

import math
from itertools import product

import pytest
from examples import LOGISTIC, SQUARED, capefm, conv, fm, local, nn_cape, nn_conv

from dpml.algorithms.descent.clipped import ClippedDescent
from dpml.algorithms.descent.clipped_gradients import ClippedGradients, LabelSums
from dpml.algorithms.descent.network import NetworkGradients
from dpml.algorithms.descent.private_sgd import Gradients, PrivateSGD
from dpml.algorithms.descent.whitened import WhitenedDescent
from dpml.algorithms.quadratic.coefficients import Coefficients, Scales, joint_sensitivity
from dpml.algorithms.quadratic.laplace_functional_mechanism import LaplaceFunctionalMechanism
from dpml.algorithms.quadratic.sufficient_statistics import PreconditionedDescent, SufficientStatistics
from dpml.mechanism.algorithm import UNITS
from dpml.mechanism.counting import Counting, counting
from dpml.mechanism.message import Statistic, Sum
from dpml.mechanism.program import Program
from dpml.optim.losses import LOSSES
from dpml.packs.frontier.adassp import AdaptiveStatistics, Statistics
from dpml.packs.frontier.newton import Newton, NoisyNewton, solving
from dpml.privacy import Budget, Problem
from dpml.privacy.discrete.rounding import REST
from dpml.privacy.safe import round_up
from dpml.sums import gamma, imprecision, single_imprecision

SUMMED = ClippedDescent, PreconditionedDescent, SufficientStatistics, WhitenedDescent
DESCENTS = ClippedDescent, WhitenedDescent
PROGRAMS = [
    *(kind(loss, unit=unit) for kind, loss, unit in product(SUMMED, (LOGISTIC, SQUARED), ("sample", "party"))),
    *(kind(loss, noise="discrete") for kind, loss in product(SUMMED, (LOGISTIC, SQUARED))),
    *(kind(LOGISTIC, unit=unit, clip=0.2) for kind, unit in product(DESCENTS, UNITS)),
    *(kind(LOSSES["softmax"], unit=unit) for kind, unit in product(DESCENTS, UNITS)),
    *(
        kind(loss, calibration)
        for kind, loss, calibration in product(
            (fm, capefm, conv, local), (LOGISTIC, SQUARED), ("published", "tight")
        )
    ),
    *(kind(SQUARED, "tight", noise="discrete") for kind in (fm, capefm)),
    LaplaceFunctionalMechanism(SQUARED, variant="authors"),
    *(AdaptiveStatistics(SQUARED, calibration) for calibration in ("published", "tight")),
    counting(SufficientStatistics(LOGISTIC, noise="discrete"), 0.5, regression=False),
    NoisyNewton(LOGISTIC),
    PrivateSGD(LOGISTIC, "tight"),
    *(kind(LOGISTIC, calibration) for kind, calibration in product((nn_cape, nn_conv), ("published", "tight"))),
    nn_cape(LOGISTIC, batch=30, epochs=7, clip=0.3),
    nn_cape(LOGISTIC, variant="authors"),
]  # fmt: skip
"""Of all programs, the settings that are proven by Gaussian DP. Those of `dpfm` and `psgd` as published are not: their
noise is another."""
PROBLEMS = (
    Problem(1, 500, 3),
    Problem(5, 1000, 20),
    Problem(5, 1000, 20, colluders=4),
    Problem(40, 4010, 100),
    Problem(2, 90, 1, classes=3),
)


def name_of(program: Program) -> str:
    words = [program.name, program.loss.name, program.calibration, program.unit, program.noise, program.variant]
    return "-".join(words)


def largest_moves(of: Sum, program: Program, problem: Problem, floor: float) -> list[tuple[float, float, int]]:
    """What a unit can move at the same time: how far, the noise, how often. No declared sensitivity is read."""
    d = problem.d
    match of.of:
        case Coefficients(linear=False):  # x x' of a unit row, and of one at a right angle to it
            return [(1.0 if d == 1 else math.sqrt(2), of.noise, of.times)]
        case LabelSums(classes=classes):
            return [(2.0 if classes == 1 else math.sqrt(2), of.noise, of.times)]
        case Coefficients(loss=loss, constant=constant):
            scales = Scales(*([] if constant else [math.inf]), *of.units[: 2 + constant])
            return [(joint_sensitivity(loss.quadratic, scales, d), of.noise, of.times)]
        case ClippedGradients(counted=True):
            return [(2.0, of.noise, of.times), (1.0, of.noise * of.units[1], of.times)]
        case Statistics():
            return [(2.0 if d == 1 else math.sqrt(16 / 3), of.noise, of.times)]
        case NetworkGradients(clip=clip):  # a row is in one round of every epoch
            return [(4.0 if clip is None else 2 * clip, of.noise, program.epochs)]
        case Newton(direction=direction):  # in units of what a row can move, and what a solution is off
            return [(1 + direction * solving(floor, problem), of.noise, of.times)]
    # clipped gradients in units of the clip; gradients of the logistic loss
    return [(2.0, of.noise, of.times)]


def rounding(of: Statistic, problem: Problem) -> float:
    numbers = problem.d + sum(of.lengths(problem.d))
    match of:
        case ClippedGradients(unit="sample"):
            return single_imprecision(problem.N, of.classes * problem.d)
        case Gradients() | Newton():  # equal rows are merged
            return imprecision(problem.N, 2 * problem.d, model=1e3)
        case ClippedGradients():
            return imprecision(problem.M, of.classes * problem.d)
        case Statistics(ridge=ridge):  # an eigenvalue of X'X is among them
            return imprecision(problem.N, numbers) + 2 * (problem.N + ridge) * gamma(10 * problem.d**2)
    return imprecision(problem.N, numbers)


def composed(program: Program, budget: Budget, problem: Problem) -> float:
    messages = program.messages(budget, problem)
    if program.name.startswith("nn_"):
        messages = messages[:1]  # a row that is in the last, smaller minibatch of an epoch has more noise
    squares = []
    for message in messages:
        floor = program.floor(budget, problem) if isinstance(program, NoisyNewton) else 0.0
        parts = largest_moves(message, program, problem, floor)
        mu = math.sqrt(sum(times * (far / noise) ** 2 for far, noise, times in parts))
        if program.noise == "discrete":
            mu += message.times * len(message.units) * REST
        else:
            mu *= 1 + rounding(message.of, problem)
        squares.append(mu * mu)
    return math.sqrt(math.fsum(squares))


def seen(program: Program, problem: Problem) -> dict[str, float]:
    """The mu of every view, over that of the sum."""
    M, H = problem.M, problem.honest
    trusted = {"release": 1.0}
    match program.name:
        case "fm" | "dpfm" | "adassp":
            return trusted
        case "local":
            return trusted | {"client": 1.0}
        case "newton":
            return trusted | {"aggregate": 1.0}
        case "conv" | "nn_conv":
            return trusted | {"aggregate": 1.0} | dict.fromkeys(("client", "transcript", "colluders"), math.sqrt(M))
        case "capefm" | "nn_cape" if program.noise == "continuous":
            if program.variant == "authors":
                return trusted | {"aggregate": 1.0}
            s2 = 1.0 if program.calibration == "published" else 1e6
            whole, colluders = (math.sqrt(M / h + (1 - 1 / h) / (s2 + 1 / M)) for h in (M, H))
            client = 1 / math.sqrt(s2 * (1 - 1 / M) + 1 / M)
            return trusted | {"aggregate": 1.0, "client": client, "transcript": whole, "colluders": colluders}
    if M == 1 and program.name != "capefm":
        return trusted
    return trusted | {"aggregate": 1.0, "colluders": math.sqrt(M / H)}


@pytest.mark.parametrize("program", PROGRAMS, ids=name_of)
def test_what_is_proven_follows_from_the_messages(program) -> None:
    """To 1e-14: mu^2 is the sum of (move/noise)^2 over all that is sent; tight noise has the whole budget."""
    some = PROBLEMS[:2] if program.name == "psgd" else PROBLEMS  # whose noise takes long to find
    for problem, (eps, delta) in product(some, ((0.01, 1e-2), (1.0, 1e-5), (10.0, 1e-9))):
        budget = Budget(eps, delta)
        proven = {g.view: g for g in program.guarantees(budget, problem) if g.basis == "proven"}
        mu = composed(program, budget, problem)
        expected = {view: mu * factor for view, factor in seen(program, problem).items()}
        assert proven.keys() == expected.keys()
        for view, guarantee in proven.items():
            assert guarantee.mu == pytest.approx(round_up(expected[view]), rel=1e-14, abs=0)
            assert guarantee.unit == program.unit
            assert guarantee.delta == delta
        if program.calibration == "tight" and not isinstance(program, Counting):  # whose counts are on top of it
            left = 5e-6 if program.noise == "discrete" else 1e-9
            assert (1 - left) * eps <= max(g.eps for g in proven.values()) <= eps * (1 + 1e-12)
        none = [g for g in program.guarantees(Budget(math.inf, 1e-5), problem) if g.basis == "proven"]
        assert {g.eps for g in none} == {math.inf}
