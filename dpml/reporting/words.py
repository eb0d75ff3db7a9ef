"""Look up the names of algorithms, metrics and data sets that pages and figures show, in words.yaml."""

import re
from collections.abc import Mapping, Sequence
from importlib.resources import files
from typing import Any

import yaml

WORDS: Mapping[str, Any] = yaml.safe_load(files("dpml.reporting").joinpath("words.yaml").read_text("utf-8"))


ALGORITHMS: Mapping[str, Sequence[str]] = WORDS["algorithms"]
"""The display name of each algorithm, and the colour, marker and dashes of its curve."""
REFERENCES = {key: dashes for key, (_, _, marker, dashes) in ALGORITHMS.items() if not marker}
AXES: Mapping[str, str] = WORDS["axes"]
METRICS: Mapping[str, str] = WORDS["metrics"]
REASONS: Mapping[str, str] = WORDS["reasons"]
SYMBOLS: Mapping[str, str] = WORDS["symbols"]
_EVERYDAY = ("constant", "gradient", "guesses", "moves")  # in sentences these words do not name an algorithm
_SYMBOLS = {"eps": "ε", "delta": "δ", "lam": "λ"}


def place(key: str) -> int:
    """Return an algorithm's position in legends, as in words.yaml; algorithms that words.yaml lacks come last."""
    return [*ALGORITHMS, key].index(key)


def algorithm(key: str) -> str:
    """Return the display name of an algorithm, or its key if it has no display name."""
    return ALGORITHMS[key][0] if key in ALGORITHMS else key


def metric(key: str) -> str:
    """Return the display name of a metric, given its name NAME or MODULE.NAME."""
    name = key.rpartition(".")[2]
    return METRICS.get(name, name.replace("_", " "))


def dataset(block: str) -> str:
    """Return a data set's display name, given its key such as kdd, or an experiment's block on it such as kdd_eps."""
    stem = re.sub(r"_(eps|u|N|M|delta)(_rule)?$", "", block)
    name = WORDS["datasets"].get(stem, stem.replace("_", " "))
    return f"{name}, data-independent step" if block.endswith("_rule") else str(name)


def symbols(text: str) -> str:
    """Replace the words eps, delta and lam in a text by Greek letters."""
    return re.sub(r"\b(eps|delta|lam)\b", lambda found: _SYMBOLS[found[0]], text)


def plain(text: str, mark: str = "") -> str:
    """Replace symbols and keys by their display names; put the text `mark` around each name of an algorithm."""

    def shown(found: re.Match[str]) -> str:
        word = found[0]
        if word in _SYMBOLS or (word in ALGORITHMS and word not in _EVERYDAY):
            name = algorithm(word)
            return _SYMBOLS.get(word) or (word if text.startswith(name, found.start()) else f"{mark}{name}{mark}")
        return dataset(word) if re.search(r"_(eps|u|N|M|delta)(_rule)?$", word) else word

    return re.sub(r"\b[A-Za-z][A-Za-z0-9_]*\b", shown, text)


def curve(label: str) -> str:
    """Return the label of a curve with the display name of its algorithm and the symbols of its settings."""
    found = re.match(r"(\(?)([^\W\d][^\s,)]*)(.*)", label, re.DOTALL)
    if found is None or found[2] not in ALGORITHMS:
        return label
    settings = re.sub(r"(?<=, )\w+", lambda word: WORDS["words"].get(word[0], word[0]), found[3])
    settings = settings.replace("calibration=", "")
    names = r"([a-z_]+[.][a-z_]+|eps|delta)(?==)"
    settings = re.sub(names, lambda key: SYMBOLS.get(key[1], key[1].removeprefix("algo.")), settings)
    return f"{found[1]}{algorithm(found[2])}{settings}"
