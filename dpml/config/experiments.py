"""Find and read the files of experiments, which are in packs (one folder per paper) and in --config-dir/experiment."""

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from omegaconf import OmegaConf

from dpml import packs
from dpml.files import shipped_folder

PACKAGE = "experiment"
"""The key that names an experiment, and the name of the user's folder of experiments."""
Files = Mapping[str, Path]


def natural(name: str) -> list[tuple[int, str]]:
    """Return a sort key that puts fig2 before fig10."""
    return [(int(part), "") if part.isdigit() else (-1, part) for part in re.split(r"(\d+)", name)]


def files(config_dir: Path | None = None) -> dict[str, Path]:
    """Map the names of experiments to the paths of their files. A file whose name starts with ``_`` is a template."""
    homes = {*shipped_folder("experiments").glob("[!_.]*/"), *packs.known().values()}
    found = {
        f"{home.name}/{path.stem}": path
        for home in sorted(homes)
        for path in home.glob("*.yaml")
        if path.name != packs.CARD
    }
    own = config_dir / PACKAGE if config_dir else None
    for path in own.rglob("*.yaml") if own else ():
        found.setdefault(path.relative_to(own).with_suffix("").as_posix(), path)  # type: ignore[arg-type]
    return found


def names(config_dir: Path | None = None) -> set[str]:
    """Return the valid values of ``experiment=``: the names of all experiments and papers, and the word ``all``."""
    shown = {name for name in files(config_dir) if not _is_template(name)}
    return {"all", *shown, *(name.rpartition("/")[0] for name in shown if "/" in name)}


def selected(name: str, config_dir: Path | None = None) -> list[str]:
    """Return the experiments that `name` selects: one experiment, all experiments of a paper, or all experiments."""
    known = files(config_dir)
    if name in known:
        return [name]
    members = [each for each in known if name == "all" or each.startswith(f"{name}/")]
    return sorted((each for each in members if not _is_template(each)), key=natural)


def content(name: str, known: Files) -> dict[str, Any]:
    """Return the content of an experiment's file, with missing keys taken from the templates listed in ``defaults``."""
    path = known[name]
    own: Any = OmegaConf.to_container(OmegaConf.load(path), resolve=True)
    merged: dict[str, Any] = {}
    for template in own.pop("defaults", ()):
        if template != "_self_":
            merged = _merged(merged, content(str(template).strip("/").removeprefix(f"{PACKAGE}/"), known))
    return _merged(merged, _with_absolute_names(own, path.parent.name))


def _merged(below: Any, above: Any) -> Any:
    if isinstance(below, dict) and isinstance(above, dict):
        return below | {key: _merged(below.get(key), value) for key, value in above.items()}
    return above


def _is_template(name: str) -> bool:
    return name.rpartition("/")[2].startswith("_")


def _with_absolute_names(value: Any, pack: str) -> Any:
    if isinstance(value, dict):
        return {key: _with_absolute_names(each, pack) for key, each in value.items()}
    if isinstance(value, list):
        return [_with_absolute_names(each, pack) for each in value]
    return packs.absolute(value, pack) if isinstance(value, str) else value
