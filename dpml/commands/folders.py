"""The output folders of a run or a sweep: their log, the reason of a failure, and none that stays empty."""

import logging
import os
import shutil
import traceback
from pathlib import Path

from dpml.atomic import write_atomically
from dpml.commands.jobs import ERROR, CellsFailedError, IncompleteError
from dpml.errors import UserError
from dpml.reporting.run_table import FIGURE, FILES

_LOG = "dpml-run.log"
log = logging.getLogger("dpml")


def keep_log(folder: Path) -> None:
    """Log to a file in `folder`; the file is created with the first line."""
    handler = logging.FileHandler(folder / _LOG, delay=True, encoding="utf-8")
    handler.setFormatter(logging.Formatter("%(asctime)s %(levelname)s %(message)s"))
    close_log()
    log.addHandler(handler)
    log.setLevel(logging.INFO)
    log.propagate = log.disabled = False  # Hydra disables loggers that exist before it starts


def close_log() -> None:
    """End the log."""
    for handler in list(log.handlers):
        log.removeHandler(handler)
        handler.close()


def keep_failure(folder: Path, words: str, error: Exception) -> str:
    """Keep why a job failed in its folder, instead of tables unless they are right; returns the reason in one line."""
    known = isinstance(error, UserError | CellsFailedError)
    account = f"{error}\n" if known else "".join(traceback.format_exception(error))
    folder.mkdir(parents=True, exist_ok=True)
    write_atomically(folder / ERROR, account)
    tables = ("rows.csv", "guarantees.csv", "manifest.json", *FILES, *FIGURE)
    for name in tables if not isinstance(error, IncompleteError) else ():  # left by an earlier run in the same folder
        (folder / name).unlink(missing_ok=True)
    reason = (
        str(error) if known else f"{type(error).__name__}: {error} (traceback in {os.path.relpath(folder)}/{ERROR})"
    )
    log.error("%s: %s", words, reason)
    return reason


def discard_if_empty(folder: Path) -> None:
    """Remove an output folder, and empty folders above it, if nothing was written to it."""
    results = ("rows.csv", ERROR)
    if any(next(folder.glob(pattern), None) for name in results for pattern in (name, f"*/{name}")):
        return
    shutil.rmtree(folder / ".hydra", ignore_errors=True)
    for name in (_LOG, "multirun.yaml"):
        (folder / name).unlink(missing_ok=True)
    working = Path.cwd()
    for path in (folder, *folder.parents):
        if path == working or path in working.parents:
            return
        try:
            path.rmdir()
        except OSError:
            return
