"""The sums of a release that are done, kept on disk: an aggregator that is started again goes on with the next one.

Of every sum there is what the aggregator may know of it anyway: the noisy sum, who is in it, and what these sent
openly. No share, mask, masked vector or key is kept. A sum that was under way therefore begins anew, in a session of
another name: parties that have not sent their vector to it take part, and the others refuse, because each sends one
vector to a sum. What follows from the sums is computed again, and is what it was.
"""

import hashlib
import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from shutil import rmtree

import numpy as np

from dpml.atomic import check_writable, create_atomically, seal_object, unseal_object
from dpml.errors import UserError
from dpml.federated.plan import FederationPlan
from dpml.federated.sums import Summed


@dataclass(frozen=True)
class Kept:
    """The sums of a plan's release, in a folder that is its owner's alone."""

    folder: Path
    plan: FederationPlan

    @property
    def done(self) -> int:
        """How many there are."""
        return len(list(self.folder.glob("*.json")))

    def summed(self, number: int, told: bytes, ask: Callable[[], Summed]) -> Summed:
        """The sum of that number, about which parties are `told`, if it is here; else what `ask` gives, which is kept.

        Raises:
            UserError: it is of another release, or cannot be read or written.
        """
        path, about = self.folder / f"{number}.json", [self.plan.digest, number, hashlib.sha256(told).hexdigest()]
        with _one_sentence(path):
            if path.exists():
                return self._read(path, number, about)
            self.folder.mkdir(mode=0o700, exist_ok=True)
        check_writable(path)  # before parties spend anything on a sum that could not be kept
        summed = ask()
        arrays = {"total": summed.total.astype("<u8"), "beside": summed.beside.astype("<f8")}
        content = {name: array.tobytes().hex() for name, array in arrays.items()}
        sealed = seal_object({"of": about, "parties": summed.survivors.tolist(), **content})
        with _one_sentence(path):
            create_atomically(path, json.dumps(sealed), private=True)
        return summed

    def _read(self, path: Path, number: int, about: list[object]) -> Summed:
        content, plan = unseal_object(path.read_bytes()), self.plan
        try:
            if content is None or content["of"] != about:
                raise ValueError
            parties = np.array(content["parties"], dtype=np.intp)
            beside = np.frombuffer(bytes.fromhex(content["beside"]), "<f8").reshape(len(parties), plan.sums.beside)
            total = np.frombuffer(bytes.fromhex(content["total"]), "<u8")
            here = set(parties.tolist())
            if len(total) != plan.sums.lengths[number] or not here <= {*range(len(plan.seats))} or not here:
                raise ValueError
        except (LookupError, TypeError, ValueError, ArithmeticError):
            raise UserError(
                f"{path} is no sum of this release, or damaged: remove {self.folder} to begin anew, with parties that "
                "are started again, or choose another name for the model."
            ) from None
        return Summed(total, beside, parties)

    def forget(self) -> None:
        """Remove them, when the model is there."""
        rmtree(self.folder, ignore_errors=True)


@contextmanager
def _one_sentence(path: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise UserError(f"{path} cannot be read or written: {error.strerror or error}.") from None
