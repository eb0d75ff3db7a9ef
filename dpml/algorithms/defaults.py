"""The constants that were chosen on data, and on which: the rows of no other data set had a say.

All are public, and none is read from the rows of a run. "Adult" is UCI Adult with one-hot features in the unit ball,
eps = .05 to 1 unless said otherwise; "Crime" is Communities and Crime.
"""

QUADRATIC_NORM = {"squared": 2.0, "logistic": 4.0}
"""The norm of w at which `tight` makes the noise in a quadratic objective's gradient least, unless `radius` says
otherwise; on no data. For w of any norm up to 8, the published split of the same mu has at least 1.3 times the energy of
that noise (squared), or at least 0.96 times (logistic)."""

SPECTRAL_FLOOR = 0.42
"""The least eigenvalue that a noisy L2 is left with, in units of the spectral edge of its noise. On Adult."""
