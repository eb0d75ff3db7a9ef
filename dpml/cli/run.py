"""`dpml-run`: one run, a sweep or an experiment, by Hydra."""

import os
import sys
import traceback
from pathlib import Path
from typing import Any

import hydra
import pandas as pd
from hydra.core.hydra_config import HydraConfig
from hydra.experimental.callback import Callback
from hydra.types import RunMode
from omegaconf import DictConfig, OmegaConf
from rich.console import Console

from dpml import where
from dpml.atomic import write_atomically
from dpml.cli.mistakes import exit_on_mistakes, fail
from dpml.cli.screen import axes, show
from dpml.config.build import build, check_keys
from dpml.config.compose import register_experiments
from dpml.errors import UserError
from dpml.running.run import execute

_CONFIG: Any = {"config_path": str(where.folder("conf")), "config_name": "config", "version_base": "1.3"}

_sweep_folder: Path | None = None


def main() -> None:
    """Run `dpml-run`."""
    # Hydra would print its own summary of an exception; with this it hands the exception to us
    os.environ.setdefault("HYDRA_FULL_ERROR", "1")
    register_experiments()
    try:
        exit_on_mistakes("dpml-run", _main)
    finally:
        if _sweep_folder and [path.name for path in _sweep_folder.glob("*")] == ["multirun.yaml"]:
            (_sweep_folder / "multirun.yaml").unlink()
            _remove_if_empty(_sweep_folder)


@hydra.main(**_CONFIG)
def _main(config: DictConfig) -> None:
    folder = Path(HydraConfig.get().runtime.output_dir)
    if HydraConfig.get().mode == RunMode.MULTIRUN:
        _run_in_sweep(config, folder)
        return
    try:
        if "experiment" in config:
            _remove_if_empty(folder)
            sys.exit(_experiment(config))
        _run(config, folder)
    except UserError as error:
        _remove_if_empty(folder)
        fail("dpml-run", str(error))  # here, because Hydra would announce the exception first
    except BaseException:
        _remove_if_empty(folder)
        raise


def _experiment(config: DictConfig) -> int:
    from dpml.running.runner import run_experiment  # only experiments need it

    check_keys(config)
    return run_experiment(config, HydraConfig.get().overrides.task)


def _run(config: DictConfig, folder: Path) -> None:
    result = execute(build(config), OmegaConf.to_container(config, resolve=True))  # type: ignore[arg-type]
    result.write(folder)
    show(result.rows, result.guarantees)
    if axes(result.rows):
        from dpml.reporting.figures import plot  # slow to load

        plot(result.rows, folder, " ".join(["dpml-run", *HydraConfig.get().overrides.task]))
    print(f"Written to {_relative(folder)}/: rows.csv, guarantees.csv, manifest.json")


def _run_in_sweep(config: DictConfig, folder: Path) -> None:
    """One job of a sweep. A failure is shown at once in one line and kept in error.txt; the other jobs go on."""
    job = " ".join(HydraConfig.get().overrides.task)
    try:
        if "experiment" in config:
            if _experiment(config):
                raise UserError("some of its cells failed, as said above.")
            return
        execute(build(config), OmegaConf.to_container(config, resolve=True)).write(folder)  # type: ignore[arg-type]
    except Exception as error:
        mistake = isinstance(error, UserError)
        write_atomically(folder / "error.txt", f"{error}\n" if mistake else traceback.format_exc())
        detail = (
            str(error) if mistake else f"{type(error).__name__}: {error} (traceback in {_relative(folder)}/error.txt)"
        )
        Console(stderr=True).print(f"failed: {job}: {detail}", style="red", markup=False, soft_wrap=True)
    else:
        Console().print(f"done: {job}", markup=False, highlight=False, soft_wrap=True)


class MergeSweep(Callback):
    """Hydra callback: when a sweep ends, put the jobs' tables together in the sweep's folder."""

    def on_multirun_start(self, config: DictConfig, **kwargs: Any) -> None:
        """Remember where the sweep goes: Hydra leaves a file there even when it cannot compose the jobs."""
        global _sweep_folder
        _sweep_folder = Path(config.hydra.sweep.dir)

    def on_multirun_end(self, config: DictConfig, **kwargs: Any) -> None:
        """Write the merged rows.csv and guarantees.csv and a figure; exit with 1 when a job failed."""
        folder = Path(config.hydra.sweep.dir)
        jobs = sorted(
            (path for path in folder.iterdir() if path.is_dir()), key=lambda path: (len(path.name), path.name)
        )
        failed = [job for job in jobs if (job / "error.txt").exists()]
        done = [job for job in jobs if (job / "rows.csv").exists()]
        if done:
            for name in ("guarantees.csv", "rows.csv"):
                merged = pd.concat([pd.read_csv(job / name) for job in done], ignore_index=True)
                write_atomically(folder / name, merged.to_csv(index=False))
            rows = pd.read_csv(folder / "rows.csv")
            show(rows, pd.read_csv(folder / "guarantees.csv"))
            if axes(rows):
                from dpml.reporting.figures import plot  # slow to load

                plot(rows, folder, " ".join(["dpml-run -m", *config.hydra.overrides.task]))
            print(f"Written to {_relative(folder)}/: rows.csv and guarantees.csv of {len(done)} jobs")
        if failed:
            sys.exit(f"dpml-run: {len(failed)} of {len(jobs)} jobs failed; their folders hold error.txt")


def _remove_if_empty(folder: Path) -> None:
    """Undo the creation of an output folder, and of empty folders above it, in which nothing was written."""
    here = Path.cwd()
    for path in (folder.resolve(), *folder.resolve().parents):
        if path == here or path in here.parents:
            return
        try:
            path.rmdir()
        except OSError:
            return


def _relative(path: Path) -> str:
    return os.path.relpath(path)
