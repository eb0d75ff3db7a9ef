"""Hyper-parameters that several algorithms share, and their checks: a mistake raises a UserError of one sentence."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

from dpml.errors import UserError, nearest
from dpml.mechanism.algorithm import Hyperparameters
from dpml.mechanism.discrete import NOISES
from dpml.optim.descent import LEAST_CLIP
from dpml.optim.losses import Loss
from dpml.privacy import CALIBRATIONS, Calibration

Variant = Literal["paper", "authors"]
"""Which version of an algorithm: as the text defines it, or as the authors ran it."""
VARIANTS: tuple[Variant, ...] = ("paper", "authors")

Unit = Literal["sample", "party"]
"""What is protected: one sample, or all samples of one party."""
UNITS: tuple[Unit, ...] = ("sample", "party")

SumProtocol = Literal["simulate", "secagg"]
"""How the parties' messages are summed: their noise is simulated, or they go through the real secure aggregation."""
SUM_PROTOCOLS: tuple[SumProtocol, ...] = ("simulate", "secagg")

_MOST_CLIP = 1e6
_MOST_LAM = 1e6  # models are a millionth then; lam and its products are numbers in single precision


def check_choice(key: str, value: str, allowed: Sequence[str]) -> None:
    """Raise UserError unless `value` is one of those allowed."""
    if value not in allowed:
        choices = f"one of {', '.join(allowed)}" if len(allowed) > 1 else allowed[0]
        raise UserError(f"{key} must be {choices}, got {value!r}: {nearest(str(value), allowed)}")


def check_positive(key: str, value: float) -> None:
    """Raise UserError unless `value` is positive and finite."""
    if not 0 < value < math.inf:
        raise UserError(f"{key} must be a positive number, got {value}.")


def check_clip(key: str, value: float) -> None:
    """Raise UserError unless `value` is a clip that single precision can cut slopes at."""
    check_positive(key, value)
    if value < LEAST_CLIP:
        raise UserError(f"{key} must be at least {LEAST_CLIP:g}, below which slopes have no grid, got {value:g}.")
    if value > _MOST_CLIP:
        raise UserError(f"{key} must be at most {_MOST_CLIP:g}, as noise is as wide as a clip, got {value:g}.")


def check_not_negative(key: str, value: float) -> None:
    """Raise UserError unless `value` is at least 0 and finite."""
    if not 0 <= value < math.inf:
        raise UserError(f"{key} must be a number >= 0, got {value}.")


def check_common(algorithm: Hyperparameters, losses: Sequence[str], variants: Sequence[str] = ("paper",)) -> None:
    """Raise UserError unless the algorithm knows its `calibration`, `loss` and `variant`, and `lam` is 0 to 1e6."""
    check_choice("calibration", algorithm.calibration, CALIBRATIONS)
    check_choice(f"algo.variant of {algorithm.name}", algorithm.variant, variants)
    if algorithm.loss.name not in losses:
        needed = " or ".join(f"loss={name}" for name in losses)
        raise UserError(f"algo={algorithm.name} needs {needed}, not loss={algorithm.loss.name}.")
    check_not_negative(f"algo.lam of {algorithm.name}", algorithm.lam)
    if algorithm.lam > _MOST_LAM:
        raise UserError(f"algo.lam of {algorithm.name} must be at most {_MOST_LAM:g}, got {algorithm.lam:g}.")


def check_noise(algorithm: Any) -> None:
    """Raise UserError unless `noise` is known, and is that of `tight` calibration where it is discrete."""
    check_choice("algo.noise", algorithm.noise, NOISES)
    if algorithm.noise == "discrete" and algorithm.calibration != "tight":
        raise UserError(
            f"algo.noise=discrete of algo={algorithm.name} is the least noise that is proven to be enough: set "
            "calibration=tight."
        )


def check_published_only(algorithm: Hyperparameters) -> None:
    """Raise UserError when another variant than the paper's is to have tight noise: there is none."""
    if algorithm.variant != "paper" and algorithm.calibration == "tight":
        raise UserError(
            f"algo={algorithm.name} algo.variant={algorithm.variant} is a reading of the published noise only: "
            f"set calibration=published."
        )


@dataclass(frozen=True)
class RegularisedLogistic:
    """Regularised logistic regression as in Rajkumar & Agarwal 2012, where one sample is the unit.

    Args:
        loss: logistic.
        calibration: `published` noise, or `tight`: the least that is proven to be enough.
        variant: `paper`, or another that the algorithm says it has.
        lam: coefficient of lam/2 ||w||^2.
    """

    name: ClassVar[str]
    auxiliary: ClassVar[float] = 0.0
    variants: ClassVar[tuple[str, ...]] = ("paper",)

    loss: Loss
    calibration: Calibration = "published"
    variant: str = "paper"
    lam: float = 0.01

    def __post_init__(self) -> None:
        check_common(self, ("logistic",), self.variants)
        check_published_only(self)
        check_positive(f"algo.lam of {self.name}", self.lam)

    @property
    def tight(self) -> bool:
        """Whether the noise is the least proven."""
        return self.calibration == "tight"
