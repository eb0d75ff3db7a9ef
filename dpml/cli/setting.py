"""One setting from overrides, for `dpml guarantee`, `dpml audit` and `dpml data partition`."""

from collections.abc import Iterable
from pathlib import Path

from omegaconf import DictConfig, OmegaConf

from dpml.config.build import check_keys
from dpml.config.compose import compose
from dpml.errors import UserError


def one_setting(
    overrides: Iterable[str], command: str, config_dir: Path | None = None
) -> tuple[DictConfig, int | None]:
    """The configuration of one setting, and the number of features if `d=` gives it.

    Raises:
        UserError: a key or a value is wrong, or there are several eps, delta, M or N.
    """
    overrides = list(overrides)
    features = [word.removeprefix("d=") for word in overrides if word.startswith("d=")]
    config = compose((word for word in overrides if not word.startswith("d=")), config_dir)
    check_keys(config)
    for key in ("eps", "delta", "M", "N", "seed", "draws"):
        if OmegaConf.is_list(config[key]):
            raise UserError(f"dpml {command} takes one {key}, got {key}={list(config[key])}.")
    try:
        return config, int(features[-1]) if features else None
    except ValueError:
        raise UserError(f"d must be a whole number, got d={features[-1]}.") from None
