"""One model for publication: the request of one setting."""

import shlex
from collections.abc import Container
from dataclasses import replace
from pathlib import Path
from typing import Any

from omegaconf import DictConfig

from dpml.commands.settings import Settings, compose_one, is_private
from dpml.config.build import (
    budget,
    build_adversary,
    build_partition,
    files,
    instantiate,
    optional,
    whole,
)
from dpml.config.complete import require_complete
from dpml.data import Files, Info, Source
from dpml.data.csv.column_bounds import ColumnBounds, load
from dpml.data.csv.csv_rows import roles
from dpml.data.csv.reading import open_file
from dpml.data.sets.csv import CSV
from dpml.data.table import Tabular
from dpml.errors import UserError
from dpml.optim.losses import for_task
from dpml.release.exactness import exact_algorithm
from dpml.release.ledger import beside
from dpml.release.release import Request

_DEFAULTS = {"calibration": "tight", "algo": "wdgd"}
"""Where those of an experiment are another."""


def request_of(settings: Settings, **allowed: bool) -> tuple[Request, Path]:
    """The requested release, and the path of its data's ledger unless another one is named.

    `allowed` are fields of `Request` that say what may be published: `floating`, `any_delta`, `declared`.

    Raises:
        UserError: a setting is wrong, or has several values, or needs more than what is stated of the data.
    """
    given = settings.given
    for key, why in (("seed", "its noise is nobody's to know"), ("draws", "it is one model")):
        if key in given:
            raise UserError(f"a release has no {key}, as {why}: leave {key}= out.")
    defaults = {key: value for key, value in _DEFAULTS.items() if key not in given}
    config, d = compose_one(replace(settings, values={**defaults, **settings.values}), "release")
    if d is not None:
        raise UserError("unknown key 'd': the data set says how many features there are.")
    _choose_for_a_release(config, given)
    dataset: Source = instantiate(config.dataset, "dataset")
    stated, label = _stated(dataset, config)
    node = {key: value for key, value in config.algo.items() if key != "noise" or "algo.noise" in given}
    algorithm = exact_algorithm(node, for_task(dataset.info.task, config.loss), config.calibration)
    here = files(config)
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
        files=here,
        setting=shlex.join(word for word in settings.words if not (is_private(word) or _names_a_file(word))),
        **allowed,
    )
    return request, beside(dataset.paths["rows"]) if isinstance(dataset, CSV) else _ledger(here, dataset.info)


def _ledger(files: Files, info: Info) -> Path:
    """Return the ledger of a public data set: one for all that are made of the same files, whichever folder has them.

    It is in the user's cache, or in the data folder if an earlier version put it there.
    """
    names = (info.name, *info.folders)
    within = [Path(f"{names[-1]}.ledger"), *(Path(name) / f"{name}.ledger" for name in names)]
    places = [root / place for root in dict.fromkeys((files.target, *files.roots)) for place in within]
    found = [place for place in places if place.exists()]
    if len(found) > 1:
        raise UserError(
            f"{' and '.join(map(str, found))} are both about the rows of dataset={info.name}: say --ledger FILE."
        )
    return found[0] if found else places[0]


def _names_a_file(word: str) -> bool:
    """Whether a word says where the owner's files are; dataset.bounds=public names none."""
    key, _, value = word.partition("=")
    return key in ("dataset.path", "dataset.test_path") or (key == "dataset.bounds" and value != "public")


def _choose_for_a_release(config: DictConfig, given: Container[str]) -> None:
    """Set the defaults of a release: no test rows, and complete rows.

    Raises:
        UserError: rows would be left out because of their values.
    """
    node = config.dataset
    if "test_fraction" in node and "dataset.test_fraction" not in given:
        node.test_fraction = 0.0
    require_complete(node, given)
    if "M" not in given and config.partition.get("_target_", "").rpartition(".")[2] != "Natural":
        config.M = 1
    if config.adversary.colluders is None and "M" in given and 1 < whole(config.M, "M") <= 3:
        config.adversary.colluders = 1  # another party knows its own noise


def _stated(dataset: Any, config: DictConfig) -> tuple[ColumnBounds, str]:
    """The stated columns, and the name of the label.

    Raises:
        UserError: scales would be computed from the private rows.
    """
    if isinstance(dataset, CSV):
        if "bounds" not in dataset.paths:
            raise UserError(
                "a release needs ranges that are stated, not taken from private rows: dataset.bounds=FILE.yaml; "
                "`dpml data describe FILE --label COLUMN --bounds-out FILE.yaml` writes one to edit."
            )
        stated, path = load(dataset.paths["bounds"]), dataset.paths["rows"]
        # in the order of the file's columns, as the weights are
        features = roles(open_file(path, dataset.written), dataset)
        return replace(stated, columns=stated.of(features, path)), str(dataset.label)
    if not isinstance(dataset, Tabular) or dataset.bounds != "public":
        raise UserError(
            f"a release needs ranges that are stated, not taken from private rows: set dataset.bounds=public, where "
            f"dataset={dataset.info.name} has some, or release your own file with dataset=csv."
        )
    info = dataset.info
    classes = () if info.task == "regression" else tuple(f"{label:g}" for label in sorted(info.classes))
    return ColumnBounds(Path(info.name), info.columns, (), classes, info.target), "label"
