"""CPU seconds of diffprivlib's LogisticRegression on some rows, one fit for every eps; printed as one number.

The command line: a file .npz with X and y, and the values of eps. Objective perturbation (Chaudhuri, Monteleoni &
Sarwate 2011), with the library's own defaults, without intercept.
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

warnings.simplefilter("ignore")  # that a fit stops at its limit of iterations
with np.load(sys.argv[1]) as content:
    X, y = content["X"], content["y"]
start = time.process_time()
for eps in map(float, sys.argv[2:]):
    LogisticRegression(epsilon=eps, data_norm=1.0, fit_intercept=False, random_state=0).fit(X, y)
print(time.process_time() - start)
