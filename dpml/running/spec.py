"""An experiment file: blocks of settings that expand to cells, panels of a figure, and claims by name."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any, TypeGuard, TypeVar

from dpml.config.build import GROUPS
from dpml.errors import UserError, nearest, refuse_unknown
from dpml.running.computed import Computed

T = TypeVar("T")

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
    band: str = "interval"
    xscale: str = "auto"
    yscale: str = "auto"
    ylim: Sequence[float] | None = None
    published: str | None = None
    thin: Sequence[str] = ()

    def __post_init__(self) -> None:
        for key, allowed in {"band": BANDS, "xscale": SCALES, "yscale": SCALES}.items():
            if getattr(self, key) not in allowed:
                raise UserError(
                    f"unknown {key}={getattr(self, key)!r} in a panel: {nearest(getattr(self, key), allowed)}"
                )
        if self.ylim is not None and not (len(self.ylim) == 2 and self.ylim[0] < self.ylim[1]):
            raise UserError(f"ylim={self.ylim!r} in a panel is no pair of numbers, the lower first.")


@dataclass(frozen=True)
class Oracle:
    """The value of hyper-parameters chosen by the private test rows: a table, not a release.

    For every algorithm of the block `rule`, at every eps, the table shows the best mean of `metric` over that block and
    the block `grid` beside the mean with the rule. No budget counts the choice.
    """

    rule: str
    grid: str
    metric: str


_ASKED = ("name", "command", "changes", "folders")  # keys that a file cannot have
Block = Mapping[str, Any] | Sequence[Mapping[str, Any]]
BANDS = ("interval", "sd", "none")
SCALES = ("auto", "log", "linear", "symlog")


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

    A file does not have the last three: the `command` that reproduces the numbers anywhere, the `changes` of its
    numbers on the command line, and the `folders` that may have the paper's published points.
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

    @classmethod
    def from_content(cls, name: str, content: Mapping[str, Any]) -> "Experiment":
        """The experiment described by the content of a file."""
        content = _one_block(content)
        panels = [_from_fields(Panel, panel, f"a panel of experiment={name}") for panel in content.get("panels", ())]
        oracle = content.get("oracle")
        if oracle is not None:
            oracle = _from_fields(Oracle, oracle, f"the oracle of experiment={name}")
        refuse_unknown("key", content, [f.name for f in fields(cls) if f.name not in _ASKED], f"experiment={name}")
        whole = {**content, "name": name, "panels": panels, "oracle": oracle}
        experiment = _from_fields(cls, whole, f"experiment={name}")
        named = [(panel.block, f"a panel of experiment={name}") for panel in panels]
        if oracle is not None:
            named += [(block, f"the oracle of experiment={name}") for block in (oracle.rule, oracle.grid)]
        for block, where in named:
            refuse_unknown("block", [block], experiment.grid, where)
        for block, settings in experiment.grid.items():
            where = f"block {block} of experiment={name}"
            if is_computed(settings):
                Computed.from_content(block, settings, where)  # refuses what cannot be called
                continue
            for key in (*experiment.settings, *(key for part in parts(settings) for key in part)):
                if key.split(".")[0] not in SETTINGS:
                    refuse_unknown("key", [key], SETTINGS, where)
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


def _one_block(content: Mapping[str, Any]) -> Mapping[str, Any]:
    grid = content.get("grid") or {"all": {}}
    if len(grid) > 1:
        return content
    only = {"block": next(iter(grid))}
    panels = [only | panel if isinstance(panel, dict) else panel for panel in content.get("panels", ())]
    return {**content, "grid": grid, "panels": panels}


def _from_fields(kind: type[T], content: Mapping[str, Any], where: str) -> T:
    refuse_unknown("key", content, [f.name for f in fields(kind)], where)  # type: ignore[arg-type]
    try:
        return kind(**content)
    except TypeError as error:
        raise UserError(f"{where}: {str(error).split('__init__() ')[-1]}.") from None


def is_computed(block: Block) -> TypeGuard[Mapping[str, Any]]:
    """Whether a block's rows come from a function."""
    return isinstance(block, Mapping) and "_target_" in block


def parts(block: Block) -> Sequence[Mapping[str, Any]]:
    """The settings that are crossed, one mapping for each part."""
    return [block] if isinstance(block, Mapping) else block
