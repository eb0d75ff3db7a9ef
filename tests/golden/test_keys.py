"""Keys, types and defaults of every algorithm: what a user may set is what it was when it was written down.

``python -m tests.golden.test_keys`` writes them down again.
"""

import json
import re
from dataclasses import MISSING, fields
from pathlib import Path
from typing import Any, get_type_hints

import yaml

from dpml.config.build import class_of
from dpml.files import shipped_folder

FILE = Path(__file__).with_name("keys.json")


def named(hint: Any) -> str:
    """Return a type without the modules of its classes, which may move."""
    text = hint.__name__ if isinstance(hint, type) else str(hint)
    text = re.sub(r"\b(?:\w+\.)+(?=[A-Za-z_])", "", text)
    text = re.sub(r"(Literal\[.*\]) \| None$", r"Optional[\1]", text)  # Python 3.14 writes it so
    return re.sub(r"Optional\[(\w+)\]", r"\1 | None", text)


def default(value: Any) -> str:
    return "required" if value is MISSING else str(value)


def keys() -> dict[str, dict[str, Any]]:
    """Map every algorithm to its keys, with their type and default."""
    found = {}
    for path in sorted((shipped_folder("conf") / "algo").glob("*.yaml")):
        option = yaml.safe_load(path.read_text(encoding="utf-8"))
        kind = class_of(option.pop("_target_"), f"algo={path.stem}")
        hints = get_type_hints(kind)  # without their bounds
        found[path.stem] = {
            field.name: f"{named(hints[field.name])} = {default(option.get(field.name, field.default))}"
            for field in fields(kind)
            if field.init
        }
    return found


def test_keys_types_and_defaults_are_what_they_were() -> None:
    assert keys() == json.loads(FILE.read_text(encoding="utf-8"))


if __name__ == "__main__":
    FILE.write_text(json.dumps(keys(), indent=1) + "\n", encoding="utf-8")
