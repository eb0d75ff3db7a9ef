"""Mutants by rule, and the tests that execute their lines.

A mutant is one operator or number of a file: + and -, * and /, < and <=, > and >=, == and != are exchanged, and 1 is
added to a number. Which tests execute a line is recorded while the tests of the rooms run once (coverage's contexts);
of these, those that execute the least come first, as many as take `SECONDS` together.
"""

import ast
import os
import subprocess
import sys
import xml.etree.ElementTree as ET
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import coverage

ROOT = Path(__file__).resolve().parents[1]
ROOMS = ("privacy", "mechanism", "algorithms", "running", "protocols", "release")
BESIDES = {"algorithms": ("mechanism", "golden"), "privacy": ("mechanism",), "running": ("cli",)}
"""What else tests a room than the tests of its name."""
SECONDS = 20.0  # of tests that a mutant gets
SWAPS: dict[type[ast.AST], tuple[str, str]] = {
    ast.Add: ("+", "-"),
    ast.Sub: ("-", "+"),
    ast.Mult: ("*", "/"),
    ast.Div: ("/", "*"),
    ast.Lt: ("<", "<="),
    ast.LtE: ("<=", "<"),
    ast.Gt: (">", ">="),
    ast.GtE: (">=", ">"),
    ast.Eq: ("==", "!="),
    ast.NotEq: ("!=", "=="),
}


@dataclass(frozen=True)
class Change:
    """Bytes `start` to `end` of a file's content are `new`; they begin in line number `line`."""

    file: str
    line: int
    start: int
    end: int
    new: bytes

    def made(self, content: bytes) -> bytes:
        """The file's content with it."""
        return content[: self.start] + self.new + content[self.end :]

    @property
    def lines(self) -> tuple[str, str]:
        """The line before and after, stripped: by these a reason finds it, wherever the line has moved."""
        content = (ROOT / self.file).read_bytes()
        before, after = (text.split(b"\n")[self.line - 1].decode().strip() for text in (content, self.made(content)))
        return before, after


def changes(file: str) -> list[Change]:
    """All mutants of a file."""
    content = (ROOT / file).read_bytes()
    starts = [0]
    for line in content.split(b"\n"):
        starts.append(starts[-1] + len(line) + 1)

    def place(line: int, column: int) -> int:
        return starts[line - 1] + column

    def swapped(operator: ast.AST, left: ast.expr, right: ast.expr) -> Iterator[Change]:
        if type(operator) in SWAPS and not _text(left) and not _text(right):
            old, new = (symbol.encode() for symbol in SWAPS[type(operator)])
            start = place(left.end_lineno or 0, left.end_col_offset or 0)
            at = content.index(old, start, place(right.lineno, right.col_offset))
            yield Change(file, content.count(b"\n", 0, at) + 1, at, at + len(old), new)

    found: list[Change] = []
    for node in _formulas(ast.parse(content)):
        if isinstance(node, ast.BinOp):
            found += swapped(node.op, node.left, node.right)
        elif isinstance(node, ast.Compare):
            for operator, left, right in zip(node.ops, [node.left, *node.comparators], node.comparators, strict=False):
                found += swapped(operator, left, right)
        elif isinstance(node, ast.Constant) and type(node.value) in (int, float):
            start, end = place(node.lineno, node.col_offset), place(node.lineno, node.end_col_offset or 0)
            found.append(Change(file, node.lineno, start, end, f"({node.value!r} + 1)".encode()))
    return found


def _formulas(node: ast.AST) -> Iterator[ast.AST]:
    """All nodes but those in the text of messages."""
    yield node
    for child in ast.iter_child_nodes(node):
        if not isinstance(child, ast.JoinedStr | ast.Raise | ast.Assert):
            yield from _formulas(child)


def _text(node: ast.expr) -> bool:
    return isinstance(node, ast.JoinedStr) or (isinstance(node, ast.Constant) and isinstance(node.value, str | bytes))


class Contexts:
    """Which tests execute which lines, and how long they take; recorded in a folder if they are not there.

    Raises:
        SystemExit: a test fails without any mutant.
    """

    def __init__(self, folder: Path, rooms: Sequence[str], jobs: int) -> None:
        if not (folder / "times.xml").exists():
            self._record(folder, rooms, jobs)
        self._data = coverage.CoverageData(str(folder / "contexts"))
        self._data.read()
        self._seconds: dict[str, float] = {}
        for case in ET.parse(folder / "times.xml").iter("testcase"):
            file = case.attrib["classname"].replace(".", "/")
            self._seconds[f"{file}.py::{case.attrib['name']}"] = float(case.attrib["time"])
        self._lines: dict[str, dict[int, list[str]]] = {}
        self._executed: dict[str, int] = defaultdict(int)
        for path in self._data.measured_files():
            self._lines[str(Path(path).relative_to(self._root(path)))] = lines = self._data.contexts_by_lineno(path)
            for tests in lines.values():
                for test in {_name(test) for test in tests}:
                    self._executed[test] += 1

    @staticmethod
    @cache
    def _root(path: str) -> Path:
        return next(parent.parent for parent in Path(path).parents if parent.name == "dpml")

    @staticmethod
    def _record(folder: Path, rooms: Sequence[str], jobs: int) -> None:
        folder.mkdir(exist_ok=True, parents=True)
        names = sorted({name for room in rooms for name in (room, *BESIDES.get(room, ()))})
        options = ["--cov=dpml", "--cov-context=test", "--cov-report=", f"--junitxml={folder / 'times.xml'}"]
        processes = ["-n", str(jobs)] if jobs > 1 else ["-n", "0", "--dist", "no"]  # else no context is recorded
        words = ["-q", *processes, "-p", "no:cacheprovider", *options]
        environment = os.environ | {"COVERAGE_FILE": str(folder / "contexts")}
        command = [sys.executable, "-m", "pytest", *words, *(f"tests/{name}" for name in names)]
        if subprocess.run(command, cwd=ROOT, env=environment, check=False).returncode:
            (folder / "times.xml").unlink(missing_ok=True)
            sys.exit("a test fails without any mutant")

    def tests(self, change: Change) -> list[str]:
        """Those that notice a mutant if any does: `SECONDS` of those that execute its line.

        A line that runs when the module is imported is executed by all that execute any line of the file.
        """
        lines = self._lines.get(change.file, {})
        found = {_name(test) for test in lines.get(change.line, [])}
        if found == {""}:
            found = {_name(test) for tests in lines.values() for test in tests}
        chosen, seconds, of_function = [], 0.0, defaultdict(int)  # type: ignore[var-annotated]
        for test in sorted(found - {""}, key=lambda test: (self._executed[test], test)):
            function = test.partition("[")[0]
            taken = self._seconds.get(test, 1.0)
            if of_function[function] < 3 and seconds + taken < SECONDS:
                chosen.append(test)
                of_function[function] += 1
                seconds += taken
        return chosen


def _name(context: str) -> str:
    """A test, from its name and phase."""
    return context.rpartition("|")[0]
