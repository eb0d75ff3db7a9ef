"""Export the classes and constants that the author of an algorithm needs."""

from dpml.mechanism.algorithm import SIMULATED, UNITS, VARIANTS, Clip, Lam, Release, Rounds, Unit, Variant
from dpml.mechanism.carriers import Carrier
from dpml.mechanism.message import Statistic, Sum, Terms
from dpml.mechanism.program import Program
from dpml.mechanism.statistics import ClippedRows, Minimiser
from dpml.privacy import Budget, Problem, View

__all__ = ["SIMULATED", "UNITS", "VARIANTS", "Budget", "Carrier", "Clip", "ClippedRows", "Lam", "Minimiser", "Problem"]
__all__ += ["Program", "Release", "Rounds", "Statistic", "Sum", "Terms", "Unit", "Variant", "View"]
