"""Run `dpml-run`, which carries out a run, a sweep, or experiments in this process or with a launcher of Hydra."""

import argparse
import os
import shlex
import sys
from collections.abc import Collection
from contextlib import suppress
from pathlib import Path
from typing import Any

from dpml import packs
from dpml.api.jobs import INTERRUPTED, Asked, CellsFailedError, ask, compute, mean_of, write_experiment, write_run
from dpml.api.settings import Settings
from dpml.cli.errors import exit_on_mistakes, refuse_dashed_keys
from dpml.config.build import GROUPS, class_of
from dpml.config.compose import VERSION_BASE, brief, options, search_path, user_errors
from dpml.config.experiments import PACKAGE
from dpml.errors import UserError
from dpml.files import shipped_folder
from dpml.running.plan import Results

_HEADER = """\
dpml-run: train a model on several parties' data with differential privacy, score it, and print what is proven.

== Configuration groups (GROUP=OPTION) =="""
_FOOTER = """\
Options
  -m, --multirun          sweep: KEY=A,B runs all combinations
  --config-dir, -cd DIR   a folder with your own options and experiments
  --pack DIR              the folder of your own paper, with its card.yaml
  --cfg, --info, -sc ...  the options of Hydra (--hydra-help describes them)

Examples
  dpml-run algo=capefm eps=0.1
  dpml-run algo=conv dataset=crime data_dir=DIR eps=[0.1,1,10] calibration=tight
  dpml-run -m algo=capefm,conv,nonpriv eps=0.1,1,10
  dpml-run experiment=imtiaz2019/fig3 run.workers=4
To compute the privacy of a setting without data: dpml guarantee algo=capefm eps=0.1 delta=1e-5 M=10
A run is an experiment, not a release: whoever knows its seed can subtract the noise.
"""


def main() -> None:
    """Run `dpml-run`."""
    # with this variable Hydra passes an exception on, instead of printing its own summary
    os.environ["HYDRA_FULL_ERROR"] = "1"
    exit_on_mistakes("dpml-run", _main)


def _main() -> None:
    parser = argparse.ArgumentParser(add_help=False, allow_abbrev=False)
    parser.add_argument("--multirun", "-m", action="store_true")
    parser.add_argument("--config-dir", "-cd", type=Path)
    parser.add_argument("--pack", type=Path, action="append", default=[])
    parser.add_argument("--help", "-h", action="store_true")
    arguments, words = parser.parse_known_args(sys.argv[1:])
    packs.add(arguments.pack)
    refuse_dashed_keys(words, words)
    settings = Settings(words, config_dir=arguments.config_dir)
    elsewhere = arguments.multirun and any(word.startswith(("hydra/launcher=", "hydra/sweeper=")) for word in words)
    if elsewhere or any(word.startswith("-") for word in words):
        _by_hydra(settings, arguments.multirun)
    elif arguments.help:
        print(_help(settings))
    else:
        command = shlex.join(["dpml-run", *sys.argv[1:]])
        status, _ = _carry_out(settings.swept() if arguments.multirun else settings, arguments.multirun, command)
        if status:
            sys.exit(status)


def _help(settings: Settings) -> str:
    import yaml

    from dpml.config.docstrings import meanings

    config = settings.composed().values
    names = {group: options(group, settings.config_dir) for group in GROUPS}
    lines = [_HEADER, *(f"{group}: {', '.join(names[group])}" for group in ("dataset", "partition")), "algo:"]
    lines += [f"  {name:16}{brief('algo', name, settings.config_dir)}" for name in names["algo"]]
    lines += ["", "== Keys (KEY=VALUE) and their values now ==", yaml.safe_dump(config, sort_keys=False)]
    lines += ["== What the keys of these options mean =="]
    for group in GROUPS:
        with suppress(UserError):  # the class does not exist
            keys = [str(key) for key in config[group] if key != "_target_"]
            lines += meanings(group, class_of(config[group].get("_target_"), group), keys)
    return "\n".join([*lines, "", _FOOTER])


def _carry_out(settings: Settings, sweep: bool, command: str, folder: Path | None = None) -> tuple[int, float | None]:
    """Compute and write the results; return the exit status, and the mean of the metric that `objective` names."""
    asked = ask(settings)
    objective = asked.plain["objective"]
    if objective and folder is None:
        raise UserError(f"objective={objective} needs a search: add -m hydra/sweeper=optuna, or remove objective=.")
    status = compute(asked, command)
    if status or asked.options.dry:
        return status, None
    if not asked.is_run:
        return _write_experiments(asked), None
    (plan,) = asked.plans
    folder = folder or _folder(asked, sweep)
    try:
        results = write_run(asked, folder, command)
    except CellsFailedError:  # the lines above have reported it
        return 1, None
    for sentence in plan.left_out():
        print(f"left out: {sentence}", file=sys.stderr)
    requested = {path.rpartition(".")[2] for point in plan.points if point.cell for path in point.cell.metrics}
    made = _show_tables(results, folder, requested)
    print(f"Written to {os.path.relpath(folder)}/: {', '.join(['rows.csv', 'guarantees.csv', 'manifest.json', *made])}")
    lacks = plan.left_out() or any(point.status == "failed" for point in plan.points)
    return int(bool(lacks)), mean_of(results, objective) if objective else None


def _folder(asked: Asked, sweep: bool) -> Path:
    from hydra.core.hydra_config import HydraConfig

    HydraConfig.instance().set_config(asked.config)  # its name may contain ${hydra:KEY}
    return Path(asked.config.hydra.sweep.dir if sweep else asked.config.hydra.run.dir).absolute()


def _write_experiments(asked: Asked) -> int:
    status = 0
    for plan in asked.plans:
        name = plan.experiment.name
        status = status or int(any(point.status == "failed" for point in plan.points))
        try:
            written = write_experiment(plan, asked.results)
        except UserError as error:
            if len(asked.plans) == 1:
                raise
            print(f"not written: {PACKAGE}={name}: {error}", file=sys.stderr)
            continue
        for path in written:
            print(f"written: {os.path.relpath(path)}")
        if not written:
            print(f"up to date: {os.path.relpath(asked.results / name)}.*")
    return status


def _show_tables(results: Results, folder: Path, requested: Collection[str]) -> list[str]:
    from dpml.cli.console import axes, show
    from dpml.reporting.run_table import FIGURE, FILES, claims_in, run_table, write_tables
    from dpml.reporting.statistics import summarise

    rows, guarantees = results.rows, results.guarantees
    show(rows, guarantees, requested)
    table = run_table(summarise(rows), claims=claims_in(guarantees))
    written = write_tables(table, folder) if table.keys else []
    if axes(rows):
        from dpml.reporting.figures import plot  # slow to load

        written += plot(rows, folder)
    made = [path.name for path in written]
    for name in (*FILES, *FIGURE):  # delete tables and figures of an earlier run in the same folder
        if name not in made:
            (folder / name).unlink(missing_ok=True)
    return made


def _by_hydra(settings: Settings, multirun: bool) -> None:
    import hydra

    # Hydra does not know keys such as algo.lam, which belong to a class: ++ makes Hydra accept them
    of_options = tuple(f"{group}." for group in (*GROUPS, PACKAGE))
    words = [f"++{word}" if word.startswith(of_options) else word for word in settings.words]
    folder = ["--config-dir", str(settings.config_dir)] if settings.config_dir else []
    folder += [search_path(packs.options())] if packs.options() else []
    sys.argv[1:] = [*(["-m"] if multirun else []), *folder, *words]
    with user_errors():
        hydra.main(str(shipped_folder("conf")), "config", **VERSION_BASE)(_job)()


def _job(config: Any) -> float | None:
    from hydra.core.hydra_config import HydraConfig

    context = HydraConfig.get()
    own = [source.path for source in context.runtime.config_sources if source.provider == "command-line"]
    words = [str(word).removeprefix("++") for word in context.overrides.task]
    command = shlex.join(["dpml-run", *words])
    settings = Settings(words, config_dir=Path(own[0]) if own else None)
    status, mean = _carry_out(settings, False, command, Path(context.runtime.output_dir))
    if status == INTERRUPTED:
        raise KeyboardInterrupt
    if status:
        raise UserError(f"{command} did not complete: the lines above say why.")
    return mean
