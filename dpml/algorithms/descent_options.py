"""The hyper-parameters of noisy descents, their checks, and the constants that follow from them."""

import math
from dataclasses import dataclass, field
from typing import ClassVar

from dpml.algorithms.hyperparameters import check_choice, check_common, check_positive
from dpml.algorithms.step_sizes import CHOSEN, CLIP, TUNED, Tuned
from dpml.errors import UserError
from dpml.optim import descent
from dpml.optim.losses import Loss
from dpml.optim.slopes import CLIPPED, Slopes
from dpml.privacy import Calibration, View


@dataclass(frozen=True)
class DescentOptions:
    """The hyper-parameters, and the constants of the loss that follow from them.

    Args:
        loss: logistic; sigmoid, which is not convex; or squared, whose slopes have no bound of their own, so that only
            `tight` noise, with a clip, is enough for it.
        calibration: `published` noise, or `tight`: the least that is proven for the view that `protects` names.
        variant: `paper`, as the text defines it.
        lam: coefficient of lam/2 ||w||^2, part of the objective; it depends on no row, so it changes no sensitivity.
        rounds: T.
        c: the constant of the published noise, sigma^2 = c G^2 T ln(1/delta) / (N eps)^2 (M n_min for N with
            `jayaraman`). The paper says "some constant"; its proof's inequalities need 16.
        tuned: the step size is by `rule` (`step_sizes.rule`), which reads no row; `private`: one of `steps`, chosen by
            noisy scores that the budget covers; `oracle`: the one of `steps` with the least training objective;
            `validated`: the one that does best on rows held out of training (`step_sizes.held_out`); both read the
            private rows, and no budget counts them; `fixed`: `step`.
        step: the fixed step size; None: 1/L, L = smoothness of the loss + lam. A number makes `rule` `fixed`.
        steps: the step sizes that `private`, `oracle` and `validated` try.
        protects: the view that `tight` noise is calibrated to.
        clip: the bound on a row's slope, which is then G (`Slopes`); for `tight` noise only, as no paper here has one.
            None: `step_sizes.CLIP`, or for the sigmoid loss none.
    """

    name: ClassVar[str]
    auxiliary: ClassVar[float] = 0.0
    claim: ClassVar[str]
    variants: ClassVar[tuple[str, ...]] = ("paper",)
    protectable: ClassVar[tuple[View, ...]]

    loss: Loss
    calibration: Calibration = "published"
    variant: str = "paper"
    lam: float = 0.0
    rounds: int = 1000
    c: float = 16.0
    tuned: Tuned = "rule"
    step: float | None = None
    steps: tuple[float, ...] = (0.01, 0.05, 0.1, 0.5, 1.0)
    protects: View = "aggregate"
    clip: float | None = None
    ruled: tuple[str, ...] = field(init=False, default=())  # hyper-parameters that a rule set

    def __post_init__(self) -> None:
        check_common(self, (*descent.LOSSES, "squared"), self.variants)
        check_choice("algo.tuned", self.tuned, TUNED)
        check_choice("algo.protects", self.protects, self.protectable)
        self._set_clip()
        if self.rounds < 1:
            raise UserError(f"algo.rounds must be at least 1, got {self.rounds}.")
        check_positive("algo.c", self.c)
        if not self.steps or not all(0 < step < math.inf for step in self.steps):
            raise UserError(f"algo.steps must be a list of positive numbers, got {list(self.steps)}.")
        if self.tuned == "private" and self.calibration != "tight":
            raise UserError(
                "algo.tuned=private divides a budget among its candidates and needs calibration=tight, "
                f"not calibration={self.calibration}."
            )
        if self.step is not None:
            check_positive("algo.step", self.step)
            if self.tuned in CHOSEN:
                raise UserError(f"algo.step is a fixed step size: set it to null with algo.tuned={self.tuned}.")
            object.__setattr__(self, "tuned", "fixed")

    def _set_clip(self) -> None:
        """Check the clip, and where `tight` noise has none, set it."""
        if self.clip is not None:
            check_positive("algo.clip", self.clip)
            if self.calibration == "published":
                raise UserError(f"algo.clip needs calibration=tight: the published noise of algo={self.name} has none.")
            if self.loss.name not in CLIPPED:
                needed = " or ".join(f"loss={name}" for name in CLIPPED)
                raise UserError(f"algo.clip needs {needed}, not loss={self.loss.name}.")
        elif self.calibration == "tight" and self.loss.name in CLIPPED:
            object.__setattr__(self, "clip", CLIP)
            object.__setattr__(self, "ruled", ("clip",))
        elif self.loss.lipschitz is None:
            raise UserError(
                f"loss={self.loss.name} is not Lipschitz, so that algo={self.name} has to clip its slopes: set "
                f"calibration=tight, where algo.clip is {CLIP} unless it is set."
            )

    @property
    def slopes(self) -> Slopes:
        """The loss's slopes, clipped or not: they make the gradients."""
        return Slopes(self.loss, self.clip)

    @property
    def lipschitz(self) -> float:
        """G: the clip, or the loss's true Lipschitz constant: 1 for logistic, as in the paper, 1/4 for sigmoid."""
        return self.slopes.lipschitz

    @property
    def largest(self) -> float:
        """1/L, the paper's step."""
        return 1 / (self.slopes.smoothness + self.lam)

    def contraction(self, step: float) -> float:
        """The Lipschitz constant of a round in w."""
        least = self.lam if self.loss.convex else self.lam - self.slopes.smoothness
        return max(abs(1 - step * least), abs(1 - step / self.largest))
