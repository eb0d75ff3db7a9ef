"""Bugs planted in every algorithm of noisy sums: an audit finds each in what it records of the release itself.

All at the budget, parties and rows that `dpml audit` has unless told otherwise. A view other than `release` must show a
bug: the last model alone says little about who sent what. The right code is audited in `test_right_code.py`.
"""

import math
from collections.abc import Set
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import settings_audit as at
from planted import (
    BESIDE,
    PROBLEM,
    Bug,
    bugs,
    drawn,
    first_round_only,
    half,
    in_time,
    narrower,
    none,
    one_number,
    patched,
    returning,
    same_in_all_rounds,
    shared_seed,
    silent,
    without,
)

from dpml.algorithms.descent import network, newton
from dpml.algorithms.descent.clipped_terms import ClippedTerms
from dpml.algorithms.descent.layouts import Clients
from dpml.algorithms.descent.noisy_descent import NoisyDescent
from dpml.algorithms.perturbation import gaussian_output, objective
from dpml.algorithms.quadratic import coefficients
from dpml.algorithms.quadratic.coefficients import CoefficientTerms
from dpml.algorithms.quadratic.sensitivity import Scales
from dpml.optim import descent, losses, mapped
from dpml.optim.descent import Rows
from dpml.optim.losses import LOSSES
from dpml.optim.party_gradients import PartyGradients
from dpml.optim.slopes import Slopes
from dpml.privacy import Problem, gdp, noise

# Enough draws where nothing is hidden any more, or the pair itself shows more than is proven.
FEW = 1_000
# Half of the noise is missed in 1 of 4000 audits of parties, in fewer than 1 of 10^6 of networks, else in none.
SOME = 3_000
# The same in 1 of 2000 audits of the sum of `conv`, which has most noise, else in none.
PLAIN = 8_000
MORE = 12_000
DRAWS = 100_000

SUMS, WHOLE = {"aggregate", "colluders"}, {"transcript", "colluders"}
THREE = SUMS | WHOLE
RELEASE = {"release"}


def case(
    bug: Bug,
    algorithm: Any,
    draws: int,
    views: Set[str],
    problem: Problem | None = None,
    clear: Set[str] = frozenset(),
):
    """A bug in an algorithm, the views that must call it a bug, and those that are attacked, too, and must not."""
    return bug, algorithm, draws, views, clear, problem


def in_objective(factor: float) -> Bug:
    """So much of the noise in a perturbed objective."""
    return patched(objective, "drawn", lambda right: lambda *arguments: factor * right(*arguments))


one_for_all_classes = patched(
    objective, "drawn", lambda right: lambda sent, rng, draws, size: np.tile(right(sent, rng, draws, size // 3), 3)
)

HALF, NONE = drawn(half), drawn(none)
TWO_SEEDS, ONE_SEED = drawn(shared_seed(-1, -2)), drawn(shared_seed(0, 1, 2, 3, 4))
ONE_ROW = narrower(0.5)
SECOND_HALF = narrower(0.5, blocks=(-1, -2))


TOO_LITTLE = {
    # where `test_right_code.py` calls the right code consistent, the same audit calls half of the noise a bug
    "half of the noise": [
        *(case(HALF, a, PLAIN, THREE) for a in (at.CAPE, at.CONV)),
        case(HALF, at.CAPE_PUBLISHED, PLAIN, BESIDE),
        case(HALF, at.SSP, PLAIN, SUMS),
        case(HALF, at.DPGD, SOME, SUMS, at.FEW_ROWS),
        case(HALF, at.DPGD_PARTY, SOME, SUMS, at.MANY),
        case(HALF, at.WDGD, SOME, SUMS, at.FEW_ROWS),
        case(HALF, at.STAGES, SOME, SUMS, at.BIG),
        case(HALF, at.SSP_GRID, 2_000, SUMS, at.FOUR),
        case(HALF, at.NN_CAPE, SOME, THREE),
        case(HALF, at.PSGD, 10_000, SUMS),
        case(HALF, at.NEWTON, MORE, {"aggregate"}),
    ],
    "no noise": [
        case(NONE, at.PSGD, FEW, SUMS),
        case(NONE, at.NN_CAPE, FEW, BESIDE),
        case(NONE, at.NEWTON, 2_000, {"aggregate"}),
        case(NONE, at.OUTPUTS[0], 20_000, RELEASE),
    ],
    "a party without noise of its own": [
        # a fifth of the sum's variance is missing, and in `conv` all that protects the party
        case(drawn(silent(-1), zero_sum=False), at.CAPE, DRAWS, {"colluders"}),
        case(drawn(silent(-1)), at.CONV, 2_000, {"colluders"}),
        case(drawn(silent(-1)), at.SSP, 50_000, {"colluders"}),
        case(drawn(silent(0)), at.SSP_GRID, 10_000, {"release", "aggregate"}, at.TWO),
    ],
    "numbers without noise": [
        case(drawn(without(0)), at.ADASSP, 2_000, RELEASE),  # the eigenvalue
        case(drawn(without(4, 5)), at.CAPE, 2_000, THREE),  # beside the diagonal
        case(drawn(without(4, 5)), at.SSP, 2_000, SUMS),
    ],
    "a quarter of the noise in an objective": [case(in_objective(0.25), at.GOP_CLASSES, 5_000, RELEASE, at.ON_A_LINE)],
    "one noise for all classes": [
        case(one_for_all_classes, at.GOP_CLASSES, FEW, RELEASE, problem) for problem in (at.THREE_CLASSES, at.ON_A_LINE)
    ],
    "one noise for all numbers": [case(drawn(one_number), at.ADASSP, 2_000, RELEASE)],
    "two parties with one seed": [
        *(case(TWO_SEEDS, a, 2_000, WHOLE) for a in (at.CAPE, at.CONV)),
        case(TWO_SEEDS, at.NN_CONV, FEW, WHOLE),
        case(TWO_SEEDS, at.WDDP, 2_000, {"colluders"}),
    ],
    "all parties with one seed": [  # colluders know everybody's noise, and the sum has more than it should
        case(ONE_SEED, at.SSP, 2_000, {"colluders"}, clear={"aggregate"}),
        case(ONE_SEED, at.DPGD, FEW, {"colluders"}, at.FEW_ROWS),
        case(drawn(shared_seed(0, 1, 2, 3)), at.SSP_GRID, FEW, {"colluders"}, at.FOUR),
        case(drawn(shared_seed(0, 4)), at.PSGD, SOME, {"colluders"}, replace(PROBLEM, colluders=4, honest_squares=0.0)),
        case(ONE_SEED, at.SECURE, 2_000, {"colluders"}, clear={"aggregate"}),
    ],
}
IN_TIME = {
    "the same noise in all rounds": [
        case(same_in_all_rounds, at.DPGD, FEW, SUMS, at.FEW_ROWS),
        case(same_in_all_rounds, at.NN_CAPE, FEW, WHOLE),
        case(same_in_all_rounds, at.PSGD, PLAIN, SUMS),
    ],
    "one noise for both messages of a round": [case(in_time(lambda t: t // 2), at.NEWTON, 2_000, {"aggregate"})],
    "noise in the first round only": [
        case(first_round_only, at.DPGD, FEW, SUMS, at.FEW_ROWS),
        case(first_round_only, at.NN_CAPE, FEW, THREE),
    ],
    "no fresh noise": [case(in_time(lambda t: t, lambda t: 0.0), at.PSGD_PUBLISHED, SOME, SUMS)],
}
COUNTED = {
    "the sensitivity of adding a row, or a quarter of the rounds": [
        *(case(ONE_ROW, a, 2_000, BESIDE) for a in (at.CAPE, at.CONV)),
        case(ONE_ROW, at.LOCAL, 2_000, {"client"}),
        *(case(ONE_ROW, a, 2_000, SUMS) for a in (at.SSP_PARTY, at.SSP_CLASSES)),
        *(case(ONE_ROW, a, 2_000, RELEASE) for a in (at.ADASSP, at.ADASSP_PUBLISHED)),
        case(ONE_ROW, at.STAGES, 2_000, SUMS, at.BIG),
        case(ONE_ROW, at.NN_CAPE, FEW, THREE),
        case(ONE_ROW, at.NEWTON, 2_000, {"aggregate"}),
    ],
    "codes of classes that are not centred": [
        case(patched(losses, "codes", lambda codes: lambda y, K: codes(y, K) + 1 / K), at.SSP_CLASSES, FEW, SUMS),
    ],
    "a single round that the accountant forgets": [
        case(narrower(math.sqrt(1 - 1 / at.EPOCHS)), at.NN_CAPE, FEW, THREE)
    ],
    "all rounds but one that the accountant forgets": [
        case(narrower(math.sqrt(1 / at.PSGD.rounds)), at.PSGD, FEW, SUMS)
    ],
    "half of the noise on one block": [
        case(SECOND_HALF, at.CAPE, PLAIN, THREE),
        case(SECOND_HALF, at.LOCAL, PLAIN, {"client"}),
        *(case(narrower(0.4, blocks=blocks), at.SSP, PLAIN, SUMS) for blocks in ((0,), (1, 2))),
    ],
    "one message with too little noise": [
        case(narrower(0.05, number=0), at.STAGES, FEW, SUMS, at.BIG),  # statistics
        case(narrower(1 / 3, number=0), at.NEWTON, MORE, {"aggregate"}),
        case(narrower(1e-3, number=1), at.NEWTON, 2_000, {"aggregate"}),  # as if the matrix was public
    ],
    "counts without noise": [case(narrower(0.01, blocks=(1,)), at.DPGD_PARTY, FEW, {"aggregate"}, at.MANY)],
    "parties protected as if they were rows": [
        case(narrower(PROBLEM.M / PROBLEM.N), at.SSP_PARTY, 2_000, {"release", *SUMS}),
    ],
    "an eigenvalue that is not counted": [  # the pair itself shows more than X'X and X'y alone could
        case(returning(joint=lambda _: Scales(math.inf, 2.0, 1.0)), at.ADASSP, 2_000, RELEASE),
    ],
}


def clip_times(factor: float) -> Bug:
    return patched(
        Rows,
        "of",
        lambda right: staticmethod(lambda *rows, clip, classes: right(*rows, clip=factor * clip, classes=classes)),
    )


def uncut(self, X, y, v, dtype=np.float32) -> Rows:
    return Rows.of(self.loss, X, y, v, dtype, 1e3 if self.loss.name == "squared" else 1.0)


def not_cut(right):
    def clipped_sums(self, w, clip):
        sums, below = right(self, w, 10 * clip)
        return 10 * sums, below

    return clipped_sums


def louder(factor: float) -> Bug:
    """Parties send so many times what they should."""
    return patched(CoefficientTerms, "total", lambda right: lambda self, *at: factor * right(self, *at))


def halved(module, name: str, factor: float = 0.5) -> Bug:
    return patched(module, name, lambda right: lambda length: factor * right(length))


def telling_constant(patch: pytest.MonkeyPatch, algorithm):
    """The published logistic L0 has no noise, for it is the same for all labels. One that is not tells them apart."""
    quadratic = at.LOGISTIC.quadratic
    patch.setattr(
        type(at.LOGISTIC), "quadratic", replace(quadratic, constant=lambda y: quadratic.constant(y) + 0.01 * y)
    )
    return algorithm


SILENT_SITE = patched(
    noise, "cape_messages",
    lambda right: lambda *a: [np.where(np.arange(5)[:, None] == 4, 0, right(*a)[0]), right(*a)[1]],
)  # fmt: skip


def too_long(right):
    """Mapped rows as long as they come, at most twice as long as they should be."""

    def rows(X, maps):
        units, lengths = right(X, maps)
        return 2 * units, lengths

    return rows


SENT = {
    "mapped rows that are not made unit length again": [
        case(patched(mapped, "mapped", too_long), at.WDGD_CLASSES, FEW, {"aggregate"}, at.FEW_ROWS),
    ],
    "a clip that is not applied": [
        case(clip_times(2), at.DPGD, FEW, {"aggregate"}, at.FEW_ROWS),
        case(
            patched(PartyGradients, "clipped_sums", not_cut),
            at.DPGD_PARTY, FEW, {"aggregate"}, at.MANY,
        ),
        case(
            patched(network, "clipped_sum", lambda right: lambda m, X, y, loss, clip: right(m, X, y, loss, 9.0)),
            at.NN_CAPE, FEW, THREE,
        ),
        *(case(patched(Slopes, "rows", lambda _: uncut), replace(at.JAYARAMAN, loss=loss), 2_000, SUMS)
          for loss in (at.LOGISTIC, at.SQUARED)),
        case(
            patched(coefficients, "checked", lambda right: lambda *a: 2 * right(*a)),
            at.SSP_GRID, FEW, SUMS, at.FOUR,
        ),
    ],
    "steps of a grid that are taken for larger ones": [
        case(
            patched(ClippedTerms, "integers", lambda right: lambda self, Q, *a: right(self, 2 * Q, *a)),
            at.DPGD_GRID, 4_000, {"aggregate"}, at.FOUR,
        ),
    ],
    "sums of parties in place of means": [case(louder(2000.0), at.SSP_PARTY, 2_000, {"release", *SUMS})],
    "a coefficient that moves and has no noise": [case(telling_constant, at.CAPE_PUBLISHED, 2_000, BESIDE)],
    "a site that sends its coefficients as they are": [
        case(SILENT_SITE, at.CAPE, 2_000, WHOLE),
        case(drawn(silent(-1)), at.CONV, 2_000, WHOLE),
    ],
    "gradient balls of half the radius": [
        case(halved(newton, "logistic_radius"), replace(at.NEWTON, budget_share=0.8), 2_000, {"aggregate"}),
    ],
    "a curvature that is forgotten": [
        case(patched(newton, "CURVATURE", lambda _: 0.05), replace(at.NEWTON, curvature="hessian"), 2_000,
             {"aggregate"}),
    ],
    "a sensitivity that is too small in noise and proof": [
        case(halved(gaussian_output, f"{a.loss.name}_radius", 0.8), a, 2_000, RELEASE) for a in at.OUTPUTS
    ],
    "a diameter that knows no long models": [  # 1/(N lam), that of gradients at w = 0
        case(
            patched(gaussian_output, "logistic_radius", lambda _: lambda length: np.float64(0.5)),
            at.OUTPUTS[0], 2_000, RELEASE,
        ),
    ],
}  # fmt: skip


def drawing(change) -> Bug:
    """The noise of every round of a descent is drawn by ``change(draw)``."""

    def descend(right):
        return lambda groups, start, steps, scales, draw, *others, **named: right(
            groups, start, steps, scales, change(draw), *others, **named
        )

    return patched(descent, "descend", descend)


def same(draw):
    drawn = draw()
    return lambda: drawn


def first_only(draw):
    left = [1.0]
    return lambda: (left.pop() if left else 0.0) * draw()


def mus_times(factor: float) -> Bug:
    """All of what is proven, less."""

    def plant(patch, algorithm):
        right = algorithm.guarantees
        less = lambda *a: [replace(g, mu=factor * g.mu, eps=gdp.eps_of(factor * g.mu, g.delta)) for g in right(*a)]  # noqa: E731
        patch.setattr(type(algorithm), "guarantees", lambda self, *arguments: less(*arguments))
        return algorithm

    return plant


def oracle_as_if_fixed(patch, algorithm):
    """The candidates of an oracle share their noise: whoever sees their rounds can take it out."""
    right = algorithm.guarantees
    counted = lambda self, *a: [replace(g, basis="proven") for g in right(*a) if g.basis == "conditional"]  # noqa: E731
    patch.setattr(type(algorithm), "guarantees", counted)
    return algorithm


def exact_scores(patch, algorithm):
    patch.setattr(NoisyDescent, "per_score", lambda self, budget, problem: 1e-12)
    patch.setattr(NoisyDescent, "mus", lambda self, budget, problem: {"aggregate": 0.2, "release": 0.2})
    return algorithm


ANY: set[str] = set()  # some view beside the release
SIGMOID, MIDDLE = replace(at.SECURE, loss=LOSSES["sigmoid"], clip=None), Problem(5, 2_500, 2)
DESCENTS = {
    "half of the noise of rounds": [case(HALF, at.SECURE, 5_000, ANY), case(HALF, at.WDDP, 5_000, ANY)],
    "no noise in rounds": [case(NONE, a, 2_000, ANY) for a in (at.WANG, at.WDDP)],
    "one noise in all rounds": [case(drawing(same), a, 2_000, ANY) for a in (at.WANG, at.SECURE)],
    "noise only at the start": [case(drawing(first_only), a, 2_000, ANY) for a in (at.WANG, at.WDDP)],
    "noise of clients divided twice": [
        case(patched(Clients, "group_stds", lambda right: lambda self, given: right(self, given) / 2), a, 5_000, ANY)
        for a in (at.WDDP, at.SECURE)
    ],
    "half of the rounds": [case(mus_times(0.5**0.5), at.SECURE, 2_000, SUMS)],
    # the sigmoid loss is steepest at 0: of a row across the path of the model, and of its mirror image, always
    "a round that is forgotten": [case(mus_times(math.sqrt(1 - 1 / SIGMOID.rounds)), SIGMOID, 2_000, SUMS, MIDDLE)],
    "a choice that is not counted": [
        case(oracle_as_if_fixed, replace(at.JAYARAMAN, step_selection="oracle"), 2_000, SUMS),
    ],
    "scores without noise": [case(exact_scores, replace(at.JAYARAMAN, step_selection="private"), 2_000, {"aggregate"})],
}  # fmt: skip
GROUPS = TOO_LITTLE, IN_TIME, COUNTED, SENT, DESCENTS


def named(each, title: str):
    """The case with its name: the bug, and the algorithm."""
    algorithm = each[1]
    options = [getattr(algorithm, key, None) for key in ("calibration", "variant", "unit", "protocol", "noise")]
    words = [algorithm.name, algorithm.loss.name, *(str(option) for option in options if option)]
    return pytest.param(*each, id=f"{title}: {' '.join(words)}")


@pytest.mark.parametrize(
    ("bug", "algorithm", "draws", "views", "clear", "problem"),
    [named(each, title) for group in GROUPS for title, cases in group.items() for each in cases],
)
def test_a_planted_bug_is_called_one(monkeypatch, bug, algorithm, draws, views, clear, problem) -> None:
    found = bugs(bug(monkeypatch, algorithm), draws, views | clear or BESIDE, problem)
    assert found == views if views else found
