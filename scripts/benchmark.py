"""Time ours against what a user would write, both sides in one run: python scripts/benchmark.py [--repeats 3].

Prints each side's CPU seconds and the ratio, as median (min to max) over the repeats, and writes results/benchmarks.md.
The slow side runs on a share of the work where the whole would take minutes; its time is scaled up, and the table says
so.

    python scripts/benchmark.py experiments [WORDS]

prints what a run has cost: for every experiment its cells, their CPU seconds as the run has kept them, and how near its
noisy descents came to this machine's float32 matrix products. WORDS are those of that run, such as ``results_dir=DIR``
or ``experiment=all``, which is what it reads if none is named; cells that another run or other code made have no time.
"""

import argparse
import csv
import json
import math
import os
import platform
import statistics
import subprocess
import sys
import time
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from limits import labelled_rows
from limits import lines as limits
from sklearn.linear_model import LogisticRegression
from threadpoolctl import threadpool_limits

from dpml.algorithms.descent.clipped import ClippedDescent
from dpml.algorithms.descent.clipped_gradients import ClippedGradients
from dpml.algorithms.ensemble.voting import Soft
from dpml.algorithms.prepared import PreparedOutput
from dpml.algorithms.quadratic.functional_mechanism import FunctionalMechanism
from dpml.algorithms.quadratic.laplace_functional_mechanism import LaplaceFunctionalMechanism
from dpml.data import Dataset, Files
from dpml.data.partition import Equal, Parties, partition
from dpml.data.sets.synthetic import Synthetic
from dpml.mechanism.discrete import Noise
from dpml.optim.descent import Rows, descend
from dpml.optim.logistic import fit_parties
from dpml.optim.losses import LOSSES
from dpml.privacy import Budget, Problem
from dpml.privacy.noise import single_gaussian
from dpml.running.cell import deal
from dpml.running.metrics import accuracies
from dpml.running.store import Store

EPSILONS = (0.001, 0.005, 0.01, 0.05, 0.1, 0.5, 1.0, 5.0, 10.0)
DELTA = 1e-3


@dataclass(frozen=True)
class Case:
    """One comparison: `ours` does the whole work, `theirs` the `share` of it."""

    title: str
    against: str
    ours: Callable[[], object]
    theirs: Callable[[], object]
    share: float


def capefm_parties() -> Parties:
    """800 rows, 101 features, 5 parties: the size of Communities & Crime in Imtiaz et al. 2019, fig. 4."""
    data = Synthetic(d=101, rows=800).load(Files(), None, np.random.default_rng(0))
    return partition(data, Equal(), 5, np.random.default_rng(1))


def capefm_by_hand(parties: Parties, eps: float, rng: np.random.Generator) -> np.ndarray:
    """One capeFM release as a user would write it from the paper: site by site, then the ridge and the trimmed spectrum
    of Zhang et al. 2012, Sec. 6. The ridge is ours, 1.25 times the spectral edge of the noise on A."""
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
    """1000 draws x 9 eps of capeFM at d = 101."""
    parties, budgets = capefm_parties(), [Budget(eps, DELTA) for eps in EPSILONS]
    draws, tried = 1000, 20
    prepared = FunctionalMechanism(LOSSES["squared"], sites="cape").prepare(parties, np.random.default_rng(0))
    lengths: list[np.ndarray] = []

    def batched() -> object:
        lengths.append(np.linalg.norm(prepared.release(budgets, np.random.default_rng(0), draws).weights, axis=-1))
        return lengths[-1]

    def single_releases() -> None:
        for seed in range(tried):
            for budget in budgets:
                prepared.release([budget], np.random.default_rng(seed), 1)

    def by_hand() -> None:
        rng = np.random.default_rng(0)
        models = [[capefm_by_hand(parties, eps, rng) for eps in EPSILONS] for _ in range(tried)]
        theirs, ours = np.linalg.norm(models, axis=-1).mean(axis=0), lengths[-1].mean(axis=1)
        assert np.all(np.abs(theirs - ours) <= 6 * lengths[-1].std(axis=1) / math.sqrt(tried))

    title = f"capefm, {draws} draws x {len(budgets)} eps, d = 101, M = 5"
    return [
        Case(title, "a loop from the paper's text (NumPy), models as long", batched, by_hand, tried / draws),
        Case(title, "a loop of our own single releases", batched, single_releases, tried / draws),
    ]


def hamm_cases() -> list[Case]:
    """The two loops of Hamm et al. 2016, fig. 3, at its full size: 20,000 local models, and 1200 releases."""
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
    soft = PreparedOutput(Soft(LOSSES["logistic"]), X[0], Problem(M, M * n, d, auxiliary=43_000))

    def all_at_once() -> object:
        weights = soft.release(budgets, np.random.default_rng(0), draws).weights
        return accuracies(weights.reshape(-1, d), X_test, y_test)

    def single_releases() -> None:
        rng = np.random.default_rng(0)
        for budget in budgets:
            w = soft.release([budget], rng, 1).weights[0, 0]
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


@dataclass(frozen=True)
class Descents:
    """Rounds of noisy descent at the size of Adult as Kang et al. 2019 use it, with their noise and updates."""

    n: int = 45_222
    d: int = 105
    rounds: int = 30
    draws: int = 8
    step: float = 0.5

    @property
    def scales(self) -> np.ndarray:
        """The noise of every budget."""
        return np.geomspace(0.01, 1, 16)

    @property
    def title(self) -> str:
        runs = self.draws * len(self.scales)
        return f"noisy descent, {self.rounds} rounds of {runs} runs, n = {self.n}, d = {self.d}"

    def ours(self) -> Callable[[], object]:
        """All of it, as dpml does it."""
        X, y = labelled_rows(self.n, self.d)
        rows, start = Rows.of(LOSSES["logistic"], X, y, np.full(self.n, 1 / self.n)), np.zeros(self.d)

        def work() -> object:
            rng = np.random.default_rng(0)
            draw = lambda: single_gaussian(rng, (1, self.draws, self.d))  # noqa: E731
            return descend([rows], start, np.array([self.step]), self.scales[None], draw, self.rounds)

        return work


def kang_cases() -> list[Case]:
    """Descents against products of matrices, and against their definition in NumPy."""
    same = Descents()
    n, d, runs = same.n, same.d, same.draws * len(same.scales)
    X, y = labelled_rows(n, d)
    square = np.random.default_rng(0).standard_normal((2048, 2048), dtype=np.float32)
    products = round(same.rounds * 2 * n * d * runs / 2048**3)
    ours, single = same.ours(), X.astype(np.float32)

    def multiply() -> None:
        for _ in range(products):
            np.matmul(square, square)

    def unblocked(X: np.ndarray) -> Callable[[], None]:
        labels = y.astype(X.dtype)[:, None]

        def work() -> None:
            rng, w = np.random.default_rng(0), np.zeros((d, runs), X.dtype)
            width = np.repeat(same.scales, same.draws).astype(X.dtype)
            for _ in range(same.rounds // 10):
                slopes = -labels / (1 + np.exp(labels * (X @ w)))
                w -= X.dtype.type(same.step) * (X.T @ slopes / n + width * rng.standard_normal((d, runs), X.dtype))

        return work

    title = same.title
    return [
        Case(title, "as many multiplications in float32 products of 2048 x 2048", ours, multiply, 1.0),
        Case(title, "the definition in NumPy, all runs at once, float32", ours, unblocked(single), 0.1),
        Case(title, "the definition in NumPy, all runs at once, float64", ours, unblocked(X), 0.1),
    ]


def sums_cases() -> list[Case]:
    """Exact noise against continuous noise at Adult's size, and integer sums against sums in double precision."""
    data = Synthetic(d=105, rows=32_561, recipe="logistic").load(Files(), None, np.random.default_rng(0))
    parties = partition(data, Equal(), 1, np.random.default_rng(1))

    def release(make: Callable[..., Any], noise: Noise, eps: Sequence[float], draws: int) -> Callable[[], object]:
        algorithm, budgets = make(LOSSES["logistic"], noise=noise), [Budget(each, 1e-5) for each in eps]
        return lambda: algorithm.prepare(parties, None).release(budgets, np.random.default_rng(0), draws)

    cases = [
        Case(
            f"{name}, discrete noise, {draws * len(eps)} releases of 32561 x 105", "the same with continuous noise",
            release(make, "discrete", eps, draws), release(make, "continuous", eps, draws), 1.0,
        )
        for name, make in (("dpgd", ClippedDescent), ("dpfm", partial(LaplaceFunctionalMechanism, calibration="tight")))
        for eps, draws in (((1.0,), 1), (np.geomspace(0.1, 10, 8).tolist(), 8))
    ]  # fmt: skip
    X, y = labelled_rows(1_000_000, 100)
    many = partition(Dataset("made", "binary", X, y, X[:1], y[:1]), Equal(), 1, np.random.default_rng(0))
    of = ClippedGradients(LOSSES["logistic"], "sample", 0.1)
    terms, rows = of.on(many), Rows.of(LOSSES["logistic"], many.X, many.y, dtype=np.float64, clip=0.1)
    for runs in (1, 16):
        w, out = np.random.default_rng(0).standard_normal((runs, 100)), np.empty((runs, 100))
        steps = np.full(runs, of.resolution([1.0], many.problem))
        title = f"sums of gradients in integers, 1000000 x 100, {runs} models"
        ours = partial(terms.integers, steps, False, w.astype(np.float32))
        ours()  # rows become integers once
        cases.append(Case(title, "the same sums in double precision", ours, partial(rows.gradient, w, out), 1.0))
    return cases


def peer_cases() -> list[Case]:
    """Programs of others, each in an environment of its own that is made from PyPI the first time (``--peers``)."""
    from growth import cell_of
    from peers import python_of

    work = Path("build/peers")
    work.mkdir(parents=True, exist_ok=True)
    one_thread = os.environ | {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}

    def peer(name: str, *words: str, **arrays: object) -> Callable[[], float]:
        """What a program in `timed` prints, given these arrays in a file, and further words."""
        program, data = Path(__file__).parent / "timed" / f"{name}.py", work / f"{name}.npz"
        np.savez(data, **arrays)  # type: ignore[arg-type]
        python = python_of(program, work / f"timed_{name}")
        run = [python, program, data, *words]
        return lambda: float(subprocess.run(run, check=True, stdout=subprocess.PIPE, text=True, env=one_thread).stdout)

    eps, draws = np.geomspace(0.1, 10, 16), 8
    words = "dataset=synthetic dataset.recipe=logistic dataset.d=105 N=45222 M=1 algo=objpert algo.lam=1e-3 delta=null"
    cell = cell_of(*words.split(), f"eps=[{','.join(map(str, eps))}]", f"draws={draws}")
    parties, rng = deal(cell), np.random.default_rng
    fits = peer("diffprivlib_fits", "0.1", "1", "10", X=parties.X, y=parties.y, C=1e3 / len(parties.y))

    def releases() -> object:
        return cell.algorithm.prepare(replace(parties), rng(0)).release(cell.budgets, rng(0), draws)

    same = Descents()
    X, y = labelled_rows(same.n, same.d)
    widths = np.repeat(same.scales, same.draws)
    descents = peer("torch_descent", str(same.rounds // 10), X=X, y=y, step=same.step, widths=widths)
    title = f"objective perturbation, {draws} draws x {len(eps)} eps, n = 45222, d = 105"
    share = 3 / (draws * len(eps))
    return [
        Case(title, "diffprivlib 0.6.6, a fit for each, the same ridge, tol=1e-8", releases, fits, share),
        Case(same.title, "PyTorch, all runs at once by autograd, float32", same.ours(), descents, 0.1),
    ]


@dataclass
class Cost:
    """What the cells of an experiment have cost: CPU seconds; of descents also their multiplications and additions."""

    cells: int = 0
    seconds: float = 0.0
    of_descents: float = 0.0
    operations: float = 0.0
    waiting: int = 0


def descent_operations(cell: Mapping[str, Any], N: int, d: int) -> float:
    """Multiplications and additions in a cell's descents: 4 N d of every run and round. 0 for another algorithm.

    Rows that are alike count each, although they are computed once; local rounds of all parties are as much together.
    """
    algorithm = cell["algorithm"]
    if "rounds" not in algorithm or "step_selection" not in algorithm:
        return 0.0
    tried = 1 if algorithm["step_selection"] in ("rule", "fixed") else len(algorithm["steps"])
    return 4.0 * N * d * algorithm["rounds"] * len(cell["budgets"]) * cell["draws"][1] * tried


def costs(listing: Sequence[Mapping[str, str]], store: Store) -> dict[str, Cost]:
    """What every experiment has cost; a cell that several share stands at the first of them."""
    found: dict[str, Cost] = defaultdict(Cost)
    seen = set()
    for line in listing:
        cost, key = found[line["task"]], line["key"]
        if line["status"] == "computed" or key in seen:
            continue
        seen.add(key)
        if not line["seconds"]:
            cost.waiting += line["status"] == "to run"
            continue
        cost.cells += 1
        cost.seconds += float(line["seconds"])
        head, *numbers = (store.current(key, "result.json") or ("{}",))[0].splitlines()
        if numbers:
            problem = json.loads(numbers[0])["problem"]
            operations = descent_operations(json.loads(head)["cell"], problem["N"], problem["d"])
            cost.operations += operations
            cost.of_descents += float(line["seconds"]) if operations else 0.0
    return found


def matrix_rate(repeats: int = 7) -> float:
    """Multiplications and additions a second of float32 products of 2048 x 2048 on one thread: the median."""
    square = np.random.default_rng(0).standard_normal((2048, 2048), dtype=np.float32)
    times = []
    for _ in range(repeats):
        start = time.thread_time()
        np.matmul(square, square)
        times.append(time.thread_time() - start)
    return 2 * 2048**3 / statistics.median(times)


def experiments(words: Sequence[str]) -> None:
    """Print what the run of these words has cost, as far as its cells are kept."""
    words = list(words) if any(word.startswith("experiment=") for word in words) else ["experiment=all", *words]
    results = next((word.partition("=")[2] for word in words if word.startswith("results_dir=")), "results")
    run = [sys.executable, "-c", "from dpml.cli import dpml_run; dpml_run()", *words, "run.dry=true"]
    printed = subprocess.run(run, capture_output=True, text=True, check=True).stdout
    lines = printed[printed.index("task,block,") :].splitlines()
    found = costs(list(csv.DictReader(lines)), Store(Path(results) / ".cells"))
    rate = matrix_rate()
    print(f"float32 matrix products: {rate / 1e9:.0f} GFLOP/s on one thread\n")
    print("| experiment | cells | CPU seconds | of descents | their share of the matrix rate |")
    print("| --- | --- | --- | --- | --- |")
    total = Cost()
    for name, cost in found.items():
        _print_cost(name, cost, rate)
        for key in ("cells", "seconds", "of_descents", "operations", "waiting"):
            setattr(total, key, getattr(total, key) + getattr(cost, key))
    _print_cost("all", total, rate)


def _print_cost(name: str, cost: Cost, rate: float) -> None:
    share = f"{cost.operations / cost.of_descents / rate:.0%}" if cost.of_descents else ""
    cells = f"{cost.cells}" + (f" ({cost.waiting} not computed)" if cost.waiting else "")
    print(f"| {name} | {cells} | {cost.seconds:.1f} | {cost.of_descents:.1f} | {share} |")


def seconds(work: Callable[[], object]) -> float:
    """CPU time of one call, or the number that it returns: on a busy machine the clock tells of others, too."""
    start = time.process_time()
    said = work()
    return said if isinstance(said, float) else time.process_time() - start


def spread(values: list[float]) -> str:
    """median (min to max)"""
    return f"{statistics.median(values):.3g} ({min(values):.3g} to {max(values):.3g})"


def main() -> None:
    """Run every case `--repeats` times, the two sides in turn."""
    threadpool_limits(1)  # on a busy machine, BLAS threads mostly wait for each other
    if sys.argv[1:2] == ["experiments"]:
        experiments(sys.argv[2:])
        return
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--repeats", type=int, default=3)
    makers = {"capefm": capefm_cases, "hamm": hamm_cases, "kang": kang_cases, "sums": sums_cases}
    parser.add_argument(
        "--only", default="", choices=["", *makers, "peers"], help="one family; then nothing is written"
    )
    parser.add_argument("--peers", action="store_true", help="also diffprivlib and PyTorch, which pip fetches (5 GB)")
    options = parser.parse_args()
    repeats, only = options.repeats, options.only
    if options.peers or only == "peers":
        makers["peers"] = peer_cases
    cases = [case for name, make in makers.items() if only in ("", name) for case in make()]
    command = "python scripts/benchmark.py" + " --peers" * ("peers" in makers)
    lines = [
        f"Python {platform.python_version()}, NumPy {np.__version__}, {os.cpu_count()} cores, one BLAS thread, "
        f"{repeats} repeats; made by `{command}`. CPU seconds and ratios: median (min to max).",
        "",
        "| work | against | ours, s | theirs, s | times faster |",
        "| --- | --- | --- | --- | --- |",
    ]
    for case in cases:
        pairs = [(seconds(case.ours), seconds(case.theirs) / case.share) for _ in range(repeats)]
        against = case.against + ("" if case.share == 1 else f", {case.share:.0%} of it timed")
        row = (case.title, against, *map(spread, zip(*pairs, strict=True)), spread([b / a for a, b in pairs]))  # type: ignore[arg-type]
        lines.append(f"| {' | '.join(row)} |")
        print(lines[-1], flush=True)
    if only:
        return
    lines += ["", "## Limits", ""]
    for line in limits():
        lines.append(line)
        print(line, flush=True)
    target = Path("results/benchmarks.md")
    target.parent.mkdir(exist_ok=True)
    target.write_text("# Benchmarks\n\n" + "\n".join(lines) + "\n", encoding="utf-8")
    print(f"Written to {target}")


if __name__ == "__main__":
    main()
