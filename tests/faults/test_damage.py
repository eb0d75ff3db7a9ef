"""Whatever happens to whatever file that dpml wrote, no number is wrong: it is noticed, and made again where it can be.

A crossing of kinds of file and kinds of damage.
"""

import re
import shutil
from collections.abc import Callable
from pathlib import Path

import pandas as pd
import pytest
from failing import COMMANDS, RUN, go, made, prepare

import dpml
import dpml.api.estimators  # what a process has loaded counts: before anything is computed
from dpml.atomic import seal
from dpml.data.csv import csv_rows
from dpml.running import cell


def flipped(content: bytes, other: bytes) -> bytes:
    """One bit, in the middle."""
    place = len(content) // 2
    return content[:place] + bytes([content[place] ^ 4]) + content[place + 1 :]


def another_digit(content: bytes, other: bytes) -> bytes:
    """The last digit that stands behind a point is another one: what no parser can notice."""
    place = max((match.start() for match in re.finditer(rb"(?<=[.]\d)\d", content)), default=len(content) // 2)
    return content[:place] + (b"7" if content[place : place + 1] != b"7" else b"3") + content[place + 1 :]


def lines_twice(content: bytes, other: bytes) -> bytes:
    """The last line is there twice."""
    return content + content.splitlines(keepends=True)[-1]


DAMAGES: dict[str, Callable[[bytes, bytes], bytes]] = {
    "a bit is flipped": flipped,
    "a digit is another": another_digit,
    "the last line is there twice": lines_twice,
    "cut off": lambda content, other: content[: len(content) // 2],
    "cut off behind a line": lambda content, other: b"".join(content.splitlines(keepends=True)[:-1]),
    "empty": lambda content, other: b"",
    "binary": lambda content, other: b"\xff\xfe\x00\x01",
    "zeros": lambda content, other: bytes(len(content)),
    "another file of its kind": lambda content, other: other,
}
# what a command reads: where it lies, the command, and what it says (None: nothing, for nobody needs to know)
CELLS = r"\d kept cells are damaged and are computed again"
REFUSED = (
    r"dpml: error: \S+ (is not as it was written: give the command that made it again|is no|is cut off|is damaged)"
)
READ = {
    "cell": ("results/.cells/*/*/result-*.json", "run", CELLS),
    "what cells depend on": ("results/.cells/dependencies/*.json", "run", CELLS),
    "rows.csv": ("out/rows.csv", "plot", REFUSED),
    "rows.csv of two": ("first/rows.csv", "merge", REFUSED),
    "guarantees.csv": ("first/guarantees.csv", "merge", REFUSED),
    "manifest.json": ("first/manifest.json", "merge", REFUSED),
    "array of the cache": ("cache/processed/*/X.npy", "uncached", None),
    "facts of the cache": ("cache/processed/*/facts.json", "uncached", None),
    "checksum record": ("cache/checksums/*.json", "uncached", None),
    "model.json": ("model.json", "predict", REFUSED),
}
QUICK = ("a digit is another", "another file of its kind")
CASES = [
    pytest.param(kind, damage, marks=() if damage in QUICK else pytest.mark.slow)
    for kind in READ
    for damage in DAMAGES
    if (kind, damage) != ("model.json", "another file of its kind")  # it is whole, and predicts as it should
]
PREDICT = ["dpml", "predict", "model.json", "own.csv", "-o", "predictions.csv"]
WORDS = {**COMMANDS, "uncached": COMMANDS["run"], "predict": PREDICT}


@pytest.fixture(scope="module")
def whole(folder: Path, light: None) -> Path:
    """Everything that runs write, in a folder beside the working one; there are two of every kind."""
    prepare(folder)
    (folder / "other.csv").write_text((folder / "own.csv").read_text().replace("-3", "-2"))
    first = [*RUN, "hydra.run.dir=first"]
    other = [word.replace("own.csv", "other.csv") for word in [*RUN, "hydra.run.dir=other"]]
    for words in [first, [*RUN, "seed=1", "hydra.run.dir=second"], other, COMMANDS["run"], COMMANDS["merge"]]:
        assert go(folder, words)[0] == 0
    rows = pd.read_csv(folder / "own.csv")
    for place in (folder, folder / "other"):
        model = dpml.PrivateClassifier("ssp", bounds=(-5, 5)).fit(rows[["a", "b"]], rows["label"])
        model.save(place / "model.json", unsafe=True)
    for path in folder.glob("results/.cells/dependencies/*"):
        (folder / "other" / path.name).write_text(seal("{}"))
    shutil.copytree(folder, folder.with_name("whole"))
    return folder.with_name("whole")


def afresh(whole: Path, folder: Path) -> None:
    shutil.rmtree(folder)
    shutil.copytree(whole, folder)  # with its dates
    for remembered in (cell._data, cell._parties, csv_rows.read_rows):
        remembered.cache_clear()


def test_an_undamaged_one_says_nothing_of_damage(whole: Path, folder: Path) -> None:
    for command in {command for _, command, _ in READ.values()}:
        afresh(whole, folder)
        status, out, err = go(folder, WORDS[command])
        assert (status, err) == (0, "")
        assert not re.search(f"{CELLS}|{REFUSED}", out)


@pytest.mark.parametrize(("kind", "damage"), CASES)
def test_no_damage_makes_a_wrong_number(whole: Path, folder: Path, kind: str, damage: str) -> None:
    pattern, command, sentence = READ[kind]
    afresh(whole, folder)
    paths = sorted(folder.glob(pattern))
    assert paths
    others = [*paths[1:], paths[0]] if len(paths) > 1 else [folder / "other" / paths[0].name]
    contents = [
        DAMAGES[damage](path.read_bytes(), other.read_bytes()) for path, other in zip(paths, others, strict=True)
    ]
    for path, content in zip(paths, contents, strict=True):
        path.write_bytes(content)
    if command == "uncached":
        shutil.rmtree(folder / "results/.cells")
    status, out, err = go(folder, WORDS[command])
    if sentence is REFUSED:
        assert (status, err.count("\n")) == (2, 1)
        assert re.search(REFUSED, err)
        return
    assert status == 0, err
    assert made(folder) == made(whole)
    if sentence is not None:
        assert re.search(sentence, out)
