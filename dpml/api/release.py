"""Build the request to release (publish) one model from the settings of a command."""

import shlex
from collections.abc import Container, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from dpml.algorithms import Algorithm
from dpml.api.settings import Settings, compose_one
from dpml.config.build import budget, build_partition, files, instantiate, made, require_all_rows, value_of
from dpml.data import Source
from dpml.data.csv.column_bounds import USUAL, ColumnBounds, load
from dpml.data.csv.reading import open_file
from dpml.data.partition import Partition
from dpml.data.sets.csv import CSV, roles
from dpml.data.table import Tabular
from dpml.errors import UserError
from dpml.optim.losses import for_task
from dpml.privacy import Adversary
from dpml.release.facts import exact_algorithm
from dpml.release.inference import STEPS
from dpml.release.ledger import default_ledger
from dpml.release.release import Request

_DEFAULTS = ("calibration=tight", "algo=wdgd")
"""The defaults of a release that differ from the defaults of an experiment."""

_PUBLIC = {
    "dataset": (
        "label", "task", "positive", "drop", "party", "missing", "test_fraction", "steps", "encoding", "separator",
        "decimal", "na",
    ),
    "partition": ("a", "alpha", "floor", "fractions", "k", "n", "per_party", "smallest", "u"),
    "algo": (
        "budget_share", "calibrate_for", "clip", "curvature", "lam", "model_norm", "noise", "noise_constant",
        "noise_step", "protocol", "radius", "rate", "ridge", "rounds", "shift", "sites", "step", "step_selection",
        "steps", "unit", "variant",
    ),
}  # fmt: skip
"""The keys of each group that a published model shows. None of them names a file."""


def request_of(settings: Settings, ledger: Path | None = None, **allowed: bool) -> tuple[Request, Path]:
    """Return the request for a release, and the path of its ledger (by default, the ledger of the data file)."""
    given = settings.given
    for key in {"seed", "draws"} & given.keys():
        raise UserError(f"a release computes one model, with random numbers from the operating system: remove {key}=.")
    defaults = [word for word in _DEFAULTS if word.partition("=")[0] not in given]
    config, _ = compose_one(replace(settings, words=[*defaults, *settings.words]))
    _choose_for_a_release(config, given)
    dataset: Source = instantiate(config["dataset"], "dataset")
    stated, label = _stated(dataset, config)
    node = {key: value for key, value in config["algo"].items() if key != "noise" or "algo.noise" in given}
    algorithm = exact_algorithm(node, for_task(dataset.info.task, config["loss"]), config["calibration"])
    rule = build_partition(instantiate(config["partition"], "partition"), algorithm)
    here = files(config)
    request = Request(
        dataset=dataset,
        stated=stated,
        label=label,
        partition=rule,
        algorithm=algorithm,
        M=value_of(config, "M"),
        N=value_of(config, "N"),
        budget=budget(config["eps"], config["delta"]),
        adversary=made(Adversary, config["adversary"], "adversary"),
        files=here,
        setting=_setting(config, dataset, rule, algorithm),
        **allowed,
    )
    if ledger is None and isinstance(dataset, CSV):
        ledger = default_ledger(dataset.paths["rows"])
    elif ledger is None:  # one ledger, in the user's cache, for all data sets that use the same files
        ledger = here.target / f"{(dataset.info.name, *dataset.info.folders)[-1]}.ledger"
    return request, ledger


def _setting(config: Mapping[str, Any], dataset: Source, rule: Partition, algorithm: Algorithm) -> str:
    public = {"dataset": dataset.info.name, "partition": rule.name, "algo": algorithm.name}
    public |= {key: config[key] for key in ("loss", "calibration", "M", "N", "eps", "delta")}
    public["adversary.colluders"] = config["adversary"]["colluders"]
    for group, part in (("dataset", dataset), ("partition", rule), ("algo", algorithm)):
        values = {key: value for key, value in vars(part).items() if key in _PUBLIC[group]}
        usual = {key: getattr(type(part), key, None) for key in values} | (USUAL if isinstance(part, CSV) else {})
        public |= {f"{group}.{key}": own for key, own in values.items() if own != usual[key]}
    known = {key: value for key, value in public.items() if value is not None}
    lists = {key: f"[{','.join(map(str, value))}]" for key, value in known.items() if isinstance(value, tuple)}
    return shlex.join(f"{key}={value}" for key, value in (known | lists).items())


def _choose_for_a_release(config: dict[str, Any], given: Container[str]) -> None:
    node = config["dataset"]
    if config["algo"].get("_target_", "").rpartition(".")[2] == "Regression" and "dataset.steps" not in given:
        node["steps"] = list(STEPS)
    if "test_fraction" in node and "dataset.test_fraction" not in given:
        node["test_fraction"] = 0.0
    if "missing" in node:
        if not node["missing"]:
            bounds = Path(str(node["bounds"])).expanduser()
            node["missing"] = (load(bounds).reading.get("missing") if bounds.is_file() else None) or "refuse"
        require_all_rows(node["missing"])
    if "M" not in given and config["partition"].get("_target_", "").rpartition(".")[2] != "Natural":
        config["M"] = 1
    if config["adversary"]["colluders"] is None and "M" in given and 1 < value_of(config, "M") <= 3:
        config["adversary"]["colluders"] = 1  # another party knows its own noise


def _stated(dataset: Any, config: Mapping[str, Any]) -> tuple[ColumnBounds, str]:
    if isinstance(dataset, CSV) and "bounds" in dataset.paths:
        stated, path = load(dataset.paths["bounds"]), dataset.paths["rows"]
        # in the order of the file's columns, as the weights are
        features = roles(open_file(path, dataset.written), dataset)
        return stated.of(features, path), str(dataset.label)
    if not isinstance(dataset, Tabular) or dataset.bounds != "public":
        raise UserError(
            "a release needs public ranges, not ranges taken from private rows: set dataset.bounds=public or, for your "
            "own file, add --bounds FILE.yaml. `dpml data describe FILE --label COLUMN --bounds-out FILE.yaml` writes "
            "a draft of FILE.yaml."
        )
    info = dataset.info
    classes = () if info.task == "regression" else tuple(f"{label:g}" for label in sorted(info.classes))
    return ColumnBounds.of_columns(Path(info.name), info.columns, classes, info.target), "label"
