"""The library Opacus: DP-SGD on logistic regression with its Poisson sampling, clipping, noise and PRV accountant.

A batch is a tenth of the rows on average; there are 20 epochs, and the clip is 1. The step size is 2 for all eps and
data sets: the best of a grid on Adult, on average over eps. (4, between values of the grid, would be 0.001 better
there.) Its accountant is for one added or removed row. A replaced row is two such changes, so it gets eps/2 and
delta/(1 + exp(eps/2)). By default the accountant errs by up to 0.01 in eps, on the safe side, which is much for a small
eps. Here it errs by at most eps/200.
"""
# /// script
# requires-python = ">=3.11"
# dependencies = ["multiparty-dp", "opacus==1.6.0", "torch"]
# [tool.uv.sources]
# multiparty-dp = { path = "../..", editable = true }
# ///

import math
import warnings
from functools import cache
from itertools import product

import numpy as np
import torch
from opacus import PrivacyEngine
from opacus.accountants.utils import get_noise_multiplier
from rows import DELTA, DRAWS, EPS, SEEDS, Data, Row, load, on_every_set, run
from torch.utils.data import DataLoader, TensorDataset

from dpml.arrays import Array
from dpml.data import Files

NAME = "Opacus"
BATCHES, EPOCHS, CLIP = 10, 20, 1.0  # batches in an epoch
STEPS = (2.0, 8.0, 32.0)


@cache
def noise_multiplier(eps: float) -> float:
    """Return the noise, in units of the clip, that Opacus finds for neighbours with one added row."""
    return float(
        get_noise_multiplier(
            target_epsilon=eps / 2, target_delta=DELTA / (1 + math.exp(eps / 2)), sample_rate=1 / BATCHES,
            epochs=EPOCHS, accountant="prv", epsilon_tolerance=eps / 200, eps_error=eps / 200,
        )
    )  # fmt: skip


def fitted(data: Data, eps: float, step: float, seed: int) -> Array:
    """Return the scores of the test rows."""
    torch.manual_seed(seed)
    X, y = (torch.as_tensor(each, dtype=torch.float32) for each in (data.X, (data.y > 0).astype(float)))
    model = torch.nn.Linear(X.shape[1], 1, bias=False)
    torch.nn.init.zeros_(model.weight)
    model, optimizer, loader = PrivacyEngine(accountant="prv").make_private(
        module=model,
        optimizer=torch.optim.SGD(model.parameters(), lr=step),
        data_loader=DataLoader(TensorDataset(X, y), batch_size=math.ceil(len(X) / BATCHES)),
        noise_multiplier=noise_multiplier(eps),
        max_grad_norm=CLIP,
    )
    assert loader.sample_rate == 1 / BATCHES
    loss = torch.nn.BCEWithLogitsLoss()
    for _ in range(EPOCHS):
        for batch in loader.batch_sampler:  # Opacus's batches, without copying row by row
            optimizer.zero_grad()
            loss(model(X[batch])[:, 0], y[batch]).backward()
            optimizer.step()
    return np.asarray(data.X_test @ model._module.weight.detach().numpy()[0])


def measure(files: Files) -> tuple[list[Row], list[str]]:
    """Return scores on every data set of two classes, with the step size that is best on Adult."""
    warnings.simplefilter("ignore")
    torch.set_num_threads(1)
    adult = {1000 * seed: load(files, "adult", seed) for seed in SEEDS}

    def accuracy(step: float) -> float:
        scores = (data.scored(fitted(data, eps, step, seed)) for eps, (seed, data) in product(EPS, adult.items()))
        return float(np.mean([each["accuracy"] for each in scores]))

    best = max(STEPS, key=accuracy)

    def scores(data: Data, eps: float, seed: int, draw: int) -> Array:
        return fitted(data, eps, best, 1000 * seed + draw)

    notes = [
        f"{NAME}: its PrivacyEngine on logistic regression, {EPOCHS} epochs of {BATCHES} batches, clip {CLIP:g}, step "
        f"size {best:g}, the best on Adult on average, at eps/2 and delta/(1 + exp(eps/2)), for its accountant (PRV, "
        "error at most eps/200) counts a row more or fewer",
    ]
    return list(on_every_set(files, NAME, scores, lambda data: DRAWS * data.binary)), notes


if __name__ == "__main__":
    run(measure, ["opacus", "torch", "numpy"])
