"""How near each engine comes to what this machine can do, both measured in one run: python scripts/limits.py

Prints the table that ``python scripts/benchmark.py`` puts into results/benchmarks.md. CPU seconds of one thread, the
fastest of several short repetitions, so that others on the machine disturb little.
"""

import os
import time
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from threadpoolctl import threadpool_limits

from dpml.arrays import Array, blocks
from dpml.optim import convex, logistic
from dpml.optim.descent import Rows, descend
from dpml.optim.losses import LOSSES
from dpml.privacy import noise

_REPEATS = 5
RUNS, BUDGETS = 128, 16
SHAPES = ((45_222, 105, 20), (5_000, 20, 300), (2_000, 50, 300), (569, 31, 600))  # rows, features, rounds


def fastest(work: Callable[[], object], repeats: int = _REPEATS) -> float:
    """CPU seconds of a call, the least of several."""
    times = []
    for _ in range(repeats):
        start = time.thread_time()
        work()
        times.append(time.thread_time() - start)
    return min(times)


def labelled_rows(n: int, d: int) -> tuple[Array, Array]:
    """Rows in the unit ball and noisy linear labels."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((n, d))
    X *= (rng.uniform(0.3, 0.99, n) / np.linalg.norm(X, axis=1))[:, None]
    return X, np.where(X @ rng.standard_normal(d) * 9 + rng.logistic(size=n) > 0, 1.0, -1.0)


def matrix_rate(dtype: type[np.floating]) -> float:
    """Multiplications and additions a second of products of 2048 x 2048."""
    square = np.random.default_rng(0).standard_normal((2048, 2048)).astype(dtype)
    out = np.empty_like(square)
    return 2 * 2048**3 / fastest(lambda: np.matmul(square, square, out=out))


def machine() -> Iterator[tuple[str, str]]:
    """What the machine can do with NumPy on one thread."""
    for name, dtype in (("float32", np.float32), ("float64", np.float64)):
        yield f"{name} matrix products", f"{matrix_rate(dtype) / 1e9:.0f} GFLOP/s"
    a, b, c = (np.ones(20_000_000) for _ in range(3))
    yield "memory, copy (16 bytes a number)", f"{16 * len(a) / fastest(lambda: np.copyto(a, b)) / 1e9:.1f} GB/s"

    def triad() -> None:
        np.multiply(c, 3.0, out=a)
        np.add(a, b, out=a)

    yield "memory, triad in two passes (40 bytes a number)", f"{40 * len(a) / fastest(triad) / 1e9:.1f} GB/s"
    block = np.zeros((1024, 64), np.float32)
    yield "float32 tanh in cache", f"{block.size / fastest(lambda: np.tanh(block, out=block), 200) / 1e6:.0f} M/s"
    for name, kind in (("float64", np.float64), ("float32", np.float32)):
        yield f"normals, {name}", f"{normals(kind) / 1e6:.0f} M/s"


def normals(dtype: type[np.floating] = np.float64) -> float:
    """Normals a second of NumPy's generator, into an array that is there."""
    rng, out = np.random.default_rng(0), np.empty(1 << 15, dtype)
    return 50 * len(out) / fastest(lambda: [rng.standard_normal(out=out, dtype=dtype) for _ in range(50)])  # type: ignore[call-overload]


Line = tuple[str, str, float, float]
"""What was done, against what bound, and CPU seconds of ours and of the bound."""


def descents() -> Iterator[Line]:
    """Whole descents, with noise and updates, against raw products, and against products and tanh at their shape."""
    rate = matrix_rate(np.float32)
    for n, d, rounds in SHAPES:
        X, y = labelled_rows(n, d)
        rows = Rows.of(LOSSES["logistic"], X, y, np.full(n, 1 / n))
        scales, step, start = np.geomspace(0.01, 1, BUDGETS)[None], np.array([0.5]), np.zeros(d)
        models = [np.zeros((d, 64), np.float32) for _ in range(RUNS // 64)]
        sums = rows.sums(models, [np.empty_like(w) for w in models])

        def ours(rows=rows, start=start, step=step, scales=scales, d=d, rounds=rounds) -> None:  # type: ignore[no-untyped-def]
            rng = np.random.default_rng(0)
            draw = lambda: noise.single_gaussian(rng, (1, RUNS // BUDGETS, d))  # noqa: E731
            descend([rows], start, step, scales, draw, rounds)

        seconds = fastest(ours)
        title = f"descent, {rounds} rounds of {RUNS} runs, {n} x {d}"
        yield title, "float32 products of 2048 x 2048", seconds, 4 * n * d * RUNS * rounds / rate
        yield title, "its own products and tanh, without noise and updates", seconds, rounds * fastest(sums, 20)


def noises() -> Iterator[Line]:
    """Noise against the generator's own normals."""
    rate, rng = normals(), np.random.default_rng(0)
    works: list[tuple[str, int, Callable[[], object]]] = [
        ("gaussian, 2 million numbers", 2_000_000, lambda: noise.gaussian(rng, (2_000_000,))),
        ("l2_laplace, 20,000 x 100", 2_000_000, lambda: noise.l2_laplace(rng, 20_000, 100)),
        ("l2_laplace_total, 50 parties, 20,000 x 100", 2_000_000, lambda: noise.l2_laplace_total(rng, 20_000, 50, 100)),
        ("cape_total, 5 parties, 100 x 2000, two normals a number", 2_000_000,
         lambda: noise.cape_total(rng, 100, 5, 2000, 1.0, 1.0)),
        ("gaussian_total, 5 parties, 200 x 2000", 2_000_000, lambda: noise.gaussian_total(rng, 200, 5, 2000)),
    ]  # fmt: skip
    for title, count, work in works:
        yield f"noise: {title}", "NumPy's normals", fastest(work), count / rate


def newtons() -> Iterator[Line]:
    """Batched Newton against the products and the solutions of linear systems that its steps need."""
    for M, n, d in ((5000, 22, 120), (200, 500, 50), (20, 5000, 105)):
        X, y = labelled_rows(M * n, d)
        offsets = np.arange(M + 1) * n

        def ours(X=X, y=y, offsets=offsets) -> None:  # type: ignore[no-untyped-def]
            for _ in logistic.fit_parties(X, y, offsets, 1e-3, 1):
                pass

        systems = _systems(ours)
        few = min(M, 100)
        rows = X[: few * n].reshape(few, n, d)
        across = rows.transpose(0, 2, 1)
        gram = fastest(
            lambda rows=rows, across=across: rows @ across if rows.shape[1] < rows.shape[2] else across @ rows
        )  # type: ignore[misc]
        m = min(n, d)
        A, b = np.random.default_rng(0).standard_normal((few, m, m)) + 20 * np.eye(m), np.ones((few, m, 1))
        solve = fastest(lambda A=A, b=b: np.linalg.solve(A, b))  # type: ignore[misc]
        bound = (gram * (M if n < d else systems) + solve * systems) / few
        yield f"Newton, {M} models of {n} x {d}", f"X'X and solutions of its {systems} steps", fastest(ours), bound
    n, d, B = 45_222, 105, 64
    X, y = labelled_rows(n, d)
    tilt = np.geomspace(1e-4, 1e-1, B)[:, None] * np.random.default_rng(1).standard_normal((B, d)) / np.sqrt(d)
    tilted = lambda: convex.minimise_convex(LOSSES["logistic"], X, y, 1e-3, tilt)  # noqa: E731
    seconds, title = fastest(tilted, 2), f"Newton, {B} tilted objectives on {n} x {d}"
    steps = len(_arguments(convex._Problems, "newton_steps", tilted))
    evaluations = len(_arguments(convex._Problems, "at", tilted))
    products = len(_arguments(convex._Problems, "_hessian_times", tilted))
    pair = fastest(lambda: [(X[i] @ tilt.T).T @ X[i] for i in blocks(n, B + d)])
    gram = fastest(lambda: [X[i].T @ X[i] for i in blocks(n, d)])
    bound = (evaluations + products) * pair + steps * gram
    yield title, f"its {evaluations + products} pairs of products and {steps} X'X", seconds, bound
    yield title, f"{B} X'X in each of its {steps} steps, had every problem a Hessian", seconds, B * steps * gram


def _systems(work: Callable[[], object]) -> int:
    """How many linear systems a call solves."""
    return sum(len(A) for A, _ in _arguments(np.linalg, "solve", work))


def _arguments(owner: Any, name: str, work: Callable[[], object]) -> list[tuple[Any, ...]]:
    """The arguments of every call of a function while `work` is done."""
    function, calls = getattr(owner, name), []

    def noting(*arguments: Any) -> Any:
        calls.append(arguments)
        return function(*arguments)

    setattr(owner, name, noting)
    try:
        work()
    finally:
        setattr(owner, name, function)
    return calls


def lines() -> Iterator[str]:
    """The two tables, line by line."""
    load = f"load {os.getloadavg()[0]:.1f} on {os.cpu_count()} cores"
    yield f"`python scripts/limits.py`: one thread, CPU seconds, the fastest of {_REPEATS}; {load}."
    yield from ("", "| the machine, through NumPy | |", "| --- | --- |")
    for what, rate in machine():
        yield f"| {what} | {rate} |"
    yield from ("", "| work | bound | ours, s | the bound, s | share of the bound |", "| --- | --- | --- | --- | --- |")
    for make in (descents, noises, newtons):
        for title, bound, ours, least in make():
            yield f"| {title} | {bound} | {ours:.3g} | {least:.3g} | {least / ours:.0%} |"


def main() -> None:
    """Print the tables."""
    threadpool_limits(1)
    for line in lines():
        print(line, flush=True)


if __name__ == "__main__":
    main()
