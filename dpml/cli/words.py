"""Words of a command line that are written otherwise than they must be: put in order, or named with what to write."""

import argparse
import shlex
from collections.abc import Sequence
from pathlib import Path

from dpml import packs, paths
from dpml.errors import UserError

_MULTIRUN = ("-m", "--multirun")
_LONG = 1_000  # characters
_IN_BOTH = ("label", "party", "drop", "bounds", "encoding", "separator", "decimal", "na")  # settings and options


def add_packs(words: Sequence[str]) -> list[str]:
    """Make known the packs that ``--pack DIR`` names; returns the other words."""
    parser = argparse.ArgumentParser(add_help=False, allow_abbrev=False)
    parser.add_argument("--pack", type=Path, action="append", default=[])
    known, others = parser.parse_known_args(words)
    packs.add(known.pack)
    return others


def multirun_first(words: Sequence[str]) -> list[str]:
    """The words with Hydra's `-m` in front, as settings on both sides of it are not understood."""
    found = [word for word in words if word in _MULTIRUN]
    return found[:1] + [word for word in words if word not in _MULTIRUN]


def quote_long_lists(words: Sequence[str]) -> list[str]:
    """The words with every long list of whole numbers as a text, which `config.build.spread` reads.

    Hydra finds each item of a list by going through all before it, three times: 20,000 seeds took 100 seconds.
    """
    return [_quoted(word) if len(word) > _LONG else word for word in words]


def _quoted(word: str) -> str:
    from dpml.config.build import spread  # slow to load

    key, _, value = word.partition("=")
    return f"{key}='{value}'" if isinstance(spread(value, key), list) else word


def refuse_dashed_keys(words: Sequence[str], unknown: Sequence[str]) -> None:
    """Raise UserError at the first of the `unknown` words that is a setting written as an option, such as `--eps 1`."""
    dashed = [word for word in unknown if word.startswith("--")]
    if not dashed:
        return
    import yaml  # slow to load

    content = yaml.safe_load((paths.folder("conf") / "config.yaml").read_text(encoding="utf-8"))
    keys = set(map(str, content)) | {"algo", "dataset", "partition", "experiment"}
    for word in dashed:
        name, _, value = word.removeprefix("--").partition("=")
        if name.split(".")[0] in keys:
            after = words[words.index(word) + 1 :]
            value = value or next((text for text in after[:1] if not text.startswith("-") and "=" not in text), "VALUE")
            raise UserError(f"{word} is a setting, not an option: write {name}={value}.")


def refuse_settings(unknown: Sequence[str], options: argparse.Namespace) -> None:
    """Raise UserError at the first of the `unknown` words that is a setting of which the command has an option."""
    for word in unknown:
        name, _, value = word.removeprefix("dataset.").partition("=")
        if word.startswith("dataset.") and name in _IN_BOTH and name in options:
            texts = " ".join(shlex.quote(text.strip(" \"'")) for text in value.strip("[]").split(","))
            raise UserError(
                f"{word} is a setting of dpml-run; here it is an option: write --{name} {texts or 'VALUE'}."
            )
