"""Packs: one paper each, a folder with its card, experiments, published numbers, and the Python that only it needs.

Those that come with dpml are folders of ``experiments``. Others are added by the user, with ``--pack DIR``; other
processes of the same command find them by the environment variable `ENVIRONMENT`. A folder is a pack if it has a
`CARD`. Its Python is the package ``dpml.packs.NAME``, wherever the folder lies, and is loaded when it is named only.
"""

import os
import re
import sys
from importlib.machinery import ModuleSpec
from importlib.util import module_from_spec
from pathlib import Path

from dpml import paths
from dpml.errors import UserError

CARD = "card.yaml"
ENVIRONMENT = "DPML_PACKS"
"""The folders of the user's packs, separated as in PATH."""

__path__: list[str] = []  # a package, all of whose modules are put in place here


def known() -> dict[str, Path]:
    """The folder of every pack by its name: those that come with dpml, and the user's."""
    found = {path.parent.name: path.parent for path in sorted(paths.folder("experiments").glob(f"*/{CARD}"))}
    for folder in map(Path, filter(None, os.environ.get(ENVIRONMENT, "").split(os.pathsep))):
        found.setdefault(folder.name, folder)
    for name, folder in found.items():
        _put_in_place(f"{__name__}.{name}", folder)
    return found


def add(folders: list[Path]) -> None:
    """Make folders known as packs, in this process and those that it starts."""
    for folder in (path.resolve() for path in folders):
        if not (folder / CARD).is_file():
            raise UserError(f"--pack={folder} is no pack: it has no {CARD}.")
        if not re.fullmatch(r"[a-z][a-z0-9_]*", folder.name):
            raise UserError(f"--pack={folder}: a pack's name has small letters, digits and _ only; rename the folder.")
        if os.pathsep in str(folder):
            raise UserError(f"--pack={folder}: no path of a pack has a {os.pathsep!r}.")
        if home(folder.name) != folder and home(folder.name).is_dir():
            raise UserError(f"--pack={folder}: {folder.name!r} is the name of another already; rename the folder.")
        if folder.name not in known():
            others = os.environ.get(ENVIRONMENT)
            os.environ[ENVIRONMENT] = f"{others}{os.pathsep}{folder}" if others else str(folder)
    known()


def home(name: str) -> Path:
    """The folder of a pack; for another name, the one in ``experiments``, which there may not be."""
    return known().get(name, paths.folder("experiments") / name)


def is_ours(module: str) -> bool:
    """Whether a module is dpml's: also the Python of a pack that comes with it, but of no other."""
    root, _, rest = module.partition(".")
    if not module.startswith(f"{__name__}."):
        return root == __name__.partition(".")[0]
    folder = known().get(rest.split(".")[1])
    return folder is not None and folder.parent == paths.folder("experiments")


def absolute(name: str, pack: str) -> str:
    """The dotted path of what a pack names; ``.MODULE.NAME`` is in its own Python."""
    return f"{__name__}.{pack}{name}" if re.fullmatch(r"(\.[A-Za-z_]\w*){2,}", name) else name


def _put_in_place(name: str, folder: Path) -> None:
    """Make a folder the package `name`, unless it is."""
    there = sys.modules.get(name)
    if there is not None and list(there.__path__) == [str(folder)]:
        return
    for other in [other for other in sys.modules if other == name or other.startswith(f"{name}.")]:
        del sys.modules[other]
    spec = ModuleSpec(name, None, is_package=True)
    spec.submodule_search_locations = [str(folder)]
    sys.modules[name] = module_from_spec(spec)


known()
