"""What the aggregator and a party say of how far a release is."""

import re
import time
from types import SimpleNamespace

import pytest
from examples_federated import clinics, run

from dpml.cli import federate
from dpml.federated import progress
from dpml.federated.aggregator import aggregate
from dpml.federated.kept import Kept
from dpml.federated.progress import Clock, answering

WORDS = ("algo=ssp_descent", "algo.rounds=3")  # four secure sums


@pytest.mark.parametrize(("before", "done", "left"), [(0, 1, "30"), (0, 2, "10"), (2, 3, "10"), (1, 2, "20")])
def test_the_time_that_is_left_is_by_the_sums_of_this_process(before, done, left) -> None:
    """Ten seconds since the start, of four sums; those of an earlier process took no time of this one."""
    clock = Clock(4, before, time.monotonic() - 10)
    assert clock.said("sum", done) == f"sum {done} of 4: 10.0 s, about {left} s left"
    assert clock.said("sum", 4, ", of all") == "sum 4 of 4, of all: 10.0 s"


def test_a_party_says_which_sums_have_its_vector(tmp_path, capsys) -> None:
    """Also one that was started again; messages without a vector say nothing."""
    parties = clinics(tmp_path, *WORDS)
    members = parties.members()
    reporting = [SimpleNamespace(answer=answering(members[0])), *members[1:]]
    run(reporting, parties.plan)
    lines = capsys.readouterr().out.splitlines()
    assert [re.sub(r"[\d.]+ s", "T", line) for line in lines] == [
        *(f"sent to sum {k} of 4: T, about T left" for k in (1, 2, 3)),
        "sent to sum 4 of 4: T",
    ]


def test_a_party_that_comes_late_counts_from_there(monkeypatch) -> None:
    clocks = []
    monkeypatch.setattr(progress, "Clock", lambda *of: clocks.append(of) or Clock(*of))
    member = SimpleNamespace(reached=0, plan=SimpleNamespace(sums=SimpleNamespace(lengths=(1,) * 9)))

    def answer(said: bytes) -> bytes:
        member.reached = max(member.reached, said[0])
        return said

    member.answer = answer
    heard = answering(member)
    assert [heard(bytes([k])) for k in (0, 6, 6, 7)] == [bytes([k]) for k in (0, 6, 6, 7)]
    assert [(whole, before) for whole, before, _ in clocks] == [(9, 5)]


def test_an_aggregator_that_is_started_again_counts_its_own_sums(tmp_path, monkeypatch, capsys) -> None:
    parties = clinics(tmp_path, *WORDS)
    kept = Kept(tmp_path / "model.json.sums", parties.plan)
    members = parties.members()
    heard = []

    def exchange(mail):
        if len(heard) == 2 * 5:
            raise KeyboardInterrupt
        heard.append(mail)
        return {k: members[k].answer(said) for k, said in mail.items()}

    with pytest.raises(KeyboardInterrupt):
        aggregate(parties.plan, range(4), exchange, kept=kept)
    heard.clear()
    called = SimpleNamespace(await_all=lambda wait: None, exchange=exchange, end=lambda text: None)
    federate._aggregate(parties.plan, called, SimpleNamespace(wait=0, output=tmp_path / "model.json"), kept)
    lines = [re.sub(r"[\d.]+ s", "T", line) for line in capsys.readouterr().err.splitlines()]
    assert lines == [
        "sum 3 of 4, of 4 of 4 parties: T, about T left",
        "sum 4 of 4, of 4 of 4 parties: T",
    ]
