"""Recipes from files and words: plain data, of which nothing is code, a path, or a reference to anything."""

import re
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from dpml.errors import UserError
from dpml.files import read_mapping
from dpml.recipes.frameworks import FRAMEWORKS, translated
from dpml.recipes.recipe import TrainingRecipe, typed


def recipe_of(path: str | Path | None, words: Iterable[str] = (), **keys: Any) -> TrainingRecipe:
    """The recipe of a file, in which words KEY=VALUE and keys take the place of values."""
    content, seen = _content(Path(path)) if path is not None else {}, set()
    for word in words:
        key, equals, value = word.partition("=")
        if not equals:
            raise UserError(f"{word[:60]!r} is no KEY=VALUE of a recipe.")
        if key in seen:
            raise UserError(f"{key[:60]} is there twice.")
        seen.add(key)
        content[key] = None if value == "null" else value
    content |= keys
    return translated(content) if FRAMEWORKS & set(map(str, content)) else typed(content)


def is_word(text: str) -> bool:
    """Whether a word of the command line is KEY=VALUE, not a file."""
    return re.match(r"[A-Za-z_]+=", text) is not None


def _content(path: Path) -> dict[str, Any]:
    try:
        content = read_mapping(path, "a recipe", deepest=12, largest=1 << 20)
    except OSError as error:
        raise UserError(f"{path} cannot be read: {error.strerror}.") from None
    if not all(isinstance(key, str) for key in content):
        raise UserError(f"{path} must have keys of a recipe, such as rounds and noise_multiplier.")
    return content
