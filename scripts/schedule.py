"""How well a plan keeps W workers busy, by the times of its cells: python scripts/schedule.py [WORKERS ...]

Reads the plan that ``dpml-run WORDS run.dry=true`` prints (``--words``, default experiment=all), takes the CPU seconds that its
cells took, and hands them out as an engine does: in the plan's order, each to the worker that is free first. A line
for every W: how long the command takes, the longest cell, and the efficiency, which is work / (W x time). Cells that
are not computed yet count as the mean of the others of their task. What a cell costs beside its own work, planning and
writing by the one process that hands out, is ``--overhead`` seconds, one after the other.
"""

import argparse
import csv
import heapq
import statistics
import subprocess
import sys
from collections import defaultdict
from collections.abc import Mapping, Sequence


def listing(words: Sequence[str]) -> list[dict[str, str]]:
    """The plan of a command, a line for each cell."""
    run = [sys.executable, "-c", "from dpml.cli import dpml_run; dpml_run()", *words, "run.dry=true"]
    printed = subprocess.run(run, stdout=subprocess.PIPE, text=True, check=True).stdout
    return list(csv.DictReader(printed[printed.index("task,block,") :].splitlines()))


def times(lines: Sequence[Mapping[str, str]]) -> tuple[list[float], int]:
    """CPU seconds of every cell, once each and in order, and how many of them are not measured."""
    known: dict[str, list[float]] = defaultdict(list)
    for line in lines:
        if line["seconds"]:
            known[line["task"]].append(float(line["seconds"]))
    if not known:
        raise SystemExit("no cell of this plan has been computed yet: nothing is known of their times.")
    means = {task: statistics.mean(found) for task, found in known.items()}
    overall = statistics.mean(value for found in known.values() for value in found)
    found, guessed = {}, 0
    for line in lines:
        if line["key"] and line["key"] not in found and line["status"] in ("cached", "done", "to run"):
            guessed += not line["seconds"]
            found[line["key"]] = float(line["seconds"] or means.get(line["task"], overall))
    return list(found.values()), guessed


def makespan(work: Sequence[float], workers: int, overhead: float) -> float:
    """Seconds until the last worker is done; one process hands a cell out every `overhead` seconds at most."""
    free = [0.0] * min(workers, len(work))
    for number, seconds in enumerate(work):
        begin = max(heapq.heappop(free), number * overhead)
        heapq.heappush(free, begin + seconds)
    return max(free)


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("workers", type=int, nargs="*", default=[1, 10, 100, 1000])
    parser.add_argument("--overhead", type=float, default=0.003, help="seconds (default: 0.003)")
    parser.add_argument("--words", nargs="+", default=["experiment=all"], help="those of dpml-run")
    options = parser.parse_args()
    work, guessed = times(listing(options.words))
    total, longest = sum(work), max(work)
    print(f"{len(work)} cells ({guessed} of them not measured), {total:.0f} s of work; the longest takes {longest:.1f} s,")
    print(f"so that no more than {total / longest:.0f} workers can be busy all the time.\n")
    print("| workers | order of the plan: s | efficiency | longest first: s | efficiency |\n| --- | --- | --- | --- | --- |")
    for workers in options.workers:
        ends = [makespan(order, workers, options.overhead) for order in (work, sorted(work, reverse=True))]
        shares = [f"{end:.1f} | {total / (workers * end):.0%}" for end in ends]
        print(f"| {workers} | {' | '.join(shares)} |")


if __name__ == "__main__":
    main()
