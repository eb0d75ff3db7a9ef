"""CPU seconds of noisy gradient descent written plainly in PyTorch, printed as one number.

The mean logistic loss of all runs at once, its gradient by autograd, and Gaussian noise of each run's own width: what
Opacus and its relatives do in a step, without sampling and without clipping, which rows in the unit ball do not need.
The command line: a file .npz with X (n, d), y, step and widths (runs,), and the number of rounds.
"""
# /// script
# requires-python = ">=3.11"
# dependencies = ["torch", "numpy"]
# ///

import sys
import time

import numpy as np
import torch

torch.set_num_threads(1)
torch.manual_seed(0)
with np.load(sys.argv[1]) as content:
    X, y = torch.tensor(content["X"], dtype=torch.float32), torch.tensor(content["y"], dtype=torch.float32)
    step, widths = float(content["step"]), torch.tensor(content["widths"], dtype=torch.float32)
w = torch.zeros(X.shape[1], len(widths), requires_grad=True)


def rounds(count: int) -> None:
    """So many rounds of all runs."""
    for _ in range(count):
        loss = torch.nn.functional.softplus(-y[:, None] * (X @ w)).mean(dim=0).sum()
        (gradient,) = torch.autograd.grad(loss, w)
        with torch.no_grad():
            w.sub_(step * (gradient + widths * torch.randn_like(w)))


rounds(1)  # what is set up once is not timed
start = time.process_time()
rounds(int(sys.argv[2]))
print(time.process_time() - start)
