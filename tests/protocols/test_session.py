"""Sessions that cannot be set up."""

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest
from meddling import numbers

from dpml.protocols import ProtocolError, Session, Topology, complete, in_process
from dpml.protocols.identities import enrol
from dpml.protocols.party import Party
from dpml.protocols.server import Server

ENROLLED, SIGNERS = enrol(Session.of(6, 5))


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (lambda: Session.of(6, 0), "1 to 268435456 entries"),
        (lambda: Session.of(6, 1 << 29), "1 to 268435456 entries"),
        (lambda: Session.of(1, 5), "at least 2 parties"),
        (lambda: Session(6, 5, Topology(3, 2, 4, 1)), "does not suit 6 parties"),
        (lambda: Session(6, 5, Topology(4, 6, 6, 1)), "does not suit 6 parties"),
        (lambda: Session(9, 5, Topology(4, 3, 5, 1)), "a quorum of 5 does not protect 9 parties against.* is 6"),
        (lambda: Session(6, 5, complete(6), name=b"short"), "name of a session has 16 bytes, got 5"),
        (
            lambda: Session(6, 5, Topology(5, 2, 5, 2)),
            "a threshold of 2 does not protect 6 parties against 2 colluders",
        ),
        (lambda: replace(ENROLLED, identities=ENROLLED.identities[:5]), "6 parties need as many different identities"),
        (lambda: replace(ENROLLED, identities=ENROLLED.identities[:1] * 6), "as many different identities"),
        (lambda: replace(ENROLLED, identities=(b"short", *ENROLLED.identities[1:])), "identities of 32 bytes"),
        (lambda: Party(ENROLLED, 0, SIGNERS[0], np.zeros(4, np.uint64)), "must bring 5 elements of the ring"),
        (lambda: Party(ENROLLED, 0, SIGNERS[0], np.zeros(5)), r"got shapes \(5,\) \(float64\)"),
        (lambda: Party(ENROLLED, 0, SIGNERS[1], np.zeros(5, np.uint64)), "the signing key of its identity"),
        (lambda: Party(Session.of(6, 5), 0, SIGNERS[0], np.zeros(5, np.uint64)), "session are not enrolled"),
        (lambda: Server(Session.of(6, 5)), "session are not enrolled"),
        (lambda: in_process(Session.of(6, 5), numbers(5, 5)), "of 6 parties got the vectors of 5"),
    ],
)
def test_what_cannot_be_set_up_is_refused(make: Callable[[], object], said: str) -> None:
    with pytest.raises(ProtocolError, match=said):
        make()
