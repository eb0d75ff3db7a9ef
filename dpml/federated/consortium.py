"""What a consortium begins with: a folder for each party and the aggregator, and a rehearsal with made-up rows.

No party's signing key is made here, nor is any in the rehearsal kept: each party makes its own, beside its rows, with
the command `card` of its folder.
"""

import datetime
import json
import re
import shlex
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from shutil import rmtree

import numpy as np
import pandas as pd
import yaml
from numpy.random import Generator

from dpml.data.csv.column_bounds import ColumnBounds
from dpml.data.csv.columns import ISO, iso
from dpml.data.info import Range
from dpml.data.sets.csv import CSV
from dpml.errors import UserError
from dpml.federated.certificates import write_certificates

_NAME = re.compile(r"[a-z0-9][a-z0-9-]{0,39}")  # of a folder and a service, on every system
_TAKEN = ("aggregator", "rehearsal")
_WAIT = "3600"  # seconds: people start their programs by hand

Commands = Mapping[str, Sequence[str]]
"""What follows `dpml federate`, by the name of the step."""


@dataclass(frozen=True)
class Consortium:
    """The parties' `names`, where they call the aggregator, and what they are to agree on as it is typed.

    Attributes:
        setting: ``--set`` and all that follows it, of `card`, `plan` and `try`.
        adversary: the options of `plan` and `try` about colluders, drop-outs and noise.

    Raises:
        UserError: a name cannot be that of a folder, or occurs twice.
    """

    names: tuple[str, ...]
    host: str
    port: int
    setting: tuple[str, ...]
    adversary: tuple[str, ...]

    def __post_init__(self) -> None:
        for name in self.names:
            if not _NAME.fullmatch(name) or name in _TAKEN:
                raise UserError(
                    f"{name[:64]!r} cannot be a party's folder: take small letters, digits and dashes, at most 40, "
                    f"and not {' or '.join(_TAKEN)}."
                )
        if not 2 <= len(set(self.names)) == len(self.names):
            raise UserError("a consortium has at least two parties, of different names.")

    @property
    def folders(self) -> dict[str, Commands]:
        """The steps that are taken in each folder, in their order."""
        return {
            **{name: self._party(name) for name in self.names},
            "aggregator": self._aggregator,
            "rehearsal": {"try": ("try", *(f"{name}.csv" for name in self.names), "-o", "model.json", *self._agreeing)},
        }

    @property
    def _agreeing(self) -> tuple[str, ...]:
        return (*self.adversary, "--bounds", "columns.yaml", *self.setting)

    def _party(self, name: str) -> Commands:
        key = ("--key", f"{name}.key")
        calling = ("--aggregator", f"{self.host}:{self.port}", "--ca", "ca.pem", "--wait", _WAIT)
        return {
            "card": ("card", "rows.csv", *key, "-o", f"{name}.card", "--bounds", "columns.yaml", *self.setting),
            "sign": ("sign", "plan.json", *key),
            "party": ("party", "rows.csv", "--plan", "plan.json", *key, *calling, "-o", "model.json"),
        }

    @property
    def _aggregator(self) -> Commands:
        shown = ("--certificate", "server.pem", "--certificate-key", "server.key", "--wait", _WAIT)
        return {
            "plan": ("plan", *(f"{name}.card" for name in self.names), "-o", "plan.json", *self._agreeing),
            "copies": ("sign", "plan.json", "--copies", *(f"{name}.json" for name in self.names)),
            "aggregator": ("aggregator", "--plan", "plan.json", "--listen", f"0.0.0.0:{self.port}", *shown,
                           "-o", "model.json"),
        }  # fmt: skip


def write_consortium(consortium: Consortium, stated: ColumnBounds, dataset: CSV, rows: int, folder: Path) -> None:
    """Write all folders into `folder`, which must not exist; `rows` made-up rows of each party in the rehearsal.

    Raises:
        UserError: the folder exists or cannot be written.
    """
    if folder.exists():
        raise UserError(f"{folder} is there already: choose another name.")
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        temporary = Path(tempfile.mkdtemp(prefix=f".{folder.name}-", dir=folder.parent))
    except OSError as error:
        raise UserError(f"{folder} cannot be written: {error.strerror}.") from None
    try:
        (temporary / "rehearsal").mkdir()
        write_certificates(consortium.host, temporary / "aggregator")
        authority = (temporary / "aggregator" / "ca.pem").read_bytes()
        columns = yaml.safe_dump(stated.content(), sort_keys=False, allow_unicode=True)
        rng = np.random.default_rng()
        for name, commands in consortium.folders.items():
            place = temporary / name
            place.mkdir(exist_ok=True)
            (place / "columns.yaml").write_text(columns, encoding="utf-8")
            (place / "compose.yaml").write_text(_compose(commands, consortium.port), encoding="utf-8")
            (place / "STEPS.md").write_text(_steps(name, commands), encoding="utf-8")
            if "party" in commands:
                (place / "ca.pem").write_bytes(authority)
                _made_up(stated, dataset, rows, rng, temporary / "rehearsal" / f"{name}.csv")
        temporary.chmod(0o755)
        temporary.rename(folder)
    except OSError as error:
        raise UserError(f"{folder} cannot be written: {error.strerror or error}.") from None
    finally:
        rmtree(temporary, ignore_errors=True)


_COMPOSE = """\
x-dpml: &dpml
  image: dpml
  build:
    context: ${DPML:?set it to the folder of the checkout of dpml}
    dockerfile_inline: |
      FROM python:3.12-slim
      COPY . /dpml
      RUN pip install --no-cache-dir /dpml
  user: ${DPML_USER:-1000:1000}
  working_dir: /work
  volumes: [".:/work"]
  environment: {DPML_DATA: /tmp/dpml, HOME: /tmp}
  tmpfs: [/tmp]
  read_only: true
  cap_drop: [ALL]
  security_opt: ["no-new-privileges:true"]
services:
"""


def _compose(commands: Commands, port: int) -> str:
    """A Compose file: the last step is the service that `docker compose up` starts, the others are run by name."""
    text, last = _COMPOSE, [*commands][-1]
    for name, words in commands.items():
        command = json.dumps(["dpml", "federate", *words], ensure_ascii=False).replace("$", "$$")  # JSON is YAML
        more = "" if name == last else "    profiles: [steps]\n"
        more += f'    ports: ["{port}:{port}"]\n' if name == "aggregator" else ""
        text += f"  {name}:\n    <<: *dpml\n    command: {command}\n{more}"
    return text


_BEFORE = {
    "card": "Put your rows into `rows.csv`. This counts them and makes your signing key, which never leaves this "
    "folder. Send the card to the aggregator.",
    "sign": "Take `plan.json` from the aggregator. Read what is printed, compare checksum and fingerprints with the "
    "others by telephone, then send the signed `plan.json` back.",
    "party": "Take the plan with all signatures, which replaces yours, and take part. The model is handed to you.",
    "plan": "Put all cards here. Send `plan.json` to all parties.",
    "copies": "Put the signed copies here, each as the party's name with `.json`. Send `plan.json` to all again.",
    "aggregator": "Tell all parties to begin.",
    "try": "All of it on this machine, with made-up rows and with keys that are deleted at the end.",
}


def _steps(name: str, commands: Commands) -> str:
    parts = [f"# {name}\n\nEach step as a command, or in a container with Docker Compose.\n"]
    for number, (step, words) in enumerate(commands.items(), 1):
        parts.append(
            f"{number}. {_BEFORE[step]}\n\n```bash\n{shlex.join(['dpml', 'federate', *words])}\n```\n\n"
            f"   or `docker compose run --rm {'--service-ports ' * (step == 'aggregator')}{step}`\n"
        )
    return "\n".join(parts)


def _made_up(stated: ColumnBounds, dataset: CSV, rows: int, rng: Generator, place: Path) -> None:
    """A file of random rows, each column by what is stated of it; nobody's."""
    table = {name: _column(stated, name, rows, rng) for name in stated.columns}
    if stated.target is None:
        table[str(dataset.label)] = rng.choice(stated.classes, rows)
    else:
        table[str(dataset.label)] = rng.uniform(stated.target.low, stated.target.high, rows)
    table |= {name: np.arange(rows) for name in dataset.drop}
    said = dataset.written
    separator = said.separator or (";" if said.decimal == "," else ",")
    pd.DataFrame(table).to_csv(place, index=False, sep=separator, decimal=said.decimal, encoding=said.codec)


def _column(stated: ColumnBounds, name: str, rows: int, rng: Generator) -> object:
    said = stated.columns[name]
    if stated.kind(name) == "boolean":
        return rng.choice(["no", "yes"], rows)
    if not isinstance(said, Range):
        return rng.choice(said, rows)
    drawn = rng.uniform(said.low, said.high, rows)
    if name not in stated.dates:
        return drawn
    form = stated.dates[name]
    days = map(iso, drawn)
    return [day if form == ISO else datetime.date.fromisoformat(day).strftime(form) for day in days]
