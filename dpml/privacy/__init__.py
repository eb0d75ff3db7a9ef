"""Budgets and guarantees as plain values, how guarantees are computed, and the noise."""

from dpml.privacy.guarantee import (
    CALIBRATIONS,
    Adversary,
    Budget,
    Calibration,
    Guarantee,
    Problem,
    UnsizedProblem,
    View,
    worst,
)

__all__ = [
    "CALIBRATIONS",
    "Adversary",
    "Budget",
    "Calibration",
    "Guarantee",
    "Problem",
    "UnsizedProblem",
    "View",
    "worst",
]
