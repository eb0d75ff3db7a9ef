"""Privacy budgets, guarantees, the accountant that composes them, and all privacy noise."""

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
