"""One setting from overrides: what `dpml guarantee` and `dpml audit` are about."""

from collections.abc import Iterable

from omegaconf import DictConfig, OmegaConf

from dpml.config.build import check_keys, number, optional
from dpml.config.compose import compose
from dpml.errors import UserError
from dpml.privacy import Budget


def one_setting(overrides: Iterable[str], command: str) -> tuple[DictConfig, int | None]:
    """The configuration of one setting, and the number of features if `d=` says it."""
    overrides = list(overrides)
    features = [word.removeprefix("d=") for word in overrides if word.startswith("d=")]
    config = compose(word for word in overrides if not word.startswith("d="))
    check_keys(config)
    for key in ("eps", "delta", "M", "N"):
        if OmegaConf.is_list(config[key]):
            raise UserError(f"dpml {command} takes one {key}, got {key}={list(config[key])}.")
    try:
        return config, int(features[-1]) if features else None
    except ValueError:
        raise UserError(f"d must be a whole number, got d={features[-1]}.") from None


def budget(config: DictConfig) -> Budget:
    """The eps and delta of one setting."""
    return Budget(number(config.eps, "eps"), optional(number)(config.delta, "delta"))
