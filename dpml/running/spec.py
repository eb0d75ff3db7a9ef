"""Read the file of an experiment, which has blocks of settings to compute, and panels of a figure to draw."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any, Literal, TypeGuard

from dpml.config.build import GROUPS, made
from dpml.errors import refuse_unknown
from dpml.running.computed import Computed

Scale = Literal["auto", "log", "linear", "symlog"]
SETTINGS = (*GROUPS, "adversary", "calibration", "loss", "eps", "delta", "M", "N", "seed", "draws", "metrics")


@dataclass(frozen=True)
class Panel:
    """A panel of a figure, which plots y against x with a curve per algorithm; `block` and `where` select the rows.

    x, and the keys of `curve` and `where`, are columns of the rows: eps, M, ..., a setting of the block written as on
    the command line (``partition.u``), or a column of a computed block. x can also be ``inverse_eps``, which is 1/eps,
    and 0 without noise (eps = inf). y is the name of a metric, the dotted path of a function, ``proven_eps``, or
    ``conditional_eps``. `ylim` sets the limits of the y axis. `published` names a series of the paper's points, which
    are stored next to the experiment. The algorithms in `thin` are drawn thin and grey, without bands, and do not
    affect the range of the y axis. In a title, ``{KEY}`` is replaced by that setting of the rows.
    """

    block: str
    x: str
    y: str
    title: str = ""
    where: Mapping[str, Any] = field(default_factory=dict)
    curve: Sequence[str] = ("algo",)
    band: Literal["interval", "sd", "none"] = "interval"
    xscale: Scale = "auto"
    yscale: Scale = "auto"
    ylim: Sequence[float] | None = None
    published: str | None = None
    thin: Sequence[str] = ()


@dataclass(frozen=True)
class Oracle:
    """A table of the gain from choosing hyper-parameters on the private test rows.

    For every algorithm of the block `rule` and every eps, the table shows the mean of `metric` in this block, and the
    best mean in the blocks `rule` and `grid`. No budget covers the choice of the best, so it is not a release.
    """

    rule: str
    grid: str
    metric: str


_ASKED = ("name", "command", "changes", "folders", "judged")  # fields that are not keys of an experiment file
Block = Mapping[str, Any] | Sequence[Mapping[str, Any]]


@dataclass(frozen=True)
class Experiment:
    """The settings of a run, or the content of an experiment file for a figure or table of a paper.

    `settings` apply to every block of `grid`, and a block can override them. A block is one mapping of settings, or a
    list of several (its parts). Without a `grid`, the settings form one block, `all`. With one block, panels can omit
    its name. Lists give all combinations, but all eps and delta belong to one cell (fit). If a block has the key
    ``_target_``, it names a function that computes the rows. The rows contain the metrics of all panels and those in
    `metrics`. A metric with a dot in its name is a user's function; it is computed for every block that does not set
    `metrics` itself. `reference` is the algorithm with which the others are compared in pairs. With `twins`, every
    noise calibration has its own figure; otherwise all share one. For each panel that shows a metric of `rank_by`
    against eps, the paper's page which.md names the best proven algorithm at every eps. `oracle` requests a table.

    The last four fields are not in the file: `command` reproduces the numbers on any machine, `changes` are the user's
    settings that change numbers, `folders` are searched for the paper's published points, and `judged` says whether
    claims are judged, which is only done at the paper's settings.
    """

    name: str
    title: str
    source: str
    settings: Mapping[str, Any] = field(default_factory=dict)
    grid: Mapping[str, Block] = field(default_factory=dict)
    panels: Sequence[Panel] = ()
    metrics: Sequence[str] = ()
    columns: int = 3
    reference: str = "capefm"
    note: str = ""
    twins: bool = True
    rank_by: Sequence[str] = ()
    oracle: Oracle | None = None
    command: str = ""
    changes: Sequence[str] = ()
    folders: Sequence[Path] = field(default=(), repr=False)
    judged: bool = True

    @classmethod
    def from_content(cls, name: str, content: Mapping[str, Any]) -> "Experiment":
        grid = content.get("grid") or {"all": {}}
        only = {"block": next(iter(grid))} if len(grid) == 1 else {}
        panels = [made(Panel, only | panel, "experiment.panels") for panel in content.get("panels", ())]
        oracle = content.get("oracle")
        if oracle is not None:
            oracle = made(Oracle, oracle, "experiment.oracle")
        allowed = [f.name for f in fields(cls) if f.name not in _ASKED]
        refuse_unknown("key", content, allowed, f"experiment={name}")
        content = {**content, "name": name, "grid": grid, "panels": panels, "oracle": oracle}
        experiment = made(cls, content, "experiment")
        for block in (*(panel.block for panel in panels), *((oracle.rule, oracle.grid) if oracle else ())):
            refuse_unknown("block", [block], grid, f"experiment={name}")
        for block, settings in grid.items():
            where = f"block {block} of experiment={name}"
            if is_computed(settings):
                Computed.from_content(block, settings, where)  # raises an error if the function cannot be called
                continue
            for key in (*experiment.settings, *(key for part in parts(settings) for key in part)):
                refuse_unknown("key", [key.split(".")[0]], SETTINGS, where)
        return experiment

    @property
    def label(self) -> str:
        """Return the experiment's name, followed by the settings that the command changes."""
        return " ".join([self.name, *self.changes])

    @property
    def shown_metrics(self) -> list[str]:
        """Return an experiment's metrics: those listed in `metrics`, on panels' y axes, and in the table `oracle`."""
        by_oracle = [self.oracle.metric] if self.oracle else []
        return list(dict.fromkeys([*self.metrics, *(panel.y for panel in self.panels), *by_oracle]))

    @property
    def computed(self) -> list[Computed]:
        """Return an experiment's parts (blocks) that need no fits, because a function computes their result rows."""
        return [
            Computed.from_content(block, content, f"block {block} of experiment={self.name}")
            for block, content in self.grid.items()
            if is_computed(content)
        ]


def is_computed(block: Block) -> TypeGuard[Mapping[str, Any]]:
    """Return whether a block of an experiment names a function that computes its results, instead of settings."""
    return isinstance(block, Mapping) and "_target_" in block


def parts(block: Block) -> Sequence[Mapping[str, Any]]:
    """Return the parts of a block. Each part of a block is a grid of settings: all combinations are computed."""
    return [block] if isinstance(block, Mapping) else block
