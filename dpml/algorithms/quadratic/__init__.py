"""Define algorithms that release the noisy coefficients of a quadratic objective once, and minimise the objective."""
