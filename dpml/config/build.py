"""Build objects from a configuration, after checking every key and the type of every value."""

import inspect
import math
import re
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import cache, partial
from typing import Annotated, Any, TypeVar, get_type_hints

from omegaconf import DictConfig, OmegaConf

from dpml.algorithms import Algorithm
from dpml.data import Files, Source
from dpml.data.partition import Partition
from dpml.errors import UserError, nearest
from dpml.optim.losses import Loss, for_task
from dpml.options import Bound, at_least, convert
from dpml.packs import import_named
from dpml.privacy import Adversary, Budget

T = TypeVar("T")

# cached, because they are called for every combination of an experiment's settings
_signature, _hints = cache(inspect.signature), cache(partial(get_type_hints, include_extras=True))

GROUPS = ("dataset", "partition", "algo")
"""The configuration groups. ``algo=capefm`` chooses an option by name; an option has its own keys, as ``algo.lam``."""


def build_algorithm(config: Mapping[str, Any], dataset: Source) -> Algorithm:
    """Build the algorithm of a configuration; the key `loss` or the data set's task sets the algorithm's loss."""
    return algorithm_of(config["algo"], for_task(dataset.info.task, config["loss"]), config["calibration"])


def algorithm_of(node: Mapping[str, Any], loss: Loss, calibration: str | None) -> Algorithm:
    """Build an algorithm from `node`, a mapping with the algorithm's class (``_target_``) and options."""
    if calibration is None and isinstance(node, Mapping) and "_target_" in node:
        field = _signature(class_of(node["_target_"], "algo")).parameters.get("calibration")
        calibration = field.default if field and field.default is not inspect.Parameter.empty else None
    algorithm: Algorithm = instantiate(node, "algo", loss=loss, calibration=calibration or "published")
    return algorithm


def build_partition(rule: Partition, algorithm: Algorithm) -> Partition:
    """Return a partition rule; if the user sets no share of public rows, use the algorithm's default share."""
    if rule.auxiliary is not None:
        return rule
    return replace(rule, auxiliary=getattr(algorithm, "auxiliary", 0.0))


def check_keys(config: Mapping[str, Any]) -> None:
    """Raise UserError if a top-level key is unknown or missing, or has a value of the wrong type."""
    for key in config:
        if key not in KEYS:
            raise UserError(f"unknown key {str(key)!r}: {nearest(str(key), KEYS)}")
    for key in (*GROUPS, "adversary", *_TYPES):
        if key not in config:
            raise UserError(f"the key {key} is missing, because ~{key} deletes the key: leave out ~{key}.")
    for key, hint in _TYPES.items():
        for value in grid(config[key], key) if key in (*LISTED, "draws") else (config[key],):
            convert(value, hint, key)
    made(Adversary, config["adversary"], "adversary")


def value_of(config: Mapping[str, Any], key: str) -> Any:
    """Return the value of a top-level key of a configuration, converted to the type of the key."""
    return convert(config[key], _TYPES[key], key)


def budget(eps: Any, delta: Any) -> Budget:
    """Convert the values of the keys eps and delta to a privacy budget."""
    return Budget(float(convert(eps, Epsilon, "eps")), convert(delta, _TYPES["delta"], "delta"))


def files(config: Mapping[str, Any]) -> Files:
    """Return the folder of data files, the mirror for downloads, and whether downloads are forbidden."""
    return Files(*(value_of(config, key) for key in ("data_dir", "mirror", "offline")))


def require_all_rows(missing: str) -> None:
    """Raise UserError if a data set leaves out rows with missing values."""
    if missing == "drop":
        raise UserError(
            "dataset.missing=drop leaves rows out because of their content, so a replaced row could change the number "
            "of rows: write dataset.missing=refuse, or dataset.missing=keep with impute in dataset.steps."
        )


def instantiate(node: Mapping[str, Any], key: str, **extra: Any) -> Any:
    """Build an object of the class that ``_target_`` names; the other keys of `node` are parameters of the class."""
    if not isinstance(node, Mapping) or "_target_" not in node:
        raise UserError(f"{key}={node} has no _target_ (class path): write {key}=NAME, or add _target_ to NAME.yaml.")
    options = {name: value for name, value in node.items() if name != "_target_"}
    return made(class_of(node["_target_"], key), options, key, **extra)


def made(target: Callable[..., T], options: Any, key: str, **extra: Any) -> T:
    """Call the class or function `target` with the user's options (converted to their types) and `extra` arguments."""
    parameters = {name: one for name, one in _signature(target).parameters.items() if name not in extra}
    if not isinstance(options, Mapping):
        names = ", ".join(f"{key}.{name}" for name in sorted(parameters))
        raise UserError(f"{key} is a group of keys and has no value itself: set one of {names}.")
    values = {}
    for name, value in options.items():
        if name not in parameters:
            raise UserError(f"unknown key '{key}.{name}': {nearest(name, parameters, f'{key}.')}")
        unset = value is None and parameters[name].default is None
        values[name] = None if unset else convert(value, _hints(target).get(name), f"{key}.{name}")
    try:
        _signature(target).bind(**values, **extra)
    except TypeError as error:
        raise UserError(f"{key}: {error}.") from None
    return target(**values, **extra)


def completed(option: DictConfig) -> DictConfig:
    """Return the keys and values of an option such as algo=capefm; keys that its YAML file omits get default values."""
    if "defaults" in option or "_target_" not in option:
        return option
    try:
        defaults = _defaults(class_of(option["_target_"], "option"))
    except (UserError, TypeError, ValueError):
        return option
    return OmegaConf.create({"_target_": option["_target_"]} | defaults | dict(option))


def _defaults(target: Any) -> dict[str, Any]:
    defaults = {name: parameter.default for name, parameter in _signature(target).parameters.items()}
    values = {name: list(value) if isinstance(value, tuple) else value for name, value in defaults.items()}
    plain = {name: value for name, value in values.items() if isinstance(value, bool | int | float | str | list | None)}
    return {name: value for name, value in plain.items() if name not in _TOP_LEVEL}


_TOP_LEVEL = ("loss", "calibration")  # parameters of algorithms that are keys at the top of a configuration


def class_of(path: Any, key: str) -> Any:
    """Import the class or function with the dotted path MODULE.NAME; error messages name the setting `key`."""
    return imported(path, f"{key}._target_={path}")


def imported(path: Any, where: str) -> Any:
    """Import the class or function MODULE.NAME; error messages begin with `where`, which names the setting."""
    module, _, name = str(path).rpartition(".")
    if not module:
        raise UserError(f"{where} must be a dotted path, MODULE.NAME.")
    try:
        content = import_named(module)
    except (ImportError, SyntaxError) as error:
        raise UserError(f"{where}: {error}: put your module into the current folder, or into --config-dir.") from None
    if not callable(getattr(content, name, None)):
        names = [word for word, value in vars(content).items() if getattr(value, "__module__", "") == module]
        raise UserError(f"{where}: {content.__file__} has no {name!r}: {nearest(name, names)}")
    return getattr(content, name)


def spread(value: Any, key: str) -> Any:
    """Return the whole numbers of a range LOW..HIGH if `key` takes ranges; return any other value unchanged."""
    limits = _RANGE.fullmatch(value) if key in RANGED and isinstance(value, str) else None
    if limits is None:
        return value
    numbers = range(int(limits[1]), int(limits[2]) + 1)
    if not 0 < numbers.stop - numbers.start <= _MOST:
        raise UserError(f"{key}={value} must be LOW..HIGH with LOW <= HIGH and at most {_MOST:,} numbers.")
    return numbers


LISTED = ("eps", "delta", "M", "N", "seed", "metrics")
"""Keys that take a list of values."""
RANGED = ("M", "N", "seed")
"""Keys that also take a range, LOW..HIGH."""
_RANGE, _MOST = re.compile(r"(\d{1,18})\.\.(\d{1,18})"), 1_000_000  # Python refuses to read over 4,300 digits


def grid(value: Any, key: str) -> list[Any]:
    """Return the list of a key's values, where `value` is one value, a range LOW..HIGH, or a list."""
    value = spread(value, key)
    values = list(value) if isinstance(value, list | range) else [value]
    if not values:
        raise UserError(f"{key} must be one value or a list of at least one value, got {key}=[].")
    return values


# beyond these, noise scales overflow
_NO_OVERFLOW = Bound(
    "from 1e-30 to 1e30, or inf for no noise", lambda eps: eps <= 0 or 1e-30 <= eps <= 1e30 or eps == math.inf
)
Epsilon = Annotated[float, _NO_OVERFLOW]
_TYPES: dict[str, Any] = {
    "eps": Epsilon,
    "delta": float | None,
    "M": int,
    "N": int | None,
    "seed": Annotated[int, at_least(0)],
    "draws": int,
    "calibration": str | None,
    "loss": str | None,
    "block": str | None,
    "objective": str | None,
    "data_dir": str | None,
    "mirror": str | None,
    "offline": bool,
    "results_dir": str,
}
KEYS = [*GROUPS, "adversary", *_TYPES, "metrics", "experiment", "run"]
"""All keys at the top of a configuration."""
