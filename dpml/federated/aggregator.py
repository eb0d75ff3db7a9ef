"""Run the secure sums of a release as the aggregator, and compute the model."""

import hashlib
import json
import math
import os
from collections.abc import Callable, Mapping
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
"""A function that sends each party its message, and returns the parties' answers that arrive in time."""


@dataclass(frozen=True)
class Federated:
    """The result of a federation: the model, the parties that contributed, and why messages were refused."""

    model: Model
    survivors: Index
    refused: tuple[str, ...]


@dataclass(frozen=True)
class Kept:
    """Keep the state of an aggregator in a private folder, so that a restarted aggregator can continue.

    The file of an unfinished secure sum has the parties' answers so far, from which a restarted aggregator computes the
    same messages. The file of a finished sum has the sum, the surviving parties, and their openly sent numbers.
    """

    folder: Path
    plan: FederationPlan

    @property
    def done(self) -> int:
        contents = (unseal_object(path.read_bytes()) for path in self.folder.glob("*.json"))
        return sum("total" in (content or {}) for content in contents)

    def read(self, number: int, payload: bytes) -> dict[str, Any]:
        """Return the stored state of secure sum `number` with the arguments `payload`; return {} if none is stored."""
        path = self.folder / f"{number}.json"
        if not path.exists():
            self.folder.mkdir(mode=0o700, exist_ok=True)
            check_writable(path)  # before parties spend privacy budget on a sum that could not be kept
            return {}
        content = unseal_object(path.read_bytes())
        if content is None or content.get("of") != self._about(number, payload):
            raise UserError(
                f"{path} is damaged, or is not a sum of this release. To begin again, remove {self.folder} and restart "
                "all parties, or choose another name for the model."
            )
        return content

    def write(self, number: int, payload: bytes, content: Mapping[str, Any]) -> None:
        """Store the parties' answers to an unfinished secure sum, or replace them by the result of the sum."""
        text = json.dumps(seal_object({"of": self._about(number, payload), **content}))
        write_atomically(self.folder / f"{number}.json", text, private=True)

    def _about(self, number: int, payload: bytes) -> list[Any]:
        return [self.plan.digest, number, hashlib.sha256(payload).hexdigest()]

    def forget(self) -> None:
        rmtree(self.folder, ignore_errors=True)


LEVEL, QUANTILE = 0.95, 1.9599639845400545  # for the confidence interval of the error before noise was added

_SHOWN = 200  # the most bytes that are shown of a party's error message

Progress = Callable[[int, int], None]
"""A function that is called after every sum, with the number of finished sums and of parties in the last sum."""


def aggregate(
    plan: FederationPlan, exchange: Exchange, progress: Progress = lambda *_: None, kept: Kept | None = None
) -> Federated:
    """Run all secure sums of a release with the parties of the plan, and return the model.

    Raise ProtocolError if too few parties are left for a sum.
    """
    plan.require_signatures()
    run = _Run(plan, exchange, progress, kept)
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
    """The secure sums of a release; a party that drops out of one sum may take part in the next sum."""

    plan: FederationPlan
    exchange: Exchange
    progress: Progress
    kept: Kept | None
    number: int = 0
    refused: list[str] = field(default_factory=list)
    seen: set[int] = field(default_factory=set)  # the parties that were in any sum
    last: list[int] = field(default_factory=list)  # the parties in the last sum

    def ask(self, payload: bytes) -> Outcome:
        number, summed = self.number, None
        content = {} if self.kept is None else self.kept.read(number, payload)
        if "total" in content:
            parties, beside = np.array(content["parties"], np.intp), np.array(content["beside"], float)
            beside = beside.reshape(len(parties), self.plan.sums.beside)
            summed = Outcome(np.array(content["total"], np.uint64), parties, beside)
        elif content:
            opening = Opening(bytes.fromhex(content["name"]), self.plan.digest, number, payload)
            answers: list[Mapping[int, bytes]] = [
                {int(party): bytes.fromhex(answer) for party, answer in stage.items()} for stage in content["answers"]
            ]
            try:
                summed = self._sum(opening, answers)
            except ProtocolError as error:  # too few parties of the unfinished sum are left
                self.refused.append(str(error))
        if summed is None:
            summed = self._sum(Opening(os.urandom(SESSION_BYTES), self.plan.digest, number, payload), [])
        if self.kept is not None and "total" not in content:
            result = {"parties": summed.survivors, "total": summed.total, "beside": summed.beside}
            self.kept.write(number, payload, {key: array.tolist() for key, array in result.items()})
        self.number += 1
        self.last = summed.survivors.tolist()
        self.seen.update(self.last)
        self.progress(self.number, len(self.last))
        return summed

    def _sum(self, opening: Opening, answers: list[Mapping[int, bytes]]) -> Outcome:
        """Run a secure sum, starting from the `answers` that parties gave before the aggregator was restarted."""
        server = Server(self.plan.session(opening))
        mail = dict.fromkeys(range(len(self.plan.seats)), OPEN + opening.content)
        while server.stage is not Stage.DONE:
            if server.stage == len(answers):
                if self.kept is not None and server.stage >= Stage.MASKED:  # keep answers: parties send vectors once
                    so_far = [{str(party): answer.hex() for party, answer in stage.items()} for stage in answers]
                    content = {"name": opening.name.hex(), "answers": so_far}
                    self.kept.write(opening.number, opening.payload, content)
                answers.append(self.exchange(mail))
            for party, answer in sorted(answers[server.stage].items()):
                try:
                    if answer[:1] != MESSAGE:
                        raise RefusedError(printable(answer[1 : _SHOWN + 1].decode("utf-8", "replace")))
                    server.receive(answer[1:], party)
                except RefusedError as error:
                    self.refused.append(str(error))
            mail = {party: MESSAGE + message for party, message in advance(server, self.refused).items()}
        self.refused += server.liars.values()
        return Outcome(server.total, server.survivors, server.beside)


def model_of(
    plan: FederationPlan,
    weights: Array,
    errors: Mapping[str, Any] | None,
    versions: Mapping[str, str],
    moments: Moments | NewtonMoments | None = None,
) -> Model:
    """Return the model of a federation from the plan, the weights (K, d) and the other results of the secure sums."""
    return Model(
        task=plan.task,
        loss=plan.algorithm.loss.name,
        label=str(plan.terms.dataset.label),
        stated=plan.stated,
        steps=plan.terms.dataset.steps,
        weights=weights,
        guarantees=plan.facts.held,
        statement=(*plan.statement, *([] if errors is None else [_sentence(errors)])),
        certificate=plan.facts.certificate,
        setting=" ".join(plan.terms.words),
        versions=versions,
        scale=divisor(plan.stated),
        errors=errors,
        moments=moments,
    )


def counted_errors(plan: FederationPlan, error: float, rows: int, parties: int) -> dict[str, Any]:
    """Return the entry `errors` of a model's file: the noisy error on the parties' rows, with a confidence interval."""
    unit, most, measure = divisor(plan.stated) ** 2, 1.0, "share of rows in error"
    if plan.stated.target is not None:
        most = LARGEST * unit
        scale = f" of log(1 + {plan.terms.dataset.label})" if plan.stated.target.log else ""
        measure = f"mean squared error{scale}, cut off at {most:g}"
    M, N = len(plan.seats), sum(seat.rows for seat in plan.seats)
    scaled_up = N / rows  # rescales a sum over the surviving parties to all parties
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
    """Write the model to `place`, unless an earlier process of the aggregator has already written the same model."""
    text = made.model.text()
    if not place.exists() or place.read_bytes() != text.encode():
        check_writable(place)
        create_atomically(place, text)
