"""Linear regression with intervals: what the sums guarantee, and how often intervals cover the truth."""

import re
from dataclasses import replace

import numpy as np
import pytest
from examples import LOGISTIC, SQUARED
from scipy.optimize import minimize
from scipy.special import expit

import dpml
from dpml.algorithms.quadratic.moments import Moments, NewtonMoments, Round, noise_of
from dpml.algorithms.quadratic.newton_sums import NewtonSums
from dpml.algorithms.quadratic.regression import Regression, square_noise
from dpml.data import Dataset
from dpml.data.partition import Equal, partition
from dpml.privacy import Budget, Problem
from dpml.release.inference import expected, hidden_directions

TRUE = np.array([0.3, -0.2, 0.0, 0.1])


def moved(point, units, d):
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
    (message,) = Regression(SQUARED, radius=radius).messages(Budget(1.0, 1e-6), Problem(N=100, d=d, M=1))
    rng = np.random.default_rng(0)

    def away(point):
        return -moved(point, message.units[:3], d)

    starts = rng.standard_normal((12, 2 * d + 2)) * 2
    farthest = max(-minimize(away, start, method="Nelder-Mead", options={"maxiter": 1500}).fun for start in starts)
    assert farthest <= message.sensitivity**2 * (1 + 1e-9)
    assert farthest >= message.sensitivity**2 * (1 - 1e-3)


def symmetric(rng, d):
    above = np.triu(rng.standard_normal((d, d)), 1) / np.sqrt(2)
    return above + above.T + np.diag(rng.standard_normal(d))


def estimated(rng, X, y, noises, n, scaled_up=1.0):
    """What a release says of rows whose sums have noise that this test draws."""
    (square, linear, labels), d = noises, X.shape[1]
    E, e = square * symmetric(rng, d), linear * rng.standard_normal(d)
    sums = scaled_up * X.T @ X + E, scaled_up * X.T @ y + e, scaled_up * y @ y + labels * rng.standard_normal()
    return Moments(*sums, square, linear, n, scaled_up).estimated()


def off(fitted, true):
    return np.abs(fitted.coefficients - true) / fitted.errors(np.eye(len(true)))


@pytest.mark.parametrize(
    ("square", "linear", "scaled"), [(0.0, 0.0, 1.0), (8.0, 8.0, 1.0), (20.0, 30.0, 1.0), (8.0, 8.0, 2.0)]
)
def test_intervals_cover_the_truth_as_often_as_they_say(square, linear, scaled):
    """1,200 intervals of 300 samples: outside with a probability below 1e-4 at a coverage of .95."""
    rng, d, covered, n = np.random.default_rng(0), len(TRUE), [], round(4000 / scaled)
    for _ in range(300):
        X = np.column_stack([rng.uniform(-1, 1, (n, d - 2)), rng.random(n) < 0.2, np.ones(n)]) / np.sqrt(d)
        y = X @ TRUE + rng.uniform(-0.3, 0.3, n)
        covered.append(off(estimated(rng, X, y, (square, linear, linear), 4000, scaled), TRUE) < 1.96)
    assert 0.92 < np.mean(covered) < 0.98


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
    prepared = Regression(SQUARED, **options).prepare(parties, rng)
    found = [prepared.release([budget], rng, 1).moments for _ in range(150)]
    squares = np.array([m.square - X.T @ X for m in found]) / found[0].square_noise
    lines = np.array([m.linear - X.T @ y for m in found]) / found[0].linear_noise
    # standard deviations of 150 numbers or more: off by a fifth with a probability below 1e-3 each
    assert np.std(np.diagonal(squares, axis1=1, axis2=2)) == pytest.approx(1, abs=0.2)
    assert np.std(squares[:, 0, 1]) == pytest.approx(np.sqrt(0.5), abs=0.16)
    assert np.std(lines) == pytest.approx(1, abs=0.2)
    (message,) = prepared.algorithm.messages(budget, parties.problem)
    assert np.std([m.labels - y @ y for m in found]) == pytest.approx(message.units[0], rel=0.25)


def test_the_noise_of_logistic_regression_is_that_of_the_best_mean_of_two_rounds():
    messages = Regression(LOGISTIC).messages(Budget(1.0, 1e-6), Problem(N=5000, d=3, M=1))
    a, b = (message.noise for message in messages[-2:])
    share = np.linspace(0, 1, 100_001)
    assert square_noise(messages) == pytest.approx(np.sqrt((share * a) ** 2 + ((1 - share) * b) ** 2).min(), rel=1e-8)


@pytest.mark.parametrize(("n", "numbers", "values", "eps"), [(6000, 3, 3, 2.0), (20_000, 6, 4, 1.0)])
def test_a_value_as_frequent_as_a_release_says_has_a_coefficient(n, numbers, values, eps):
    """Rows of uniform numbers and a category, whose last value has the stated share, or a fifth of it."""
    algorithm, d, rng = Regression(SQUARED), numbers + values, np.random.default_rng(0)
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
            found += hidden_directions(np.eye(d)[-1:], estimated(rng, X, y, (square, linear, 0.0), n))[0]
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
    (message,) = Regression(SQUARED).messages(Budget(eps, 1e-6), Problem(N=n, d=d, M=1))
    noises = message.units[2], message.units[1] / 2, message.units[0]
    true, covered = np.linalg.lstsq(X, y, rcond=None)[0], []
    for _ in range(150):
        roots = np.sqrt(rng.multinomial(n, np.full(len(X), 1 / len(X))))  # of how often each row is in the sample
        fitted = estimated(rng, roots[:, None] * X, roots * y, noises, n)
        hidden = hidden_directions(np.eye(d), fitted)
        if 2 * hidden.sum() <= d:
            covered += (off(fitted, true)[~hidden] < 1.96).tolist()
    # coefficients of one sample are dependent: 400 or more independent ones leave this range once in a thousand
    assert 0.915 < np.mean(covered) < 0.985


EFFECTS = np.array([2.0, -1.0, 0.0, 1.5, -1.5])


def terms(x, s):
    """What a row adds to the three sums: written without dpml."""
    square = np.einsum("...i,...j->...ij", x, x)
    s = np.asarray(s)[..., None, None]
    return s[..., 0] * x, np.abs(s) * (1 - np.abs(s)) * square, s * s * square


def moved_apart(first, second, units):
    gradient, hessian, meat = (a - b for a, b in zip(terms(*first), terms(*second), strict=True))
    on, above = np.diag_indices(gradient.shape[-1]), np.triu_indices(gradient.shape[-1], 1)
    blocks = [gradient, *(each[..., *where] for each in (hessian, meat) for where in (on, above))]
    return sum(np.sum((block / unit) ** 2, axis=-1) for block, unit in zip(blocks, units, strict=True))


def farthest(units):
    """The largest squared move: over a grid of lengths, slopes and cosines, and from there by Nelder and Mead."""
    part, both = np.linspace(0, 1, 12), np.linspace(-1, 1, 13)
    s, t, r, q, c = np.meshgrid(both, part, part, part, both, indexing="ij")
    x, z = np.stack([r, np.zeros_like(r)], axis=-1), q[..., None] * np.stack([c, np.sqrt(1 - c * c)], axis=-1)
    found = moved_apart((x, s), (z, t), units).ravel()
    starts = np.argsort(found)[-20:]
    points = np.concatenate([x, z, s[..., None], t[..., None]], axis=-1).reshape(-1, 6)[starts]

    def away(point):
        x, z = (each / max(1, np.linalg.norm(each)) for each in (point[:2], point[2:4]))
        s, t = np.clip(point[4:], -1, 1)
        return -moved_apart((x, s), (z, t), units)

    return max(found.max(), *(-minimize(away, point, method="Nelder-Mead").fun for point in points))


def test_no_two_rows_are_farther_apart_than_the_guarantee_says_and_two_are_as_far():
    messages = Regression(LOGISTIC).messages(Budget(1.0, 1e-6), Problem(N=100, d=2, M=1))
    for units in {message.units for message in messages}:
        assert farthest(units) == pytest.approx(4.0, rel=1e-9)
        narrow = (units[0], units[1] / 1.25, units[2] / 1.25, *units[3:])
        assert farthest(narrow) > 4.1  # the search sees a Hessian with too little noise
    assert {message.sensitivity for message in messages} == {2.0}


def made(rng, rows, parties=3):
    X = np.column_stack([rng.uniform(-1, 1, (rows, 3)), rng.random(rows) < 0.2, np.ones(rows)]) / np.sqrt(5)
    y = np.where(rng.random(rows) < expit(X @ EFFECTS), 1.0, -1.0)
    return partition(Dataset("made", "binary", X, y, X[:1], y[:1]), Equal(), parties, rng)


def test_integers_of_a_row_are_those_of_a_row_in_the_ball_with_the_slope_of_its_gradient():
    rng, of, bits = np.random.default_rng(0), NewtonSums(), 13
    parties = made(rng, 60)
    X = rng.standard_normal((60, 5)) / 2
    parties = replace(parties, X=X / np.maximum(1, np.linalg.norm(X, axis=1))[:, None])
    models = rng.standard_normal((2, 5)) * 30
    whole = of.on(replace(parties, offsets=np.arange(61))).integers(np.array([bits, bits]), True, models)[:20]
    steps = np.repeat(of.steps(bits, parties.problem), of.lengths(5))
    i, j = np.concatenate([np.diag_indices(5), np.triu_indices(5, 1)], axis=1)
    slopes = []
    for row in (whole * steps).reshape(-1, len(steps)):
        gradient, hessian, meat = np.split(row, [5, 20])
        if gradient.any():
            slopes.append(s := 1 / (1 + hessian[:5].sum() / meat[:5].sum()))  # as h/s^2 is (1 - |s|)/|s|
            x = gradient / s
            assert x @ x <= 1 + 1e-12
            np.testing.assert_allclose(hessian, terms(x, s)[1][i, j])
            np.testing.assert_allclose(meat, terms(x, s)[2][i, j])
    assert len(slopes) > 20
    assert min(slopes) < 0.1
    assert max(slopes) == 1


def test_integers_are_near_the_real_sums_and_the_same_from_one_party_or_several():
    rng, of = np.random.default_rng(0), NewtonSums()
    parties = made(rng, 3000)
    models = np.array([np.zeros(5), EFFECTS, 20 * EFFECTS])
    message = Regression(LOGISTIC).messages(Budget(1.0, 1e-6), parties.problem)[0]
    bits = of.resolution(message.block_widths(), parties.problem)
    together = of.on(parties).integers(np.full(3, bits), False, models)
    each = of.on(parties).integers(np.full(3, bits), True, models)
    np.testing.assert_array_equal(each.sum(axis=0), together[0])
    steps = np.repeat(of.steps(bits, parties.problem), of.lengths(5))
    # a slope is off by at most 1/512, on average by none
    np.testing.assert_allclose(together[0] * steps, of.on(parties).total(models), atol=0.5)
    np.testing.assert_allclose(of.on(parties).each(models).sum(axis=0), of.on(parties).total(models))


def test_copies_of_a_row_are_not_all_rounded_the_same_way_and_one_of_them_changes_one_term():
    of, parties = NewtonSums(), made(np.random.default_rng(0), 3000, parties=1)
    parties = replace(parties, X=np.tile([0.5, 0, 0, 0, 0.5], (3000, 1)), y=np.full(3000, -1.0))
    steps = np.repeat(of.steps(13, parties.problem), of.lengths(5))
    w = np.array([[0.0, 0, 0, 0, -11.5]])  # slopes of 0.00317, which is 1.6 steps
    (whole,) = of.on(parties).integers(np.array([13]), False, w)
    np.testing.assert_allclose(whole[0, :5] * steps[:5], of.on(parties).total(w)[0, :5], rtol=1e-2)
    other = replace(parties, X=np.vstack([[0, 0, 0, 0, 0], parties.X[1:]]))  # the first row is replaced
    (less,) = of.on(other).integers(np.array([13]), False, w)
    assert 0 < (whole - less)[0, 0] * steps[0] <= 2 / 512  # one term of 1 or 2 steps


@pytest.mark.parametrize("d", [13, 20, 50])
def test_copies_next_to_a_step_are_rounded_alike_at_every_place(d):
    """Scores of a matrix product differ in the last bit from place to place, so that two terms would change."""
    rng, copies, of = np.random.default_rng(d), 13, NewtonSums()
    last = (0.5 + (copies - 1) * (np.sqrt(5) - 1) / 2) % 1  # the threshold of the copy that is replaced
    for _ in range(20):
        x = rng.standard_normal(d)
        X = np.tile(0.9 * x / np.linalg.norm(x), (copies, 1))
        data = Dataset("copies", "binary", X, np.ones(copies), X[:0], np.zeros(0))
        parties = partition(data, Equal(), 1, rng)
        other = replace(parties, X=np.vstack([np.zeros(d), X[1:]]))
        column, w = np.abs(x).argmax(), rng.standard_normal(d)

        def total(rows, factors, column=column, w=w):
            models = factors[:, None] * w
            return of.on(rows).integers(np.full(len(factors), 13), False, models)[0, :, column]

        low, high = 0.5, 1.5
        at_low = total(parties, np.array([low]))
        while high - low > 2**-52:  # to a model at which some copy is next to a step
            middle = (low + high) / 2
            low, high = (middle, high) if total(parties, np.array([middle])) == at_low else (low, middle)
        near = low + np.arange(-30, 31) * 2.0**-53
        slope = 512 * -expit(-near * float(X[0] @ w)) + last
        if np.abs(slope - np.rint(slope)).min() > 1e-9:  # another copy is next to the step
            z = np.rint(2**13 * X[0, column])
            np.testing.assert_array_equal(total(parties, near) - total(other, near), np.floor(slope) * z)


def fit(X, y):
    b = np.zeros(X.shape[1])
    for _ in range(30):
        p = expit(X @ b)
        H = (X.T * (p * (1 - p))) @ X
        b = b - np.linalg.solve(H, X.T @ (p - (y > 0)))
    return b, H, (X.T * (p - (y > 0)) ** 2) @ X


def test_without_noise_the_coefficients_and_errors_are_those_of_maximum_likelihood():
    rng = np.random.default_rng(0)
    parties = made(rng, 2000)
    prepared = Regression(LOGISTIC).prepare(parties, rng)
    release = prepared.release([Budget(np.inf, 1e-6)], rng, 1)
    b, H, meat = fit(parties.X, parties.y)
    np.testing.assert_allclose(release.weights[0, 0], b, rtol=1e-6)
    inverse = np.linalg.inv(H)
    np.testing.assert_allclose(release.moments.estimated().covariances, [inverse, inverse @ meat @ inverse], rtol=1e-4)


@pytest.mark.parametrize("options", [{}, {"noise": "discrete"}, {"protocol": "secagg"}])
def test_a_logistic_release_has_the_sums_of_its_rows_with_the_noise_that_it_says(options):
    rng, budget = np.random.default_rng(0), Budget(2.0, 1e-6)
    parties = made(rng, 300)
    prepared = Regression(LOGISTIC, **options).prepare(parties, rng)
    found = [prepared.release([budget], rng, 1).moments.last for _ in range(60)]
    slopes = [-parties.y * expit(-parties.y * (parties.X @ each.at)) for each in found]
    sums = [[term.sum(axis=0) for term in terms(parties.X, s)] for s in slopes]
    noise = found[0].noise
    gradients, hessians, meats = (
        np.array([getattr(each, name) - exact[k] for each, exact in zip(found, sums, strict=True)]) / noise
        for k, name in enumerate(("gradient", "hessian", "meat"))
    )
    # standard deviations of 300 numbers or more: off by a sixth with a probability below 1e-4 each
    assert np.std(gradients) == pytest.approx(1, rel=1 / 6)
    for matrices, unit in ((hessians, 1 / 4), (meats, np.sqrt(2))):
        assert np.std(np.diagonal(matrices, axis1=1, axis2=2)) == pytest.approx(unit, rel=1 / 6)
        assert np.std(matrices[:, *np.triu_indices(5, 1)]) == pytest.approx(unit / np.sqrt(2), rel=1 / 6)
    assert sum((2 / message.noise) ** 2 for message in prepared.algorithm.messages(budget, parties.problem)) == (
        pytest.approx(prepared.algorithm.target_mu(budget, parties.problem, NewtonSums()) ** 2)
    )


def release(X, counts, mu, rng):
    """The moments of a release of rows X that occur `counts` (n, 2) times with the labels -1 and +1."""
    d, w, rounds = X.shape[1], np.zeros(X.shape[1]), []
    for share in (0.04, 0.04, 0.04, 0.05, 0.08, 0.35, 0.4):
        t, p = 2 / np.sqrt(share) / mu, expit(X @ w)
        noise = [t * rng.standard_normal(d), t / 4 * symmetric(rng, d), np.sqrt(2) * t * symmetric(rng, d)]
        gradient = X.T @ (counts.sum(axis=1) * p - counts[:, 1])
        hessian = (X.T * (counts.sum(axis=1) * p * (1 - p))) @ X
        meat = (X.T * (counts[:, 0] * p**2 + counts[:, 1] * (1 - p) ** 2)) @ X
        sums = (each + of for each, of in zip((gradient, hessian, meat), noise, strict=True))
        rounds.append(Round(w, *sums, t))
        w = rounds[-1].next_model()
    return NewtonMoments(rounds[0], rounds[-2], rounds[-1], int(counts.sum()))


def coverage(X, y, n, mu, repetitions, rng):
    """How often shown intervals cover the fit of a table, of samples of it; and the share of samples with a table."""
    true, covered, tables, d = fit(X, y)[0], [], 0, X.shape[1]
    for _ in range(repetitions):
        own = rng.multinomial(n, np.full(len(X), 1 / len(X)))
        fitted = release(X, np.column_stack([own * (y < 0), own * (y > 0)]), mu, rng).estimated()
        hidden = hidden_directions(np.eye(d), fitted)
        if not fitted.refusal and 2 * hidden.sum() <= d:
            tables += 1
            covered += (off(fitted, true)[~hidden] < 1.96).tolist()
    return np.mean(covered) if covered else np.nan, tables / repetitions


@pytest.mark.parametrize("mu", [0.5, 3.0])
def test_intervals_of_a_logistic_regression_cover_the_truth(mu):
    rng = np.random.default_rng(0)
    parties = made(rng, 4000)
    found, tables = coverage(parties.X, parties.y, 10_000, mu, 150, rng)
    # 750 intervals of 150 samples: outside with a probability below 1e-4 at a coverage of .95
    assert 0.915 < found < 0.985
    assert tables > 0.8


def test_columns_that_separate_the_classes_are_refused():
    rng = np.random.default_rng(0)
    x = rng.uniform(-1, 1, 5000)
    X, y = np.column_stack([x, np.ones(5000)]) / np.sqrt(2), np.where(x > 0.1, 1.0, -1.0)
    counts = np.column_stack([y < 0, y > 0]).astype(float)
    found = [release(X, counts, mu, rng).estimated() for mu in (0.5, 1.0, 3.0) for _ in range(20)]
    refused = [bool(fitted.refusal) or hidden_directions(np.eye(2), fitted).all() for fitted in found]
    assert np.mean(refused) > 0.9  # lucky noise may pass for curvature


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "n", "eps"),
    [("affairs", 20_000, 2.0), ("affairs", 100_000, 1.0), ("mroz", 20_000, 4.0), ("orange_juice", 100_000, 2.0)],
)
def test_intervals_cover_the_fits_of_real_tables(name, n, eps):
    """Samples of a whole table: what is shown covers the coefficients of its first columns, the constant among them."""
    X, y = design(name)
    X = X[:, :8] / np.linalg.norm(X[:, :8], axis=1).max()
    budget, problem = Budget(eps, 1e-6), Problem(N=n, d=X.shape[1], M=1)
    mu = np.sqrt(sum(message.ratio**2 for message in Regression(LOGISTIC).messages(budget, problem)))
    found, tables = coverage(X, y, n, mu, 1500, np.random.default_rng(0))
    # at a coverage of .95 outside with a probability below 1e-3, even if the intervals of a sample all depend
    assert 0.93 < found < 0.97
    assert tables > 0.9
