"""The errors that end a protocol run or refuse a message."""

from dpml.errors import UserError


class ProtocolError(UserError):
    """A run that cannot yield a correct sum, or cannot be started: it ends without a sum."""


class RefusedError(ProtocolError):
    """A refused message: it does not change the receiver's state, and its sender counts as dropped out."""
