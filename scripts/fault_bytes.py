"""A bit of every byte of every kind of stored file flipped, for `faults.py`."""

import shutil
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from fault_commands import COMMANDS, RELEASE, STATED, Tally, entered, prepare, undisturbed

from dpml.data.sources.cache import _read
from dpml.errors import UserError
from dpml.release.model import read_model
from dpml.reporting.manifest import check_table
from dpml.reporting.tables import read_rows
from dpml.running.store import DamagedError, Store


def bytes_flipped(folder: Path, kind: str, rng: np.random.Generator) -> Tally:
    """A bit of every byte of a stored file, one after the other; it is refused, or reads as before."""
    prepare(folder)
    (folder / "own.yaml").write_text(STATED)
    undisturbed(folder, COMMANDS["run"])
    undisturbed(folder, [*RELEASE, "model.json"])
    pattern, read = READERS[kind]
    tally = Tally()
    for path in sorted(folder.glob(pattern)):
        content, expected = path.read_bytes(), read(path)
        for place, bit in enumerate(rng.integers(8, size=len(content))):
            path.write_bytes(content[:place] + bytes([content[place] ^ (1 << bit)]) + content[place + 1 :])
            tally.times += 1
            try:
                wrong = read(path) != expected
            except (UserError, DamagedError):
                tally.met += 1
            except Exception as error:
                print(f"{path}, byte {place}: {error!r}", file=sys.stderr)
                tally.tracebacks += 1
            else:
                tally.lost += wrong and kind == "a ledger"
                tally.wrong += wrong and kind != "a ledger"
        path.write_bytes(content)
    return tally


def _cell(path: Path) -> str:
    (root,) = (parent for parent in path.parents if parent.name == ".cells")
    store, found = Store(root), []
    for result in sorted(root.glob("*/*/result-*.json")):
        record = store.glance(result.parent.name)
        found += [repr(record and store.read(result.parent.name, record))]
    return str(found)


def _table(path: Path) -> str:
    table = path.with_name("rows.csv")
    check_table(table)
    return read_rows(table).to_csv()


def _model(path: Path) -> str:
    return read_model(path).text()


def _array(path: Path) -> list[Any]:
    copy = path.parents[2] / path.parent.name  # for a damaged one is removed
    shutil.copytree(path.parent, copy, dirs_exist_ok=True)
    found = _read(copy)
    if found is None:
        raise UserError("it is parsed again")
    return [found[1], *(array.tobytes() for array in found[0].values())]


READERS: dict[str, tuple[str, Callable[[Path], Any]]] = {
    "a cell": ("results/.cells/*/*/result-*.json", _cell),
    "what cells depend on": ("results/.cells/dependencies/*.json", _cell),
    "rows.csv": ("out/rows.csv", _table),
    "its manifest": ("out/manifest.json", _table),
    "a model": ("model.json", _model),
    "a ledger": ("ledger", lambda path: entered(path.parent)),
    "parsed data": ("cache/processed/*/*", _array),
}
