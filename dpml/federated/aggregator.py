"""The aggregator: it carries the rounds of a secure sum over whatever relays them, and makes the model of the sum."""

import hashlib
import os
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from dpml.arrays import Array, Index
from dpml.atomic import write_atomically
from dpml.errors import UserError
from dpml.federated.plan import Plan
from dpml.federated.relay import MESSAGE, OPEN
from dpml.protocols.errors import RefusedError
from dpml.protocols.messages import SESSION_BYTES
from dpml.protocols.server import Server
from dpml.protocols.session import Stage
from dpml.protocols.transports import advance
from dpml.release.model import Model
from dpml.running.environment import provenance

Exchange = Callable[[Mapping[int, bytes]], Mapping[int, bytes]]
"""Bring something to each of some nodes, and what they answer within a time: of those that are silent there is none."""


@dataclass(frozen=True)
class Federated:
    """A model of the survivors' rows, and what was refused on the way."""

    model: Model
    survivors: Index
    refused: tuple[str, ...]


def aggregate(plan: Plan, nodes: Iterable[int], exchange: Exchange) -> Federated:
    """Run the rounds of one release with the parties behind some nodes.

    Raises:
        ProtocolError: too few parties are left: there is no sum and no model.
    """
    name = os.urandom(SESSION_BYTES)
    server = Server(plan.session(name))
    mail = dict.fromkeys(nodes, OPEN + name + plan.digest.encode())
    party_of: dict[int, int] = {}
    refused: list[str] = []
    while server.stage is not Stage.DONE:
        for node, answer in sorted(exchange(mail).items()):
            try:
                if answer[:1] != MESSAGE:
                    raise RefusedError(answer[1:].decode("utf-8", "replace"))
                party_of.setdefault(node, server.receive(answer[1:], party_of.get(node)))
            except RefusedError as error:
                refused.append(str(error))
        node_of = {party: node for node, party in party_of.items()}
        mail = {node_of[party]: MESSAGE + message for party, message in advance(server, refused).items()}
    survivors = server.survivors
    weights = plan.sum.model(server.total, server.beside, survivors)
    return Federated(_model(plan, weights[None]), survivors, tuple(refused))


def _model(plan: Plan, weights: Array) -> Model:
    return Model(
        task=plan.task,
        loss=plan.algorithm.loss.name,
        label=str(plan.dataset.label),
        stated=plan.stated,
        steps=plan.dataset.steps,
        weights=weights,
        guarantees=tuple(plan.guarantees),
        statement=plan.statement,
        setting=" ".join(plan.setting),
        versions=provenance()["versions"],
    )


def publish(made: Federated, place: Path) -> str:
    """Write the model to `place`, which must be free; its SHA-256.

    Raises:
        UserError: there is something already.
    """
    check_free(place)
    text = made.model.text()
    write_atomically(place, text)
    return hashlib.sha256(text.encode()).hexdigest()


def check_free(place: Path) -> None:
    """Raise UserError when there is something at `place`."""
    if place.exists():
        raise UserError(f"{place} is there already: choose another name, a published model is not overwritten.")
