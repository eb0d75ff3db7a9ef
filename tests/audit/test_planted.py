"""Bugs planted in every algorithm of noisy sums: an audit finds each in what it records of the release itself.

All at the budget, parties and rows that `dpml audit` has unless told otherwise. A view other than `release` must show a
bug: the last model alone says little about who sent what. The right code is audited in `test_right_code.py`.
"""

import math
from collections.abc import Iterable, Set
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
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
from settings_audit import (
    ADASSP,
    ADASSP_PUBLISHED,
    BIG,
    CAPE,
    CAPE_GRID,
    CAPE_PUBLISHED,
    CAPE_REAL,
    CONV,
    CONV_PUBLISHED,
    DPGD,
    DPGD_GRID,
    DPGD_GRID_PARTY,
    DPGD_PARTY,
    EPOCHS,
    FEW_ROWS,
    FM_GRID,
    FOUR,
    FOUR_BIG,
    JAYARAMAN,
    LOCAL,
    LOGISTIC,
    MANY,
    NEWTON,
    NN_CAPE,
    NN_CONV,
    ONCE,
    OUTPUTS,
    PSGD,
    PSGD_PUBLISHED,
    SECURE,
    SQUARED,
    SSP,
    SSP_CLASSES,
    SSP_GRID,
    SSP_GRID_REAL,
    SSP_PARTY,
    SSP_REAL,
    STAGES,
    STAGES_GRID,
    SYNCHRONOUS,
    TWO,
    WANG,
    WDDP,
    WDGD,
    WDGD_CLASSES,
    WDGD_GRID,
    WDGD_REAL,
)  # fmt: skip

from dpml.algorithms.descent import network
from dpml.algorithms.descent.clipped_gradients import ClippedTerms
from dpml.algorithms.descent.layouts import MeanGradients
from dpml.algorithms.quadratic import coefficients
from dpml.algorithms.quadratic.coefficients import CoefficientTerms, Scales
from dpml.mechanism.carriers import Carrier
from dpml.optim import gradients, losses
from dpml.optim.gradients import PartyGradients, Rows
from dpml.optim.losses import LOSSES
from dpml.optim.slopes import Slopes
from dpml.packs.frontier import newton, outpert
from dpml.privacy import Problem, gdp, noise

# Enough draws where nothing is hidden any more, or the pair itself shows more than is proven.
FEW = 1_000
# Half of the noise is missed in 1 of 4000 audits of parties, in fewer than 1 of 10^6 of networks, else in none.
SOME = 3_000
# The same in 1 of 2000 audits of the sum of `conv`, which has most noise, else in none.
PLAIN = 8_000
# Of descents the same in 1 of 1000 audits of `wang`, whose pair shows least.
MORE = 12_000
DRAWS = 100_000

SUMS, WHOLE = {"aggregate", "colluders"}, {"transcript", "colluders"}
THREE = SUMS | WHOLE
RELEASE = {"release"}
slow = [pytest.mark.slow]  # the same bug in code that is mostly the same


def case(
    bug: Bug,
    algorithm: Any,
    draws: int,
    views: Set[str],
    problem: Problem | None = None,
    clear: Set[str] | None = None,
    marks: Iterable[Any] = (),
):
    """A bug in an algorithm, the views that must call it a bug, and those that are attacked, too, and must not."""
    return pytest.param(bug, algorithm, draws, views, clear or set(), problem, marks=marks)


def twins(right):
    """The last two of several clients have the same noise in local rounds."""

    def project(self, noise, d):
        noise = noise.copy()
        noise[..., -d:] = noise[..., -2 * d : -d]
        return noise

    return project


HALF, NONE = drawn(half), drawn(none)
TWO_SEEDS, ONE_SEED = drawn(shared_seed(-1, -2)), drawn(shared_seed(0, 1, 2, 3, 4))
ONE_ROW = narrower(0.5)
SECOND_HALF = narrower(0.5, blocks=(-1, -2))
OPEN = WANG, JAYARAMAN, SYNCHRONOUS, ONCE, SECURE


def enough(algorithm) -> int:
    return MORE if algorithm in (WANG, ONCE) else 5_000


def marked(algorithm):
    return () if algorithm is WANG else slow


TOO_LITTLE = {
    "half of the noise": [
        *(case(HALF, a, PLAIN, THREE) for a in (CAPE, CONV)),
        case(HALF, CAPE_REAL, PLAIN, THREE, marks=slow),
        *(case(HALF, a, PLAIN, BESIDE) for a in (CAPE_PUBLISHED, CONV_PUBLISHED)),
        *(case(HALF, a, PLAIN, SUMS) for a in (SSP, SSP_PARTY, SSP_REAL, SSP_CLASSES)),
        *(case(HALF, a, PLAIN, RELEASE) for a in (ADASSP, ADASSP_PUBLISHED)),
        case(HALF, DPGD, SOME, SUMS, FEW_ROWS),
        case(HALF, DPGD_PARTY, SOME, SUMS, MANY, marks=slow),
        *(case(HALF, a, SOME, SUMS, FEW_ROWS, marks=slow) for a in (WDGD, WDGD_REAL, WDGD_CLASSES, WDGD_GRID)),
        case(HALF, STAGES, SOME, SUMS, BIG, marks=slow),
        *(case(HALF, a, 2_000, SUMS, FOUR) for a in (SSP_GRID, SSP_GRID_REAL, DPGD_GRID, DPGD_GRID_PARTY, CAPE_GRID)),
        case(HALF, STAGES_GRID, 2_000, SUMS, FOUR_BIG),
        case(HALF, FM_GRID, 2_000, RELEASE, FOUR),
        case(HALF, NN_CAPE, SOME, THREE, marks=slow),
        case(HALF, NN_CONV, 10_000, THREE, marks=slow),  # its sum has five times the noise that is needed
        case(HALF, PSGD, 10_000, SUMS, marks=slow),
        case(HALF, NEWTON, MORE, {"aggregate"}, marks=slow),
        *(case(HALF, a, 20_000, RELEASE) for a in OUTPUTS),
    ],
    "no noise": [
        case(NONE, PSGD, FEW, SUMS),
        case(NONE, NN_CAPE, FEW, BESIDE, marks=slow),
        case(NONE, NEWTON, 2_000, {"aggregate"}),
        *(case(NONE, a, 20_000, RELEASE, marks=slow) for a in OUTPUTS),
    ],
    "a party without noise of its own": [
        # a fifth of the sum's variance is missing, and in `conv` all that protects the party
        *(case(drawn(silent(-1), zero_sum=False), a, DRAWS, {"colluders"}, marks=slow) for a in (CAPE, CAPE_REAL)),
        case(drawn(silent(-1)), CONV, 2_000, {"colluders"}),
        case(drawn(silent(-1)), SSP, 50_000, {"colluders"}),
        *(case(drawn(silent(-1)), a, 50_000, {"colluders"}, marks=slow) for a in (SSP_PARTY, SSP_REAL)),
        *(case(drawn(silent(0)), a, 10_000, {"release", "aggregate"}, TWO) for a in (SSP_GRID, SSP_GRID_REAL)),
        case(drawn(silent(0)), DPGD_GRID, 10_000, {"release", "aggregate"}, TWO),
    ],
    "numbers without noise": [
        *(case(drawn(without(0)), a, 2_000, RELEASE) for a in (ADASSP, ADASSP_PUBLISHED)),  # the eigenvalue
        *(case(drawn(without(4, 5)), a, 2_000, THREE) for a in (CAPE, CONV)),  # beside the diagonal
        case(drawn(without(4, 5)), SSP, 2_000, SUMS),
    ],
    "one noise for all numbers": [case(drawn(one_number), ADASSP, 2_000, RELEASE)],
    "two parties with one seed": [
        *(case(TWO_SEEDS, a, 2_000, WHOLE) for a in (CAPE, CONV)),
        case(TWO_SEEDS, CAPE_REAL, 2_000, WHOLE, marks=slow),
        case(TWO_SEEDS, NN_CONV, FEW, WHOLE),
        case(patched(MeanGradients, "project", twins), WDDP, 2_000, {"colluders"}),
    ],
    "all parties with one seed": [  # colluders know everybody's noise, and the sum has more than it should
        *(case(ONE_SEED, a, 2_000, WHOLE, marks=slow) for a in (CAPE, CAPE_REAL, CONV)),
        case(ONE_SEED, SSP, 2_000, {"colluders"}, clear={"aggregate"}),
        *(case(ONE_SEED, a, 2_000, {"colluders"}, clear={"aggregate"}, marks=slow) for a in (SSP_PARTY, SSP_REAL)),
        case(ONE_SEED, DPGD, FEW, {"colluders"}, FEW_ROWS),
        case(drawn(shared_seed(*range(40))), DPGD_PARTY, FEW, {"colluders"}, MANY),
        *(case(drawn(shared_seed(0, 1, 2, 3)), a, FEW, {"colluders"}, FOUR) for a in (SSP_GRID, SSP_GRID_REAL)),
        case(drawn(shared_seed(0, 1, 2, 3)), DPGD_GRID, FEW, {"colluders"}, FOUR),
        case(ONE_SEED, PSGD, SOME, {"colluders"}),
        case(
            drawn(shared_seed(0, 4)),
            PSGD,
            SOME,
            {"colluders"},
            replace(PROBLEM, colluders=4),
            marks=slow,
        ),
        case(ONE_SEED, SECURE, 2_000, {"colluders"}, clear={"aggregate"}, marks=slow),
    ],
}
IN_TIME = {
    "the same noise in all rounds": [
        case(same_in_all_rounds, DPGD, FEW, SUMS, FEW_ROWS),
        *(case(same_in_all_rounds, a, FEW, WHOLE, marks=slow) for a in (NN_CAPE, NN_CONV)),
        *(case(same_in_all_rounds, a, PLAIN, SUMS, marks=slow) for a in (PSGD, PSGD_PUBLISHED)),
        case(in_time(lambda t: t % 2), NEWTON, MORE, {"aggregate"}, marks=slow),
    ],
    "one noise for both messages of a round": [case(in_time(lambda t: t // 2), NEWTON, 2_000, {"aggregate"})],
    "noise in the first round only": [
        case(first_round_only, DPGD, FEW, SUMS, FEW_ROWS),
        *(case(first_round_only, a, FEW, THREE, marks=slow) for a in (NN_CAPE, NN_CONV)),
        *(case(first_round_only, a, PLAIN, SUMS, marks=slow) for a in (PSGD, PSGD_PUBLISHED)),
    ],
    "no fresh noise": [
        case(in_time(lambda t: t, lambda t: 0.0), PSGD, FEW, SUMS),
        case(in_time(lambda t: t, lambda t: 0.0), PSGD_PUBLISHED, SOME, SUMS, marks=slow),
    ],
}
COUNTED = {
    "the sensitivity of adding a row, or a quarter of the rounds": [
        *(case(ONE_ROW, a, 2_000, BESIDE) for a in (CAPE, CONV)),
        case(ONE_ROW, CAPE_REAL, 2_000, BESIDE, marks=slow),
        case(ONE_ROW, LOCAL, 2_000, {"client"}),
        *(case(ONE_ROW, a, 2_000, SUMS) for a in (SSP, SSP_PARTY, SSP_REAL, SSP_CLASSES)),
        *(case(ONE_ROW, a, 2_000, RELEASE) for a in (ADASSP, ADASSP_PUBLISHED)),
        case(ONE_ROW, STAGES, 2_000, SUMS, BIG, marks=slow),
        *(case(ONE_ROW, a, FEW, THREE, marks=slow) for a in (NN_CAPE, NN_CONV)),
        case(ONE_ROW, PSGD, FEW, SUMS),
        case(ONE_ROW, NEWTON, 2_000, {"aggregate"}),
    ],
    "codes of classes that are not centred": [
        case(patched(losses, "codes", lambda codes: lambda y, K: codes(y, K) + 1 / K), SSP_CLASSES, FEW, SUMS),
    ],
    "a single round that the accountant forgets": [
        case(narrower(math.sqrt(1 - 1 / EPOCHS)), NN_CAPE, FEW, THREE),
        case(narrower(math.sqrt(1 - 1 / EPOCHS)), NN_CONV, FEW, THREE, marks=slow),
    ],
    "all rounds but one that the accountant forgets": [
        *(case(narrower(math.sqrt(1 / EPOCHS)), a, FEW, THREE, marks=slow) for a in (NN_CAPE, NN_CONV)),
        case(narrower(math.sqrt(1 / PSGD.rounds)), PSGD, FEW, SUMS),
    ],
    "half of the noise on one block": [
        case(SECOND_HALF, CAPE, PLAIN, THREE),
        case(SECOND_HALF, CONV, 40_000, BESIDE, marks=slow),  # its sum has five times the noise that is needed
        case(SECOND_HALF, CAPE_REAL, PLAIN, THREE, marks=slow),
        case(SECOND_HALF, LOCAL, PLAIN, {"client"}),
        *(case(narrower(0.4, blocks=blocks), a, PLAIN, SUMS) for blocks in ((0,), (1, 2)) for a in (SSP, SSP_PARTY)),
        *(case(narrower(0.4, blocks=blocks), SSP_REAL, PLAIN, SUMS, marks=slow) for blocks in ((0,), (1, 2))),
    ],
    "one message with too little noise": [
        case(narrower(0.05, number=0), STAGES, FEW, SUMS, BIG, marks=slow),  # statistics
        *(case(narrower(1 / 3, number=n), NEWTON, MORE, {"aggregate"}, marks=slow) for n in (0, 1)),
        case(narrower(1e-3, number=1), NEWTON, 2_000, {"aggregate"}),  # as if the matrix was public
    ],
    "counts without noise": [case(narrower(0.01, blocks=(1,)), DPGD_PARTY, FEW, {"aggregate"}, MANY)],
    "parties protected as if they were rows": [
        case(narrower(PROBLEM.M / PROBLEM.N), SSP_PARTY, 2_000, {"release", *SUMS}),
    ],
    "an eigenvalue that is not counted": [  # the pair itself shows more than X'X and X'y alone could
        case(returning(joint=lambda _: Scales(math.inf, 2.0, 1.0)), ADASSP, 2_000, RELEASE),
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
    quadratic = LOGISTIC.quadratic
    patch.setattr(type(LOGISTIC), "quadratic", replace(quadratic, constant=lambda y: quadratic.constant(y) + 0.01 * y))
    return algorithm


SILENT_SITE = patched(
    noise, "cape_messages",
    lambda right: lambda *a: [np.where(np.arange(5)[:, None] == 4, 0, right(*a)[0]), right(*a)[1]],
)  # fmt: skip
SQUARED_DESCENTS = [replace(algorithm, loss=SQUARED) for algorithm in (JAYARAMAN, SECURE)]


def too_long(right):
    """Mapped rows as long as they come, at most twice as long as they should be."""

    def rows(X, maps):
        units, lengths = right(X, maps)
        return 2 * units, lengths

    return rows


SENT = {
    "mapped rows that are not made unit length again": [
        case(patched(gradients, "mapped", too_long), WDGD, FEW, {"aggregate"}, FEW_ROWS),
        case(patched(gradients, "mapped", too_long), WDGD_CLASSES, FEW, {"aggregate"}, FEW_ROWS, marks=slow),
    ],
    "a clip that is not applied": [
        case(clip_times(2), DPGD, FEW, {"aggregate"}, FEW_ROWS),
        case(
            patched(PartyGradients, "clipped_sums", not_cut),
            DPGD_PARTY, FEW, {"aggregate"}, MANY,
        ),
        case(
            patched(network, "clipped_sum", lambda right: lambda m, X, y, loss, clip: right(m, X, y, loss, 9.0)),
            NN_CAPE, FEW, THREE, marks=slow,
        ),
        *(case(patched(Slopes, "rows", lambda _: uncut), a, 2_000, SUMS, marks=slow) for a in (JAYARAMAN, SECURE)),
        *(case(patched(Slopes, "rows", lambda _: uncut), a, 2_000, SUMS) for a in SQUARED_DESCENTS),
        case(
            patched(coefficients, "checked", lambda right: lambda *a: 2 * right(*a)),
            SSP_GRID, FEW, SUMS, FOUR,
        ),
    ],
    "steps of a grid that are taken for larger ones": [
        case(
            patched(ClippedTerms, "integers", lambda right: lambda self, Q, *a: right(self, 2 * Q, *a)),
            DPGD_GRID, 4_000, {"aggregate"}, FOUR,
        ),
    ],
    "sums of parties in place of means": [case(louder(2000.0), SSP_PARTY, 2_000, {"release", *SUMS})],
    "a coefficient that moves and has no noise": [case(telling_constant, CAPE_PUBLISHED, 2_000, BESIDE)],
    "a site that sends its coefficients as they are": [
        case(SILENT_SITE, CAPE, 2_000, WHOLE),
        case(drawn(silent(-1)), CONV, 2_000, WHOLE),
    ],
    "gradient balls of half the radius": [
        case(halved(newton, "logistic_radius"), replace(NEWTON, budget_share=0.8), 2_000, {"aggregate"}),
    ],
    "a curvature that is forgotten": [
        case(patched(newton, "CURVATURE", lambda _: 0.05), replace(NEWTON, curvature="hessian"), 2_000, {"aggregate"}),
    ],
    "a sensitivity that is too small in noise and proof": [
        case(halved(outpert, f"{a.loss.name}_radius", factor), a, 2_000, RELEASE)
        for a in OUTPUTS
        for factor in (0.5, 0.8)
    ],
    "a diameter that knows no long models": [  # 1/(N lam), that of gradients at w = 0
        case(
            patched(outpert, "logistic_radius", lambda _: lambda length: np.float64(0.5)),
            OUTPUTS[0], 2_000, RELEASE,
        ),
    ],
}  # fmt: skip


def drawing(change) -> Bug:
    """The noise of every round of a descent is drawn by ``change(draw)``."""

    def unit_noise(right):
        draws = {}

        def drawn(self, number):
            if self not in draws:
                draws[self] = change(lambda: right(self, number))
            return draws[self]()

        return drawn

    return patched(Carrier, "unit_noise", unit_noise)


def same(draw):
    drawn = draw()
    return lambda: drawn


def first_only(draw):
    left = [1.0]

    def drawn():
        scale = left.pop() if left else 0.0
        return tuple(None if each is None else scale * each for each in draw())

    return drawn


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


ANY: set[str] = set()  # some view beside the release
SIGMOID = [replace(algorithm, loss=LOSSES["sigmoid"], clip=None) for algorithm in (JAYARAMAN, SECURE)]
DESCENTS = {
    "half of the noise of rounds": [
        case(HALF, a, enough(a), ANY, marks=() if a is SECURE else slow) for a in (*OPEN, WDDP)
    ],
    "no noise in rounds": [case(NONE, a, 2_000, ANY, marks=marked(a)) for a in (*OPEN, WDDP)],
    "one noise in all rounds": [case(drawing(same), a, 2_000, ANY, marks=marked(a)) for a in OPEN],
    "noise only at the start": [case(drawing(first_only), a, 2_000, ANY, marks=marked(a)) for a in (*OPEN, WDDP)],
    "noise of clients divided twice": [
        case(patched(Carrier, "widths", lambda right, by=by: lambda self, number: right(self, number) / by), a,
             5_000, ANY, marks=slow if by > 2 or a is WDDP else ())
        for a in (WDDP, SECURE) for by in (2, 3, 5)
    ],
    "half of the rounds": [case(mus_times(0.5**0.5), JAYARAMAN, 2_000, SUMS, marks=slow),
                           case(mus_times(0.5**0.5), SECURE, 2_000, SUMS)],
    "the other adjacency": [
        case(mus_times(0.5), a, 2_000, SUMS, marks=slow if a is JAYARAMAN else ()) for a in (JAYARAMAN, SECURE)
    ],
    "a round that is forgotten": [  # quicker: "a single round that the accountant forgets"
        # the sigmoid loss is steepest at 0: of a row across the path of the model, and of its mirror image, always
        case(mus_times(math.sqrt(1 - 1 / a.rounds)), a, 2_000, SUMS, PROBLEM, marks=slow) for a in SIGMOID
    ],
    "a choice that is not counted": [
        case(oracle_as_if_fixed, replace(JAYARAMAN, step_selection="oracle"), 2_000, SUMS),
    ],
}  # fmt: skip
GROUPS = TOO_LITTLE, IN_TIME, COUNTED, SENT, DESCENTS


def named(each, title: str):
    """The case with its name: the bug, and the algorithm."""
    algorithm = each.values[1]
    options = [getattr(algorithm, key, None) for key in ("calibration", "variant", "unit", "protocol", "noise")]
    words = [algorithm.name, algorithm.loss.name, *(str(option) for option in options if option)]
    return pytest.param(*each.values, marks=each.marks, id=f"{title}: {' '.join(words)}")


@pytest.mark.parametrize(
    ("bug", "algorithm", "draws", "views", "clear", "problem"),
    [named(each, title) for group in GROUPS for title, cases in group.items() for each in cases],
)
def test_a_planted_bug_is_called_one(monkeypatch, bug, algorithm, draws, views, clear, problem) -> None:
    found = bugs(bug(monkeypatch, algorithm), draws, views | clear or BESIDE, problem)
    assert found == views if views else found
