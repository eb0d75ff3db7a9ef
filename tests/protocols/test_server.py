"""The server refuses every fault on the way to it, in words, and has the sum of the others all the same."""

import pytest
from meddling import TO_SERVER, D, a_run, numbers, repacked

from dpml.protocols import ProtocolError, RefusedError, Session, Stage, complete
from dpml.protocols.identities import enrol
from dpml.protocols.messages import Kind
from dpml.protocols.party import Party
from dpml.protocols.server import Server


@pytest.mark.parametrize("fault", TO_SERVER)
def test_a_fault_on_the_way_to_the_server(fault: str) -> None:
    stage, change, reason = TO_SERVER[fault]
    run = a_run()

    def meddle(k: int, message: bytes) -> list[bytes]:
        return change(message, run) if k == 2 and run.server.stage is stage else [message]

    with pytest.raises(ProtocolError, match="there is no sum yet"):
        _ = run.server.total
    run.go(to_server=meddle)
    run.assert_exact()
    assert len(run.refused) == 1
    assert reason in run.refused[0]
    lost = stage <= Stage.MASKED and fault not in ("replayed", "tampered share", "another's sealed shares")
    assert (2 in run.server.survivors) is not lost


def test_a_message_of_an_earlier_stage_is_refused() -> None:
    run, old = a_run(), {}

    def meddle(k: int, message: bytes) -> list[bytes]:
        old.setdefault(k, message)
        return [message, old[k]] if run.server.stage is Stage.MASKED and k == 1 else [message]

    run.go(to_server=meddle).assert_exact()
    assert len(run.refused) == 1
    assert "KEYS came from party 1 when MASKED was due" in run.refused[0]


def test_a_second_party_of_the_same_number_is_refused() -> None:
    session, signers = enrol(Session.of(3, D, complete(3, 2)))
    server = Server(session)
    server.receive(Party(session, 0, signers[0], numbers(3, D)[0]).start())
    with pytest.raises(RefusedError, match="already"):
        server.receive(Party(session, 0, signers[0], numbers(3, D)[1]).start())


def test_who_dropped_out_does_not_come_back() -> None:
    run, kept, late = a_run(), [], []

    def meddle(k: int, message: bytes) -> list[bytes]:
        if k == 4 and run.server.stage is Stage.MASKED:
            kept.append(repacked(message, run, kind=Kind.UNMASK))
            return []
        if k == 0 and run.server.stage is Stage.UNMASK:
            with pytest.raises(RefusedError) as caught:
                run.server.receive(kept[0])
            late.append(str(caught.value))
        return [message]

    run.go(to_server=meddle).assert_exact()
    assert len(late) == 1
    assert "has dropped out before" in late[0]
