"""The two array types that the subpackages exchange."""

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]
"""Real numbers."""

Index = NDArray[np.intp]
"""Whole numbers: row numbers, counts, offsets."""
