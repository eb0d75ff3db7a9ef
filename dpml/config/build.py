"""From a configuration to a run: every key checked, every value of the right kind, one sentence for a mistake."""

import inspect
from collections.abc import Callable
from dataclasses import replace
from types import NoneType
from typing import Any, TypeVar, get_args, get_origin, get_type_hints

import hydra
from omegaconf import DictConfig, OmegaConf

from dpml.algorithms import Algorithm
from dpml.data import Source
from dpml.data.partition import Partition
from dpml.errors import UserError, nearest
from dpml.optim.losses import for_task

T = TypeVar("T")

KEYS = ["dataset", "partition", "algo", "calibration", "loss", "eps", "delta", "M", "N", "seed", "draws", "metrics"]
KEYS += ["objective", "data_dir", "mirror", "offline", "results_dir", "experiment", "run"]


def build_algorithm(config: DictConfig, dataset: Source) -> Algorithm:
    """The algorithm of a composed configuration, with the loss that `loss` or the data set's task says."""
    loss = for_task(dataset.info.task, config.loss)
    algorithm: Algorithm = instantiate(config.algo, "algo", loss=loss, calibration=config.calibration)
    return algorithm


def build_partition(rule: Partition, algorithm: Algorithm) -> Partition:
    """The partition `rule`; where nobody says how many rows are auxiliary, as many as the algorithm asks for."""
    if rule.auxiliary is not None:
        return rule
    return replace(rule, auxiliary=getattr(algorithm, "auxiliary", 0.0))  # type: ignore[type-var]


def check_keys(config: DictConfig) -> None:
    """Raise UserError for a key at the top that means nothing."""
    for key in config:
        if key not in KEYS:
            raise UserError(f"unknown key {str(key)!r}: {nearest(str(key), KEYS)}")


def instantiate(node: DictConfig, key: str, **extra: Any) -> Any:
    """Build the object that ``_target_`` names from the node's other keys, which must be parameters of it."""
    if not isinstance(node, DictConfig) or "_target_" not in node:
        raise UserError(f"{key}={node} is not one of its options: choose with {key}=NAME.")
    options: dict[str, Any] = OmegaConf.to_container(node, resolve=True)  # type: ignore[assignment]
    try:
        target = hydra.utils.get_class(options.pop("_target_"))
    except Exception as error:
        raise UserError(f"{key}: {error}") from error
    parameters = inspect.signature(target).parameters
    hints = get_type_hints(target)
    for name, value in options.items():
        if name not in parameters or name in extra:
            raise UserError(f"unknown key {f'{key}.{name}'!r}: {nearest(name, set(parameters) - set(extra))}")
        options[name] = _convert(value, hints.get(name), f"{key}.{name}")
    return target(**options, **extra)


def _convert(value: Any, hint: Any, key: str) -> Any:
    """The value as the field's annotation has it; kinds that a command line cannot confuse are left alone."""
    if get_origin(hint) is tuple:
        if not isinstance(value, list):
            raise UserError(f"{key} must be a list, got {key}={value}: write {key}=[{value}].")
        return tuple(value)
    kinds = get_args(hint) or (hint,)
    if value is None and NoneType in kinds:
        return None
    if float in kinds:
        return number(value, key)
    if int in kinds:
        return whole(value, key)
    return value


def number(value: Any, key: str) -> float:
    """`value` as a float, or a UserError that names the key."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise UserError(f"{key} must be a number, got {key}={value}.")
    return float(value)


def whole(value: Any, key: str) -> int:
    """`value` as an int, or a UserError that names the key."""
    if isinstance(value, bool) or not isinstance(value, int | float) or value != int(value):
        raise UserError(f"{key} must be a whole number, got {key}={value}.")
    return int(value)


def optional(convert: Callable[[Any, str], T]) -> Callable[[Any, str], T | None]:
    """`convert`, with null allowed."""
    return lambda value, key: None if value is None else convert(value, key)
