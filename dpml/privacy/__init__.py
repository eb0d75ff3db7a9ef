"""Privacy as plain values (`Budget`, `Guarantee`), the arithmetic behind them, and the noise."""

from dpml.privacy.guarantee import CALIBRATIONS, Budget, Calibration, Guarantee, Problem, View, worst

__all__ = ["CALIBRATIONS", "Budget", "Calibration", "Guarantee", "Problem", "View", "worst"]
