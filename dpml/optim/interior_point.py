"""Emulate the solver of Imtiaz et al. 2019, which may stop before the minimum of a quadratic over a box.

The authors used the interior-point method of MATLAB's `fmincon`, which stops after 3,000 evaluations of the objective.
The emulation has exact gradients, and follows the papers that the manual of `fmincon` cites (Byrd, Hribar & Nocedal
1999; Byrd, Gilbert & Nocedal 2000; Waltz et al. 2006).
"""

import numpy as np
from numpy.typing import NDArray

from dpml.arrays import Array
from dpml.errors import UserError
from dpml.optim.losses import Loss

EVALUATIONS = 3000  # the most evaluations of the objective: `MaxFunctionEvaluations` of `fmincon`
TOLERANCE = 1e-6  # for gradient and complementarity, relative to the first gradient if that exceeds 1

_BARRIER = 0.1  # the first barrier parameter: `InitBarrierParam` of `fmincon`
_FASTER = 0.2  # multiplies the barrier parameter if the barrier problem's residual is at most this parameter
_INSIDE = 0.995  # a step goes at most this share of the way to the boundary
_ARMIJO = 1e-4  # the share of the predicted decrease that a step must reach
_DAMPED = 0.2  # the least curvature along a step, as a share of its previous value (Powell)
_HALVINGS = 40  # the largest number of halvings of one step


def stopped_model(loss: Loss, X: Array, y: Array, lam: float) -> Array:
    """Return the model (d,) at which the solver stops for a loss's quadratic expansion at w = 0 plus lam/2 ||w||^2."""
    if loss.quadratic is None:
        raise UserError(f"algo.variant=authors needs loss=squared or loss=logistic, not loss={loss.name}.")
    n, d = X.shape
    A = loss.quadratic.square * (X.T @ X) / n + lam / 2 * np.eye(d)
    return stop_in_box(A[None], (loss.quadratic.linear(y) @ X / n)[None], usual_start(d))[0]


def usual_start(d: int) -> Array:
    """Return the initial model of Imtiaz et al. 2019, which has norm 1 and equal coordinates."""
    return np.full(d, 1 / np.sqrt(d))


def stop_in_box(A: Array, b: Array, start: Array, evaluations: int = EVALUATIONS) -> Array:
    """Return the points (B, d) at which the solver stops when it minimises ``w'Aw + b'w`` over ``|w_j| <= 1``.

    The matrices A (B, d, d) are symmetric, and may be indefinite. A step costs one evaluation for each step length that
    is tried, and d `evaluations` for the next gradient.
    """
    count, d = b.shape
    w = np.tile(np.clip(start, -_INSIDE, _INSIDE), (count, 1))
    stops, number, gradient = w.copy(), np.arange(count), _times(A, 2 * w) + b
    low, high = _BARRIER / (1 + w), _BARRIER / (1 - w)  # the multipliers of w >= -1 and w <= 1
    hessian, barrier = np.tile(np.eye(d), (count, 1, 1)), np.full(count, _BARRIER)
    used, stuck = np.full(count, d + 1), np.zeros(count, dtype=bool)
    tolerance = TOLERANCE * np.maximum(1.0, np.abs(gradient).max(axis=1, initial=0.0))
    while True:
        stops[number] = w
        solved = _residual(w, gradient, low, high, np.zeros(len(w))) <= tolerance
        open_ = ~(solved | stuck) & (used < evaluations)
        if not open_.any():
            return stops
        if not open_.all():
            number, A, w, gradient, low, high, hessian, barrier, used, tolerance = (
                each[open_] for each in (number, A, w, gradient, low, high, hessian, barrier, used, tolerance)
            )
        while (solved := _residual(w, gradient, low, high, barrier) <= barrier).any():
            barrier[solved] *= _FASTER
        below, above, mu = 1 + w, 1 - w, barrier[:, None]
        downhill = -(gradient - mu / below + mu / above)
        curved = hessian.copy()
        np.einsum("bii->bi", curved)[...] += low / below + high / above
        move = _solve(curved, downhill)
        more_low = mu / below - low - low / below * move
        more_high = mu / above - high + high / above * move
        room = np.minimum(_room(low, more_low), _room(high, more_high))[:, None]
        low, high = low + room * more_low, high + room * more_high
        length = np.minimum(_room(below, move), _room(above, -move))
        length, tries, stuck = _searched(A, w, gradient, barrier, move, length, np.sum(downhill * move, axis=1))
        move = length[:, None] * move
        change = _times(A, 2 * move)
        w, gradient = w + move, gradient + change
        _update(hessian, move, change)
        used += tries + d


def _residual(w: Array, gradient: Array, low: Array, high: Array, barrier: Array) -> Array:
    target = barrier[:, None]
    off = gradient - low + high, low * (1 + w) - target, high * (1 - w) - target
    return np.max([np.abs(part).max(axis=1, initial=0.0) for part in off], axis=0)


def _searched(  # noqa: PLR0913 - a problem, a step, and the promised decrease
    A: Array, w: Array, gradient: Array, barrier: Array, move: Array, length: Array, decrease: Array
) -> tuple[Array, NDArray[np.int_], NDArray[np.bool_]]:
    """Halve steps until the barrier objective decreases; return the step lengths, numbers of tries, and failures."""
    rise, bend = np.sum(gradient * move, axis=1), np.sum(move * _times(A, move), axis=1)
    bad, tries = np.ones(len(length), dtype=bool), np.zeros(len(length), dtype=int)
    for _ in range(_HALVINGS):
        tries += bad
        moved = w + length[:, None] * move
        with np.errstate(divide="ignore"):  # on the boundary the barrier is infinite, so the step is halved
            walls = np.log1p((moved - w) / (1 + w)) + np.log1p((w - moved) / (1 - w))
        change = length * rise + length**2 * bend - barrier * walls.sum(axis=1)
        bad &= change > -_ARMIJO * length * decrease
        if not bad.any():
            break
        length = np.where(bad, length / 2, length)
    return np.where(bad, 0.0, length), tries, bad


def _update(hessian: Array, move: Array, change: Array) -> None:
    expected = _times(hessian, move)
    known, seen = np.sum(move * expected, axis=1), np.sum(move * change, axis=1)
    damp = np.where(seen < _DAMPED * known, (1 - _DAMPED) * known / np.where(known > seen, known - seen, 1.0), 1.0)
    change = damp[:, None] * change + (1 - damp)[:, None] * expected
    seen = np.sum(move * change, axis=1)
    good = (known > 0) & (seen > 0)
    expected[good] /= np.sqrt(known[good])[:, None]
    change[good] /= np.sqrt(seen[good])[:, None]
    expected[~good] = change[~good] = 0.0
    hessian += change[:, :, None] * change[:, None] - expected[:, :, None] * expected[:, None]


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
