"""From exceptions to one sentence and an exit status."""

import os
import re
import sys
from collections.abc import Callable
from typing import NoReturn

from hydra.errors import ConfigCompositionException, HydraException, MissingConfigException, OverrideParseException
from omegaconf import OmegaConf
from omegaconf.errors import OmegaConfBaseException

from dpml import where
from dpml.config.build import KEYS
from dpml.config.compose import compose
from dpml.errors import UserError, nearest


def exit_on_mistakes(program: str, main: Callable[[], None]) -> None:
    """Run `main`; turn a user's mistake into one sentence on stderr and exit code 2, and Ctrl-C into 130."""
    try:
        main()
    except UserError as error:
        fail(program, str(error))
    except (HydraException, OmegaConfBaseException) as error:
        fail(program, _sentence(error))
    except KeyboardInterrupt:
        sys.exit(130)
    except BrokenPipeError:  # the reader of our output, such as head, has had enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(1)


def fail(program: str, message: str) -> NoReturn:
    """Exit with 2 and one sentence on stderr."""
    print(f"{program}: error: {message}", file=sys.stderr)
    sys.exit(2)


def _sentence(error: Exception) -> str:
    """What a Hydra error means, with the nearest valid name."""
    if isinstance(error, MissingConfigException) and error.missing_cfg_file:
        group, _, name = error.missing_cfg_file.rpartition("/")
        return f"unknown {group} {name!r}: {nearest(name, error.options or _options(group))}"
    if isinstance(error, OverrideParseException):
        return f"cannot read the override {error.override!r}: write KEY=VALUE, with quotes around special characters."
    if isinstance(error, ConfigCompositionException):
        unknown = re.search(r"Could not (?:override|append|delete|add) '([^']+)'", str(error))
        if unknown:
            return f"unknown key {unknown[1]!r}: {nearest(unknown[1], _known_keys(unknown[1]))}"
        several = re.search(r"Ambiguous value for argument '([^']+)'", str(error))
        if several:
            return f"{several[1]!r} has several values: add -m to sweep over them, or write a list, KEY=[A,B]."
    return str(error).strip().splitlines()[0]


def _options(group: str) -> list[str]:
    """The options of a configuration group that come with dpml."""
    return [path.stem for path in where.folder("conf").joinpath(group).glob("*.yaml")]


def _known_keys(like: str) -> list[str]:
    """The keys beside `like`: those of its group as composed from this command line's choices, or the top ones."""
    group, dot, _ = like.rpartition(".")
    if not dot:
        return KEYS
    choices = [word for word in sys.argv[1:] if word.partition("=")[0] in ("dataset", "partition", "algo")]
    try:
        node = OmegaConf.select(compose(choices), group)
        return [f"{group}.{key}" for key in node if key != "_target_"]
    except Exception:  # a second mistake on the same line: the top keys will do
        return KEYS
