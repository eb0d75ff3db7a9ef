"""Tiny releases of every algorithm, protocol, noise and unit: compare them with the stored ones, or `--write` them."""

import json
import sys
from collections.abc import Iterable, Sequence
from dataclasses import replace
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
import yaml

from dpml.data import Files
from dpml.data.partition import Equal, Fractions, partition
from dpml.data.sets.synthetic import Synthetic
from dpml.errors import UserError
from dpml.files import shipped_folder
from dpml.optim.losses import LOSSES
from dpml.privacy import Budget
from dpml.running.cell import limit_blas
from dpml.seeds import generator

FILE = Path(__file__).with_name("releases.json")
BUDGETS = Budget(0.5, 1e-5), Budget(5.0, 1e-5)
DRAWS, M = 2, 5
RECIPES = {"logistic": "logistic", "sigmoid": "logistic", "squared": "linear"}


def settings(names: Iterable[str] = ()) -> dict[str, tuple[str, dict[str, Any]]]:
    """Return the algorithm and the options of every stored release, and of those with further names, by name."""
    chosen = {}
    for name in dict.fromkeys([*json.loads(FILE.read_text()), *names]):
        algo, *words = name.split()
        chosen[name] = algo, {key: yaml.safe_load(value) for key, value in (word.split("=") for word in words)}
    return chosen


def parties_of(loss: str, auxiliary: float, equal: bool, M: int = M) -> Any:
    """Five parties' rows, of equal and of unequal numbers, or those of one."""
    data = Synthetic(RECIPES[loss], d=4, rows=200, test_rows=50, scale=3.0).load(Files(), 200, generator(1, "data"))
    if loss == "squared":
        data = replace(data, y=np.clip(data.y, -1, 1), y_test=np.clip(data.y_test, -1, 1))
    rule = Equal(auxiliary=auxiliary) if equal else Fractions(fractions=(0.1, 0.2, 0.3, 0.2, 0.2), auxiliary=auxiliary)
    return partition(data, rule, M, generator(1, "partition"))


def made(algo: str, options: dict[str, Any], M: int = M) -> tuple[Any, Any]:
    node = yaml.safe_load((shipped_folder("conf") / "algo" / f"{algo}.yaml").read_text())
    module, _, name = node["_target_"].rpartition(".")
    options = {key: node[key] for key in ("sites",) if key in node} | options
    kind = getattr(import_module(module), name)
    loss = options.get("loss", "logistic")
    calibration = {} if algo in ("batch", "indiv", "nonpriv", "ceiling", "constant") else {"calibration": "published"}
    if algo in ("ssp", "ssp_descent", "dpgd", "wdgd", "newton", "outpert"):
        calibration = {"calibration": "tight"}
    algorithm = kind(**{**calibration, **options, "loss": LOSSES[loss]})
    equal = M == 1 or algo in ("avg", "vote", "soft", "nn_cape", "nn_conv", "conv")
    return algorithm, parties_of(loss, getattr(algorithm, "auxiliary", 0.0), equal, M)


def release_of(algo: str, algorithm: Any, parties: Any, budgets: Sequence[Budget] = BUDGETS) -> Any:
    with limit_blas():
        mechanism = algorithm.prepare(parties, generator(1, "start"))
        return mechanism.release(list(budgets), generator(1, "noise", algo), DRAWS)


def released(algo: str, options: dict[str, Any]) -> dict[str, Any]:
    algorithm, parties = made(algo, options)
    guarantees = [
        [g.view, g.unit, g.eps, g.delta, g.basis, g.mu]
        for b in BUDGETS
        for g in algorithm.guarantees(b, parties.problem)
    ]
    release = release_of(algo, algorithm, parties)
    metrics = {key: np.ravel(values).tolist() for key, values in release.metrics.items()}
    weights = [] if release.weights is None else np.ravel(release.weights).tolist()
    return {"weights": weights, "metrics": metrics, "guarantees": guarantees}


def current(only: Sequence[str]) -> dict[str, dict[str, Any]]:
    """Return all releases, or those with some names or of some algorithms; or the sentence of a refusal."""
    everything = {}
    for name, (algo, options) in settings(name for name in only if "=" in name).items():
        if only and not {algo, name} & set(only):
            continue
        try:
            everything[name] = released(algo, options)
        except UserError as error:
            everything[name] = {"refused": str(error)}
    return everything


def numbers(value: Any) -> list[float]:
    """All numbers in a plain value, in order; words count as nothing."""
    if isinstance(value, dict):
        return [number for each in value.values() for number in numbers(each)]
    if isinstance(value, list):
        return [number for each in value for number in numbers(each)]
    return [float(value)] if isinstance(value, int | float) else []


def difference(was: Any, now: Any) -> float:
    """The largest relative difference between the numbers of two plain values; inf where they are not alike."""
    first, second = np.array(numbers(was)), np.array(numbers(now))
    if first.shape != second.shape:
        return float("inf")
    with np.errstate(invalid="ignore"):
        apart = np.abs(first - second) / np.maximum(np.abs(first), np.abs(second))
    same = (first == second) | (np.isnan(first) & np.isnan(second))
    return float(np.max(np.where(same, 0.0, apart), initial=0.0))


def main() -> int:
    """Compare bit for bit, or write; new releases have names such as 'ssp loss=squared lam=0.1'."""
    only = [word for word in sys.argv[1:] if not word.startswith("--")]
    was, now = json.loads(FILE.read_text()), json.loads(json.dumps(current(only)))
    if "--write" in sys.argv:
        now = was | now if only else now
        FILE.write_text(json.dumps(now, indent=None, separators=(",", ":")).replace('},"', '},\n"') + "\n")
        return 0
    changed = [name for name in now if was.get(name) != now[name]]
    for name in changed:
        print(f"{name}: a relative difference of {difference(was.get(name), now[name])}")
    print(f"{len(now)} releases, {len(changed)} differ")
    return len(changed) > 0


if __name__ == "__main__":
    sys.exit(main())
