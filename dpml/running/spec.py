"""An experiment file: blocks of settings that expand to cells, panels that say what is drawn, and claims by name."""

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from functools import cached_property
from itertools import product
from typing import Any, TypeGuard, TypeVar

import hydra
from hydra.core.global_hydra import GlobalHydra
from hydra.core.override_parser.overrides_parser import OverridesParser
from omegaconf import DictConfig, OmegaConf

from dpml.algorithms import Algorithm
from dpml.config.build import build_algorithm, instantiate, number, optional, whole
from dpml.data import Files, Source
from dpml.data.partition import Partition
from dpml.errors import UserError, nearest
from dpml.privacy import Budget
from dpml.running.cell import Cell
from dpml.running.computed import Computed

T = TypeVar("T")

GROUPS = ("dataset", "partition", "algo")
SETTINGS = (*GROUPS, "calibration", "loss", "eps", "delta", "M", "N", "seed", "draws")
_SHARED = ("eps", "delta")  # one fit serves all of these


@dataclass(frozen=True)
class Panel:
    """One picture: the rows of one block, kept where `where` holds, y against x with one curve per algorithm.

    x, and the keys of `curve` and `where`, may be the last part of a setting that no column has (``u`` is partition.u).
    x may also be ``inverse_eps``, 1/eps, in which no noise (eps = inf) has the place 0.
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
    published: str | None = None

    def __post_init__(self) -> None:
        for key, allowed in {"band": BANDS, "xscale": SCALES, "yscale": SCALES}.items():
            if getattr(self, key) not in allowed:
                raise UserError(
                    f"unknown {key}={getattr(self, key)!r} in a panel: {nearest(getattr(self, key), allowed)}"
                )


Block = Mapping[str, Any] | Sequence[Mapping[str, Any]]
BANDS = ("interval", "sd", "none")
SCALES = ("auto", "log", "linear", "symlog")


@dataclass(frozen=True)
class Experiment:
    """A published figure or table, as its file describes it.

    `settings` hold for every block of `grid`, and a block may say otherwise; a block of several parts is a list of such
    settings. Lists are crossed; those of eps and delta stay together in one cell. A block with a ``_target_`` is
    computed by a function instead (`computed`). `metrics` are kept in the rows beside those that the panels show;
    `reference` is the algorithm that the others are compared with in pairs. With `twins` every calibration has a figure
    of its own; without, all are in one.
    """

    name: str
    title: str
    source: str
    settings: Mapping[str, Any]
    grid: Mapping[str, Block]
    panels: Sequence[Panel]
    metrics: Sequence[str] = ()
    columns: int = 3
    claims: Sequence[str] = ()
    reference: str = "capefm"
    note: str = ""
    twins: bool = True

    @classmethod
    def of(cls, name: str, content: Mapping[str, Any]) -> "Experiment":
        """The experiment that a file's content describes.

        Raises:
            UserError: a key is unknown or missing.
        """
        panels = [_fields(Panel, panel, f"a panel of experiment={name}") for panel in content.get("panels", ())]
        made = _fields(cls, {**content, "name": name, "panels": panels}, f"experiment={name}")
        for panel in panels:
            if panel.block not in made.grid:
                where = f"a panel of experiment={name}"
                raise UserError(f"unknown block {panel.block!r} in {where}: {nearest(panel.block, made.grid)}")
        for block, settings in made.grid.items():
            where = f"block {block} of experiment={name}"
            if _is_computed(settings):
                Computed.of(block, settings, where)  # refuses what cannot be called
                continue
            for key in (*made.settings, *(key for part in _parts(settings) for key in part)):
                if key.split(".")[0] not in SETTINGS:
                    raise UserError(f"unknown key {key!r} in {where}: {nearest(key, SETTINGS)}")
        return made

    @property
    def computed(self) -> list[Computed]:
        """The blocks whose rows come from a function."""
        return [
            Computed.of(block, content, f"block {block} of experiment={self.name}")
            for block, content in self.grid.items()
            if _is_computed(content)
        ]


def _fields(kind: type[T], content: Mapping[str, Any], where: str) -> T:
    names = [f.name for f in fields(kind)]  # type: ignore[arg-type]
    for key in content:
        if key not in names:
            raise UserError(f"unknown key {key!r} in {where}: {nearest(key, names)}")
    try:
        return kind(**content)
    except TypeError as error:
        raise UserError(f"{where}: {str(error).split('__init__() ')[-1]}.") from None


@dataclass(frozen=True)
class Point:
    """One combination of a block's settings: its cell, or the sentence that says why there is none."""

    block: str
    settings: Mapping[str, Any]
    cell: Cell | None
    reason: str | None = None


@dataclass(frozen=True)
class Expansion:
    """Turns blocks into cells, on top of a composed configuration. Equal parts are built once."""

    config: Mapping[str, Any]
    overrides: Mapping[str, Any]
    _made: dict[str, Any] = field(default_factory=dict)

    @classmethod
    def of(cls, config: DictConfig, words: Iterable[str]) -> "Expansion":
        """From the composed configuration and the command line's `words`, which win over every block."""
        parsed = OverridesParser.create().parse_overrides(list(words))
        chosen = {word.key_or_group: word.value() for word in parsed}
        plain: dict[str, Any] = OmegaConf.to_container(config, resolve=True)  # type: ignore[assignment]
        return cls(plain, {key: value for key, value in chosen.items() if key.split(".")[0] in SETTINGS})

    @cached_property
    def files(self) -> Files:
        """Where the data lie, as a path that holds in every worker."""
        files = Files(self.config["data_dir"], self.config["mirror"], self.config["offline"])
        return replace(files, data_dir=str(files.root.resolve()))

    def points(self, experiment: Experiment) -> list[Point]:
        """Every combination of every block, in the file's order."""
        blocks = [
            (name, {**experiment.settings, **part, **self.overrides})
            for name, block in experiment.grid.items()
            if not _is_computed(block)
            for part in _parts(block)
        ]
        options = _options(
            {(group, name) for _, block in blocks for group in GROUPS for name in _list(block.get(group, ()))}
        )
        found = []
        for name, block in blocks:
            axes = {key: _list(value) for key, value in block.items() if key not in _SHARED}
            shared = {key: block.get(key, self.config[key]) for key in _SHARED}
            for combination in product(*axes.values()):
                settings = dict(zip(axes, combination, strict=True))
                try:
                    cell = self._cell(settings, shared, options)
                except UserError as error:
                    found.append(Point(name, settings, None, str(error)))
                else:
                    found.append(Point(name, settings, cell))
        return found

    def _cell(self, settings: Mapping[str, Any], shared: Mapping[str, Any], options: Mapping[Any, Any]) -> Cell:
        config = {**self.config, **{key: value for key, value in settings.items() if key in SETTINGS}}
        for group in GROUPS:
            if group in settings:
                if (group, settings[group]) not in options:
                    raise UserError(f"there is no {group}={settings[group]} here yet.")
                config[group] = dict(options[group, settings[group]])
            config[group] = {**config[group], **_under(group, settings)}
        dataset: Source = self._once("dataset", config["dataset"])
        rule: Partition = self._once("partition", config["partition"])
        loss, calibration = config["loss"], config["calibration"]
        name = json.dumps([config["algo"], loss, calibration, dataset.info.task])
        if name not in self._made:
            self._made[name] = build_algorithm(
                OmegaConf.create({"algo": config["algo"], "loss": loss, "calibration": calibration}), dataset
            )
        algorithm: Algorithm = self._made[name]
        budgets = product(
            [number(eps, "eps") for eps in _list(shared["eps"])],
            [optional(number)(delta, "delta") for delta in _list(shared["delta"])],
        )
        return Cell(
            dataset=dataset,
            partition=rule,
            algorithm=algorithm,
            M=whole(config["M"], "M"),
            N=optional(whole)(config["N"], "N"),
            seed=whole(config["seed"], "seed"),
            budgets=tuple(Budget(eps, delta) for eps, delta in budgets),
            draws=whole(config["draws"], "draws"),
            files=self.files,
        )

    def _once(self, key: str, node: Mapping[str, Any]) -> Any:
        name = json.dumps([key, node])
        if name not in self._made:
            self._made[name] = instantiate(OmegaConf.create(dict(node)), key)
        return self._made[name]


def _options(wanted: set[tuple[str, str]]) -> dict[tuple[str, str], dict[str, Any]]:
    """The options of configuration groups, all composed at once; one that does not exist is left out."""
    loader = GlobalHydra.instance().config_loader()
    here = [(group, name) for group, name in sorted(wanted) if name in loader.get_group_options(group)]
    config = hydra.compose("config", overrides=[f"+{group}@_options.{group}.{name}={name}" for group, name in here])
    return {
        (group, name): OmegaConf.to_container(config._options[group][name], resolve=True)  # type: ignore[misc]
        for group, name in here
    }


def _under(group: str, settings: Mapping[str, Any]) -> dict[str, Any]:
    return {key.split(".", 1)[1]: value for key, value in settings.items() if key.startswith(f"{group}.")}


def _is_computed(block: Block) -> TypeGuard[Mapping[str, Any]]:
    return isinstance(block, Mapping) and "_target_" in block


def _parts(block: Block) -> Sequence[Mapping[str, Any]]:
    return [block] if isinstance(block, Mapping) else block


def _list(value: Any) -> list[Any]:
    return list(value) if isinstance(value, list | tuple) else [value]
