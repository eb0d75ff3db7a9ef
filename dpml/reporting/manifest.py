"""What is written down about an experiment's outputs: what they were made from, by which commit, their checksums."""

import hashlib
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from dpml import __version__, code
from dpml.atomic import write_atomically
from dpml.config.compose import natural
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
        """Its content; empty when there is none that can be read."""
        try:
            content = json.loads(self.path.read_bytes())
        except (OSError, ValueError):
            return {}
        return content if isinstance(content, dict) else {}

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
        content = {"stamp": made_from, "files": checksums, **facts, "environment": provenance()}
        write_atomically(self.path, json.dumps(content, indent=1) + "\n")


def _dirty(content: Mapping[str, Any]) -> bool:
    environment = content.get("environment")
    git = environment.get("git") if isinstance(environment, dict) else None
    return not isinstance(git, dict) or bool(git.get("dirty"))


def _checksums(paths: Iterable[Path]) -> dict[str, str | None]:
    return {path.name: hashlib.sha256(path.read_bytes()).hexdigest() if path.is_file() else None for path in paths}


def manifests(results: Path) -> list[dict[str, Any]]:
    """What is known about every experiment whose outputs lie under `results`, fig2 before fig10."""
    contents = [Manifest(path).read() for path in results.glob("*/*.json")]
    known = [content for content in contents if "experiment" in content]
    return sorted(known, key=lambda content: natural(str(content["experiment"])))
