"""The location of the configuration and the experiments: next to the package in a checkout, inside it in a wheel."""

from pathlib import Path

_PACKAGE = Path(__file__).resolve().parent


def folder(name: str) -> Path:
    """Return the absolute path of ``conf`` or ``experiments``."""
    inside = _PACKAGE / name
    return inside if inside.is_dir() else _PACKAGE.parent / name
