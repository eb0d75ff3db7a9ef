"""The public API of the package `dpml`: the commands as functions, and estimators for scikit-learn."""
