"""An experiment file: blocks of settings that expand to cells, panels of a figure, and claims by name."""

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
    """One panel: the rows of one block, filtered by `where`, y against x with one curve per algorithm.

    x, and the keys of `curve` and `where`, are columns of the rows: eps, M, ..., any setting of the block, as on the
    command line (``partition.u``), and the own columns of a computed block. x may also be ``inverse_eps``, 1/eps, on
    which no noise (eps = inf) is at 0. y is a metric, by name or by the dotted path of a function, or ``proven_eps``,
    or ``conditional_eps`` if nothing is proven because of a selection. `ylim` are the limits of the y axis, for a panel
    that shows a part; by default it includes all means. `published` is a series of the points that are stored beside
    the experiment. The algorithms in `thin` are drawn thin and grey, without bands, and do not affect the range of the
    y axis. In a title, ``{KEY}`` becomes the setting of the rows (`charts.titled`).
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
    """The value of hyper-parameters chosen by the private test rows: a table, not a release.

    For every algorithm of the block `rule`, at every eps, the table shows the best mean of `metric` over that block and
    the block `grid` beside the mean with the rule. No budget counts the choice.
    """

    rule: str
    grid: str
    metric: str


_ASKED = ("name", "command", "changes", "folders", "judged")  # keys that a file cannot have
Block = Mapping[str, Any] | Sequence[Mapping[str, Any]]


@dataclass(frozen=True)
class Experiment:
    """What is asked: a published figure or table, as described by its file; or a run, which has no panels.

    `settings` apply to every block of `grid`, and a block may override them; a block of several parts is a list of such
    settings. Without a `grid` they are a block of their own, `all`, and panels need not name an only block. Lists are
    crossed; those of eps and delta stay together in one cell. A block with a ``_target_`` is computed by a function
    instead (`computed`). `metrics` are kept in the rows in addition to those that the panels
    show; one with a dot is a user-defined function (`metrics.Metric`), called for every block except those that have
    `metrics` themselves. What is claimed about it is in the card of its pack (`dpml.packs`).
    `reference` is the algorithm that the others are compared with in pairs. With `twins` every calibration has its own
    figure; without, all are in one. Every panel that shows a metric of `rank_by` against eps becomes a part of the page
    which.md of the paper's folder: the best proven algorithm at every eps. `oracle` requests a table.

    A file does not have the last four: the `command` that reproduces the numbers anywhere, the `changes` of its
    numbers on the command line, the `folders` that may have the paper's published points, and whether the paper's
    claims are `judged`, which they are only at the paper's settings.
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
        """The experiment described by the content of a file."""
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
                Computed.from_content(block, settings, where)  # refuses what cannot be called
                continue
            for key in (*experiment.settings, *(key for part in parts(settings) for key in part)):
                refuse_unknown("key", [key.split(".")[0]], SETTINGS, where)
        return experiment

    @property
    def label(self) -> str:
        """The name, and the changes on the command line."""
        return " ".join([self.name, *self.changes])

    @property
    def shown_metrics(self) -> list[str]:
        """The metrics that its panels or its oracle show, and those in `metrics`."""
        by_oracle = [self.oracle.metric] if self.oracle else []
        return list(dict.fromkeys([*self.metrics, *(panel.y for panel in self.panels), *by_oracle]))

    @property
    def computed(self) -> list[Computed]:
        """The blocks whose rows come from a function."""
        return [
            Computed.from_content(block, content, f"block {block} of experiment={self.name}")
            for block, content in self.grid.items()
            if is_computed(content)
        ]


def is_computed(block: Block) -> TypeGuard[Mapping[str, Any]]:
    """Whether a block's rows come from a function."""
    return isinstance(block, Mapping) and "_target_" in block


def parts(block: Block) -> Sequence[Mapping[str, Any]]:
    """The settings that are crossed, one mapping for each part."""
    return [block] if isinstance(block, Mapping) else block
