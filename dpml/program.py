"""What an algorithm of one's own is written with."""

from dpml.mechanism.algorithm import Release
from dpml.mechanism.message import Statistic, Sum, Terms
from dpml.mechanism.minimisers import Minimiser
from dpml.mechanism.options import NOISES, SUM_PROTOCOLS, UNITS
from dpml.mechanism.program import Program
from dpml.mechanism.rows import ClippedRows

__all__ = [
    "NOISES", "SUM_PROTOCOLS", "UNITS", "ClippedRows", "Minimiser", "Program", "Release", "Statistic", "Sum", "Terms",
]  # fmt: skip
