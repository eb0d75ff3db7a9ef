"""`dpml release`: one model for publication, recorded in a ledger before its noise is drawn."""

import shlex
from argparse import Namespace
from pathlib import Path
from typing import Any

from omegaconf import DictConfig
from rich.console import Console

from dpml.cli.setting import one_setting
from dpml.config.build import (
    budget,
    build_adversary,
    build_algorithm,
    build_partition,
    files,
    instantiate,
    optional,
    whole,
)
from dpml.data import Source
from dpml.data.csv.column_bounds import ColumnBounds, load
from dpml.data.sets.csv import CSV
from dpml.data.table import Tabular
from dpml.errors import UserError
from dpml.release.ledger import Cap, Ledger
from dpml.release.release import Request, release

_PRIVATE = ("data_dir=", "mirror=", "offline=", "results_dir=", "run.")


def run(arguments: Namespace) -> None:
    """Release one model, and print its guarantees."""
    words = list(arguments.overrides)
    request, beside = _request(words, arguments)
    ledger = Ledger(arguments.ledger or beside)
    cap = None if arguments.cap is None else Cap(arguments.cap, arguments.cap_delta)
    model, entry = release(request, ledger, cap, arguments.output)
    console = Console()
    for sentence in model.statement:
        console.print(sentence, highlight=False, markup=False)
    console.print(f"\n{arguments.output}\n{ledger.path}: release {entry.number}", highlight=False, markup=False)


def _request(words: list[str], arguments: Namespace) -> tuple[Request, Path]:
    """The requested release, and the path of its data's ledger unless another one is named."""
    for key, why in (("seed", "its noise is nobody's to know"), ("draws", "it is one model")):
        if any(word.lstrip("+").startswith(f"{key}=") for word in words):
            raise UserError(f"a release has no {key}, as {why}: leave {key}= out.")
    defaults = [] if any(word.startswith("calibration=") for word in words) else ["calibration=tight"]
    config, d = one_setting([*defaults, *words], "release", arguments.config_dir)
    if d is not None:
        raise UserError("unknown key 'd': the data set says how many features there are.")
    _choose_for_a_release(config, {word.lstrip("+").partition("=")[0] for word in words})
    dataset: Source = instantiate(config.dataset, "dataset")
    stated, label = _stated(dataset, config)
    algorithm = build_algorithm(config, dataset)
    where = files(config)
    request = Request(
        dataset=dataset,
        stated=stated,
        label=label,
        partition=build_partition(instantiate(config.partition, "partition"), algorithm),
        algorithm=algorithm,
        M=whole(config.M, "M"),
        N=optional(whole)(config.N, "N"),
        budget=budget(config.eps, config.delta),
        adversary=build_adversary(config.adversary),
        files=where,
        setting=shlex.join(word for word in words if not word.startswith(_PRIVATE)),
    )
    beside = dataset.paths["rows"] if isinstance(dataset, CSV) else where.root / dataset.info.name / dataset.info.name
    return request, beside.with_name(f"{beside.name}.ledger")


def _choose_for_a_release(config: DictConfig, given: set[str]) -> None:
    """Set the defaults of a release: no test rows, complete rows, and exact noise if the algorithm supports it.

    Raises:
        UserError: rows would be left out because of their values.
    """
    node = config.dataset
    if "test_fraction" in node and "dataset.test_fraction" not in given:
        node.test_fraction = 0.0
    if "missing" in node:
        if "dataset.missing" not in given:
            node.missing = "refuse"
        if node.missing == "drop":
            raise UserError(
                "dataset.missing=drop leaves rows out because of what is in them, so that a replaced row could change "
                "how many there are: a release needs dataset.missing=refuse, or keep with the step impute."
            )
    if "noise" in config.algo and "algo.noise" not in given and config.calibration == "tight":
        config.algo.noise = "discrete"


def _stated(dataset: Any, config: DictConfig) -> tuple[ColumnBounds, str]:
    """The stated columns, and the name of the label.

    Raises:
        UserError: scales would be computed from the private rows.
    """
    if isinstance(dataset, CSV):
        if "bounds" not in dataset.paths:
            raise UserError(
                "a release needs ranges that are stated, not taken from private rows: dataset.bounds=FILE.yaml; "
                "`dpml data describe` writes one to edit."
            )
        return load(dataset.paths["bounds"]), str(dataset.label)
    if not isinstance(dataset, Tabular) or dataset.bounds != "public":
        raise UserError(
            f"a release needs ranges that are stated, not taken from private rows: set dataset.bounds=public, where "
            f"dataset={dataset.info.name} has some, or release your own file with dataset=csv."
        )
    info = dataset.info
    classes = () if info.task == "regression" else tuple(f"{label:g}" for label in sorted(info.classes))
    return ColumnBounds(Path(info.name), info.columns, (), classes, info.target), "label"
