"""Losses and their minimisers: no noise."""

from dpml.errors import UserError


class NotConvergedError(UserError):
    """A minimiser stopped short of its tolerance, so the result must not be reported; says what would help."""
