"""Find packs: each is a folder with the experiments, published numbers and Python code of one paper.

Packs are the folders in ``experiments``, the folders that ``--pack`` names, and the packages that installed
distributions name as entry points ``dpml.packs``. A pack's Python code is the package ``dpml.packs.NAME``.
"""

import os
import re
import sys
from functools import cache
from importlib import import_module
from importlib.machinery import ModuleSpec
from importlib.metadata import entry_points
from importlib.util import find_spec, module_from_spec
from pathlib import Path
from types import ModuleType

from dpml.errors import UserError
from dpml.files import shipped_folder

CARD = "card.yaml"
ENVIRONMENT = "DPML_PACKS"
"""The environment variable with the folders of the user's packs, separated as in PATH, for child processes."""

__path__: list[str] = []  # makes this module a package; `_put_in_place` adds its modules


def known() -> dict[str, Path]:
    """Return a dict of all packs' folders by name: packs of dpml, of the user, and of installed distributions."""
    folders = {path.parent.name: path.parent for path in sorted(shipped_folder("experiments").glob(f"*/{CARD}"))}
    for folder in (*map(Path, filter(None, os.environ.get(ENVIRONMENT, "").split(os.pathsep))), *_installed()):
        folders.setdefault(folder.name, folder)
    for name, folder in folders.items():
        _put_in_place(f"{__name__}.{name}", folder)
    return folders


@cache
def _installed() -> list[Path]:
    specs = [find_spec(point.module) for point in entry_points(group=__name__)]
    return [Path(folder) for spec in specs if spec for folder in spec.submodule_search_locations or ()]


def options() -> list[Path]:
    """Return the ``conf`` folders of all packs, whose files add options to dpml's configuration."""
    return [folder / "conf" for folder in known().values() if (folder / "conf").is_dir()]


def add(folders: list[Path]) -> None:
    """Register the user's folders as packs (folders of papers), in this process and in its child processes."""
    for folder in (path.resolve() for path in folders):
        if not (folder / CARD).is_file():
            raise UserError(f"--pack={folder} is not a pack: it has no card.yaml.")
        if not re.fullmatch(r"[a-z][a-z0-9_]*", folder.name):
            raise UserError(
                f"--pack={folder} has an invalid name: use a small letter, then small letters, digits and _."
            )
        if home(folder.name) != folder and home(folder.name).is_dir():
            raise UserError(f"--pack={folder} has the name of another pack, {folder.name!r}: rename the folder.")
        if folder.name not in known():
            others = os.environ.get(ENVIRONMENT)
            os.environ[ENVIRONMENT] = f"{others}{os.pathsep}{folder}" if others else str(folder)
    known()


def home(name: str) -> Path:
    """Return the path of the pack (a paper's folder) called `name`; for an unknown pack, a path that need not exist."""
    return known().get(name, shipped_folder("experiments") / name)


def is_ours(module: str) -> bool:
    """Return whether a module is part of dpml or of a pack (a paper's folder) that dpml ships."""
    root, _, rest = module.partition(".")
    if not module.startswith(f"{__name__}."):
        return root == __name__.partition(".")[0]
    folder = known().get(rest.split(".")[1])
    return folder is not None and folder.parent == shipped_folder("experiments")


def absolute(name: str, pack: str) -> str:
    """Return the full dotted path of a Python object; a name such as ``.MODULE.NAME`` is relative to the pack."""
    return f"{__name__}.{pack}{name}" if re.fullmatch(r"(\.[A-Za-z_]\w*){2,}", name) else name


def _put_in_place(name: str, folder: Path) -> None:
    """Make a folder importable as the package `name`, in place of an earlier folder with that name."""
    there = sys.modules.get(name)
    if there is not None and list(there.__path__) == [str(folder)]:
        return
    for other in [other for other in sys.modules if other == name or other.startswith(f"{name}.")]:
        del sys.modules[other]
    spec = ModuleSpec(name, None, is_package=True)
    spec.submodule_search_locations = [str(folder)]
    sys.modules[name] = module_from_spec(spec)


known()


def import_named(module: str) -> ModuleType:
    """Import a module that a setting names; the module may lie in the current folder."""
    if "" not in sys.path and find_spec(module.partition(".")[0]) is None:
        sys.path.append("")
    return import_module(module)
