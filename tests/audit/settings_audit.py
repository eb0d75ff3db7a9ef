"""The settings of algorithms of noisy sums that audits of planted bugs, and of the right code, share."""

from dataclasses import replace

from examples import LOGISTIC, SQUARED

from dpml.algorithms.descent.clipped import ClippedDescent
from dpml.algorithms.descent.network import Network
from dpml.algorithms.descent.noisy_descent import NoisyDescent
from dpml.algorithms.descent.private_sgd import PrivateSGD
from dpml.algorithms.descent.whitened import WhitenedDescent
from dpml.algorithms.quadratic.functional_mechanism import FunctionalMechanism
from dpml.algorithms.quadratic.sufficient_statistics import PreconditionedDescent, SufficientStatistics
from dpml.audit import ROUNDS
from dpml.optim.losses import LOSSES
from dpml.packs.frontier import audits  # noqa: F401 - registers neighbours
from dpml.packs.frontier.adassp import AdaptiveStatistics
from dpml.packs.frontier.newton import NoisyNewton
from dpml.packs.frontier.outpert import GaussianOutput
from dpml.privacy import Problem

EPOCHS = ROUNDS["epochs"]

# Coefficients of a quadratic objective.
CAPE, CONV, LOCAL = (
    FunctionalMechanism(SQUARED, calibration="tight", sites=sites) for sites in ("cape", "independent", "last")
)
CAPE_PUBLISHED, CONV_PUBLISHED = (FunctionalMechanism(LOGISTIC, sites=sites) for sites in ("cape", "independent"))
CAPE_REAL = replace(CAPE, protocol="secagg")
SSP = SufficientStatistics(SQUARED)
SSP_PARTY = SufficientStatistics(LOGISTIC, unit="party")
SSP_REAL = SufficientStatistics(SQUARED, protocol="secagg")
SSP_CLASSES = SufficientStatistics(LOSSES["softmax"])
ADASSP = AdaptiveStatistics(SQUARED, calibration="tight")
ADASSP_PUBLISHED = AdaptiveStatistics(SQUARED)

# Rounds of clipped gradients, on few rows.
DPGD = ClippedDescent(LOGISTIC, rounds=10)
DPGD_PARTY = ClippedDescent(LOGISTIC, unit="party", rounds=10)
STAGES = PreconditionedDescent(LOGISTIC, rounds=5)
WDGD = WhitenedDescent(LOGISTIC, rounds=5, budget_share=0.1)
WDGD_REAL = replace(WDGD, protocol="secagg")
WDGD_CLASSES = replace(WDGD, loss=LOSSES["softmax"])
FEW_ROWS, MANY = Problem(5, 100, 2), Problem(40, 80, 2)
BIG = Problem(5, 5000, 2)  # statistics of few rows have so much noise that slopes are not clipped

# Noise on a grid of integers.
SSP_GRID = SufficientStatistics(LOGISTIC, noise="discrete")
SSP_GRID_REAL = replace(SSP_GRID, protocol="secagg")
FM_GRID, CAPE_GRID = (
    FunctionalMechanism(LOGISTIC, calibration="tight", sites=sites, noise="discrete") for sites in ("curator", "cape")
)
DPGD_GRID = ClippedDescent(LOGISTIC, noise="discrete", rounds=5)
DPGD_GRID_PARTY = ClippedDescent(LOGISTIC, noise="discrete", unit="party", rounds=5)
WDGD_GRID = replace(WDGD, noise="discrete", rounds=3)
STAGES_GRID = PreconditionedDescent(LOGISTIC, noise="discrete", rounds=3)
FOUR, TWO = Problem(4, 40, 2, colluders=1), Problem(2, 40, 2)
FOUR_BIG = Problem(4, 400, 2, colluders=1)

# Rounds of other gradients, networks, Newton steps, minimisers.
PSGD = PrivateSGD(LOGISTIC, calibration="tight", rounds=ROUNDS["rounds"])
PSGD_PUBLISHED = PrivateSGD(LOGISTIC, rounds=ROUNDS["rounds"])
NN_CAPE, NN_CONV = (
    # short steps: noise does not move the network to where gradients are shorter than the clip
    Network(LOGISTIC, calibration="tight", epochs=EPOCHS, sites=sites, rate=0.01)
    for sites in ("cape", "independent")
)
NEWTON = NoisyNewton(LOGISTIC, rounds=5)
OUTPUTS = GaussianOutput(LOGISTIC), GaussianOutput(SQUARED)

# Noisy descents.
WANG = NoisyDescent(LOGISTIC, rounds=ROUNDS["rounds"])
JAYARAMAN = NoisyDescent(LOGISTIC, rounds=ROUNDS["rounds"], calibration="tight", sites="mpc")
WDDP, SYNCHRONOUS, ONCE = (
    NoisyDescent(LOGISTIC, rounds=ROUNDS["rounds"], sites="clients", variant=variant)
    for variant in ("paper", "synchronous", "once")
)
SECURE = NoisyDescent(LOGISTIC, rounds=ROUNDS["rounds"], calibration="tight", sites="clients")
