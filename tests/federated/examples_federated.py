"""Four clinics with files of their own, the plan that they agree on, and a run in this process."""

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import cycle
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from dpml.data import Dataset
from dpml.data.csv.column_bounds import ColumnBounds, bounds_from
from dpml.data.partition import Parties
from dpml.errors import UserError
from dpml.federated import party
from dpml.federated.aggregator import Federated, aggregate
from dpml.federated.agreed import agreed_of
from dpml.federated.party import Member
from dpml.federated.plan import FederationPlan, Seat
from dpml.files import seal_object
from dpml.privacy import Adversary, Budget
from dpml.protocols import Stage
from dpml.release.ledger import Ledger
from dpml.seeds import generator

STATED = {
    "columns": {"age": {"low": 0, "high": 100}, "bmi": {"low": 10, "high": 60}, "job": ["farm", "mine", "office"]},
    "classes": ["well", "ill"],
}
SIZES = (60, 80, 100, 120)
COMMON = ("eps=1", "delta=1e-5", "dataset.label=health")


@dataclass(frozen=True)
class Clinics:
    """The files, keys and plan of four parties."""

    folder: Path
    plan: FederationPlan
    files: tuple[Path, ...]
    keys: tuple[Ed25519PrivateKey, ...]

    def members(self, seed: int | None = None, **options) -> list[Member]:
        """The parties, with noise of the operating system's or, for a comparison, of one seed."""
        if seed is not None:
            options["source"] = lambda: self.noise(seed)
        return [
            Member(self.plan, key, file, file.with_suffix(".ledger"), **options)
            for key, file in zip(self.keys, self.files, strict=True)
        ]

    def noise(self, seed: int) -> np.random.Generator:
        return generator(seed, "noise", self.plan.algorithm.name, self.plan.algorithm.variant)

    def pooled(self) -> Parties:
        rows = [party.own_rows(self.plan.terms.dataset, self.plan.stated, file) for file in self.files]
        X, y = (np.concatenate(parts) for parts in zip(*rows, strict=True))
        offsets = np.cumsum([0, *(len(labels) for _, labels in rows)])
        data = Dataset("clinics", self.plan.task, X, y, X[:0], y[:0])
        missing = self.plan.colluders + self.plan.dropouts
        return Parties(data, np.arange(len(y)), offsets, X, y, X[:0], Adversary(missing))

    def in_one_process(self, algorithm, seed: int) -> np.ndarray:
        """The model of `algo.protocol=secagg` from all rows in one place."""
        mechanism = algorithm.prepare(self.pooled(), np.random.default_rng(0))
        return mechanism.release([Budget(1.0, 1e-5)], self.noise(seed), 1).weights[0, 0]


@cache
def signing_keys() -> tuple[Ed25519PrivateKey, ...]:
    return tuple(Ed25519PrivateKey.generate() for _ in SIZES)


@cache
def tables() -> tuple[str, ...]:
    rng, files = np.random.default_rng(1), []
    for k, n in enumerate(SIZES):
        age, bmi, job = rng.integers(18, 90, n), rng.normal(26, 4, n).round(1), rng.choice(["farm", "mine"], n)
        ill = rng.random(n) < 1 / (1 + np.exp(-(age - 55) / 10))
        table = pd.DataFrame({"age": age, "bmi": bmi, "job": job, "health": np.where(ill, "ill", "well")})
        if k == 1:  # columns in another order
            table = table[["health", "job", "age", "bmi"]]
        files.append(table.to_csv(index=False))
    return tuple(files)


def agreed(words: tuple[str, ...], columns: ColumnBounds, seats: Sequence[Seat], colluders=1, dropouts=1):
    plan = FederationPlan(agreed_of(words), columns, tuple(seats), colluders, dropouts)
    for key in signing_keys():
        plan = plan.signed(key)
    return plan


@cache
def plan_of(words: tuple[str, ...], colluders: int, dropouts: int) -> FederationPlan:
    public = [key.public_key().public_bytes_raw() for key in signing_keys()]
    seats = [Seat(f"clinic{k}", n, key) for k, (n, key) in enumerate(zip(SIZES, public, strict=True))]
    return agreed((*words, *COMMON), bounds_from(Path("clinics.yaml"), STATED), seats, colluders, dropouts)


def clinics(folder: Path, *setting: str, colluders: int = 1, dropouts: int = 1) -> Clinics:
    files = tuple(folder / f"clinic{k}.csv" for k in range(len(SIZES)))
    for file, content in zip(files, tables(), strict=True):
        file.write_text(content)
    return Clinics(folder, plan_of(setting or ("algo=ssp",), colluders, dropouts), files, signing_keys())


def entries(parties: Clinics) -> list[int]:
    return [len(Ledger(file.with_suffix(".ledger")).entries()) for file in parties.files]


def run(
    members: list[Member], plan: FederationPlan, silent: Mapping[int, Stage] | None = None, first: int = 0
) -> Federated:
    """A release in this process; some parties fall silent, at the message that is named of the sum number `first`."""
    stages = cycle(list(Stage)[: Stage.DONE])
    stage, number = Stage.DONE, -1

    def exchange(mail: Mapping[int, bytes]) -> dict[int, bytes]:
        nonlocal stage, number
        stage = next(stages)
        number += stage is Stage.KEYS
        here = [party for party in mail if number < first or (silent or {}).get(party, Stage.DONE) > stage]
        return {party: members[party].answer(mail[party]) for party in here}

    return aggregate(plan, exchange)


def assert_none_is_received(member: Member, text: str, changes: Iterable[Mapping[str, object]]) -> None:
    """A party publishes no model of which some entries are changed, though its checksum is right."""
    content = json.loads(text)
    del content["checksum"]
    for change in changes:
        with pytest.raises(UserError):
            member.receive_model(json.dumps(seal_object(content | change), indent=1) + "\n", Path("forged.json"))
    assert not Path("forged.json").exists()
