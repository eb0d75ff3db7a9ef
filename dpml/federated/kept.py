"""The state of an aggregator on disk, from which it goes on when it is started again.

A sum that is done has a file with what the aggregator may know of it: the noisy sum, who is in it, and what these sent
openly. A sum that is under way has a file with the answers of its parties so far, which is removed when it is done. The
server computes everything else from these answers, so a process that is started again asks exactly what the killed one
had asked, and parties repeat their answers to that.
"""

import hashlib
import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from shutil import rmtree
from typing import Any

import numpy as np

from dpml.atomic import check_writable, create_atomically, seal_object, unseal_object, write_atomically
from dpml.errors import UserError
from dpml.federated.opening import Opening
from dpml.federated.plan import FederationPlan
from dpml.federated.sums import Summed


@dataclass(frozen=True)
class Kept:
    """The sums of a plan's release, in a folder that only its owner can read."""

    folder: Path
    plan: FederationPlan

    @property
    def done(self) -> int:
        """The number of sums that are done."""
        return len(list(self.folder.glob("*.json")))

    def summed(self, number: int, told: bytes) -> Summed | None:
        """Return the sum of that number, about which parties are `told`; None if it is not done."""
        path = self.folder / f"{number}.json"
        with self._one_sentence(path):
            if path.exists():
                return self._summed(number, self._read(path, number, told))
            self.folder.mkdir(mode=0o700, exist_ok=True)
        check_writable(path)  # before parties spend anything on a sum that could not be kept
        return None

    def keep(self, number: int, told: bytes, summed: Summed) -> None:
        """Keep a sum that is done, in place of the answers of its parties."""
        path = self.folder / f"{number}.json"
        arrays = {"total": summed.total.astype("<u8"), "beside": summed.beside.astype("<f8")}
        content = {name: array.tobytes().hex() for name, array in arrays.items()}
        with self._one_sentence(path):
            if not path.exists():
                text = self._sealed(number, told, {"parties": summed.survivors.tolist(), **content})
                create_atomically(path, text, private=True)
            self._begun(number).unlink(missing_ok=True)

    def begun(self, number: int, told: bytes) -> tuple[Opening, list[Mapping[int, bytes]]] | None:
        """Return the opening and the answers so far of a sum that was under way; None if there is none."""
        path = self._begun(number)
        with self._one_sentence(path):
            if not path.exists():
                return None
            content = self._read(path, number, told)
            opening = Opening(bytes.fromhex(content["name"]), self.plan.digest, number, told)
            return opening, [
                {int(node): bytes.fromhex(answer) for node, answer in stage.items()} for stage in content["answers"]
            ]

    def keep_begun(self, opening: Opening, answers: Sequence[Mapping[int, bytes]]) -> None:
        """Keep the answers so far of a sum that is under way."""
        path = self._begun(opening.number)
        content = [{str(node): answer.hex() for node, answer in stage.items()} for stage in answers]
        text = self._sealed(opening.number, opening.told, {"name": opening.name.hex(), "answers": content})
        with self._one_sentence(path):
            write_atomically(path, text, private=True)

    def forget(self) -> None:
        """Remove all, when the model is there."""
        rmtree(self.folder, ignore_errors=True)

    def _begun(self, number: int) -> Path:
        return self.folder / f"{number}.begun"

    def _about(self, number: int, told: bytes) -> list[object]:
        return [self.plan.digest, number, hashlib.sha256(told).hexdigest()]

    def _sealed(self, number: int, told: bytes, content: Mapping[str, Any]) -> str:
        return json.dumps(seal_object({"of": self._about(number, told), **content}))

    def _read(self, path: Path, number: int, told: bytes) -> dict[str, Any]:
        content = unseal_object(path.read_bytes())
        if content is None or content["of"] != self._about(number, told):
            raise ValueError
        return content

    def _summed(self, number: int, content: Mapping[str, Any]) -> Summed:
        sums = self.plan.sums
        parties = np.array(content["parties"], dtype=np.intp)
        beside = np.frombuffer(bytes.fromhex(content["beside"]), "<f8").reshape(len(parties), sums.beside)
        total = np.frombuffer(bytes.fromhex(content["total"]), "<u8")
        here = set(parties.tolist())
        if len(total) != sums.lengths[number] or not here <= {*range(len(self.plan.seats))} or not here:
            raise ValueError
        return Summed(total, beside, parties)

    @contextmanager
    def _one_sentence(self, path: Path) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            raise UserError(f"{path} cannot be read or written: {error.strerror or error}.") from None
        except (LookupError, TypeError, ValueError, ArithmeticError, AttributeError):
            raise UserError(
                f"{path} is no sum of this release, or damaged: remove {self.folder} to begin anew, with parties that "
                "are started again, or choose another name for the model."
            ) from None
