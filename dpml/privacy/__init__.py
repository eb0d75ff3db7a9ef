"""Privacy as plain values (`Budget`, `Guarantee`), the arithmetic behind them, and the noise."""

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
