"""Plan the cells (single fits) that settings ask for, compute the cells, and write their results."""

import os
import re
import shlex
import sys
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from omegaconf import DictConfig, OmegaConf

from dpml import packs
from dpml.api.settings import Settings, is_private
from dpml.config import experiments
from dpml.config.build import GROUPS, KEYS, LISTED, check_keys, grid, made
from dpml.config.compose import check_option, parsed, set_value
from dpml.config.experiments import PACKAGE
from dpml.data.sources import cache
from dpml.errors import UserError, nearest
from dpml.files import write_atomically
from dpml.running.environment import environment, matrix_rate
from dpml.running.expansion import Expansion, Point
from dpml.running.plan import Options, Plan, Results, listing, look_up
from dpml.running.runner import announce, carry_out
from dpml.running.spec import SETTINGS, Experiment
from dpml.running.store import Store, digest
from dpml.screen import Screen

INTERRUPTED = 130
_PLAN = "plan.csv"  # of the last dry run, in the results folder
_NO_RELEASE = "an experiment, not a release: whoever knows the seed can subtract the noise"
_RUN = "run"
"""The name of an experiment that is a run or a sweep."""


class CellsFailedError(Exception):
    """Raised if a bug makes a cell (a single fit) fail; the error message names the file with the traceback."""


@dataclass(frozen=True)
class Asked:
    """The configuration of a command and, for each experiment, run or sweep, a `Plan` that lists the models to fit."""

    config: DictConfig  # the composed configuration, with Hydra's own settings
    plain: Mapping[str, Any]  # the configuration without Hydra's own settings
    plans: Sequence[Plan]
    options: Options

    @property
    def results(self) -> Path:
        return Path(self.plain["results_dir"])

    @property
    def is_run(self) -> bool:
        return self.plans[0].experiment.name == _RUN


def ask(settings: Settings) -> Asked:
    """Turn a command's settings into a configuration and plans, which list all fits (cells) with their status."""
    known = experiments.files(settings.config_dir)
    found = [_experiment(name, known, settings) for name in _names(settings)]
    overrides = _overrides(settings, crossed=bool(found))
    common = settings.only(lambda key: key.partition(".")[0] not in (*GROUPS, PACKAGE)) if found else settings
    plain, config = common.composed()
    check_keys(plain)
    chosen = {group: str(config.hydra.runtime.choices[group]) for group in GROUPS}
    expansion = Expansion(plain, chosen, settings.config_dir)
    run_options = made(Options, plain["run"], "run")
    token = cache.WRITES.set(not run_options.dry)
    try:
        plans = _published(found, settings, expansion, overrides) if found else [_run(expansion, overrides)]
        look_up(plans, run_options)
    finally:
        cache.WRITES.reset(token)
    return Asked(config, plain, plans, run_options)


def _overrides(settings: Settings, crossed: bool) -> dict[str, Any]:
    """Return a dict of the settings that a command changes; the value of a swept setting is a list."""
    found: dict[str, Any] = {}
    for key, value in settings.given.items():
        if key in GROUPS and not crossed:
            _refuse_list(key, value)
        if key.partition(".")[0] in SETTINGS:
            found[key] = [value] if isinstance(value, list) and key not in LISTED and not crossed else value
    for key, values in settings.lists.items():
        if key.partition(".")[0] not in (*SETTINGS, PACKAGE):
            why = f"{key} must have one value for a whole sweep, got {key}={','.join(map(str, values))}."
            raise UserError(why if key.partition(".")[0] in KEYS else f"unknown key {key!r}: {nearest(key, KEYS)}")
        if key in GROUPS:
            for name in values:
                check_option(key, str(name), settings.config_dir)
        if key != PACKAGE:
            nested = [grid(value, key) if key in LISTED else (value,) for value in values]
            found[key] = [value for group in nested for value in group]
    return found


def _store(expansion: Expansion) -> Store:
    return Store(Path(expansion.config["results_dir"]) / ".cells")


def _run(expansion: Expansion, overrides: Mapping[str, Any]) -> Plan:
    axes = {key: expansion.config[key] for key in ("N", "M", "seed")}
    metrics = overrides.get("metrics", expansion.config["metrics"]) or []
    block = {**expansion.chosen, **axes, **overrides, "metrics": metrics}
    experiment = Experiment(_RUN, "", "", block, {"all": {}})
    return Plan(experiment, expansion.points(experiment, {}, check=True), _store(expansion))


def write_run(asked: Asked, folder: Path, command: str) -> Results:
    """Write the tables of a run or a sweep into a folder, then the manifest, and return the results."""
    from dpml.reporting.manifest import beside

    (plan,) = asked.plans
    results = results_of_run(plan)
    folder.mkdir(parents=True, exist_ok=True)
    paths = [folder / name for name in ("guarantees.csv", "rows.csv")]
    write_atomically(paths[0], results.guarantees.to_csv(index=False))
    write_atomically(paths[1], results.rows.to_csv(index=False))
    settings = plan.experiment.settings
    facts = {
        "note": _NO_RELEASE,
        "command": command,
        "config": asked.plain,
        "settings": settings,
        "dataset": results.provenance,
        "seed": settings["seed"],
        "seconds": plan.seconds()["all"],
        **environment(plan.versions()),
    }
    own = any(point.cell and getattr(point.cell.dataset, "own", False) for point in plan.points)
    beside(folder).keep(facts, paths, private=own)
    return results


def results_of_run(plan: Plan) -> Results:
    """Return the results of a run or a sweep; raise an error if every fit was skipped or failed."""
    check(plan)
    if not any(point.finished for point in plan.points):
        refuse_failures(plan)
    results = plan.results()
    rows, guarantees = (table.drop(columns="block").drop_duplicates() for table in (results.rows, results.guarantees))
    return replace(results, rows=rows, guarantees=guarantees)


def refuse_failures(plan: Plan) -> None:
    """Raise CellsFailedError if one of the fits (cells) of a plan has failed."""
    for point in plan.points:
        if point.status == "failed":
            raise CellsFailedError(f"{point.reason} (traceback in {plan.store.log(point.key)})")


def mean_of(results: Results, metric: str) -> float:
    """Return the mean of a metric over all rows; raise UserError if one of its values is NaN."""
    known = list(results.rows["metric"].unique())
    if metric not in known:
        raise UserError(f"objective={metric} is not a metric of this run: choose one of {', '.join(known)}.")
    values = results.rows.loc[results.rows["metric"] == metric, "value"]
    if values.isna().any():
        raise UserError(f"objective={metric} has {values.isna().sum()} values that are NaN: choose another metric.")
    return float(values.mean())


def _names(settings: Settings) -> list[str]:
    name = settings.given.get(PACKAGE)
    _refuse_list(PACKAGE, name)
    names = settings.lists.get(PACKAGE, [] if name is None else [name])
    for each in names:
        check_option(PACKAGE, str(each), settings.config_dir)
    return [one for each in names for one in experiments.selected(str(each), settings.config_dir)]


def _refuse_list(key: str, value: Any) -> None:
    if isinstance(value, list):
        several = ",".join(map(str, value))
        raise UserError(f"{key} takes one name, got {key}=[{several}]: write dpml-run -m {key}={several}.")


def _experiment(name: str, known: experiments.Files, settings: Settings) -> Experiment:
    """Read the file of an experiment, and apply changes such as ``experiment.grid.BLOCK.ARGUMENT=VALUE``."""
    content: Any = experiments.content(name, known)
    words = [word for word in map(parsed, settings.words) if word.key_or_group.startswith(f"{PACKAGE}.")]
    if words:
        config = OmegaConf.create({PACKAGE: content})
        for word in words:
            set_value(config, word.key_or_group, word.value(), word.is_add() or word.is_force_add())
        content = OmegaConf.to_container(config[PACKAGE], resolve=True)
    homes = (known[name].parent.parent, packs.home(name.rpartition("/")[0]).parent)
    return replace(Experiment.from_content(name, content), folders=homes, judged=not words)


def _published(
    found: Sequence[Experiment], settings: Settings, expansion: Expansion, overrides: Mapping[str, Any]
) -> list[Plan]:
    from dpml.reporting.charts import as_published, check, only_block, read_published, refuse_ambiguous  # loads pandas

    # the settings that change numbers: a command with these words reproduces the numbers on any machine
    words = [word for word in settings.words if parsed(word).key_or_group != PACKAGE and not is_private(word)]
    words += [f"{key}=[{','.join(map(str, values))}]" for key, values in settings.lists.items() if key != PACKAGE]
    settable = [word for word in words if parsed(word).key_or_group in overrides]
    plans: list[Plan] = []
    any_change = not settable
    for experiment in found:
        experiment = only_block(experiment, expansion.config["block"])
        refuse_ambiguous(experiment, overrides)
        points = expansion.points(experiment, overrides)
        check(experiment, points, read_published(experiment.folders, experiment.name.rpartition("/")[0]))
        changes = words
        if settable:
            usual = expansion.points(experiment, {})
            if _signature(points) == _signature(usual):
                changes = [word for word in changes if word not in settable]
            else:
                any_change = True
            experiment = as_published(experiment, points, usual)
        command = shlex.join(["dpml-run", f"{PACKAGE}={experiment.name}", *words])
        experiment = replace(experiment, changes=changes, command=command)
        reference = _reference(experiment, points, expansion.config)
        plans.append(Plan(experiment, points, _store(expansion), reference))
    if not any_change:
        raise UserError(f"{' '.join(settable)} has no effect on experiment={found[0].name}.")
    return plans


def _reference(experiment: Experiment, points: Sequence[Point], config: Mapping[str, Any]) -> dict[str, float]:
    """Estimate the CPU seconds per fit for each block of settings, from published times and this machine's speed."""
    from dpml.reporting.manifest import Manifest

    cost = Manifest(base_of(experiment, Path(config["results_dir"])).with_suffix(".json")).read().get("cost")
    if not cost:
        return {}
    slower = cost["matrix_rate"] / matrix_rate()
    counts = Counter(point.block for point in points)
    return {block: slower * seconds / counts[block] for block, seconds in cost["seconds"].items() if counts[block]}


def base_of(experiment: Experiment, results: Path) -> Path:
    """Return the path of an experiment's files, in a separate folder if a command changes the experiment's settings."""
    if not experiment.changes:
        return results / experiment.name
    text = re.sub(r"[][]", "", "_".join(experiment.changes)).replace(",", "_")
    slug = re.sub(r"[^\w=.-]", "_", text)
    if slug != text or len(slug) > 100:  # the slug does not contain all changed settings: add their hash
        slug = f"{slug[:100]}-{digest(experiment.changes)[:8]}"
    return results / "trials" / experiment.name / slug / experiment.name.rpartition("/")[2]


def write_experiment(plan: Plan, results: Path) -> list[Path]:
    """Write an experiment's plan, and its tables, figures and pages unless these are up to date."""
    from dpml.reporting import artifacts  # draws and counts: slow to load

    check(plan)
    base = base_of(plan.experiment, results)
    base.parent.mkdir(parents=True, exist_ok=True)
    write_atomically(base.with_name(f"{base.name}_plan.csv"), listing([plan]))
    paths = artifacts.write(plan, base)
    return paths if plan.experiment.changes else [*paths, *artifacts.write_claims(base.parents[1])]


def check(plan: Plan) -> None:
    """Raise UserError, with the most common reason, if no result that an experiment's figure shows can be computed."""
    experiment = plan.experiment
    shown = {panel.block for panel in experiment.panels}
    if any(not shown or block.block in shown for block in experiment.computed):
        return
    points = [point for point in plan.points if not shown or point.block in shown]
    without = ("skipped",) if experiment.name == _RUN else ("skipped", "failed")
    if all(point.status in without for point in points):
        reasons = Counter(point.reason for point in points if point.reason).most_common(1)
        why = reasons[0][0] if reasons else "it has no cells."
        nothing = f"no cell of experiment={experiment.name} can be computed here: "
        raise UserError(why if experiment.name == _RUN else nothing + why)


def _signature(points: Sequence[Point]) -> set[tuple[str, str]]:
    return {(point.block, repr(point.cell) if point.cell else point.reason) for point in points}


def compute(asked: Asked, command: str) -> int:
    """Compute all missing results of a command; return the exit status, which is 130 after Ctrl-C and otherwise 0."""
    plans, run_options = asked.plans, asked.options
    console, errors = Screen(), Screen(stderr=True)
    if len(plans) == 1 and not run_options.dry:
        check(plans[0])
    announce(plans, run_options, console)
    if run_options.dry:
        path = asked.results / _PLAN
        path.parent.mkdir(parents=True, exist_ok=True)
        write_atomically(path, listing(plans))
        print(f"The whole plan, a line per cell: {os.path.relpath(path)}")
        return 0
    try:
        carry_out(plans, run_options, errors)
    except KeyboardInterrupt:
        _tell(errors, f"interrupted: completed cells are saved; resume with: {command}")
        return INTERRUPTED
    failed = len({point.key for plan in plans for point in plan.points if point.status == "failed"})
    if failed:
        _tell(errors, f"dpml-run: {failed} cells failed; to try them again: {command}", "red")
    return 0


def _tell(console: Screen, message: str, style: str = "yellow") -> None:
    sys.stdout.flush()
    console.print(message, style=style, soft_wrap=True)
