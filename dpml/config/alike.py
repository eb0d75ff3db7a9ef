"""Configurations of many jobs that differ in values only: Hydra composes one, and values are set in copies of it."""

import pickle
from collections.abc import Callable, Sequence
from functools import cache, lru_cache
from itertools import product

from hydra.core.override_parser.overrides_parser import OverridesParser
from hydra.core.override_parser.types import Override
from omegaconf import DictConfig, OmegaConf

_KEPT = 256  # configurations


class Alike:
    """The configurations that `compose` makes of the words of many jobs, without calling it for each.

    Words that set the value of a key are set in a copy of what `compose` makes of the job's other words. For a mistake,
    and where the order of words may matter, `compose` gets all words of the job.

    Args:
        compose: returns the configuration of a job, from all of its words.
        is_group: returns whether a key is chosen by name, GROUP=NAME.
    """

    def __init__(self, compose: Callable[[list[str]], DictConfig], is_group: Callable[[str], bool]) -> None:
        self._compose, self.is_group = compose, cache(is_group)
        # a deep copy takes six times as long as reading a pickle
        self._pickled = lru_cache(maxsize=_KEPT)(lambda words: pickle.dumps(compose(list(words))))
        self._shared = lru_cache(maxsize=_KEPT)(lambda words, keys: pickle.loads(self._pickled(words)))

    def __call__(self, words: Sequence[str], shared: bool = False) -> DictConfig:
        """Return the configuration of a job; raises what `compose` raises.

        With `shared` the next call may return the same object with other values.
        """
        try:
            overrides = [parsed(word) for word in words]
            values = [word for word in overrides if self._sets_value(word)]
            others = [word for word in overrides if word not in values]
            edits = [word for word in others if not self._chooses(word)]
            if any(_overlap(value.key_or_group, edit.key_or_group) for value, edit in product(values, edits)):
                return self._compose(list(words))
            start, contents = tuple(str(word.input_line) for word in others), [word.value() for word in values]
            keys = tuple(word.key_or_group for word in values)
            if shared and not any(isinstance(value, dict) for value in contents):  # else old keys would stay
                config: DictConfig = self._shared(start, keys)
            else:
                config = pickle.loads(self._pickled(start))
            for key, value in zip(keys, contents, strict=True):
                OmegaConf.update(config, key, value, merge=True)
        except Exception:
            return self._compose(list(words))
        return config

    def _sets_value(self, word: Override) -> bool:
        changes_keys = word.is_add() or word.is_force_add() or word.is_delete() or word.package is not None
        return not (changes_keys or word.is_sweep_override() or self.is_group(word.key_or_group))

    def _chooses(self, word: Override) -> bool:
        """Return whether it chooses an option by name, which Hydra does before it sets any value."""
        return self.is_group(word.key_or_group) and not isinstance(word.value(), dict)


@lru_cache(maxsize=4096)
def parsed(word: str) -> Override:
    """Return Hydra's override of a word; the jobs of a sweep share most of their words."""
    return OverridesParser.create().parse_overrides([word])[0]


def _overlap(a: str, b: str) -> bool:
    return f"{a}.".startswith(f"{b}.") or f"{b}.".startswith(f"{a}.")
