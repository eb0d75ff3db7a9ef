"""CPU seconds of diffprivlib's LogisticRegression on some rows, one fit for every eps; printed as one number.

The command line: a file .npz with X, y and C = 1 / (lam n), and the values of eps. Objective perturbation (Chaudhuri,
Monteleoni & Sarwate 2011) without intercept, of the objective that ours has, and to its minimum: the library's own
tolerance stops after one or two steps.
"""
# /// script
# requires-python = ">=3.11"
# dependencies = ["diffprivlib==0.6.6", "scikit-learn<1.7", "numpy"]
# ///

import sys
import time
import warnings

import numpy as np
from diffprivlib.models import LogisticRegression

warnings.simplefilter("ignore")  # of options that SciPy no longer has
with np.load(sys.argv[1]) as content:
    X, y, C = content["X"], content["y"], float(content["C"])
start = time.process_time()
for eps in map(float, sys.argv[2:]):
    model = LogisticRegression(
        epsilon=eps, data_norm=1.0, C=C, tol=1e-8, max_iter=10_000, fit_intercept=False, random_state=0
    )
    model.fit(X, y)
print(time.process_time() - start)
