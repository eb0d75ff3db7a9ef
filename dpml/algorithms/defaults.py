"""Defaults that were chosen on data, and on which: none reads the rows of a release."""

# `outpert`: the norm of w* that its ridge is best for, on Adult.
OUTPUT_NORM = 4.0

# `gop`, `objpert`, `psgd`: the same for theirs. Where lam is small, the best ridges for wdbc, adult and synthetic rows
# are those for norms of 8 to 27.
TYPICAL_NORM = 10.0
