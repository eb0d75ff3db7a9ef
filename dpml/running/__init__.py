"""Plan, compute and store the results of runs and experiments."""
