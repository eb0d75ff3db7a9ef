"""How well cells keep W workers busy, by the times they took: python scripts/schedule.py results/*/*_plan.csv

Reads the plans that experiments leave beside their figures (or the one that ``run.dry=true`` writes), takes the
CPU seconds of their cells, and hands these out as an engine does, each to the worker that is free first: in the order
of the plans, and longest first. A line for every W: how long it takes, and the efficiency, work / (W x time). One
process hands out and writes down, one cell every ``--overhead`` seconds at most (results/growth.md: "keep results").
"""

import argparse
import csv
import heapq
from collections.abc import Sequence
from pathlib import Path


def times(plans: Sequence[Path]) -> list[float]:
    """CPU seconds of every cell that is finished, once each."""
    found: dict[str, float] = {}
    for path in plans:
        with path.open(encoding="utf-8", newline="") as file:
            for line in csv.DictReader(file):
                if line["seconds"] and line["status"] in ("cached", "done"):
                    found.setdefault(line["key"], float(line["seconds"]))
    return list(found.values())


def makespan(work: Sequence[float], workers: int, overhead: float) -> float:
    """Seconds until the last worker is done."""
    free = [0.0] * min(workers, len(work))
    for number, seconds in enumerate(work):
        begin = max(heapq.heappop(free), number * overhead)
        heapq.heappush(free, begin + seconds)
    return max(free)


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("plans", type=Path, nargs="+", help="files NAME_plan.csv")
    parser.add_argument("--workers", type=int, nargs="+", default=[1, 10, 100, 1000])
    parser.add_argument("--overhead", type=float, default=0.001, help="seconds (default: 0.001)")
    options = parser.parse_args()
    work = times(options.plans)
    if not work:
        parser.error("no cell of these plans is finished: nothing is known of their times.")
    total, longest = sum(work), max(work)
    print(f"{len(work)} cells of {len(options.plans)} plans, {total:.0f} s of work; the longest takes {longest:.1f} s,")
    print(f"so that at most {total / longest:.0f} workers can be busy all the time.\n")
    print("| workers | in order, s | efficiency | longest first, s | efficiency |\n| --- | --- | --- | --- | --- |")
    for workers in options.workers:
        ends = [makespan(order, workers, options.overhead) for order in (work, sorted(work, reverse=True))]
        shares = [f"{end:.1f} | {total / (workers * end):.0%}" for end in ends]
        print(f"| {workers} | {' | '.join(shares)} |")


if __name__ == "__main__":
    main()
