"""Define privacy budgets and guarantees, compose guarantees, and draw all privacy noise."""

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
    "CALIBRATIONS", "Adversary", "Budget", "Calibration", "Guarantee", "Problem", "UnsizedProblem", "View", "worst",
]  # fmt: skip
