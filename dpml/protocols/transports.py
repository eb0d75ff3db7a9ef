"""Run secure aggregation with all parties in one process, and define the outcome of a run."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from dpml.arrays import Array, Index
from dpml.protocols.codec import Ring
from dpml.protocols.identities import enrol
from dpml.protocols.messages import ProtocolError, RefusedError
from dpml.protocols.party import Party
from dpml.protocols.server import Server
from dpml.protocols.session import Session, Stage


@dataclass(frozen=True)
class Traffic:
    """The numbers of bytes, (M,) each, that every party sent to the server and received from the server."""

    sent: Index
    received: Index

    @property
    def server(self) -> int:
        return int(self.sent.sum() + self.received.sum())


@dataclass(frozen=True)
class Outcome:
    """The sum of the survivors' vectors modulo 2^64, the numbers that they sent unmasked, and the traffic."""

    total: Ring
    survivors: Index
    beside: Array
    refused: tuple[str, ...] = ()
    traffic: Traffic = Traffic(np.empty(0, np.intp), np.empty(0, np.intp))


Dropouts = Mapping[int, Stage]
"""Parties that drop out, and the first message that each does not send."""


Transport = Callable[[Session, Ring, Array | None, Dropouts | None], Outcome]
"""A function that runs a session, given the parties' vectors (M, length) and openly sent numbers (M, beside).

It first enrols the parties, with new signing keys.
"""


def in_process(
    session: Session, inputs: Ring, beside: Array | None = None, dropouts: Dropouts | None = None
) -> Outcome:
    """Run a session with all parties in this process; every message is encoded as bytes and decoded."""
    silent = dropouts or {}
    session, signers = enrol(session)
    server = Server(session)
    floats = np.empty((session.parties, 0)) if beside is None else beside
    parties = [
        Party(session, k, signer, lambda k=k: (inputs[k], floats[k]))  # type: ignore[misc]
        for k, signer in enumerate(signers)
    ]
    sent, received = (np.zeros(session.parties, dtype=np.intp) for _ in range(2))
    refused: list[str] = []
    mail: Mapping[int, bytes] = {}
    while server.stage is not Stage.DONE:
        for k in sorted(server.waiting):
            payload = mail.get(k, b"")
            received[k] += len(payload)
            if silent.get(k, Stage.DONE) <= server.stage:
                continue
            try:
                message = parties[k].start() if server.stage is Stage.KEYS else parties[k].receive(payload)
                sent[k] += len(message)
                server.receive(message, k)
            except RefusedError as error:
                refused.append(str(error))
        mail = advance(server, refused)
    refused += server.liars.values()
    return Outcome(server.total, server.survivors, server.beside, tuple(refused), Traffic(sent, received))


def advance(server: Server, refused: Sequence[str]) -> Mapping[int, bytes]:
    """Call `Server.advance`; if the run ends without a sum, add why the server or a party first refused a message."""
    try:
        return server.advance()
    except ProtocolError as error:
        if not refused:
            raise
        count = f", the first of {len(refused)} such messages" if len(refused) > 1 else ""
        raise ProtocolError(f"{error} Refused{count}: {refused[0]}") from None
