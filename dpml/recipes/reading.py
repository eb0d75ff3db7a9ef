"""Recipes from files and words: plain data, of which nothing is code, a path, or a reference to anything."""

import json
import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from dpml.errors import UserError
from dpml.recipes.frameworks import FRAMEWORKS, translated
from dpml.recipes.recipe import TrainingRecipe, typed

_LARGEST = 1 << 20  # bytes
_DEEPEST = 12  # lists and mappings in each other


def recipe_of(path: str | Path | None, words: Iterable[str] = (), **keys: Any) -> TrainingRecipe:
    """The recipe of a file, in which words KEY=VALUE and keys take the place of values.

    Raises:
        UserError: the file cannot be read, or a key or a value of it is wrong.
    """
    content = _content(Path(path)) if path is not None else {}
    for word in words:
        key, equals, value = word.partition("=")
        if not equals:
            raise UserError(f"{word[:60]!r} is no KEY=VALUE of a recipe.")
        content[key] = None if value == "null" else value
    content |= keys
    return translated(content) if FRAMEWORKS & set(map(str, content)) else typed(content)


def is_word(text: str) -> bool:
    """Whether a word of the command line is KEY=VALUE, not a file."""
    return re.match(r"[A-Za-z_]+=", text) is not None


def _content(path: Path) -> dict[str, Any]:
    import yaml  # slow to load

    try:
        raw = path.read_bytes()
        if len(raw) > _LARGEST:
            raise UserError(f"{path} is too large to be a recipe.")
        text = raw.decode("utf-8-sig")
        if path.suffix == ".json":
            return _mapping(path, json.loads(text))
        depth = 0
        for event in yaml.parse(text, Loader=yaml.SafeLoader):
            depth += isinstance(event, yaml.CollectionStartEvent) - isinstance(event, yaml.CollectionEndEvent)
            if isinstance(event, yaml.AliasEvent) or depth > _DEEPEST:
                raise UserError(f"{path} has an alias (*NAME), or is nested too deep to be a recipe.")
        return _mapping(path, yaml.safe_load(text))
    except OSError as error:
        raise UserError(f"{path} cannot be read: {error.strerror}.") from None
    except UnicodeDecodeError:
        raise UserError(f"{path} is not UTF-8 text.") from None
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        mark = getattr(error, "problem_mark", None)
        where = f"{path}, line {mark.line + 1}" if mark else str(path)
        raise UserError(f"{where}: it is not YAML or JSON: {getattr(error, 'problem', None) or error}.") from None


def _mapping(path: Path, content: Any) -> dict[str, Any]:
    if not isinstance(content, Mapping) or not all(isinstance(key, str) for key in content):
        raise UserError(f"{path} must have keys of a recipe, such as rounds and noise_multiplier.")
    return dict(content)
