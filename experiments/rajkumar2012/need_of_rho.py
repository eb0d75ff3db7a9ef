"""Attack gradients with and without the noise rho_t^k (Rajkumar & Agarwal 2012, "Are rho_t^k's still necessary?").

Without rho, a party answers every request with its exact gradient plus the same eta, so the difference of two answers
is that of two exact gradients. The third party knows all rows but one, knows two candidates for this row, and chooses
two requests. It guesses the candidate whose difference of gradients is closer to the observed one.
"""

import math
from collections.abc import Sequence

import numpy as np
import pandas as pd

from dpml.privacy import noise
from dpml.reporting.claims import Evidence, Group, NotComputedError
from dpml.reporting.criteria import covers
from dpml.seeds import generator

SURE = 0.999


def guessing(eps: Sequence[float], rows: int = 50, d: int = 5, trials: int = 5_000, seed: int = 0) -> pd.DataFrame:
    """Simulate the attack and return the share of right guesses (`guessed`), by eps and by whether rho is added.

    The rows of a party have norm at most 1, so L = 1. eta and rho have the density of the paper's eq. (2) with beta =
    eps/2. Metric `allowed` is the largest share if both answers are eps-differentially private, e^(2 eps)/(1 + e^(2
    eps)).
    """
    rng = generator(seed, "noise", "need_of_rho")
    X = rng.standard_normal((rows, d))
    X /= np.linalg.norm(X, axis=1)[:, None]
    y = np.where(rng.random(rows) < 0.5, 1.0, -1.0)
    other = X.copy()
    other[0] = -y[0] * y[1] * X[1]  # a changed label alone would shift the gradient by the same vector everywhere
    requests = np.zeros(d), 5 * X[1]
    exact = [[-(Z.T @ (y / (1 + np.exp(y * (Z @ w))))) for w in requests] for Z in (X, other)]
    truth = rng.integers(2, size=trials)
    found = []
    for budget in eps:
        for kept in (False, True):
            eta = noise.l2_laplace(rng, trials, d) * 2 / budget
            rho = [noise.l2_laplace(rng, trials, d) * 2 / budget * kept for _ in requests]
            first, second = (np.array(exact)[truth, k] + eta + rho[k] for k in range(2))
            distance = [np.linalg.norm(first - second - (one[0] - one[1]), axis=1) for one in exact]
            right = int(np.sum((distance[1] < distance[0]) == truth))
            known = {"eps": budget, "rho": "with" if kept else "without", "trials": trials}
            bound = 1 / (1 + math.exp(-2 * budget))
            found += [known | {"metric": "guessed", "value": right / trials}]
            found += [known | {"metric": "allowed", "value": bound}] if kept else []
    return pd.DataFrame(found)


def needed(evidence: Evidence) -> list[Group]:
    """Test that the attack is always right without rho, and with rho at most as often as eps allows."""
    rows = evidence.rows
    if "rho" not in rows or not len(rows):
        raise NotComputedError(["guessing"])
    groups = []
    allowed = rows[rows["metric"] == "allowed"].set_index("eps")["value"]
    for eps, rho, n, share in rows.loc[rows["metric"] == "guessed", ["eps", "rho", "trials", "value"]].to_numpy():
        right, total = round(share * n), int(n)
        # with rho, wrong guesses must be at least as many as the guarantee requires
        one = covers(right, total, SURE) if rho == "without" else covers(total - right, total, 1 - allowed[eps])
        groups.append(Group(f"{rho} rho", "right guesses" if rho == "without" else "wrong guesses", "", {eps: one}))
    return groups
