"""The secure sums that make up each algorithm."""

from dpml.algorithms import Algorithm
from dpml.algorithms.cape import CapeFM
from dpml.algorithms.clipped_descent import ClippedDescent
from dpml.algorithms.noisy_gradient_sums import PrivateSGD
from dpml.algorithms.preconditioned_descent import PreconditionedDescent
from dpml.algorithms.sufficient_statistics import SufficientStatistics
from dpml.errors import UserError
from dpml.federated.rounds import ClippedRoundSums, GradientSums
from dpml.federated.statistics import CapeSum, StatisticsSum
from dpml.federated.sums import Setting, Sums


def sums_of(algorithm: Algorithm, setting: Setting) -> Sums:
    """The secure sums that make up an algorithm.

    Raises:
        UserError: the algorithm is not made of secure sums.
    """
    if isinstance(algorithm, SufficientStatistics) and algorithm.name == "ssp":
        return StatisticsSum(algorithm, setting)
    if isinstance(algorithm, CapeFM) and algorithm.noise == "continuous":
        return CapeSum(algorithm, setting)
    if isinstance(algorithm, ClippedDescent | PreconditionedDescent):
        return ClippedRoundSums(algorithm, setting)
    if isinstance(algorithm, PrivateSGD):
        return GradientSums(algorithm, setting)
    raise UserError(
        f"algo={algorithm.name} cannot run so between parties on machines of their own: choose algo=ssp, ssp_descent, "
        "dpgd or psgd, or capefm with algo.noise=continuous."
    )
