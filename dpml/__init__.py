"""Run experiments on multiparty differentially private learning, with privacy guarantees that are proven."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from dpml.version import __version__ as __version__

if TYPE_CHECKING:
    from dpml.api.estimators import PrivateClassifier, PrivateRegressor
    from dpml.api.functions import attack, check, guarantee, load, read_table, rows
    from dpml.api.run import run
    from dpml.errors import PrivacyWarning, UserError
    from dpml.privacy import Budget, Guarantee
    from dpml.release.ledger import Ledger

__all__ = [
    "Budget",
    "Guarantee",
    "Ledger",
    "PrivacyWarning",
    "PrivateClassifier",
    "PrivateRegressor",
    "UserError",
    "attack",
    "check",
    "guarantee",
    "load",
    "read_table",
    "rows",
    "run",
]
_HOMES = {
    "dpml.api.estimators": ("PrivateClassifier", "PrivateRegressor"),
    "dpml.api.functions": ("attack", "check", "guarantee", "load", "read_table", "rows"),
    "dpml.api.run": ("run",),
    "dpml.errors": ("PrivacyWarning", "UserError"),
    "dpml.privacy": ("Budget", "Guarantee"),
    "dpml.release.ledger": ("Ledger",),
}


def __getattr__(name: str) -> Any:
    for module, names in _HOMES.items():
        if name in names:
            globals()[name] = getattr(import_module(module), name)
            return globals()[name]
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return [*__all__, "__version__"]
