"""Measure the strength of the test suite: break one operator or number of a formula, and see whether a test fails.

A mutant exchanges + and -, * and /, < and <=, > and >=, or == and !=, or adds 1 to a number, in a copy of the
repository. Coverage records once which tests of the rooms, and which golden releases, execute each line. A mutant runs
the most specific of these tests, until they take `SECONDS` together. It survives if all of them pass, or if no test
executes its line. If a surviving mutant is not a mistake, `mutants_reasons.yaml` says why.

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
import xml.etree.ElementTree as ET
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from itertools import repeat
from pathlib import Path
from queue import Queue

import coverage
import yaml

ROOT = Path(__file__).resolve().parents[1]
ROOMS = ("privacy", "mechanism", "algorithms", "protocols", "release", "running")
SECONDS = 5.0  # of tests per mutant
FOLDERS, FILES = ("dpml", "conf", "docs", "experiments", "scripts", "tests"), ("README.md", "pyproject.toml")
PAIRS = {ast.Add: ast.Sub, ast.Mult: ast.Div, ast.Lt: ast.LtE, ast.Gt: ast.GtE, ast.Eq: ast.NotEq}
SWAPS: dict[type[ast.AST], type[ast.AST]] = {**PAIRS, **{new: old for old, new in PAIRS.items()}}


@dataclass(frozen=True)
class Mutant:
    """The content of a file in which the line `before` is `after`; `line` is the line's number in the original file."""

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
    """Yield all nodes except those in the text of messages."""
    yield node
    for child in ast.iter_child_nodes(node):
        if not isinstance(child, ast.JoinedStr | ast.Raise | ast.Assert):
            yield from _formulas(child)


def changed(file: str, number: int) -> Mutant:
    """Return the mutant of a file that makes the change with this number."""
    tree, found = changes(file)
    old = ast.unparse(tree)
    line, change = found[number]
    change()
    new = ast.unparse(tree)
    lines = zip(old.splitlines(), new.splitlines(), strict=True)
    before, after = next((a.strip(), b.strip()) for a, b in lines if a != b)
    return Mutant(file, line, before, after, new)


def sampled(room: str, size: int, seed: int) -> list[Mutant]:
    """Return a random sample of a room's mutants."""
    files = sorted(path.relative_to(ROOT).as_posix() for path in (ROOT / "dpml" / room).rglob("*.py"))
    places = [(file, number) for file in files for number in range(len(changes(file)[1]))]
    return [changed(*place) for place in random.Random(f"{seed} {room}").sample(places, size)]


class Contexts:
    """The tests that execute each line, and their durations; recorded in a folder unless it has them already."""

    def __init__(self, folder: Path, rooms: Sequence[str], jobs: int) -> None:
        if not (folder / "times.xml").exists():
            self._record(folder, rooms, jobs)
        data = coverage.CoverageData(str(folder / "contexts"))
        data.read()
        self._seconds: dict[str, float] = {}
        for case in ET.parse(folder / "times.xml").iter("testcase"):
            file = case.attrib["classname"].replace(".", "/")
            self._seconds[f"{file}.py::{case.attrib['name']}"] = float(case.attrib["time"])
        self._lines: dict[str, dict[int, set[str]]] = {}
        self._executed: dict[str, int] = defaultdict(int)
        for path in data.measured_files():
            by_line = data.contexts_by_lineno(path)  # a context is a test and its phase
            lines = {line: {each.rpartition("|")[0] for each in tests} for line, tests in by_line.items()}
            self._lines[Path(path).relative_to(ROOT).as_posix()] = lines
            for test in (test for tests in lines.values() for test in tests):
                self._executed[test] += 1

    @staticmethod
    def _record(folder: Path, rooms: Sequence[str], jobs: int) -> None:
        folder.mkdir(exist_ok=True, parents=True)
        options = ["--cov=dpml", "--cov-context=test", "--cov-report=", f"--junitxml={folder / 'times.xml'}"]
        processes = ["-n", str(jobs)] if jobs > 1 else ["-n", "0", "--dist", "no"]  # otherwise, contexts are lost
        words = ["-q", *processes, *options, "tests/golden", *(f"tests/{room}" for room in rooms)]
        environment = os.environ | {"COVERAGE_FILE": str(folder / "contexts")}
        if subprocess.run([sys.executable, "-m", "pytest", *words], cwd=ROOT, env=environment, check=False).returncode:
            (folder / "times.xml").unlink(missing_ok=True)
            sys.exit("a test fails without any mutant")

    def tests(self, mutant: Mutant) -> list[str]:
        """Return the tests of a mutant: `SECONDS` of those that execute its line, at most three of a parametrisation.

        A line that runs at import counts as executed by all tests that execute any line of the file.
        """
        lines = self._lines.get(mutant.file, {})
        found = lines.get(mutant.line, set())
        if found == {""}:
            found = set().union(*lines.values())
        chosen, seconds, of_function = [], 0.0, defaultdict[str, int](int)
        for test in sorted(found - {""}, key=lambda test: (self._executed[test], test)):
            function = test.partition("[")[0]
            taken = self._seconds.get(test, 1.0)
            if of_function[function] < 3 and seconds + taken < SECONDS:
                chosen.append(test)
                of_function[function] += 1
                seconds += taken
        return chosen


def passes(copy: Path, tests: Sequence[str], limit: float | None) -> bool:
    """Return whether tests pass in a copy of the repository, within `limit` seconds."""
    words = [sys.executable, "-m", "pytest", "-q", "-x", "-n", "0", "-p", "no:cacheprovider", *tests]
    environment = os.environ | {"PYTHONDONTWRITEBYTECODE": "1", "PYTHONPATH": str(copy)}
    nowhere = subprocess.DEVNULL
    process = subprocess.Popen(words, cwd=copy, env=environment, stdout=nowhere, stderr=nowhere, start_new_session=True)
    try:
        return process.wait(limit) == 0
    except subprocess.TimeoutExpired:
        return False
    finally:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)  # also ends processes that the tests have started
        process.wait()


def survives(mutant: Mutant, tests: Sequence[str], copies: "Queue[Path]") -> bool:
    """Return whether a mutant's tests pass in a copy with the mutant."""
    copy = copies.get()
    place = copy / mutant.file
    whole = place.read_bytes()
    try:
        place.write_text(mutant.content, encoding="utf-8")
        return not tests or passes(copy, tests, 10 * SECONDS)
    finally:
        place.write_bytes(whole)
        copies.put(copy)


def copied(copy: Path) -> Path:
    """Copy the files that tests need, so that a mutant can break them."""
    for name in FOLDERS:
        shutil.copytree(ROOT / name, copy / name, ignore=shutil.ignore_patterns("__pycache__"))
    for name in FILES:
        shutil.copy(ROOT / name, copy)
    return copy


def main() -> int:
    """Try the mutants and return the exit status."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("rooms", nargs="*", default=ROOMS, metavar="ROOM", help=f"folders of dpml/: {' '.join(ROOMS)}")
    parser.add_argument("--sample", type=int, default=3, help="mutants of each room (default: 3)")
    parser.add_argument("--seed", type=int, default=0, help="which mutants (default: 0)")
    parser.add_argument("--allowed", type=float, default=0.3, help="share of unexplained survivors (default: 0.3)")
    parser.add_argument("--contexts", type=Path, help="folder that keeps which test executes what")
    parser.add_argument("--jobs", type=int, default=1)
    options = parser.parse_args()
    os.environ |= {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
    reasons = yaml.safe_load(Path(__file__).with_name("mutants_reasons.yaml").read_text(encoding="utf-8"))
    known = {(each["file"], each["line"], each["becomes"]) for each in reasons}
    with tempfile.TemporaryDirectory() as folder, ThreadPoolExecutor(options.jobs) as pool:
        contexts = Contexts(options.contexts or Path(folder), options.rooms, options.jobs)
        chosen = [mutant for room in options.rooms for mutant in sampled(room, options.sample, options.seed)]
        tests = [contexts.tests(mutant) for mutant in chosen]
        copies: Queue[Path] = Queue()
        for number in range(options.jobs):
            copies.put(copied(Path(folder) / str(number)))
        left = 0
        for mutant, alive in zip(chosen, pool.map(survives, chosen, tests, repeat(copies)), strict=True):
            harmless = (mutant.file, mutant.before, mutant.after) in known
            left += alive and not harmless
            said = "noticed " if not alive else "harmless" if harmless else "SURVIVES"
            print(f"{said}  {mutant.file}:{mutant.line}: {mutant.before}  ->  {mutant.after}", flush=True)
        sound = passes(copies.get(), sorted(set().union(*tests)), None)
    print(f"{left} of {len(chosen)} mutants survive without a reason")
    if not sound:
        print("Nothing above counts: the tests fail without any mutant.")
    return int(left > options.allowed * len(chosen) or not sound)


if __name__ == "__main__":
    sys.exit(main())
