"""A quadratic objective's coefficients, released with noise: one message, and the minimiser of what is received."""
