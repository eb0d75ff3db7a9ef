"""The server refuses every fault on the way to it, in words, and has the sum of the others all the same."""

import pytest
from meddling import TO_SERVER, a_run, repacked

from dpml.protocols import ProtocolError, RefusedError, Stage
from dpml.protocols.messages import Kind


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
