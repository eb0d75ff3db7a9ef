"""Sessions that cannot be set up."""

from collections.abc import Callable

import numpy as np
import pytest
from meddling import numbers

from dpml.protocols import ProtocolError, Session, Topology, complete, in_process
from dpml.protocols.party import Party


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (lambda: Session.of(6, 0), "1 to 268435456 entries"),
        (lambda: Session.of(6, 1 << 29), "1 to 268435456 entries"),
        (lambda: Session.of(1, 5), "at least 2 parties"),
        (lambda: Session(6, 5, Topology(3, 2, 4, 1)), "does not suit 6 parties"),
        (lambda: Session(6, 5, Topology(4, 6, 6, 1)), "does not suit 6 parties"),
        (lambda: Session(6, 5, complete(6), name=b"short"), "name of a session has 16 bytes, got 5"),
        (lambda: Party(Session.of(6, 5), 0, np.zeros(4, np.uint64)), "must bring 5 elements of the ring"),
        (lambda: Party(Session.of(6, 5), 0, np.zeros(5)), r"got shapes \(5,\) \(float64\)"),
        (lambda: in_process(Session.of(6, 5), numbers(5, 5)), "of 6 parties got the vectors of 5"),
    ],
)
def test_what_cannot_be_set_up_is_refused(make: Callable[[], object], said: str) -> None:
    with pytest.raises(ProtocolError, match=said):
        make()
