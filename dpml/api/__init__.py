"""Provide the public API of `dpml`: its commands as functions, and estimators for scikit-learn."""
