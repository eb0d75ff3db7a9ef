"""The data and the parties of one setting, as a run would have them."""

from omegaconf import DictConfig

from dpml.commands.settings import Settings, compose_one
from dpml.config.build import build_partition, class_of, files, instantiate, optional, whole
from dpml.data import Dataset, Source
from dpml.data.heterogeneity import Skew
from dpml.data.partition import Parties, Partition, check_task, partition
from dpml.errors import UserError
from dpml.seeds import generator


def load(settings: Settings) -> Dataset:
    """The data."""
    config, _ = compose_one(settings, "load")
    return _load(config, instantiate(config.dataset, "dataset"))


def _load(config: DictConfig, source: Source) -> Dataset:
    N, seed = optional(whole)(config.N, "N"), whole(config.seed, "seed")
    if N is not None and N < 1:  # 0 would stand for all rows
        raise UserError(f"N must be at least 1, got N={N}.")
    if seed < 0:
        raise UserError(f"seed must be a whole number >= 0, got seed={seed}.")
    return source.load(files(config), N, generator(seed, "data"))


def dealt(settings: Settings) -> tuple[Skew, Partition, Parties]:
    """How unequal the parties are, the rule that dealt their rows, and the parties."""
    config, d = compose_one(settings, "data partition")
    if d is not None:
        raise UserError("unknown key 'd': the features do not matter here.")
    dataset: Source = instantiate(config.dataset, "dataset")
    # only the algorithm's auxiliary rows matter here, so the default algorithm suits any data
    rule = build_partition(instantiate(config.partition, "partition"), class_of(config.algo.get("_target_"), "algo"))
    M = whole(config.M, "M")
    check_task(rule, dataset.info.task, dataset.info.name)
    data, seed = _load(config, dataset), whole(config.seed, "seed")
    parties = partition(data, rule, M, generator(seed, "partition"))
    return Skew.of(parties, generator(seed, "partition", "chance")), rule, parties
