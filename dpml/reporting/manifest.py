"""Read and write manifests: the checksums of output files, a digest of the inputs, and the Git commit of dpml."""

import hashlib
import json
import re
import sys
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pandas as pd

from dpml import code
from dpml.config.experiments import natural
from dpml.errors import UserError
from dpml.files import seal_object, unseal_object, write_atomically
from dpml.reporting.cards import card_of
from dpml.running.plan import Plan
from dpml.running.store import digest
from dpml.version import __version__

_PLAIN_LIST = re.compile(r'\[\n((?:\s+(?:"(?:[^"\\]|\\.)*"|[^"\[\]{}\s]+),?\n)+)\s*\]')


def stamp(plan: Plan, published: pd.DataFrame) -> str:
    """Return a digest of everything that determines an experiment's outputs, such as fits, claims and code."""
    experiment = plan.experiment
    cells = [[p.block, p.key, p.finished, p.reason, p.record and p.record.code] for p in plan.points]
    computed = [[block.key, block.code] for block in experiment.computed]
    request = [repr(experiment), published.to_csv(index=False)]
    card = card_of(experiment.name.partition("/")[0])
    tests = card.made_from if card else ""
    return digest([__version__, code.digest(["reporting"]), tests, request, cells, computed])


@dataclass(frozen=True)
class Manifest:
    """The manifest file of an experiment, a run or a sweep. The manifest of an experiment contains no date."""

    path: Path

    def read(self) -> dict[str, Any]:
        """Return the content of the manifest, or {} if the file is missing or was changed after it was written."""
        with suppress(OSError):
            return unseal_object(self.path.read_bytes()) or {}
        return {}

    def current(self, made_from: str) -> bool:
        """Return whether the manifest's files are unchanged and were made from inputs with the digest `made_from`."""
        known = self.read()
        files = known.get("files")
        if known.get("stamp") != made_from or not isinstance(files, dict):
            return False
        return files == checksums(self.path.parent / name for name in files)

    def keep(self, content: Mapping[str, Any], files: Iterable[Path] | None = None, private: bool = False) -> None:
        """Write the manifest: `content`, the checksums of `files`, and a checksum of the manifest itself."""
        content = content if files is None else {**content, "files": checksums(files)}
        text = json.dumps(seal_object(content), indent=1, ensure_ascii=False)
        text = _PLAIN_LIST.sub(lambda found: f"[{' '.join(line.strip() for line in found[1].splitlines())}]", text)
        write_atomically(self.path, f"{text}\n", private)


def beside(folder: Path) -> Manifest:
    """Return the manifest of the tables in a folder."""
    return Manifest(folder / "manifest.json")


def changed(path: Path, files: Any) -> bool:
    """Return whether a file differs from its checksum in a manifest. A file without a checksum counts as unchanged."""
    known = files.get(path.name) if isinstance(files, Mapping) else None
    return known is not None and known != checksums([path])[path.name]


def refuse_changed(path: Path, files: Any) -> None:
    """Raise UserError if a file differs from its checksum in a manifest."""
    if changed(path, files):
        raise UserError(f"{path} was changed after it was written: repeat the command that wrote it, or move the file.")


def check_table(path: Path) -> None:
    """Raise UserError if a table differs from its checksum in the folder's manifest, or if the manifest is damaged."""
    manifest = beside(path.parent)
    known = manifest.read()
    if path.is_file() and manifest.path.is_file() and not known:
        raise UserError(f"{manifest.path} is damaged, so {path} cannot be checked: repeat the command that wrote it.")
    refuse_changed(path, known.get("files"))


def checksums(paths: Iterable[Path]) -> dict[str, str | None]:
    """Return the SHA-256 checksums of files by name; None for a missing file."""
    return {path.name: hashlib.sha256(path.read_bytes()).hexdigest() if path.is_file() else None for path in paths}


def manifests(results: Path) -> list[dict[str, Any]]:
    """Return the manifests of all experiments in a results folder, sorted by name, with figure fig2 before fig10."""
    known = []
    for path in sorted(results.glob("*/*.json")):
        content = Manifest(path).read()
        if content.get("experiment") == f"{path.parent.name}/{path.stem}":  # a manifest cannot name another folder
            known.append(content)
        elif not content or "experiment" in content:
            print(f"note: {path} is damaged: the experiment is left out until you run it again.", file=sys.stderr)
    return sorted(known, key=lambda content: natural(str(content["experiment"])))
