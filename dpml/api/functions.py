"""Provide functions that compute guarantees, attack releases, check recipes, load data sets and read stored rows."""

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from dpml.algorithms import Algorithm
from dpml.api.settings import Settings, compose_one, settings_of
from dpml.audit import DRAWS, ROUNDS, Finding, audit, default_rows
from dpml.config.build import budget, build_partition, class_of, files, instantiate, value_of
from dpml.data import Dataset, Source
from dpml.data.partition import ByLabel, Parties, Partition, Skew, partition
from dpml.errors import UserError, refuse_unknown
from dpml.files import seal_object
from dpml.mechanism.guarantees import guaranteed
from dpml.mechanism.message import Sum
from dpml.mechanism.program import Program
from dpml.privacy import Budget, Guarantee, Problem, UnsizedProblem
from dpml.privacy.guarantee import HELD
from dpml.recipes import Judged, judge, recipe_of
from dpml.release.certificate import certificate
from dpml.running.cell import Cell
from dpml.running.expansion import Expansion
from dpml.seeds import generator

if TYPE_CHECKING:
    import pandas as pd

_ROUNDS = {"T": "rounds", "epochs": "epochs"}
_OF_DATA = ("dataset", "N", "seed", "data_dir", "mirror", "offline")


def guarantee(*overrides: str, config_dir: str | Path | None = None, **keys: Any) -> list[Guarantee]:
    """Compute the claimed and the proven guarantee of a release against every observer (`dpml guarantee`).

    >>> import dpml
    >>> for g in dpml.guarantee(algo="capefm", eps=0.1, delta=1e-5, M=10, N=5000, d=30, calibration="tight"):
    ...     print(g.view, g.unit, round(g.eps, 4), g.basis)
    release sample 0.0822 proven
    aggregate sample 0.0822 proven
    client sample 0.0 proven
    transcript sample 0.0822 proven
    colluders sample 0.1 proven

    Arguments are as for `dpml.run`, with one value each. No data are read: M (parties), N (rows) and d (features) can
    be any numbers. By default, N and d are those of the data set.
    """
    return PlannedRelease.of(settings_of(overrides, keys, config_dir)).guaranteed()


def attack(*overrides: str, config_dir: str | Path | None = None, **keys: Any) -> list[Finding]:
    """Attack a release in each observer's role; compare the eps reached with the claimed and proven eps (`dpml audit`).

    The data are synthetic. The eps that an attack reaches is a lower bound on the true eps.

    >>> import dpml
    >>> for finding in dpml.attack(algo="ssp", dataset="synthetic", eps=1, delta=1e-5, M=1, draws=2000):
    ...     print(finding.view, round(finding.proven, 4), finding.attacked < finding.proven, finding.verdict)
    release 1.0 True consistent

    Arguments are as for `guarantee`, but N, d, draws, algo.rounds and algo.epochs have other defaults
    (`dpml audit --help`).
    """
    release, draws, seed, _ = attacked(settings_of(overrides, keys, config_dir))
    return audit(*release, draws, seed)


def check(recipe: str | Path | None = None, **keys: Any) -> list[Judged]:
    """Compute the guarantees of a training recipe against every observer, and judge the claimed eps (`dpml check`).

    >>> import dpml
    >>> for view in dpml.check(rounds=100, noise_multiplier=10, delta=1e-5, unit="client", clients=20, claimed_eps=3):
    ...     print(view.view, round(view.proven, 2), view.verdict)
    release 10.0 false
    aggregate 10.0 false
    client inf false
    transcript inf false

    `recipe` is a YAML or JSON file, and `keys` override its keys (docs/howto/check.md).
    """
    return judge(recipe_of(recipe, **keys))


def load(*overrides: str, config_dir: str | Path | None = None, **keys: Any) -> Dataset:
    """Load the training and test rows of a data set as `dpml.run` uses them, with every row in the unit ball.

    >>> import dpml
    >>> data = dpml.load("wdbc", N=100, seed=1)
    >>> data.X.shape, data.X_test.shape, sorted(set(data.y))
    ((100, 30), (114, 30), [np.float64(-1.0), np.float64(1.0)])

    The keys are dataset and its options, N (training rows; None: all), seed (for drawing and splitting rows), data_dir,
    mirror and offline. The arrays can be read-only and memory-mapped.
    """
    named = [word if "=" in word else f"dataset={word}" for word in overrides]
    settings = settings_of(named, keys, config_dir)
    refuse_unknown("key", (name.partition(".")[0] for name in settings.given), _OF_DATA, "dpml.load")
    config, _ = compose_one(settings)
    return _load(config, instantiate(config["dataset"], "dataset"))


def read_table(model: str | Path, *, level: float = 0.95, per: Mapping[str, float] | None = None) -> "pd.DataFrame":
    """Return the coefficients of a released model of algo=regression, with intervals and p-values (`dpml table`).

    The columns are column, unit, estimate, low, high, p and note; for two classes, whose estimates are log odds, also
    odds_ratio, odds_low and odds_high. For numbers, estimates are for an increase by `per[column]` (default: 1).
    """
    from dpml.release.inference import coefficient_table
    from dpml.release.model import read_model
    from dpml.reporting.coefficients import frame

    found = read_model(Path(model))
    return frame(coefficient_table(found, level, per), found.task == "binary")


def rows(path: str | Path) -> "pd.DataFrame":
    """Return the table of results of a run or a sweep, given its folder, or of a figure (results/PAPER/FIGURE)."""
    from dpml.reporting.tables import read_rows  # slow to load

    path = Path(path)
    return read_rows(path / "rows.csv" if path.is_dir() else path.with_name(f"{path.name}_rows.csv"))


def _load(config: Mapping[str, Any], source: Source) -> Dataset:
    N, seed = value_of(config, "N"), value_of(config, "seed")
    if N is not None and N < 1:  # 0 would mean all rows
        raise UserError(f"N must be at least 1, got N={N}.")
    return source.load(files(config), N, generator(seed, "data"))


def dealt(settings: Settings) -> tuple[Skew, Partition, Parties]:
    """Deal a data set's rows to parties; return row counts by party and class, the partition rule, and the parties."""
    config, d = compose_one(settings)
    if d is not None:
        raise UserError("unknown key 'd': a partition does not depend on the features, so remove d=.")
    dataset: Source = instantiate(config["dataset"], "dataset")
    # a partition needs only the share of public rows, which the algorithm's class has: no algorithm is built
    rule = build_partition(instantiate(config["partition"], "partition"), class_of(config["algo"]["_target_"], "algo"))
    M = value_of(config, "M")
    rule.check_task(dataset.info.task, dataset.info.name)
    data, seed = _load(config, dataset), value_of(config, "seed")
    parties = partition(data, rule, M, generator(seed, "partition"))
    return Skew.of(parties, generator(seed, "partition", "chance")), rule, parties


class PlannedRelease(NamedTuple):
    """The algorithm, the privacy budget and the public sizes (such as M and N) of a planned release."""

    algorithm: Algorithm
    budget: Budget
    problem: Problem

    @classmethod
    def of(cls, settings: Settings) -> "PlannedRelease":
        config, d = compose_one(settings)
        cell = _cell(config)
        problem = cell.problem if d is None else replace(cell.problem, d=d)
        return cls(cell.algorithm, cell.budgets[0], _as_known(problem, cell.partition, cell.algorithm.name))

    def guaranteed(self) -> list[Guarantee]:
        return guaranteed(*self)

    @property
    def about(self) -> str:
        """Describe the release in one line: its algorithm, eps, rounds, and numbers of rows, features and parties."""
        algorithm, problem = self.algorithm, self.problem
        facts = {"algo": algorithm.name, "eps": self.budget.eps, "N": problem.N, "d": problem.d, "M": problem.M}
        facts |= {key: getattr(algorithm, name) for key, name in _ROUNDS.items() if getattr(algorithm, name, None)}
        facts |= {"loss": algorithm.loss.name} if hasattr(algorithm, "loss") else {}
        facts |= {"colluders": problem.colluders} if problem.M > 1 else {}
        return "  ".join(f"{key}={value:g}" if key == "eps" else f"{key}={value}" for key, value in facts.items())

    @property
    def messages(self) -> Sequence[Sum]:
        if not isinstance(self.algorithm, Program):
            return ()
        return [each for each in self.algorithm.messages(self.budget, self.problem) if isinstance(each, Sum)]

    def certificate(self) -> str:
        """Return the text of a certificate of the proven guarantees; raise UserError if nothing is proven."""
        proven = [g for g in self.guaranteed() if g.basis in HELD]
        if not all(math.isfinite(g.eps) for g in proven):
            raise UserError(
                f"nothing is proven for algo={self.algorithm.name} with these settings, so there is no certificate."
            )
        return json.dumps(seal_object(certificate(*self, proven)), indent=1) + "\n"


def _as_known(problem: Problem, rule: Partition, algo: str) -> Problem:
    """Return `problem`, but without the parties' sizes if the partition `rule` computes them from private labels."""
    if not isinstance(rule, ByLabel):
        return problem
    why = (
        f"the guarantee of algo={algo} can depend on the sizes of the parties, and partition={rule.name} computes them "
        f"from the data: choose a partition by size, or see guarantees.csv of a run."
    )
    if not rule.every_row:
        raise UserError(why)
    return UnsizedProblem(problem, why)


def attacked(settings: Settings) -> tuple[PlannedRelease, int, int, list[str]]:
    """Return the release to attack, the number of noise draws, the seed, and the settings that the audit has chosen."""
    config, d = compose_one(settings)
    given, chosen = settings.given, []
    for key, few in ROUNDS.items():
        if f"algo.{key}" not in given and config["algo"].get(key, few) != few:
            chosen.append(f"algo.{key}={few} instead of {config['algo'][key]}")
            config["algo"][key] = few
    cell = _cell(config)
    N = cell.N or default_rows(cell.algorithm) * cell.M
    chosen += [f"{key}={value}" for key, value in (("N", N), ("d", 2)) if key not in given]
    colluders = cell.adversary.count(cell.M)
    problem = Problem(cell.M, N, 2 if d is None else d, auxiliary=10, classes=2, colluders=colluders)
    draws = value_of(config, "draws") if "draws" in given else DRAWS
    return PlannedRelease(cell.algorithm, cell.budgets[0], problem), draws, cell.seed, chosen


def _cell(config: Mapping[str, Any]) -> Cell:
    return Expansion(config).cells({}, [budget(config["eps"], config["delta"])])[0]
