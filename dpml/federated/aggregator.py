"""Run the secure sums of a release as the aggregator, and compute the model."""

import hashlib
import json
import math
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from shutil import rmtree
from typing import Any

import numpy as np

from dpml.algorithms.quadratic.moments import Moments, NewtonMoments
from dpml.arrays import Array, Index
from dpml.errors import UserError
from dpml.federated.plan import FederationPlan
from dpml.federated.sums import MESSAGE, OPEN, Opening
from dpml.files import check_writable, create_atomically, seal_object, unseal_object, write_atomically
from dpml.mechanism.counting import LARGEST
from dpml.privacy.safe import written, written_below
from dpml.protocols.messages import SESSION_BYTES, ProtocolError, RefusedError
from dpml.protocols.server import Server
from dpml.protocols.session import Stage
from dpml.protocols.transports import Outcome, advance
from dpml.release.model import Model
from dpml.release.release import divisor
from dpml.running.environment import provenance
from dpml.screen import printable

Exchange = Callable[[Mapping[int, bytes]], Mapping[int, bytes]]
"""A function that sends each node (connection) its message, and returns the answers that arrive in time."""


@dataclass(frozen=True)
class Federated:
    """The result of a federation: a model, the parties in at least one sum, and why messages were refused."""

    model: Model
    survivors: Index
    refused: tuple[str, ...]


@dataclass(frozen=True)
class Kept:
    """The state of an aggregator in a private folder, from which a restarted aggregator continues.

    A finished sum has a file with the noisy sum, its parties, and the numbers that they sent openly. An unfinished sum
    has a file with the parties' answers so far, from which a restarted process computes the same messages.
    """

    folder: Path
    plan: FederationPlan

    @property
    def done(self) -> int:
        return len(list(self.folder.glob("*.json")))

    def summed(self, number: int, payload: bytes) -> Outcome | None:
        """Return a finished sum, or None; `payload` is what the parties received before the sum."""
        path = self.folder / f"{number}.json"
        content = self._read(path, number, payload)
        if content is None:
            self.folder.mkdir(mode=0o700, exist_ok=True)
            check_writable(path)  # before parties spend privacy budget on a sum that could not be kept
            return None
        parties = np.array(content["parties"], dtype=np.intp)
        beside = np.frombuffer(bytes.fromhex(content["beside"]), "<f8").reshape(len(parties), self.plan.sums.beside)
        return Outcome(np.frombuffer(bytes.fromhex(content["total"]), "<u8"), parties, beside)

    def keep(self, number: int, payload: bytes, summed: Outcome) -> None:
        """Store a finished sum, and remove its parties' answers."""
        path = self.folder / f"{number}.json"
        arrays = {"total": summed.total.astype("<u8"), "beside": summed.beside.astype("<f8")}
        content = {name: array.tobytes().hex() for name, array in arrays.items()}
        if not path.exists():
            text = self._sealed(number, payload, {"parties": summed.survivors.tolist(), **content})
            create_atomically(path, text, private=True)
        self._begun(number).unlink(missing_ok=True)

    def begun(self, number: int, payload: bytes) -> tuple[Opening, list[Mapping[int, bytes]]] | None:
        """Return the message that opened an unfinished sum, and the parties' answers; None if there is no such sum."""
        content = self._read(self._begun(number), number, payload)
        if content is None:
            return None
        opening = Opening(bytes.fromhex(content["name"]), self.plan.digest, number, payload)
        return opening, [
            {int(node): bytes.fromhex(answer) for node, answer in stage.items()} for stage in content["answers"]
        ]

    def keep_begun(self, opening: Opening, answers: Sequence[Mapping[int, bytes]]) -> None:
        """Store the answers so far of an unfinished sum."""
        content = [{str(node): answer.hex() for node, answer in stage.items()} for stage in answers]
        text = self._sealed(opening.number, opening.payload, {"name": opening.name.hex(), "answers": content})
        write_atomically(self._begun(opening.number), text, private=True)

    def forget(self) -> None:
        """Remove the folder after the model was written."""
        rmtree(self.folder, ignore_errors=True)

    def _begun(self, number: int) -> Path:
        return self.folder / f"{number}.begun"

    def _sealed(self, number: int, payload: bytes, content: Mapping[str, Any]) -> str:
        about = [self.plan.digest, number, hashlib.sha256(payload).hexdigest()]
        return json.dumps(seal_object({"of": about, **content}))

    def _read(self, path: Path, number: int, payload: bytes) -> dict[str, Any] | None:
        if not path.exists():
            return None
        content = unseal_object(path.read_bytes())
        if content is None or content.get("of") != [self.plan.digest, number, hashlib.sha256(payload).hexdigest()]:
            raise UserError(
                f"{path} is damaged, or is not a sum of this release: to begin again, remove {self.folder} and restart "
                "all parties, or choose another name for the model."
            )
        return content


LEVEL, QUANTILE = 0.95, 1.9599639845400545  # for the interval of the error without noise

_SHOWN = 200  # the most bytes that are shown of a party's error message

Progress = Callable[[int, int], None]
"""A function that is called after every sum, with the number of finished sums and of parties in the last sum."""


def aggregate(
    plan: FederationPlan,
    nodes: Iterable[int],
    exchange: Exchange,
    progress: Progress = lambda *_: None,
    kept: Kept | None = None,
) -> Federated:
    """Run the secure sums of one release with the parties at these nodes, and return the model.

    Raises:
        ProtocolError: too few parties are left for a sum.
    """
    plan.require_signatures()
    run = _Run(plan, tuple(nodes), exchange, progress, kept)
    release = plan.sums.release(run.ask)
    assert release.weights is not None
    errors = None
    if plan.terms.count_errors is not None:
        error = float(release.metrics["error"][0, 0]) * divisor(plan.stated) ** 2
        errors = counted_errors(plan, error, sum(plan.seats[party].rows for party in run.last), len(run.last))
    weights = release.weights.reshape(plan.problem.classes, -1)
    model = model_of(plan, weights, errors, provenance()["versions"], release.moments)
    return Federated(model, np.array(sorted(run.seen), dtype=np.intp), tuple(run.refused))


@dataclass
class _Run:
    """The secure sums of a release. A party that drops out of one sum may be in the next."""

    plan: FederationPlan
    nodes: tuple[int, ...]
    exchange: Exchange
    progress: Progress
    kept: Kept | None
    number: int = 0
    refused: list[str] = field(default_factory=list)
    seen: set[int] = field(default_factory=set)  # the parties that were in any sum
    last: list[int] = field(default_factory=list)  # the parties in the last sum

    def ask(self, payload: bytes) -> Outcome:
        """Return the result of the next sum, before which the parties receive `payload`."""
        number, kept = self.number, self.kept
        summed = None if kept is None else kept.summed(number, payload)
        if summed is None and kept is not None and (begun := kept.begun(number, payload)) is not None:
            try:
                summed = self._sum(*begun)
            except ProtocolError as error:  # too few parties of the unfinished sum are left
                self.refused.append(str(error))
        if summed is None:
            summed = self._sum(Opening(os.urandom(SESSION_BYTES), self.plan.digest, number, payload), [])
        if kept is not None:
            kept.keep(number, payload, summed)
        self.number += 1
        self.last = summed.survivors.tolist()
        self.seen.update(self.last)
        self.progress(self.number, len(self.last))
        return summed

    def _sum(self, opening: Opening, answers: list[Mapping[int, bytes]]) -> Outcome:
        """Run a sum; the `answers` of its first stages are known from an earlier process."""
        server = Server(self.plan.session(opening))
        mail = dict.fromkeys(self.nodes, OPEN + opening.content)
        party_of: dict[int, int] = {}
        while server.stage is not Stage.DONE:
            if server.stage == len(answers):
                if self.kept is not None and server.stage >= Stage.MASKED:  # parties send their vectors only once
                    self.kept.keep_begun(opening, answers)
                answers.append(self.exchange(mail))
            for node, answer in sorted(answers[server.stage].items()):
                try:
                    if answer[:1] != MESSAGE:
                        raise RefusedError(printable(answer[1 : _SHOWN + 1].decode("utf-8", "replace")))
                    party_of.setdefault(node, server.receive(answer[1:], party_of.get(node)))
                except RefusedError as error:
                    self.refused.append(str(error))
            node_of = {party: node for node, party in party_of.items()}
            mail = {node_of[party]: MESSAGE + message for party, message in advance(server, self.refused).items()}
        self.refused += server.liars.values()
        return Outcome(server.total, server.survivors, server.beside)


def model_of(
    plan: FederationPlan,
    weights: Array,
    errors: Mapping[str, Any] | None,
    versions: Mapping[str, str],
    moments: Moments | NewtonMoments | None = None,
) -> Model:
    """Return the model of a plan with these weights (K, d), counted errors, software versions and noisy sums."""
    return Model(
        task=plan.task,
        loss=plan.algorithm.loss.name,
        label=str(plan.dataset.label),
        stated=plan.stated,
        steps=plan.dataset.steps,
        weights=weights,
        guarantees=tuple(plan.guarantees),
        statement=(*plan.statement, *([] if errors is None else [_sentence(errors)])),
        certificate=plan.facts.certificate,
        setting=" ".join(plan.terms.words),
        versions=versions,
        scale=divisor(plan.stated),
        errors=errors,
        moments=moments,
    )


def counted_errors(plan: FederationPlan, error: float, rows: int, parties: int) -> dict[str, Any]:
    """Return what a model's file says about the noisy `error` on the rows of so many parties.

    The error and its interval are clipped to the range of possible errors.
    """
    unit, most, measure = divisor(plan.stated) ** 2, 1.0, "share of rows in error"
    if plan.stated.target is not None:
        most = LARGEST * unit
        scale = f" of log(1 + {plan.dataset.label})" if plan.stated.target.log else ""
        measure = f"mean squared error{scale}, cut off at {most:g}"
    M, N = len(plan.seats), sum(seat.rows for seat in plan.seats)
    scaled_up = N / rows  # rescales the sum from its parties to all parties
    if plan.facts.unit == "party":
        measure += ", the mean of the parties' own"
        scaled_up = M / parties
    deviation = plan.error_deviation * unit * (scaled_up * math.sqrt(parties / M))
    error = min(max(error, 0.0), most)
    return {
        "measure": measure,
        "of": "rows that the model is made of",
        "rows": rows,
        "error": error,
        "deviation": deviation,
        "level": LEVEL,
        "low": max(error - QUANTILE * deviation, 0.0),
        "high": min(error + QUANTILE * deviation, most),
    }


def _sentence(errors: Mapping[str, Any]) -> str:
    return (
        f"Errors: {errors['error']:.4g} is the {errors['measure']}, of {errors['rows']:,} {errors['of']}, with noise; "
        f"without it, it lies between {written_below(errors['low'])} and {written(errors['high'])} at a level of "
        f"{errors['level']:.0%}."
    )


def publish(made: Federated, place: Path) -> None:
    """Write the model to `place`, unless an earlier process of this aggregator has written it."""
    text = made.model.text()
    if not place.exists() or place.read_bytes() != text.encode():
        check_writable(place)
        create_atomically(place, text)
