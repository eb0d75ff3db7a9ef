"""What parties alone on their machines send, and the model of the sum."""

from dataclasses import replace

import numpy as np
import pytest
from examples_federated import clinics, run

from dpml.algorithms.quadratic.sufficient_statistics import SufficientStatistics
from dpml.federated.sums import sums_of
from dpml.optim.losses import LOSSES
from dpml.privacy import Budget, Problem
from dpml.protocols import FixedPoint, Stage
from dpml.protocols.transports import Outcome


@pytest.mark.parametrize(
    "words",
    [
        ("algo=ssp", "algo.unit=party"),
        ("algo=ssp", "algo.noise=discrete"),
        ("algo=capefm",),
        ("algo=capefm", "algo.noise=discrete"),
        ("algo=ssp_descent", "algo.unit=party", "algo.rounds=3", "algo.lam=0.01"),
        ("algo=ssp_descent", "algo.noise=discrete", "algo.rounds=3"),
        ("algo=wdgd", "algo.rounds=3", "loss=squared"),
        ("algo=wdgd", "algo.noise=discrete", "algo.unit=party", "algo.rounds=3"),
        ("algo=dpgd", "algo.rounds=3"),
        ("algo=dpgd", "algo.rounds=3", "algo.unit=party"),  # with a clip that follows the parties
        ("algo=dpgd", "algo.rounds=3", "algo.noise=discrete", "algo.unit=party", "algo.clip=0.2"),
        ("algo=psgd", "algo.rounds=3"),
    ],
    ids=" ".join,
)
def test_the_model_is_that_of_one_process_bit_for_bit(tmp_path, words) -> None:
    parties = clinics(tmp_path, *words)
    made = run(parties.members(seed=5), parties.plan)
    alone = parties.in_one_process(replace(parties.plan.algorithm, protocol="secagg"), seed=5)
    assert made.model.weights[0].tobytes() == alone.tobytes()
    other = parties.in_one_process(replace(parties.plan.algorithm, protocol="secagg"), seed=6)
    assert not np.allclose(made.model.weights[0], other)


@pytest.mark.parametrize("unit", ["sample", "party"])
def test_nobody_needs_memory_for_the_rows_of_others(tmp_path, unit) -> None:
    """A party of so many rows, or one that only said so, ended the processes of all."""
    many, d = 10**10, 6
    plan = clinics(tmp_path, "algo=ssp", "algo.noise=discrete", f"algo.unit={unit}").plan
    sizes = np.array([20, many, many])
    sums = sums_of(plan.algorithm, Budget(1.0, 1e-12), Problem(3, int(sizes.sum()), d, colluders=1).of_sizes(sizes))
    message, _ = sums.ready(np.full((20, d), 0.1), np.ones(20), 0)(np.random.default_rng(0))(0, b"")
    model = sums.release(lambda told: Outcome(message, np.arange(3), np.empty((3, 0)))).weights[0, 0]
    assert np.isfinite(model).all()


@pytest.mark.parametrize("stage", [Stage.KEYS, Stage.SHARES, Stage.MASKED, Stage.CONSISTENCY, Stage.UNMASK])
@pytest.mark.parametrize("name", ["ssp", "capefm"])
def test_a_party_that_falls_silent_is_done_without(tmp_path, stage, name) -> None:
    parties = clinics(tmp_path, f"algo={name}")
    made = run(parties.members(), parties.plan, {2: stage})
    in_it = [0, 1, 2, 3] if stage > Stage.MASKED else [0, 1, 3]
    assert made.survivors.tolist() == in_it
    assert np.isfinite(made.model.weights).all()


def test_the_noise_of_those_who_may_be_left_is_that_of_one_curator(monkeypatch) -> None:
    """Colluders' noise is known and that of drop-outs missing: M - C - D parties' has the variance of all that is due.

    480 numbers; a sample variance is off by more than 30 % with probability below 1e-5 (chi-squared).
    """
    M, C, D, n, d = 7, 1, 2, 50, 4
    algorithm, budget = SufficientStatistics(LOSSES["logistic"]), Budget(1.0, 1e-5)
    whole = sums_of(algorithm, budget, Problem(M, M * n, d, colluders=C + D))
    (curator,) = algorithm.messages(budget, Problem(1, M * n, d))
    X, y = np.zeros((n, d)), np.ones(n)
    codecs, right = [], FixedPoint.encode
    monkeypatch.setattr(FixedPoint, "encode", lambda codec, *args: codecs.append(codec) or right(codec, *args))
    rings = [whole.ready(X, y, 3)(np.random.default_rng(s))(0, b"")[0] for s in range(120)]
    one = codecs[0].decode(np.array(rings))[:, :d]
    variance = np.mean(np.square(one)) * (M - C - D)
    assert variance == pytest.approx(curator.block_widths()[0] ** 2, rel=0.3)
