"""Why a protocol run stops, and why a message is refused."""

from dpml.errors import UserError


class ProtocolError(UserError):
    """A run that cannot end with a right sum, or cannot be started: it ends without a sum."""


class RefusedError(ProtocolError):
    """A message that is not taken: it leaves the receiver as it was, and whoever sent it counts as dropped out."""
