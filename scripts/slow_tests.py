"""Which tests are slow: `tests/slow.txt`, measured.

    python scripts/slow_tests.py [--seconds 0.45] [--jobs 2]

Runs the tests that are quick or in the list, and records which lines of dpml each executes (coverage's contexts) and
its CPU time, with that of processes that it starts. Slow are cases that take longer than `--seconds`, but for what is
needed: the tests that `mutants.py` names, `KEPT`, and as many more as it takes for every line that any of them executes
to have a quick test, first those with the most such lines in a second. Recording makes tests slower, by about a half.

As a plug-in of pytest, this module records the CPU time.
"""

import argparse
import os
import re
import subprocess
import sys
import tempfile
import xml.etree.ElementTree as ET
from collections import defaultdict
from collections.abc import Mapping
from pathlib import Path

import coverage
import pytest

ROOT = Path(__file__).resolve().parents[1]
LIST = ROOT / "tests" / "slow.txt"
KEPT = ("dpml/", "tests/audit/test_planted.py", "tests/test_house.py")  # examples; a bug of each kind; the rules
HEAD = (
    "# Slow cases, made by scripts/slow_tests.py: the quick tests execute every line of dpml that these do, and\n"
    "# `pytest -m slow` runs them. A name without [...] stands for all cases that are not slow without this list.\n"
)


_begun = pytest.StashKey[float]()


def pytest_runtest_protocol(item: pytest.Item) -> None:
    """Remember the CPU time before a test."""
    item.stash[_begun] = _cpu()


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_makereport(item: pytest.Item, call: pytest.CallInfo[None]) -> None:
    """Record the CPU seconds of a test, its fixtures and its processes."""
    if call.when == "teardown":
        item.user_properties += [("name", item.nodeid), ("cpu", _cpu() - item.stash[_begun])]


def _cpu() -> float:
    return sum(os.times()[:4])


def main() -> None:
    """Measure, and write the list."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--seconds", type=float, default=0.45, help="what a case may take while lines are recorded")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1)
    options = parser.parse_args()
    from mutants import MUTANTS  # it loads what most tests import

    named = {f"tests/{mutant.test}" for mutant in MUTANTS}
    with tempfile.TemporaryDirectory() as folder:
        seconds, lines = measured(Path(folder), options.jobs)
    pinned = {case for case in seconds if case.partition("[")[0] in named or case.startswith(KEPT)}
    slow = chosen(seconds, lines, options.seconds, pinned)
    LIST.write_text(HEAD + "".join(f"{name}\n" for name in shortened(slow, set(seconds))), "utf-8")
    taken = sum(seconds[case] for case in slow)
    print(f"{len(slow)} of {len(seconds)} cases, {taken:.0f} of {sum(seconds.values()):.0f} CPU seconds, are slow")


def measured(folder: Path, jobs: int) -> tuple[dict[str, float], dict[str, set[tuple[str, int]]]]:
    """CPU seconds of the cases, and the lines that each executes: of which file, and which number.

    Raises:
        SystemExit: a test fails.
    """
    report, contexts = folder / "report.xml", folder / "contexts"
    words = ["-q", "-n", str(jobs), "-p", "slow_tests", "-m", "(not slow or listed) and not browser"]
    words += ["--cov=dpml", "--cov-context=test", "--cov-report=", f"--junitxml={report}", "-o", "junit_family=xunit1"]
    path = os.pathsep.join([str(Path(__file__).parent), *filter(None, [os.environ.get("PYTHONPATH")])])
    environment = os.environ | {"COVERAGE_FILE": str(contexts), "PYTHONPATH": path}
    if subprocess.run([sys.executable, "-m", "pytest", *words], cwd=ROOT, env=environment, check=False).returncode:
        sys.exit("a test fails")
    seconds = {}
    for case in ET.parse(report).iter("testcase"):
        known = {one.attrib["name"]: one.attrib["value"] for one in case.iter("property")}
        if "cpu" in known:  # a skipped module has none
            seconds[known["name"]] = float(known["cpu"])
    data = coverage.CoverageData(str(contexts))
    data.read()
    lines: dict[str, set[tuple[str, int]]] = defaultdict(set)
    for file in data.measured_files():
        for number, tests in data.contexts_by_lineno(file).items():
            for test in tests:
                lines[re.sub(r"\|\w+$", "", test)].add((file, number))
    return seconds, lines


def chosen(
    seconds: Mapping[str, float], lines: Mapping[str, set[tuple[str, int]]], most: float, pinned: set[str]
) -> set[str]:
    """The cases that are slow: above `most` seconds, not `pinned`, and not needed for a line."""
    slow = {case for case, taken in seconds.items() if taken > most and case not in pinned}
    quick = set().union(*(own for case, own in lines.items() if case not in slow))
    further = {case: lines.get(case, set()) - quick for case in sorted(slow)}
    while any(further.values()):
        best = max(further, key=lambda case: len(further[case]) / seconds[case])
        slow.discard(best)
        new = further.pop(best)
        further = {case: own - new for case, own in further.items()}
    return slow


def shortened(slow: set[str], every: set[str]) -> list[str]:
    """Names of cases; of the function alone where all its cases are slow."""
    functions = {case.partition("[")[0] for case in every - slow}
    return sorted({case if (name := case.partition("[")[0]) in functions else name for case in slow})


if __name__ == "__main__":
    main()
