"""What the aggregator and a party say of how far a release is."""

from types import SimpleNamespace

import pytest
from examples_federated import clinics, run

from dpml.cli import federate
from dpml.federated import party
from dpml.federated.aggregator import Kept, aggregate

WORDS = ("algo=ssp_descent", "algo.rounds=3")  # four secure sums


def test_a_party_says_which_sums_have_its_vector(tmp_path, monkeypatch) -> None:
    parties = clinics(tmp_path, *WORDS)
    with monkeypatch.context() as patch:
        patch.setattr(party, "print", lambda *line, **_: lines.append(line[0]), raising=False)
        lines: list[str] = []
        members = parties.members()
        run(members, parties.plan)
    assert lines == [f"sent to sum {k} of 4" for k in (1, 2, 3, 4) for _ in members]


def test_an_aggregator_says_which_sums_are_done_also_after_a_restart(tmp_path, monkeypatch, capsys) -> None:
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
    federate._aggregate(parties.plan, called, 0, tmp_path / "model.json", kept)
    lines = capsys.readouterr().err.splitlines()
    assert lines == [f"sum {k} of 4, of 4 of 4 parties" for k in (1, 2, 3, 4)]
