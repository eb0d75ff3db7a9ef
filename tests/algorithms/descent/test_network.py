"""The neural network: gradients, clipping, the noise of a round, and what all rounds together are proven to cost."""

import math

import numpy as np
import pytest
from examples import dealt, nn_cape, nn_conv, nn_nonpriv, release_of
from scipy import stats

from dpml.data.partition import Fractions, Parties
from dpml.mechanism.carriers import Carrier
from dpml.optim.losses import LOSSES
from dpml.optim.network import Models, clipped_sum, score
from dpml.privacy import Budget

LOSS = LOSSES["logistic"]
NONE = Budget(math.inf, 1e-3)
D, H = 3, 4
SIZE = H * (D + 1) + H + 1


def rows(n: int = 12, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, D))
    X /= np.linalg.norm(X, axis=1, keepdims=True).max() * 1.01
    return np.column_stack([X, np.ones(n)]), np.where(rng.random(n) < 0.5, -1.0, 1.0)


def models(B: int = 3, scale: float = 1.0, seed: int = 1) -> Models:
    return Models.of(scale * np.random.default_rng(seed).standard_normal((B, SIZE)), H)


def parties(N: int = 60, seed: int = 0) -> Parties:
    X, y = rows(N, seed)
    return dealt("binary", X[:, :-1], y, 4, rule=Fractions(fractions=(0.1, 0.2, 0.3, 0.4)))


def value(flat: np.ndarray, X: np.ndarray, y: np.ndarray) -> float:
    inner, outer = flat[: H * (D + 1)].reshape(H, D + 1), flat[H * (D + 1) :]
    t = np.maximum(X @ inner.T, 0) @ outer[:-1] + outer[-1]
    return float(np.log1p(np.exp(-y * t)).sum())


def test_initial_weights_are_he_et_als() -> None:
    """N(0, 2/d) inside and N(0, 2/H) outside, biases zero. Kolmogorov-Smirnov, false alarm 1e-6 each, seeded."""
    hidden, d = 3000, 7
    given = dealt("binary", np.random.default_rng(0).uniform(-0.3, 0.3, (20, d)), np.ones(20))
    drawn = nn_nonpriv(LOSS, hidden=hidden).prepare(given, np.random.default_rng(1)).start.weights
    start = Models.of(drawn, hidden)
    assert start.inner.shape == (hidden, 1, d + 1)
    assert start.outer.shape == (hidden + 1, 1)
    assert stats.kstest(start.inner[..., :-1].ravel() * math.sqrt(3.5), "norm").pvalue > 1e-6
    assert stats.kstest(start.outer[:-1].ravel() * math.sqrt(1500), "norm").pvalue > 1e-6
    assert not start.inner[..., -1].any()
    assert not start.outer[-1].any()


def test_every_row_is_clipped_on_its_own_and_blocks_change_nothing(monkeypatch) -> None:
    """Clipped sums in blocks of 64 rows, scores in blocks of one; losses and labels from the definition."""
    monkeypatch.setattr("dpml.optim.network._CACHE", 1)
    monkeypatch.setattr("dpml.optim.network._BLOCK", 1)
    X, y = rows(150)
    given = models(scale=1.5)
    single = singly(given, X, y, math.inf)
    norms = np.linalg.norm(single, axis=-1, keepdims=True)
    clip = float(np.median(norms))  # some are longer, some are not
    wanted = (single * np.minimum(1, clip / norms)).sum(axis=0)
    np.testing.assert_allclose(clipped_sum(given, X, y, LOSS, clip), wanted, rtol=1e-11, atol=1e-12)
    loss, right = score(given, X, y, LOSS)
    for i, flat in enumerate(given.flat()):
        assert loss[i] == pytest.approx(value(flat, X, y) / 150)
        # a row is labelled right where its own loss is less than that of the other label
        wins = [value(flat, X[j : j + 1], y[j : j + 1]) < value(flat, X[j : j + 1], -y[j : j + 1]) for j in range(150)]
        assert right[i] == pytest.approx(np.mean(wins))
    # a score of zero counts as +1
    assert score(Models.of(np.zeros((1, SIZE)), H), X, y, LOSS)[1][0] == pytest.approx(np.mean(y > 0))


def singly(given: Models, X: np.ndarray, y: np.ndarray, clip: float | None) -> np.ndarray:
    return np.stack([clipped_sum(given, X[i : i + 1], y[i : i + 1], LOSS, clip) for i in range(len(y))])


def test_replacing_a_row_moves_the_sum_by_no_more_than_is_counted() -> None:
    """A row that is clipped and turns moves it so far; the authors' blocks are counted one by one."""
    X, y = rows(200, seed=3)
    for algorithm, clip in ((nn_cape(LOSS, clip=0.3), 0.3), (nn_cape(LOSS, variant="authors"), None)):
        furthest = 0.0
        for scale in (0.1, 1.0, 30.0, 1e4):
            given = models(B=6, scale=scale, seed=int(scale * 10))
            single = singly(given, X, y, clip)
            for other in (single[::-1], np.roll(single, 1, axis=0), singly(given, X, -y, clip)):
                furthest = max(furthest, np.linalg.norm(single - other, axis=-1).max())
        assert furthest <= algorithm.sensitivity() * (1 + 1e-12)
        assert clip is None or furthest == pytest.approx(2 * clip, rel=1e-9)


def test_authors_terms_are_divided_twice_and_clipped_in_four_blocks() -> None:
    """Each block is clipped, or not, whatever the others are; the outer bias never is: a slope is at most 1."""
    X, y = rows(5, seed=2)
    given = models(B=40, seed=5)
    rng = np.random.default_rng(0)
    given.inner *= rng.choice([0.01, 1.0, 300.0], 40)[:, None]
    given.outer *= rng.choice([0.01, 1.0, 300.0], 40)
    found = clipped_sum(given, X, y, LOSS, None)
    inner = np.arange(H * (D + 1)).reshape(H, D + 1)
    blocks = inner[:, :-1].ravel(), inner[:, -1], np.arange(H * (D + 1), SIZE - 1), np.array([SIZE - 1])
    terms = singly(given, X, y, math.inf) / 25
    cut = np.stack([np.linalg.norm(terms[..., block], axis=-1) > 1 for block in blocks[:3]])
    assert {tuple(kinds) for kinds in cut.reshape(3, -1).T} >= {(0, 0, 0), (1, 1, 1), (0, 1, 0), (1, 1, 0), (0, 0, 1)}
    for block in blocks:
        norms = np.linalg.norm(terms[..., block], axis=-1, keepdims=True)
        expected = (terms[..., block] / np.maximum(1, norms)).sum(axis=0)
        np.testing.assert_allclose(found[:, block], expected, rtol=1e-9, atol=1e-12)


def seen_gradients(monkeypatch, algorithm, given: Parties, budget: Budget, draws: int) -> list[np.ndarray]:
    seen = []

    ask = Carrier.ask

    def spy(self: Carrier, number: int, *at) -> np.ndarray:
        seen.append(ask(self, number, *at))
        return np.zeros_like(seen[-1])  # no step: every round is at the starting point

    monkeypatch.setattr(Carrier, "ask", spy)
    release_of(algorithm, given, [budget], draws, seed=7)
    return seen


@pytest.mark.parametrize("calibration", ["published", "tight"])
@pytest.mark.parametrize("kind", [nn_cape, nn_conv])
def test_measured_noise_is_what_the_guarantees_count(monkeypatch, kind, calibration) -> None:
    given, budget, draws = parties(), Budget(0.7, 1e-3), 2000
    algorithm = kind(LOSS, calibration=calibration, hidden=H, epochs=2, clip=0.8)
    rounds = seen_gradients(monkeypatch, algorithm, given, budget, draws)
    assert len(rounds) == 2
    deviation = np.std(np.stack(rounds), axis=1, ddof=1)
    measured = math.sqrt(np.mean(deviation**2))
    # 84,000 Gaussians: a relative standard error of 0.25 %; five of them
    assert measured == pytest.approx(algorithm.scale(budget, given.problem, 60), rel=0.0125)
    # the rounds' noise is independent: 42,000 products, a standard error of 0.5 %
    a, b = ((r - r.mean(axis=0)) / measured for r in rounds)
    assert abs(np.mean(a * b)) < 0.025
    # and so is that of all coordinates: no pair is correlated by more than five standard errors
    assert a.shape == (draws, SIZE)
    assert np.abs(np.corrcoef(a.T) - np.eye(SIZE)).max() < 5 / math.sqrt(draws)


@pytest.mark.parametrize(("kind", "times"), [(nn_cape, 1), (nn_conv, 4)])
def test_noise_of_the_authors_is_one_over_the_rows_of_each_minibatch(monkeypatch, kind, times) -> None:
    """There are 5 rows in eleven rounds of an epoch, and 3 in the last. Every one of 4 sites adds noise in `conv`."""
    given, eps, delta, epochs = parties(58), 0.7, 0.01, 2
    algorithm = kind(LOSS, variant="authors", hidden=H, epochs=epochs, batch=6)
    rounds = seen_gradients(monkeypatch, algorithm, given, Budget(eps, delta), 2000)
    for seen, size in zip(rounds, ([5] * 11 + [3]) * epochs, strict=True):
        wanted = times * math.sqrt(2 * math.log(1.25 / delta)) / (size * eps)
        # 42,000 Gaussians: a relative standard error of 0.35 %; five of them
        assert math.sqrt(np.mean(seen.var(axis=0, ddof=1))) == pytest.approx(wanted, rel=0.0175)


def test_minibatches_deal_every_row_once_an_epoch_whatever_the_data() -> None:
    orders = []
    for seed in (0, 1):
        algorithm = nn_cape(LOSS, epochs=3, batch=20)
        prepared = algorithm.prepare(parties(50, seed), np.random.default_rng(4))
        orders.append([rows.tolist() for rows in algorithm.minibatches(50, prepared.start.order)])
    assert orders[0] == orders[1]
    assert [len(batch) for batch in orders[0]] == [20, 20, 10] * 3
    for epoch in range(3):
        assert sorted(row for batch in orders[0][3 * epoch : 3 * epoch + 3] for row in batch) == list(range(50))
    assert orders[0][:3] != orders[0][3:6]
    for options, N, number in (({}, 700, 700), ({"batch": 900}, 700, 700), ({"variant": "authors"}, 700, 64)):
        assert nn_cape(LOSS, **options).rows_per_round(N) == number
    assert nn_cape(LOSS, variant="authors", batch=100).rows_per_round(7) == 1  # at most a tenth


@pytest.mark.parametrize(("variant", "batch", "rounds"), [("paper", None, 3), ("paper", 25, 9), ("authors", 4, 45)])
@pytest.mark.parametrize("rate", [None, 0.05])
def test_training_without_noise_is_descent_on_numeric_gradients(variant, batch, rounds, rate) -> None:
    """Round by round; the authors have Adam without a correction of the second moment, and divide by n twice."""
    few, copied = parties(12), np.random.default_rng(3).integers(12, size=60)
    given = dealt("binary", few.X[copied], few.y[copied], 4)
    algorithm = nn_nonpriv(LOSS, variant=variant, hidden=H, epochs=3, batch=batch, rate=rate)
    prepared = algorithm.prepare(given, np.random.default_rng(2))
    trained, path = algorithm.train(Carrier(prepared, [NONE], np.random.default_rng(0), 1, None))
    X, y = np.column_stack([given.X, np.ones(60)]), given.y
    w, m, v, losses, h = prepared.start.weights[0], 0.0, 0.0, [], 1e-6
    for t, chosen in enumerate(algorithm.minibatches(60, prepared.start.order), start=1):
        rows = chosen if len(chosen) else np.arange(60)
        gradient = [value(w + h * e, X[rows], y[rows]) - value(w - h * e, X[rows], y[rows]) for e in np.eye(SIZE)]
        g = np.array(gradient) / (2 * h) / len(rows) ** (2 if variant == "authors" else 1)
        if variant == "authors":
            m, v = 0.9 * m + 0.1 * g, 0.999 * v + 0.001 * g**2
            w = w - (rate or 0.01) * m / (1 - 0.9**t) / np.sqrt(v + 1e-8)
        else:
            w = w - (rate or 1.0) * g
        losses.append(value(w, X, y) / 60)
    assert len(losses) == rounds
    np.testing.assert_allclose(trained.flat()[0], w, rtol=1e-4, atol=1e-5)
    moments = {3: [0, 1, 2], 9: range(9), 45: [0, 5, 10, 15, 20, 24, 29, 34, 39, 44]}[rounds]
    assert path[0] == pytest.approx(np.mean([losses[i] for i in moments]), rel=1e-5)
