"""Data sets that stand for others: an experiment names a substitute, which is used where the official files are not."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from dpml.data import Files, Source, checksum
from dpml.errors import UserError
from dpml.running.spec import Block, Experiment, is_computed, parts

MARK = " (substitute)"


def stands_in(substitute: Source, official: Source, files: Files) -> bool:
    """Whether the substitute has to be used: its files are here, and the official ones can not be had.

    Official files that are here, though damaged, are nobody's substitute: they give their own sentence.
    """
    if _here(official, files) or not _here(substitute, files):
        return False
    try:
        checksum(official, files)  # they are fetched if they can be
    except UserError:
        return True
    return False


def _here(source: Source, files: Files) -> bool:
    return all(files.local(source.info, raw.name) is not None for raw in source.info.files)


def using(experiment: Experiment, used: Mapping[str, Source]) -> Experiment:
    """The experiment with substitutes in place of some data sets, and its note and panels saying so.

    Args:
        experiment: as its file has it.
        used: by the official name, the data set that stands for it.
    """
    names = {official: source.info.name for official, source in used.items()}
    if not names:
        return replace(experiment, substitutes={})
    grid = {
        name: block if is_computed(block) else [_renamed(part, names) for part in parts(block)]
        for name, block in experiment.grid.items()
    }
    panels = [
        replace(
            panel,
            where=_renamed(panel.where, names),
            title=panel.title + MARK * bool(_shown(experiment, panel.block, panel.where) & set(names)),
        )
        for panel in experiment.panels
    ]
    notes = [
        f"{source.info.name} stands for {official}, whose files are not here. {source.info.differences}"
        for official, source in used.items()
    ]
    return replace(
        experiment,
        settings=_renamed(experiment.settings, names),
        grid=grid,
        panels=panels,
        note=" ".join([experiment.note.strip(), *notes]).strip(),
        substitutes=names,
    )


def _renamed(settings: Mapping[str, Any], names: Mapping[str, str]) -> dict[str, Any]:
    value = settings.get("dataset")
    if isinstance(value, str):
        return {**settings, "dataset": names.get(value, value)}
    if isinstance(value, list):
        return {**settings, "dataset": [names.get(one, one) for one in value]}
    return dict(settings)


def _shown(experiment: Experiment, block: str, where: Mapping[str, Any]) -> set[str]:
    content: Block = experiment.grid[block]
    if is_computed(content):
        return set()
    wanted = [where] if "dataset" in where else [{**experiment.settings, **part} for part in parts(content)]
    values = [settings.get("dataset", ()) for settings in wanted]
    return {name for value in values for name in ([value] if isinstance(value, str) else value)}
