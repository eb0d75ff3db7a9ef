"""Emulate the solver of Imtiaz et al. 2019 on a quadratic over a box, where it may stop before the minimum.

Imtiaz et al. used the interior-point method of MATLAB's `fmincon` at its defaults. It needs d evaluations of the
objective for a gradient, and stops after 3,000 evaluations, which are 29 steps at d = 101. The solver is not public.
This emulation follows the papers that its manual cites (Byrd, Hribar & Nocedal 1999; Byrd, Gilbert & Nocedal 2000;
Waltz et al. 2006) and uses their constants. Its gradients are exact. Forward differences of a quadratic have an error
of only 1e-8 (the step) times the curvature.
"""

from dataclasses import dataclass, fields

import numpy as np
from numpy.typing import NDArray

from dpml.arrays import Array
from dpml.errors import UserError
from dpml.optim.losses import Loss

EVALUATIONS = 3000  # the largest number of evaluations of the objective: MaxFunctionEvaluations
TOLERANCE = 1e-6  # for gradient and complementarity, relative to the first gradient if that exceeds 1

_BARRIER = 0.1  # the first barrier parameter, InitBarrierParam
_FASTER = 0.2  # multiplies the barrier parameter when its problem is solved up to an error of that parameter
_INSIDE = 0.995  # a step goes at most this share of the way to the boundary
_ARMIJO = 1e-4  # the share of the predicted decrease that a step must reach
_DAMPED = 0.2  # the least curvature along a step, as a share of its previous value (Powell)
_HALVINGS = 40  # the largest number of halvings of one step


def stopped_model(loss: Loss, X: Array, y: Array, lam: float) -> Array:
    """Return the model (d,) where the solver stops on the quadratic expansion of a loss + lam/2 ||w||^2."""
    if loss.quadratic is None:
        raise UserError(f"algo.variant=authors needs loss=squared or loss=logistic, not loss={loss.name}.")
    n, d = X.shape
    A = loss.quadratic.square * (X.T @ X) / n + lam / 2 * np.eye(d)
    return stop_in_box(A[None], (loss.quadratic.linear(y) @ X / n)[None], usual_start(d))[0]


def usual_start(d: int) -> Array:
    """Return the initial model of Imtiaz et al. 2019, which has norm 1 and equal coordinates."""
    return np.full(d, 1 / np.sqrt(d))


def stop_in_box(A: Array, b: Array, start: Array, evaluations: int = EVALUATIONS) -> Array:
    """Return the points where minimising ``w'Aw + b'w`` over ``|w_j| <= 1`` stops, for B problems: (B, d).

    The primal-dual interior-point method has a logarithmic barrier, and damped BFGS from the identity. A step costs one
    evaluation for each step length that is tried, and d evaluations for the next gradient.

    Args:
        A: The symmetric matrices (B, d, d), which may be indefinite.
        b: The linear terms (B, d).
        start: The initial point (d,) in the box, which is moved inside from the boundary.
        evaluations: The number of evaluations after which a problem stops.
    """
    stops = np.broadcast_to(np.clip(start, -_INSIDE, _INSIDE), b.shape).copy()
    state = _State.first(A, b, stops)
    while True:
        done = (state.used >= evaluations) | (state.error(0.0) <= state.tolerance) | state.stuck
        stops[state.number[done]] = state.w[done]
        if done.all():
            return stops
        if done.any():
            state = state.of(~done)
        state.lower_barrier()
        state.step()


@dataclass
class _State:
    """The state of the unfinished problems; every array has a row for each problem."""

    number: NDArray[np.int_]
    A: Array
    w: Array
    gradient: Array
    low: Array  # multipliers of w >= -1
    high: Array  # multipliers of w <= 1
    hessian: Array
    barrier: Array
    used: NDArray[np.int_]
    tolerance: Array
    stuck: NDArray[np.bool_]

    @classmethod
    def first(cls, A: Array, b: Array, w: Array) -> "_State":
        count, d = b.shape
        gradient = _times(A, 2 * w) + b
        return cls(
            number=np.arange(count),
            A=A,
            w=w.copy(),
            gradient=gradient,
            low=_BARRIER / (1 + w),
            high=_BARRIER / (1 - w),
            hessian=np.broadcast_to(np.eye(d), A.shape).copy(),
            barrier=np.full(count, _BARRIER),
            used=np.full(count, d + 1),
            tolerance=TOLERANCE * np.maximum(1.0, np.abs(gradient).max(axis=1, initial=0.0)),
            stuck=np.zeros(count, dtype=bool),
        )

    def of(self, which: NDArray[np.bool_]) -> "_State":
        return _State(*(getattr(self, field.name)[which] for field in fields(self)))

    def error(self, barrier: Array | float) -> Array:
        """Return the largest residual of every problem's optimality conditions with this barrier parameter, (B,)."""
        target = np.broadcast_to(barrier, self.used.shape)[:, None]
        off = self.gradient - self.low + self.high, self.low * (1 + self.w) - target, self.high * (1 - self.w) - target
        return np.max([np.abs(part).max(axis=1, initial=0.0) for part in off], axis=0)

    def lower_barrier(self) -> None:
        while (solved := self.error(self.barrier) <= self.barrier).any():
            self.barrier[solved] *= _FASTER

    def step(self) -> None:
        """Take one interior-point step with a line search in all problems."""
        below, above, mu = 1 + self.w, 1 - self.w, self.barrier[:, None]
        downhill = -(self.gradient - mu / below + mu / above)
        curved = self.hessian.copy()
        np.einsum("bii->bi", curved)[...] += self.low / below + self.high / above
        move = _solve(curved, downhill)
        low = mu / below - self.low - self.low / below * move
        high = mu / above - self.high + self.high / above * move
        length = np.minimum(_room(below, move), _room(above, -move))
        room = np.minimum(_room(self.low, low), _room(self.high, high))[:, None]
        move = self._search(move, length, np.sum(downhill * move, axis=1))
        self.low, self.high = self.low + room * low, self.high + room * high
        self.w = self.w + move
        change = _times(self.A, 2 * move)
        self.gradient = self.gradient + change
        self._damped_bfgs(move, change)
        self.used += move.shape[1]

    def _search(self, move: Array, length: Array, decrease: Array) -> Array:
        """Return `move` times the first of length, length/2, ... that decreases the barrier objective sufficiently."""
        rise, bend = np.sum(self.gradient * move, axis=1), np.sum(move * _times(self.A, move), axis=1)
        bad = np.ones(len(length), dtype=bool)
        for _ in range(_HALVINGS):
            self.used += bad
            moved = self.w + length[:, None] * move
            with np.errstate(divide="ignore"):  # on the boundary the barrier is infinite, so the step is halved
                walls = np.log1p((moved - self.w) / (1 + self.w)) + np.log1p((self.w - moved) / (1 - self.w))
            change = length * rise + length**2 * bend - self.barrier * walls.sum(axis=1)
            bad &= change > -_ARMIJO * length * decrease
            if not bad.any():
                break
            length = np.where(bad, length / 2, length)
        self.stuck = bad
        return np.where(bad, 0.0, length)[:, None] * move

    def _damped_bfgs(self, move: Array, change: Array) -> None:
        expected = _times(self.hessian, move)
        known, seen = np.sum(move * expected, axis=1), np.sum(move * change, axis=1)
        damp = np.where(seen < _DAMPED * known, (1 - _DAMPED) * known / np.where(known > seen, known - seen, 1.0), 1.0)
        change = damp[:, None] * change + (1 - damp)[:, None] * expected
        seen = np.sum(move * change, axis=1)
        good = (known > 0) & (seen > 0)
        expected[good] /= np.sqrt(known[good])[:, None]
        change[good] /= np.sqrt(seen[good])[:, None]
        expected[~good] = change[~good] = 0.0
        self.hessian += change[:, :, None] * change[:, None] - expected[:, :, None] * expected[:, None]


def _times(A: Array, v: Array) -> Array:
    return np.asarray((A @ v[..., None])[..., 0])


def _solve(A: Array, b: Array) -> Array:
    try:
        return np.linalg.solve(A, b[..., None])[..., 0].astype(np.float64, copy=False)
    except np.linalg.LinAlgError:
        return np.array([np.linalg.lstsq(matrix, side)[0] for matrix, side in zip(A, b, strict=True)])


def _room(distance: Array, move: Array) -> Array:
    with np.errstate(divide="ignore", invalid="ignore"):
        steps = np.where(move < 0, -_INSIDE * distance / move, 1.0)
    return np.asarray(np.minimum(1.0, steps.min(axis=1)))
