"""Time dpml against code that a user would write: python scripts/benchmark.py [--repeats 3] [--before CHECKOUT].

It prints the CPU seconds of both sides and their ratio, as median (min to max) over the repeats, and writes
results/benchmarks.md. A side that would take minutes does a share of the work, and the table says so. With --before,
it also times some commands with the code of another checkout, such as the previous release.
"""

import argparse
import math
import os
import platform
import resource
import shlex
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np
from sklearn.linear_model import LogisticRegression
from threadpoolctl import threadpool_limits

from dpml.algorithms.ensemble import Soft
from dpml.algorithms.quadratic.functional_mechanism import FunctionalMechanism
from dpml.data import Files
from dpml.data.partition import Equal, Parties, partition
from dpml.data.sets.synthetic import Synthetic
from dpml.optim.convex import fit_parties
from dpml.optim.losses import LOSSES
from dpml.optim.merged_descent import descend, merged
from dpml.privacy import Budget, Problem
from dpml.privacy.noise import l2_laplace, single_gaussian
from dpml.running.metrics import accuracies

EPSILONS = (0.001, 0.005, 0.01, 0.05, 0.1, 0.5, 1.0, 5.0, 10.0)
DELTA = 1e-3
COMMANDS = (
    "algo=capefm eps=0.1",
    "-m algo=capefm,conv 'seed=range(0,50)'",
    "experiment=imtiaz2019/fig5",
    "experiment=all run.dry=true",
)


@dataclass(frozen=True)
class Case:
    """A benchmark: `ours` does the whole work, and `theirs` does only the fraction `share` of the same work."""

    title: str
    against: str
    ours: Callable[[], object]
    theirs: Callable[[], object]
    share: float


def labelled_rows(n: int, d: int) -> tuple[np.ndarray, np.ndarray]:
    """Return random rows in the unit ball, and labels from a noisy linear model."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((n, d))
    X *= (rng.uniform(0.3, 0.99, n) / np.linalg.norm(X, axis=1))[:, None]
    return X, np.where(X @ rng.standard_normal(d) * 9 + rng.logistic(size=n) > 0, 1.0, -1.0)


def capefm_by_hand(parties: Parties, eps: float, rng: np.random.Generator) -> np.ndarray:
    """Release capeFM as a user would write it from the paper: site by site, then the ridge and the trimmed spectrum
    of Zhang et al. 2012, Sec. 6. The size of the ridge is our choice, 1.25 times the spectral edge of A's noise."""
    M, d = len(parties.sizes), parties.X.shape[1]
    factor = math.sqrt(2 * math.log(1.25 / DELTA)) / eps
    messages = []
    zero_sum = rng.standard_normal((M, d + d * d))
    zero_sum -= zero_sum.mean(axis=0)
    for k in range(M):
        X, y = parties.X[parties.of(k)], parties.y[parties.of(k)]
        n = len(y)
        exact = np.concatenate([-2 * X.T @ y / n, (X.T @ X / n).ravel()])
        tau = np.repeat([4 * factor / n, math.sqrt(2) * factor / n], [d, d * d])
        messages.append(exact + tau * (zero_sum[k] + rng.standard_normal(d + d * d) / math.sqrt(M)))
    mean = np.mean(messages, axis=0)
    b, A = mean[:d], mean[d:].reshape(d, d)
    edge = 2 * math.sqrt(d / 2) * math.sqrt(2) * factor / len(parties.y)
    A = (A + A.T) / 2 + 1.25 * edge * np.eye(d)
    try:
        np.linalg.cholesky(A)
        return -np.linalg.solve(A, b) / 2
    except np.linalg.LinAlgError:
        values, vectors = np.linalg.eigh(A)
        along = vectors.T[values > 0]
        return -along.T @ (along @ b / values[values > 0]) / 2


def capefm_cases() -> list[Case]:
    """Return the case of 1000 capeFM releases for each of 9 eps, at the size of Crime in Imtiaz et al. 2019, fig. 4."""
    data = Synthetic(d=101, rows=800).load(Files(), None, np.random.default_rng(0))
    parties = partition(data, Equal(), 5, np.random.default_rng(1))
    budgets, draws, tried = [Budget(eps, DELTA) for eps in EPSILONS], 1000, 20
    prepared = FunctionalMechanism(LOSSES["squared"], sites="cape").prepare(parties, np.random.default_rng(0))
    lengths: list[np.ndarray] = []

    def batched() -> object:
        lengths.append(np.linalg.norm(prepared.release(budgets, np.random.default_rng(0), draws).weights, axis=-1))
        return lengths[-1]

    def by_hand() -> None:
        rng = np.random.default_rng(0)
        models = [[capefm_by_hand(parties, eps, rng) for eps in EPSILONS] for _ in range(tried)]
        theirs, ours = np.linalg.norm(models, axis=-1).mean(axis=0), lengths[-1].mean(axis=1)
        assert np.all(np.abs(theirs - ours) <= 6 * lengths[-1].std(axis=1) / math.sqrt(tried))

    title = f"capefm, {draws} draws x {len(budgets)} eps, d = 101, M = 5"
    return [Case(title, "a loop from the paper's text (NumPy), models as long", batched, by_hand, tried / draws)]


def hamm_cases() -> list[Case]:
    """Return the two costly steps of Hamm et al. 2016, fig. 3, at full size: 20,000 local models, and 1200 releases."""
    M, n, d, lam, tried = 20_000, 22, 120, 1e-4, 200
    X, y = labelled_rows(M * n, d)
    offsets = np.arange(M + 1) * n
    ours: dict[int, np.ndarray] = {}

    def batched() -> object:
        for parties, w in fit_parties(X, y, offsets, lam, 1):
            ours.update(zip(parties.tolist(), w, strict=True))
        return ours

    def by_scikit_learn() -> None:
        for k in range(tried):
            own = slice(offsets[k], offsets[k + 1])
            theirs = LogisticRegression(C=1 / (lam * n), fit_intercept=False, tol=1e-8, max_iter=10_000)
            w = theirs.fit(X[own], y[own]).coef_[0]
            assert k not in ours or np.abs(ours[k] - w).max() <= 1e-4 * np.abs(w).max()

    rows, draws, budgets = 311_029, 100, [Budget(eps) for eps in np.geomspace(0.1, 100, 12)]
    X_test, y_test = X[:rows], y[:rows]
    soft, problem = Soft(LOSSES["logistic"]), Problem(M, M * n, d, auxiliary=43_000)
    scales = np.array([soft.messages(budget, problem)[0].noise for budget in budgets])

    def all_at_once() -> object:
        weights = X[0] + scales[:, None, None] * l2_laplace(np.random.default_rng(0), draws, d)
        return accuracies(weights.reshape(-1, d), X_test, y_test)

    def single_releases() -> None:
        rng = np.random.default_rng(0)
        for scale in scales:
            w = X[0] + scale * l2_laplace(rng, 1, d)[0]
            np.mean(np.where(X_test @ w >= 0, 1.0, -1.0) == y_test)

    return [
        Case(
            f"{M} local logistic models, {n} rows each, d = {d}, lam = {lam:g}, to a gradient of 1e-8",
            "a loop of scikit-learn's LogisticRegression, tol=1e-8, equal to 1e-4",
            batched,
            by_scikit_learn,
            tried / M,
        ),
        Case(
            f"soft: release and test accuracy, {draws} draws x {len(budgets)} eps, {rows} test rows, d = {d}",
            "a loop of single releases and predictions (NumPy)",
            all_at_once,
            single_releases,
            1 / draws,
        ),
    ]


def kang_cases() -> list[Case]:
    """Return cases that compare noisy descent (Kang et al. 2019, on Adult) with matrix products and plain NumPy."""
    n, d, rounds, draws, step, scales = 45_222, 105, 30, 8, 0.5, np.geomspace(0.01, 1, 16)
    runs = draws * len(scales)
    X, y = labelled_rows(n, d)
    square = np.random.default_rng(0).standard_normal((2048, 2048), dtype=np.float32)
    rows = merged(LOSSES["logistic"], [(X, y, np.full(n, 1 / n))], runs)
    widths = np.broadcast_to(scales, (1, draws, len(scales)))

    def ours() -> None:
        rng, w = np.random.default_rng(0), np.zeros((1, d, runs))
        noise = lambda count: single_gaussian(rng, (count, 1, d, draws))  # noqa: E731
        descend(rows, LOSSES["logistic"], w, np.full(runs, step), widths, noise, 0.0, rounds)

    def multiply() -> None:
        for _ in range(round(rounds * 2 * n * d * runs / 2048**3)):
            np.matmul(square, square)

    def unblocked(X: np.ndarray) -> None:
        labels, width = y.astype(X.dtype)[:, None], np.repeat(scales, draws).astype(X.dtype)
        rng, w = np.random.default_rng(0), np.zeros((d, runs), X.dtype)
        for _ in range(rounds // 10):
            slopes = -labels / (1 + np.exp(labels * (X @ w)))
            w -= X.dtype.type(step) * (X.T @ slopes / n + width * rng.standard_normal((d, runs), X.dtype))

    title = f"noisy descent, {rounds} rounds of {runs} runs, n = {n}, d = {d}"
    definition = "the definition in NumPy, all runs at once"
    return [
        Case(title, "as many multiplications in float32 products of 2048 x 2048", ours, multiply, 1.0),
        Case(title, f"{definition}, float32", ours, partial(unblocked, X.astype(np.float32)), 0.1),
        Case(title, f"{definition}, float64", ours, partial(unblocked, X), 0.1),
    ]


def command_seconds(checkout: Path, folder: str, command: str) -> float:
    """Run `dpml-run` in `folder` with the code of a checkout, and return the CPU seconds."""
    program = [sys.executable, "-c", "from dpml.cli import dpml_run; dpml_run()", *shlex.split(command)]
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    environment = os.environ | {"PYTHONPATH": str(checkout), "OMP_NUM_THREADS": "1"}
    subprocess.run(program, cwd=folder, env=environment, check=True, capture_output=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def against_checkout(other: Path, repeats: int) -> list[str]:
    """Time commands with this and another checkout, without and with stored results; return the lines of a table."""
    here = Path(__file__).resolve().parents[1]
    commit = subprocess.run(
        ["git", "rev-parse", "--short", "HEAD"], cwd=other, check=True, capture_output=True, text=True
    )
    lines = ["", f"| dpml-run ... | {commit.stdout.strip()}, s | now, s | times faster |", "| --- | --- | --- | --- |"]
    for command in COMMANDS:
        times: dict[str, list[tuple[float, float]]] = {"": [], ", again": []}
        for _ in range(repeats):
            with tempfile.TemporaryDirectory() as old, tempfile.TemporaryDirectory() as new:
                for again in times:
                    pair = command_seconds(other.resolve(), old, command), command_seconds(here, new, command)
                    times[again].append(pair)
        for again, pairs in times.items():
            row = (f"`{command}`{again}", *map(spread, zip(*pairs, strict=True)), spread([a / b for a, b in pairs]))
            lines.append(f"| {' | '.join(row)} |")
            print(lines[-1], flush=True)
    return lines


def seconds(work: Callable[[], object]) -> float:
    """Return the CPU seconds of one call; wall time would depend on other processes."""
    start = time.process_time()
    work()
    return time.process_time() - start


def spread(values: list[float]) -> str:
    """Return the text "median (min to max)"."""
    return f"{statistics.median(values):.3g} ({min(values):.3g} to {max(values):.3g})"


def main() -> None:
    """Time both sides of every case in turn, `--repeats` times, and write the table."""
    threadpool_limits(1)  # on a busy machine, BLAS threads mostly wait for each other
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--before", type=Path, help="a checkout of dpml whose commands are timed, too")
    options = parser.parse_args()
    repeats = options.repeats
    lines = [
        f"Python {platform.python_version()}, NumPy {np.__version__}, {os.cpu_count()} cores, one BLAS thread, "
        f"{repeats} repeats of `python scripts/benchmark.py`. Cells: median (minimum to maximum) of CPU time or ratio.",
        "",
        "| work | against | ours, s | theirs, s | times faster |",
        "| --- | --- | --- | --- | --- |",
    ]
    for case in [*capefm_cases(), *hamm_cases(), *kang_cases()]:
        pairs = [(seconds(case.ours), seconds(case.theirs) / case.share) for _ in range(repeats)]
        against = case.against + ("" if case.share == 1 else f", {case.share:.0%} of it timed")
        row = (case.title, against, *map(spread, zip(*pairs, strict=True)), spread([b / a for a, b in pairs]))  # type: ignore[arg-type]
        lines.append(f"| {' | '.join(row)} |")
        print(lines[-1], flush=True)
    if options.before:
        lines += against_checkout(options.before, repeats)
    Path("results/benchmarks.md").write_text("# Benchmarks\n\n" + "\n".join(lines) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
