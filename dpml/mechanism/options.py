"""Values that options of algorithms may have, and checks of them: a mistake raises a UserError of one sentence."""

import math
from collections.abc import Sequence
from typing import Literal

from dpml.errors import UserError, nearest
from dpml.optim.descent import LEAST_CLIP

Variant = Literal["paper", "authors"]
"""Which version of an algorithm: as the text defines it, or as the authors ran it."""
VARIANTS: tuple[Variant, ...] = ("paper", "authors")

Unit = Literal["sample", "party"]
"""What is protected: one sample, or all samples of one party."""
UNITS: tuple[Unit, ...] = ("sample", "party")

SumProtocol = Literal["simulate", "secagg"]
"""How the parties' messages are summed: their noise is simulated, or they go through the real secure aggregation."""
SUM_PROTOCOLS: tuple[SumProtocol, ...] = ("simulate", "secagg")

Noise = Literal["continuous", "discrete"]
"""Whether noise is floating-point numbers, or exact integers on a grid (docs/privacy/discrete_noise.md)."""
NOISES: tuple[Noise, ...] = ("continuous", "discrete")

MOST_LAM = 1e6  # models are a millionth then; lam and its products are numbers in single precision
_MOST_CLIP = 1e6
MOST_ROUNDS = 10**6
"""More take hours and gigabytes, for a proof as for a model."""


def check_choice(key: str, value: str, allowed: Sequence[str]) -> None:
    """Raise UserError unless `value` is one of those allowed."""
    if value not in allowed:
        choices = f"one of {', '.join(allowed)}" if len(allowed) > 1 else allowed[0]
        raise UserError(f"{key} must be {choices}, got {value!r}: {nearest(str(value), allowed)}")


def check_positive(key: str, value: float | None) -> None:
    """Raise UserError unless `value` is positive and finite, or None."""
    if value is not None and not 0 < value < math.inf:
        raise UserError(f"{key} must be a positive number, got {value}.")


def check_clip(key: str, value: float | None) -> None:
    """Raise UserError unless `value` is a clip that single precision can cut slopes at, or None."""
    if value is None:
        return
    check_positive(key, value)
    if value < LEAST_CLIP:
        raise UserError(f"{key} must be at least {LEAST_CLIP:g}, below which slopes have no grid, got {value:g}.")
    if value > _MOST_CLIP:
        raise UserError(f"{key} must be at most {_MOST_CLIP:g}, as noise is as wide as a clip, got {value:g}.")


def check_not_negative(key: str, value: float) -> None:
    """Raise UserError unless `value` is at least 0 and finite."""
    if not 0 <= value < math.inf:
        raise UserError(f"{key} must be a number >= 0, got {value}.")


def check_share(key: str, value: float | None) -> None:
    """Raise UserError unless `value` lies strictly between 0 and 1, or is None."""
    if value is not None and not 0 < value < 1:
        raise UserError(f"{key} must lie strictly between 0 and 1, got {value}.")


def check_rounds(name: str, rounds: int | None) -> None:
    """Raise UserError unless there are 1 to `MOST_ROUNDS` rounds, or no number is given."""
    if rounds is not None and not 1 <= rounds <= MOST_ROUNDS:
        raise UserError(f"algo.rounds of {name} must be at least 1 and at most {MOST_ROUNDS}, got {rounds}.")
