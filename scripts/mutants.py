"""Measure the strength of the test suite: break one operator or number of a formula, and see whether a test fails.

A mutant exchanges + and -, * and /, < and <=, > and >=, or == and !=, or adds 1 to a number, in a copy of the
repository. It survives if the golden tests and the quick tests of all rooms pass. If a surviving mutant is not a
mistake, `mutants_reasons.yaml` says why.

    python scripts/mutants.py --jobs 2                     a few mutants of every room
    python scripts/mutants.py privacy --sample 60          more of one room, a folder of dpml/

Exit status 1: more than `--allowed` of the mutants survive without a reason, or a test fails without any mutant.
"""

import argparse
import ast
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import yaml

ROOT = Path(__file__).resolve().parents[1]
ROOMS = ("privacy", "mechanism", "algorithms", "protocols", "release", "running")
LIMIT = 600.0  # seconds; a mutant whose tests take longer, because a loop does not end, is noticed
FOLDERS, FILES = ("dpml", "conf", "docs", "experiments", "scripts", "tests"), ("README.md", "pyproject.toml")
PAIRS = {ast.Add: ast.Sub, ast.Mult: ast.Div, ast.Lt: ast.LtE, ast.Gt: ast.GtE, ast.Eq: ast.NotEq}
SWAPS: dict[type[ast.AST], type[ast.AST]] = {**PAIRS, **{new: old for old, new in PAIRS.items()}}


@dataclass(frozen=True)
class Mutant:
    """A changed copy of a file: line `line` of the original file reads `after` instead of `before`."""

    file: str
    line: int
    before: str
    after: str
    content: str


def changes(file: str) -> tuple[ast.Module, list[tuple[int, Callable[[], None]]]]:
    """Return the syntax tree of a file, and for each operator and number its line and a function that changes it."""
    tree = ast.parse((ROOT / file).read_bytes())
    found: list[tuple[int, Callable[[], None]]] = []
    for node in _formulas(tree):
        if isinstance(node, ast.BinOp) and type(node.op) in SWAPS:
            found.append((node.lineno, partial(setattr, node, "op", SWAPS[type(node.op)]())))
        elif isinstance(node, ast.Compare):
            swaps = ((number, SWAPS.get(type(operator))) for number, operator in enumerate(node.ops))
            found += [(node.lineno, partial(node.ops.__setitem__, number, new())) for number, new in swaps if new]
        elif isinstance(node, ast.Constant) and type(node.value) in (int, float) and node.value + 1 != node.value:
            found.append((node.lineno, partial(setattr, node, "value", node.value + 1)))
    return tree, found


def _formulas(node: ast.AST) -> Iterator[ast.AST]:
    """Yield all nodes of a syntax tree, except nodes inside the texts of messages."""
    yield node
    for child in ast.iter_child_nodes(node):
        if not isinstance(child, ast.JoinedStr | ast.Raise | ast.Assert):
            yield from _formulas(child)


def changed(file: str, number: int) -> Mutant:
    """Return the mutant of a file that has the change with this number (in the order of `changes`)."""
    tree, found = changes(file)
    old = ast.unparse(tree)
    line, change = found[number]
    change()
    new = ast.unparse(tree)
    lines = zip(old.splitlines(), new.splitlines(), strict=True)
    before, after = next((a.strip(), b.strip()) for a, b in lines if a != b)
    return Mutant(file, line, before, after, new)


def sampled(room: str, size: int, seed: int) -> list[Mutant]:
    """Return a random sample of the mutants of a room (a folder of dpml)."""
    files = sorted(path.relative_to(ROOT).as_posix() for path in (ROOT / "dpml" / room).rglob("*.py"))
    places = [(file, number) for file in files for number in range(len(changes(file)[1]))]
    return [changed(*place) for place in random.Random(f"{seed} {room}").sample(places, size)]


def passes(rooms: Iterable[str], mutant: Mutant | None = None) -> bool:
    """Return whether the golden tests, and then the tests of some rooms, pass in a copy of dpml with a mutant."""
    tests = [f"tests/{room}" for room in dict.fromkeys(["golden", *rooms])]
    words = [sys.executable, "-m", "pytest", "-q", "-x", "-n", "0", "-p", "no:cacheprovider", *tests]
    with tempfile.TemporaryDirectory() as folder:
        for name in FOLDERS:
            shutil.copytree(ROOT / name, Path(folder) / name, ignore=shutil.ignore_patterns("__pycache__"))
        for name in FILES:
            shutil.copy(ROOT / name, folder)
        if mutant:
            (Path(folder) / mutant.file).write_text(mutant.content, encoding="utf-8")
        environment = os.environ | {"PYTHONDONTWRITEBYTECODE": "1", "PYTHONPATH": folder}
        nowhere = subprocess.DEVNULL
        process = subprocess.Popen(
            words, cwd=folder, env=environment, stdout=nowhere, stderr=nowhere, start_new_session=True
        )
        try:
            return process.wait(LIMIT) == 0
        except subprocess.TimeoutExpired:
            return False
        finally:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)  # also ends processes that the tests have started
            process.wait()


def survives(mutant: Mutant) -> bool:
    """Return whether all tests pass; those of the mutant's own room run first."""
    return passes([mutant.file.split("/")[1], *ROOMS], mutant)


def main() -> int:
    """Try the mutants and return the exit status."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("rooms", nargs="*", default=ROOMS, metavar="ROOM", help=f"folders of dpml/: {' '.join(ROOMS)}")
    parser.add_argument("--sample", type=int, default=3, help="mutants of each room (default: 3)")
    parser.add_argument("--seed", type=int, default=0, help="which mutants (default: 0)")
    parser.add_argument("--allowed", type=float, default=0.3, help="share of unexplained survivors (default: 0.3)")
    parser.add_argument("--jobs", type=int, default=1)
    options = parser.parse_args()
    os.environ |= {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
    reasons = yaml.safe_load(Path(__file__).with_name("mutants_reasons.yaml").read_text(encoding="utf-8"))
    known = {(each["file"], each["line"], each["becomes"]) for each in reasons}
    if not passes(ROOMS):
        sys.exit("a test fails without any mutant")
    chosen = [mutant for room in options.rooms for mutant in sampled(room, options.sample, options.seed)]
    left = 0
    with ThreadPoolExecutor(options.jobs) as pool:
        for mutant, alive in zip(chosen, pool.map(survives, chosen), strict=True):
            harmless = (mutant.file, mutant.before, mutant.after) in known
            left += alive and not harmless
            said = "noticed " if not alive else "harmless" if harmless else "SURVIVES"
            print(f"{said}  {mutant.file}:{mutant.line}: {mutant.before}  ->  {mutant.after}", flush=True)
    print(f"{left} of {len(chosen)} mutants survive without a reason")
    return int(left > options.allowed * len(chosen))


if __name__ == "__main__":
    sys.exit(main())
