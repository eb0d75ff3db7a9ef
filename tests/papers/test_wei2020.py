"""Wei et al. 2020: noise and bounds against the printed formulas, NbAFL against scipy, and the claims."""

import math
from functools import partial

import numpy as np
import pandas as pd
import pytest
from examples import release_of, unit_rows
from made_up import decide, delta_of
from scipy.optimize import minimize, minimize_scalar
from scipy.special import comb

from dpml.optim.losses import LOSSES
from dpml.packs.wei2020 import theorems
from dpml.packs.wei2020.nbafl import NbAFL, clipped
from dpml.privacy import Budget, Problem

LOGISTIC = LOSSES["logistic"]
DELTA, C = 0.01, math.sqrt(2 * math.log(125))


@pytest.mark.parametrize(("eps", "T"), [(0.5, 25), (50, 5), (50, 25), (100, 25), (10, 60)])
@pytest.mark.parametrize("K", [20, 50])
def test_the_noise_with_k_random_clients_of_50_as_it_is_printed(eps, T, K):
    """With all clients it is Theorem 1: b = 1, and noise is added where L sqrt(N) < T."""
    L, N = 2, 50
    b = -T / eps * math.log(max(1 - N / K + N / K * math.exp(-eps / T), 1e-300))
    gamma = -math.log(1 - K / N + K / N * math.exp(-eps / (L * math.sqrt(K))))
    printed = C * math.sqrt(max((T / b) ** 2 - L**2 * K, 0)) / (K * eps) if eps / gamma < T else 0
    noise = theorems.printed_noise(eps, DELTA, T, L, N, K)
    assert noise.upload == pytest.approx(C * L / eps)
    assert noise.server == pytest.approx(printed, rel=1e-9)
    assert K < N or noise == theorems.printed_noise(eps, DELTA, T, L, N)


def test_infinite_eps_has_no_noise():
    assert theorems.printed_noise(math.inf, DELTA, 25, 1, 50, 20) == (0, 0)


@pytest.mark.parametrize("length", [1.2, 5, 20])
def test_one_label_moves_the_minimiser_of_a_thousand_rows_by_twice_its_length(length):
    x, *labels = theorems.neighbours(length)
    assert np.all(np.abs(x) <= 1)
    assert np.sum(labels[0] != labels[1]) == 1
    for sign, y in zip((1, -1), labels, strict=True):
        found = minimize_scalar(lambda w, y=y: np.sum(np.logaddexp(0, -y * x * w)) / 1000, (-30, 30), tol=1e-12).x
        assert found == pytest.approx(sign * length, rel=1e-3)
        assert theorems.local_model(x, y, 1000, 0.0, length / 2) == sign * length / 2


@pytest.mark.parametrize(("m", "clip", "mu"), [(10, 5.0, 1.0), (10, 0.5, 1.0), (3, 1.0, 0.1)])
def test_the_proximal_move_is_that_of_the_worst_linear_loss(m, clip, mu):
    rows = theorems.sensitivity([m], clip, mu, DELTA, 1.0)
    moved = rows[(rows["metric"] == "moved") & rows["reading"].str.startswith("proximal")]["value"].item()
    ends = []
    for last in (1.0, -1.0):  # loss -y x w, mean over m rows of which the others cancel or are 0
        w = minimize_scalar(lambda w, last=last: -last * w / m + mu / 2 * w**2, tol=1e-13).x
        ends.append(float(clipped(np.array([[w]]), clip)[0, 0]))
    assert moved * 2 * clip / m == pytest.approx(abs(ends[0] - ends[1]), rel=1e-6)


def test_a_local_model_with_the_proximal_term():
    x, y = np.array([1.0, -0.3]), np.array([1.0, 1.0])
    found = minimize_scalar(lambda w: np.sum(np.logaddexp(0, -y * x * w)) / 20 + 0.4 * w * w, tol=1e-12).x
    assert theorems.local_model(x, y, 20, 0.8, 9.0) == pytest.approx(found, abs=1e-6)


def test_an_attack_reaches_most_of_what_is_there_and_no_more():
    rows = theorems.attacked(50, 2.0, [0.0, 1.0], DELTA, [2.0], 20_000)
    rows = rows.pivot(index="reading", columns="metric", values="value")
    assert rows["attacked"].between(0.8 * rows["proven"], rows["proven"]).all()
    exact = delta_of(50 / C * 2.0, rows["proven"]["mu = 0"])  # 2C apart, noise of c/eps times 2C/m
    assert exact == pytest.approx(DELTA, rel=1e-6)


def test_the_deltas_of_all_views():
    T, N, K, L, eps = 4, 5, 2, 2, 3.0
    rows = theorems.accounted([eps], DELTA, T, [L], N, K).set_index("view")["value"]
    noise = theorems.printed_noise(eps, DELTA, T, L, N)
    mean = noise.server**2 + noise.upload**2 / N
    mus = {
        "uplink": math.sqrt(L) / noise.upload,
        "server": math.sqrt(T) / noise.upload,
        "downlink": math.sqrt(T) / N / math.sqrt(mean),
        "client": math.sqrt(T) / N / math.sqrt(mean - noise.upload**2 / N**2),
    }
    for view, mu in mus.items():
        assert 10 ** rows[view] * DELTA == pytest.approx(delta_of(mu, eps), rel=1e-6)
    few = theorems.printed_noise(eps, DELTA, T, L, N, K)
    one = 1 / K / math.sqrt(few.server**2 + few.upload**2 / K)
    exact = sum(comb(T, j) * 0.4**j * 0.6 ** (T - j) * delta_of(math.sqrt(j) * one, eps) for j in range(1, T + 1))
    assert 10 ** rows["scheduled"] * DELTA == pytest.approx(exact, rel=1e-6)


def test_theorem_2_and_what_it_bounds():
    d, eps, T, m, N, mu = 40, 2.0, 6, 20, 5, 3.0
    rows = theorems.convergence([d], [eps], DELTA, [T], m, N, mu).set_index("metric")["value"]
    rho, big, small, beta, clip = 1.0, 1.0, 1.0, 2.0, 1.0  # rho, B, l, beta, C
    P = 1 + 2 * small * (-1 / mu + rho * big / mu**2 + rho * big**2 / (2 * mu**2))
    k1 = (1 / mu + rho * big / mu) * beta * C * clip / (m * (1 - P)) * math.sqrt(2 / (N * math.pi))
    k0 = rho * C**2 * clip**2 / (2 * m**2 * (1 - P) * N)
    printed = P**T / 8 + (k1 * T / eps + k0 * T**2 / eps**2) * (1 - P**T)
    assert rows["theorem2_bound"] == pytest.approx(printed)
    rng, noise = np.random.default_rng(0), theorems.printed_noise(eps, DELTA, T, 1, N)
    target, models = np.zeros(d), np.zeros((4000, d))
    target[0] = 0.5
    for _ in range(T):
        local = (target + mu * models) / (1 + mu)
        uploads = 2 / m * noise.upload * rng.standard_normal((N, 4000, d)).mean(axis=0)
        models = local + uploads + 2 / m * noise.server * rng.standard_normal((4000, d))
    gaps = np.sum((models - target) ** 2, axis=1) / 2
    assert abs(gaps.mean() - rows["gap"]) < 5 * gaps.std() / math.sqrt(4000)


dealt = partial(unit_rows, 4, 24, 3)


def released(algorithm, eps, parties, draws=1):
    return release_of(algorithm, parties, [Budget(eps, DELTA)], draws, seed=3).weights[0]


@pytest.mark.parametrize("clip", [0.6, 50])
def test_without_noise_it_is_the_mean_of_clipped_proximal_models(clip):
    parties, model = dealt(), np.zeros(3)
    for _ in range(3):
        local = []
        for k in range(4):
            Z = parties.X[parties.of(k)] * parties.y[parties.of(k), None]

            def risk(w, Z=Z, centre=model):
                return np.mean(np.logaddexp(0, -Z @ w)) + 0.1 * np.sum((w - centre) ** 2)

            w = minimize(risk, np.zeros(3), tol=1e-12).x
            local.append(w / max(1, np.linalg.norm(w) / clip))
        model = np.mean(local, axis=0)
    found = released(NbAFL(LOGISTIC, rounds=3, clip=clip, prox=0.2), math.inf, parties)[0]
    assert found == pytest.approx(model, abs=1e-5)


@pytest.mark.parametrize("chosen", [None, 2])
def test_noise_adds_up_round_by_round(chosen):
    # rows of zeros say nothing: a local model is the last broadcast
    algorithm, draws = NbAFL(LOGISTIC, rounds=5, clip=1e6, exposures=2, chosen=chosen), 4000
    models = released(algorithm, 500, dealt(zero=True), draws)
    noise = theorems.printed_noise(500, DELTA, 5, 2, 4, chosen)
    variance = 5 * (2e6 / 6) ** 2 * (noise.upload**2 / (chosen or 4) + noise.server**2)
    assert np.var(models) == pytest.approx(variance, rel=6 * math.sqrt(2 / (3 * draws)))


def test_proven_is_what_rows_can_move():
    algorithm, problem = NbAFL(LOGISTIC, rounds=9, clip=0.5, prox=0.5), Problem(4, 400, 3)
    proven = {g.view: g.mu for g in algorithm.guarantees(Budget(2.0, DELTA), problem) if g.basis == "proven"}
    noise = theorems.printed_noise(2.0, DELTA, 9, 1, 4)
    moved, unit = 2 / (100 * 0.5), 2 * 0.5 / 100  # 4 times as far as printed
    assert proven["client"] == pytest.approx(3 * moved / unit / noise.upload, rel=1e-6)
    std = math.sqrt(noise.upload**2 / 4 + noise.server**2)
    assert proven["release"] == pytest.approx(3 * moved / 4 / unit / std, rel=1e-6)
    claimed = {g.view for g in algorithm.guarantees(Budget(2.0, DELTA), problem) if g.basis == "published"}
    assert claimed == {"release", "aggregate", "client"}


def verdict(name, rows):
    return decide(name, rows.assign(block="all", algo="all"))


def test_verdicts_on_exact_numbers():
    clips = pd.concat([theorems.sensitivity([100], clip, 1, DELTA, 1) for clip in (20.0, 0.5)])
    assert verdict("WE.1", clips) == "depends on an unstated choice"
    rows = theorems.accounted([0.1, 0.2, 0.5, 0.9, 6, 8, 10, 50, 60, 100], DELTA, 25, [1, 2], 50, 20)
    found = {name: verdict(name, rows) for name in ("WE.2", "WE.3", "WE.4", "WE.5", "WE.6")}
    depends, holds, fails = "depends on an unstated choice", "reproduced", "not reproduced"
    assert found == {"WE.2": depends, "WE.3": fails, "WE.4": holds, "WE.5": holds, "WE.6": depends}
    for name in found:
        assert verdict(name, rows.assign(value=-1.0)) == holds
        assert verdict(name, rows.assign(value=1.0)) == fails
    bounds = theorems.convergence([1, 203_530], [50], DELTA, [1, 15, 30], 100, 50, 3.0)
    assert (verdict("WE.8", bounds), verdict("WE.9", bounds)) == (depends, holds)
