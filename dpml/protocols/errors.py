"""Errors of a protocol run and of a message."""

from dpml.errors import UserError


class ProtocolError(UserError):
    """A run that cannot start, or ends without a sum."""


class RefusedError(ProtocolError):
    """A refused message: the receiver's state does not change, and the sender counts as dropped out."""
