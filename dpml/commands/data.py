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
    """The data.

    Raises:
        UserError: a setting is wrong, or has several values, or the data are not here.
    """
    config, _ = compose_one(settings, "load")
    return _load(config, instantiate(config.dataset, "dataset"))


def _load(config: DictConfig, source: Source) -> Dataset:
    return source.load(files(config), optional(whole)(config.N, "N"), generator(whole(config.seed, "seed"), "data"))


def dealt(settings: Settings) -> tuple[Skew, Partition, Parties]:
    """How unequal the parties are, the rule that dealt their rows, and the parties.

    Raises:
        UserError: a setting is wrong, or has several values, or the data are not here.
    """
    config, d = compose_one(settings, "data partition")
    if d is not None:
        raise UserError("unknown key 'd': the features do not matter here.")
    dataset: Source = instantiate(config.dataset, "dataset")
    # only the algorithm's auxiliary rows matter here, so the default algorithm suits any data
    rule = build_partition(instantiate(config.partition, "partition"), class_of(config.algo.get("_target_"), "algo"))
    M, seed = whole(config.M, "M"), whole(config.seed, "seed")
    if seed < 0:
        raise UserError(f"seed must be a whole number >= 0, got seed={seed}.")
    check_task(rule, dataset.info.task, dataset.info.name)
    parties = partition(_load(config, dataset), rule, M, generator(seed, "partition"))
    return Skew.of(parties, generator(seed, "partition", "chance")), rule, parties
