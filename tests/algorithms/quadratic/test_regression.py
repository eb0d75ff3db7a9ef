"""Linear regression with intervals: what the sums guarantee, and how often intervals cover the truth."""

import re

import numpy as np
import pytest
from scipy.optimize import minimize

import dpml
from dpml.algorithms.quadratic.moments import Moments, noise_of
from dpml.algorithms.quadratic.regression import Regression
from dpml.data import Dataset
from dpml.data.partition import Equal, partition
from dpml.optim.losses import LOSSES
from dpml.privacy import Budget, Problem
from dpml.release.inference import expected, hidden_directions

TRUE = np.array([0.3, -0.2, 0.0, 0.1])


def moved(point, units, d):
    """How far two samples move the three sums apart, in units of the noise, written without dpml."""
    x, z = point[:d] / max(1, np.linalg.norm(point[:d])), point[d : 2 * d] / max(1, np.linalg.norm(point[d : 2 * d]))
    y, t = np.clip(point[2 * d :], -1, 1)
    constant, linear, square = units
    matrix = np.outer(x, x) - np.outer(z, z)
    return (
        ((y * y - t * t) / constant) ** 2
        + np.sum((2 * (y * x - t * z) / linear) ** 2)
        + np.sum((np.diag(matrix) / square) ** 2)
        + np.sum((np.triu(matrix, 1) / square) ** 2) * 2
    )


@pytest.mark.parametrize(("d", "radius"), [(1, 2.0), (2, 2.0), (3, 0.1), (3, 30.0)])
def test_no_two_samples_are_farther_apart_than_the_guarantee_says_and_two_are_as_far(d, radius):
    (message,) = Regression(LOSSES["squared"], radius=radius).messages(Budget(1.0, 1e-6), Problem(N=100, d=d, M=1))
    rng = np.random.default_rng(0)

    def away(point):
        return -moved(point, message.units[:3], d)

    starts = rng.standard_normal((12, 2 * d + 2)) * 2
    farthest = max(-minimize(away, start, method="Nelder-Mead", options={"maxiter": 1500}).fun for start in starts)
    assert farthest <= message.sensitivity**2 * (1 + 1e-9)
    assert farthest >= message.sensitivity**2 * (1 - 1e-3)


def symmetric(rng, d):
    """Unit noise on a matrix: on the diagonal, and divided by sqrt 2 beside it."""
    above = np.triu(rng.standard_normal((d, d)), 1) / np.sqrt(2)
    return above + above.T + np.diag(rng.standard_normal(d))


def covered(repetitions, n, square_noise, linear_noise, labels_noise, scaled_up=1.0, seed=0):
    """How often nominal 95 % intervals cover each of TRUE, with noise that this test draws."""
    rng, d, found = np.random.default_rng(seed), len(TRUE), []
    kept = round(n / scaled_up)
    for _ in range(repetitions):
        X = np.column_stack([rng.uniform(-1, 1, (kept, d - 2)), rng.random(kept) < 0.2, np.ones(kept)]) / np.sqrt(d)
        y = X @ TRUE + rng.uniform(-0.3, 0.3, kept)
        E = square_noise * symmetric(rng, d)
        moments = Moments(
            scaled_up * X.T @ X + E, scaled_up * X.T @ y + rng.standard_normal(d) * linear_noise,
            scaled_up * y @ y + rng.standard_normal() * labels_noise, square_noise, linear_noise, n, scaled_up,
        )  # fmt: skip
        fitted = moments.estimated()
        off = (fitted.coefficients - TRUE) / fitted.errors(np.eye(d))
        found.append(np.abs(off) < 1.96)
    return np.mean(found, axis=0)


@pytest.mark.parametrize(
    ("square", "linear", "scaled"), [(0.0, 0.0, 1.0), (8.0, 8.0, 1.0), (20.0, 30.0, 1.0), (8.0, 8.0, 2.0)]
)
def test_intervals_cover_the_truth_as_often_as_they_say(square, linear, scaled):
    # 1,200 intervals of 300 samples: below .92 or above .98 with a probability below 1e-4 at a coverage of .95
    assert 0.92 < covered(300, 4000, square, linear, linear, scaled).mean() < 0.98


def test_without_noise_the_coefficients_and_errors_are_those_of_least_squares():
    rng = np.random.default_rng(0)
    X, noise = rng.uniform(-0.5, 0.5, (500, 3)), rng.standard_normal(500) * 0.1
    y = X @ [0.5, -0.2, 0.1] + noise
    fitted = Moments(X.T @ X, X.T @ y, y @ y, 0.0, 0.0, 500).estimated()
    beta, squares, _, _ = np.linalg.lstsq(X, y, rcond=None)
    np.testing.assert_allclose(fitted.coefficients, beta)
    np.testing.assert_allclose(fitted.covariances[0], squares[0] / 497 * np.linalg.inv(X.T @ X))


@pytest.mark.parametrize("options", [{}, {"noise": "discrete"}, {"protocol": "secagg"}])
def test_a_release_has_the_sums_of_its_rows_with_the_noise_that_it_says(options):
    rng, budget = np.random.default_rng(0), Budget(2.0, 1e-6)
    X, y = rng.uniform(-0.5, 0.5, (300, 3)), rng.uniform(-1, 1, 300)
    parties = partition(Dataset("made", "regression", X, y, X[:1], y[:1]), Equal(), 3, rng)
    prepared = Regression(LOSSES["squared"], **options).prepare(parties, rng)
    found = [prepared.release([budget], rng, 1).moments for _ in range(150)]
    squares = np.array([m.square - X.T @ X for m in found]) / found[0].square_noise
    lines = np.array([m.linear - X.T @ y for m in found]) / found[0].linear_noise
    # standard deviations of 150 numbers or more: off by a fifth with a probability below 1e-3 each
    assert np.std(np.diagonal(squares, axis1=1, axis2=2)) == pytest.approx(1, abs=0.2)
    assert np.std(squares[:, 0, 1]) == pytest.approx(np.sqrt(0.5), abs=0.16)
    assert np.std(lines) == pytest.approx(1, abs=0.2)
    (message,) = prepared.algorithm.messages(budget, parties.problem)
    assert np.std([m.labels - y @ y for m in found]) == pytest.approx(message.units[0], rel=0.25)


@pytest.mark.parametrize(("n", "numbers", "values", "eps"), [(6000, 3, 3, 2.0), (20_000, 6, 4, 1.0)])
def test_a_value_as_frequent_as_a_release_says_has_a_coefficient(n, numbers, values, eps):
    """Rows of uniform numbers and a category, whose last value has the stated share, or a fifth of it."""
    algorithm, d, rng = Regression(LOSSES["squared"]), numbers + values, np.random.default_rng(0)
    budget, problem = Budget(eps, 1e-6), Problem(N=n, d=d, M=1)
    square, linear = noise_of(algorithm.messages(budget, problem)[0], 1.0)
    share = float(re.search(r"([\d.]+) %", *expected(algorithm, budget, problem))[1]) / 100

    def hidden(p):
        found = 0
        for _ in range(100):
            category = rng.choice(values, n, p=[*[(1 - p) / (values - 1)] * (values - 1), p])
            X = np.column_stack([np.ones(n), rng.uniform(-1, 1, (n, numbers)), category[:, None] == range(1, values)])
            X /= np.sqrt(2 + numbers)
            y = X @ rng.uniform(-0.2, 0.2, d)
            sums = X.T @ X + square * symmetric(rng, d), X.T @ y + linear * rng.standard_normal(d), y @ y
            found += hidden_directions(np.eye(d)[-1:], Moments(*sums, square, linear, n).estimated())[0]
        return found

    assert hidden(share) <= 5
    assert hidden(share / 5) >= 25


def design(name):
    """The rows of a real table with a constant and without columns that the others determine, and its labels."""
    data = dpml.load(f"dataset={name}", "dataset.steps=[impute,one_hot,symmetric,max_norm]", "dataset.test_fraction=0")
    X = np.column_stack([np.ones(len(data.X)), data.X / np.abs(data.X).max(axis=0)])
    kept = [0]
    for j in range(1, X.shape[1]):
        own = X[:, [*kept, j]]
        if not (set(np.unique(X[:, j])) == {0, 1} and not 0.02 < X[:, j].mean() < 0.98):
            kept += [j] * bool(np.linalg.eigvalsh(own.T @ own / len(own))[0] > 1e-4)
    return X[:, kept] / np.linalg.norm(X[:, kept], axis=1).max(), data.y


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "n", "eps"),
    [
        ("birthweight", 20_000, 1.0), ("mroz", 20_000, 4.0), ("mroz", 100_000, 1.0), ("diamonds", 100_000, 4.0),
        ("college", 50_000, 8.0), ("affairs", 20_000, 2.0), ("diabetes", 100_000, 4.0),
    ],
)  # fmt: skip
def test_intervals_cover_the_coefficients_of_real_tables(name, n, eps):
    """Samples of a whole table: what is shown covers the table's own coefficients (docs/privacy/inference.md)."""
    X, y = design(name)
    d, rng = X.shape[1], np.random.default_rng(0)
    (message,) = Regression(LOSSES["squared"]).messages(Budget(eps, 1e-6), Problem(N=n, d=d, M=1))
    constant, linear, square = message.units[0], message.units[1] / 2, message.units[2]
    true, rows, covered = np.linalg.lstsq(X, y, rcond=None)[0], np.column_stack([X, y]), []
    for _ in range(150):
        sums = (rows * rng.multinomial(n, np.full(len(X), 1 / len(X)))[:, None]).T @ rows
        E = square * symmetric(rng, d)
        noise = linear * rng.standard_normal(d), constant * rng.standard_normal()
        fitted = Moments(sums[:d, :d] + E, sums[:d, d] + noise[0], sums[d, d] + noise[1], square, linear, n).estimated()
        hidden = hidden_directions(np.eye(d), fitted)
        if 2 * hidden.sum() <= d:
            off = np.abs(fitted.coefficients - true) / fitted.errors(np.eye(d))
            covered += (off[~hidden] < 1.96).tolist()
    # coefficients of one sample are dependent: 400 or more independent ones leave this range once in a thousand
    assert 0.915 < np.mean(covered) < 0.985
