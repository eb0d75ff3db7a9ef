"""The whole of it through Flower: nodes, an aggregator and parties on loopback."""

import threading
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from examples_federated import Clinics, clinics

from dpml.federated.local import Federation, federation
from dpml.federated.party import Member, serve
from dpml.release.model import read_model

pytestmark = [
    pytest.mark.slow,
    pytest.mark.filterwarnings("default"),
]


class Seat:
    """Where a party listens; who it is changes from run to run."""

    member: Member

    def answer(self, said: bytes) -> bytes:
        return self.member.answer(said)


@pytest.fixture(scope="module")
def seats() -> list[Seat]:
    return [Seat() for _ in range(4)]


@pytest.fixture(scope="module")
def flower(seats, tmp_path_factory) -> Iterator[Federation]:
    pytest.importorskip("flwr", reason="Flower is not installed: pip install -e '.[federated]'")
    folder = tmp_path_factory.mktemp("f")
    sockets = [folder / f"{k}" for k in range(len(seats))]
    for seat, socket in zip(seats, sockets, strict=True):
        threading.Thread(target=serve, args=(seat, socket), daemon=True).start()
    with federation(sockets, folder / "run") as made:
        yield made


def released(flower: Federation, seats: list[Seat], parties: Clinics, members: list[Member], timeout: float) -> Path:
    for seat, member in zip(seats, members, strict=True):
        seat.member = member
    plan, output = parties.folder / "plan.yaml", parties.folder / "model.json"
    plan.write_text(parties.plan.text)
    said = flower.run(plan, output, timeout=timeout)
    assert output.exists(), said
    return output


@pytest.mark.parametrize(
    "words",
    [
        ("algo=ssp",),
        ("algo=ssp", "algo.noise=discrete"),
        ("algo=ssp_descent", "algo.rounds=2"),
        ("algo=dpgd", "algo.rounds=2", "algo.unit=party"),
        ("algo=psgd", "algo.rounds=2"),
    ],
    ids=" ".join,
)
def test_flower_carries_the_model_of_one_process_bit_for_bit(flower, seats, tmp_path, words) -> None:
    parties = clinics(tmp_path, *words)
    output = released(flower, seats, parties, parties.members(seed=5), timeout=300)
    alone = parties.in_one_process(replace(parties.plan.algorithm, protocol="secagg"), seed=5)
    assert read_model(output).weights[0].tobytes() == alone.tobytes()


def test_a_node_that_is_killed_in_the_middle_is_done_without(flower, seats, tmp_path) -> None:
    """After it has shared its keys, before its vector is in the sum."""
    parties = clinics(tmp_path, "algo=capefm")
    members = parties.members()
    answered = 0
    answer = members[2].answer

    def dying(said: bytes) -> bytes:
        nonlocal answered
        answered += 1
        if answered == 3:
            flower.nodes[2].kill()
        return answer(said)

    members[2].answer = dying  # type: ignore[method-assign]
    model = read_model(released(flower, seats, parties, members, timeout=120))
    assert np.isfinite(model.weights).all()
    assert answered == 3
