"""What is written down about outputs: what they were made from, by which commit, their checksums.

A manifest has a checksum of itself, too: what it says of verdicts and guarantees goes to pages. Those of runs, sweeps
and merged tables are called manifest.json, those of experiments have the names of their figures.
"""

import hashlib
import json
import sys
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from dpml import __version__, code
from dpml.atomic import seal_object, unseal_object, write_atomically
from dpml.config.compose import natural
from dpml.errors import UserError
from dpml.reporting.results import Publication
from dpml.running.environment import provenance
from dpml.running.plan import Plan, Task
from dpml.running.store import digest


def stamp(publication: Publication, plan: Plan, task: Task) -> str:
    """What the outputs are made from: the cells, the experiment's file, and the code that draws and counts."""
    experiment = publication.experiment
    modules = ["dpml.reporting.artifacts", *([experiment.claims_from] if experiment.claims_from else [])]
    cells = [[point.block, entry.key, entry.finished, entry.reason] for point, entry in plan.points[task.name]]
    computed = [block.key for block in task.computed]
    asked = [publication.command, repr(experiment), publication.points.to_csv(index=False)]
    return digest([__version__, code.digest(*modules), asked, cells, computed])


@dataclass(frozen=True)
class Manifest:
    """The file ``base.json``; nothing in it depends on the machine or the time, so that a rerun leaves it as it is."""

    path: Path

    def read(self) -> dict[str, Any]:
        """Its content; empty when there is none that is as it was written."""
        with suppress(OSError):
            return unseal_object(self.path.read_bytes(), older=True) or {}
        return {}

    def current(self, made_from: str) -> bool:
        """Whether all the files that it names are there, unchanged, and made from the same."""
        known = self.read()
        files = known.get("files")
        return (
            known.get("stamp") == made_from
            and isinstance(files, dict)
            and files == _checksums(self.path.parent / name for name in files)
        )

    def write(self, made_from: str, files: Sequence[Path], facts: Mapping[str, Any]) -> None:
        """Write it, unless it says the same already: the commit that it names is that of the first run."""
        known, checksums = self.read(), _checksums(files)
        if known.get("stamp") == made_from and known.get("files") == checksums and not _dirty(known):
            return
        self.keep({"stamp": made_from, "files": checksums, **facts, "environment": provenance()})

    def keep(self, content: Mapping[str, Any]) -> None:
        """Write plain values, and their checksum."""
        write_atomically(self.path, json.dumps(seal_object(content), indent=1) + "\n")

    def keep_with(self, content: Mapping[str, Any], files: Iterable[Path]) -> None:
        """Write plain values, the checksums of files beside it, and their checksum."""
        self.keep({**content, "files": _checksums(files)})


def beside(folder: Path) -> Manifest:
    """The manifest of the tables in a folder."""
    return Manifest(folder / "manifest.json")


def changed(path: Path, files: Any) -> bool:
    """Whether a file is not as it was written, by the checksums in a manifest; those that it does not name are."""
    known = files.get(path.name) if isinstance(files, Mapping) else None
    return known is not None and known != _checksums([path])[path.name]


def check_table(path: Path) -> None:
    """Refuse a table that is not as the manifest beside it says.

    Raises:
        UserError: its content has changed.
    """
    if path.is_file() and changed(path, beside(path.parent).read().get("files")):
        raise UserError(
            f"{path} is not as it was written: give the command that made it again, or put a table that you changed "
            "yourself into a folder of its own."
        )


def _dirty(content: Mapping[str, Any]) -> bool:
    environment = content.get("environment")
    git = environment.get("git") if isinstance(environment, dict) else None
    return not isinstance(git, dict) or bool(git.get("dirty"))


def _checksums(paths: Iterable[Path]) -> dict[str, str | None]:
    return {path.name: hashlib.sha256(path.read_bytes()).hexdigest() if path.is_file() else None for path in paths}


def manifests(results: Path) -> list[dict[str, Any]]:
    """What is known about every experiment whose outputs lie under `results`, fig2 before fig10."""
    known = []
    for path in sorted(results.glob("*/*.json")):
        content = Manifest(path).read()
        if "experiment" in content:
            known.append(content)
        elif not content:
            print(f"note: {path} is damaged: its experiment is left out until it is run again.", file=sys.stderr)
    return sorted(known, key=lambda content: natural(str(content["experiment"])))
