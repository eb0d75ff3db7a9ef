"""Export the classes and constants that the author of an algorithm needs."""

from dpml.mechanism.algorithm import NOISES, SUM_PROTOCOLS, UNITS, Release
from dpml.mechanism.message import Statistic, Sum, Terms
from dpml.mechanism.program import Program
from dpml.mechanism.statistics import ClippedRows, Minimiser

__all__ = ["NOISES", "SUM_PROTOCOLS", "UNITS", "ClippedRows", "Minimiser", "Program", "Release", "Statistic", "Sum"]
__all__ += ["Terms"]
