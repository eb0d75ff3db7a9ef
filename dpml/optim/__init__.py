"""Losses and their minimisers, without noise."""

from dpml.errors import UserError


class NotConvergedError(UserError):
    """A minimiser stopped before it reached its tolerance, so the result must not be reported."""
