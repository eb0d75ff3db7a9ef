"""The aggregator: it runs the rounds of secure sums over any relay, and computes the model."""

import hashlib
import os
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from dpml.arrays import Array, Index
from dpml.atomic import write_atomically
from dpml.errors import UserError
from dpml.federated.opening import MESSAGE, OPEN, Opening
from dpml.federated.plan import FederationPlan
from dpml.federated.sums import Summed
from dpml.printable import printable
from dpml.protocols.errors import RefusedError
from dpml.protocols.messages import SESSION_BYTES
from dpml.protocols.server import Server
from dpml.protocols.session import Stage
from dpml.protocols.transports import advance
from dpml.release.model import Model
from dpml.running.environment import provenance

Exchange = Callable[[Mapping[int, bytes]], Mapping[int, bytes]]
"""Send a message to each of some nodes and collect the answers that arrive in time; silent nodes have none."""


@dataclass(frozen=True)
class Federated:
    """A model, the survivors (the parties in at least its first secure sum), and the refused messages."""

    model: Model
    survivors: Index
    refused: tuple[str, ...]


_SHOWN = 200  # bytes of what a party says of itself

Progress = Callable[[int, int], None]
"""Told after every sum: how many are done, and of how many parties the last one is."""


def aggregate(
    plan: FederationPlan, nodes: Iterable[int], exchange: Exchange, progress: Progress = lambda *_: None
) -> Federated:
    """Run the rounds of one release with the parties behind some nodes.

    Raises:
        UserError: a party has not signed the plan.
        ProtocolError: too few parties are left: there is no sum and no model.
    """
    plan.require_signatures()
    run = _Run(plan, nodes, exchange, progress)
    weights = plan.sums.model(run.ask)
    return Federated(_model(plan, weights[None]), np.array(sorted(run.seen), dtype=np.intp), tuple(run.refused))


class _Run:
    """The secure sums of a release, one after the other. A party that drops out of one may be in the next."""

    def __init__(self, plan: FederationPlan, nodes: Iterable[int], exchange: Exchange, progress: Progress) -> None:
        self._plan, self._nodes, self._exchange, self._progress = plan, tuple(nodes), exchange, progress
        self._number = 0
        self.refused: list[str] = []
        self.seen: set[int] = set()  # the parties whose rows are in a sum

    def ask(self, told: bytes) -> Summed:
        """The next sum (`dpml.federated.sums.Ask`)."""
        opening = Opening(os.urandom(SESSION_BYTES), self._plan.digest, self._number, told)
        server = Server(self._plan.session(opening))
        mail = dict.fromkeys(self._nodes, OPEN + opening.content)
        party_of: dict[int, int] = {}
        while server.stage is not Stage.DONE:
            for node, answer in sorted(self._exchange(mail).items()):
                try:
                    if answer[:1] != MESSAGE:
                        raise RefusedError(printable(answer[1 : _SHOWN + 1].decode("utf-8", "replace")))
                    party_of.setdefault(node, server.receive(answer[1:], party_of.get(node)))
                except RefusedError as error:
                    self.refused.append(str(error))
            node_of = {party: node for node, party in party_of.items()}
            mail = {node_of[party]: MESSAGE + message for party, message in advance(server, self.refused).items()}
        self._number += 1
        self.refused += server.liars.values()
        self.seen.update(server.survivors.tolist())
        self._progress(self._number, len(server.survivors))
        return Summed(server.total, server.beside, server.survivors)


def _model(plan: FederationPlan, weights: Array) -> Model:
    return Model(
        task=plan.task,
        loss=plan.algorithm.loss.name,
        label=str(plan.dataset.label),
        stated=plan.stated,
        steps=plan.dataset.steps,
        weights=weights,
        guarantees=tuple(plan.guarantees),
        statement=plan.statement,
        certificate=plan.facts.certificate,
        setting=" ".join(plan.terms.words),
        versions=provenance()["versions"],
    )


def publish(made: Federated, place: Path) -> str:
    """Write the model to the path `place`, which must not exist; returns its SHA-256.

    Raises:
        UserError: the path exists.
    """
    check_free(place)
    text = made.model.text()
    write_atomically(place, text)
    return hashlib.sha256(text.encode()).hexdigest()


def check_free(place: Path) -> None:
    """Raise UserError if the path `place` exists."""
    if place.exists():
        raise UserError(f"{place} is there already: choose another name, a published model is not overwritten.")
