"""CAPE by the real protocol: the paper's statements on samples, drop-outs, unequal sites, the simulation's numbers."""

import numpy as np
import pytest
from scipy import stats

from dpml import noise
from dpml.algorithms.imtiaz import MASK, CapeFM
from dpml.data import Files
from dpml.data.synthetic import Synthetic
from dpml.errors import UserError
from dpml.losses import LOSSES
from dpml.partition import Equal, Fractions, partition
from dpml.privacy import Budget, gdp
from dpml.protocols import ProtocolError, Stage, in_process
from dpml.protocols.cape import cape_mean, cape_sum
from dpml.protocols.tcp import over_tcp

ONE = np.ones((1, 1))


def sample(transport, M: int, seed: int, n: int = 20_000, **options):  # type: ignore[no-untyped-def]
    """n independent coordinates of CAPE on nothing, in units of tau."""
    return cape_sum(np.zeros((M, n)), np.ones((1, n)), np.random.default_rng(seed), transport, **options)


@pytest.mark.parametrize("spread", [1.0, MASK])
def test_lemma_1_what_stays_has_the_variance_of_the_pooled_mechanism(spread) -> None:
    """tau_cape^2 = tau_pool^2: 20,000 samples of variance 1, a relative standard error of 1 %; five of them."""
    found = sample(in_process, 5, seed=0, spread=spread)
    total = found.total.ravel()
    assert total.var() == pytest.approx(1, rel=0.05)
    assert stats.kstest(total, "norm").pvalue > 1e-4  # false alarm 1e-4
    e_and_g = found.messages[:, 0, 0]  # the sites' own messages: variance s^2 (1 - 1/M) + 1/M
    assert e_and_g.var() == pytest.approx(spread**2 * 0.8 + 0.2, rel=0.05)
    assert np.allclose(found.messages.sum(axis=0), found.total, atol=1e-9)


def test_proposition_1_the_gain_over_independent_noise_is_exactly_M() -> None:
    M = 8
    cape = sample(in_process, M, seed=1).total.var()
    alone = noise.gaussian_total(np.random.default_rng(2), 20_000, M, 1).var()  # each site as noisy as tau
    assert alone / cape == pytest.approx(M, rel=0.07)  # relative standard error 1.4 %; five


def test_proposition_2_and_remark_3_the_gain_for_unequal_sites() -> None:
    """conv over cape: M without the weights' help, H(n) M more where it averages sites of unequal size (Prop. 2)."""
    sizes, n = np.array([100, 200, 300, 400]), 20_000
    N, M, delta = sizes.sum(), 4, 1.0  # sensitivity delta / N_k at a site, delta / N pooled
    rng = np.random.default_rng(3)
    released = np.concatenate(
        [cape_mean(np.zeros((M, n // 2)), delta / N, rng, sizes, transport=in_process) for _ in range(2)]
    )
    assert released.var() == pytest.approx((delta / N) ** 2, rel=0.05)  # the pooled variance, for any sizes
    conv = (rng.standard_normal((M, n)) * (delta / sizes)[:, None]).mean(axis=0)
    H = N**2 / M**3 * np.sum(1.0 / sizes**2)
    assert conv.var() / released.var() == pytest.approx(M * H, rel=0.07)


@pytest.mark.parametrize("spread", [1.0, MASK])
def test_with_the_same_seed_the_protocol_gives_the_simulations_numbers(spread) -> None:
    shares = np.random.default_rng(0).standard_normal((6, 40))
    scales = np.abs(np.random.default_rng(1).standard_normal((3, 40)))
    by_hand = cape_sum(shares, scales, np.random.default_rng(7), None, draws=4, spread=spread)
    by_protocol = cape_sum(shares, scales, np.random.default_rng(7), in_process, draws=4, spread=spread)
    assert by_protocol.total.shape == (3, 4, 40)
    step = 6 * 16 * spread * 2.0**-58  # of 2^63 / 6 parties / 16 spreads
    assert np.abs(by_hand.zero_sum - by_protocol.zero_sum).max() < 6 * step + 1e-14 * spread
    assert np.abs(by_hand.total - by_protocol.total).max() < 1e-13 * spread * scales.max()
    # and both the sum of the parties' noise as the algorithms draw it
    total = noise.cape_total(np.random.default_rng(7), 4, 6, 40, shared=spread, own=1 / np.sqrt(6))
    assert np.allclose(by_protocol.total, shares.sum(axis=0) + scales[:, None] * total, atol=1e-12 * spread)


def test_with_other_seeds_they_are_equal_in_distribution() -> None:
    """Totals and single messages, two-sample Kolmogorov-Smirnov, false alarm 1e-4 each."""
    a, b = sample(None, 5, seed=11), sample(in_process, 5, seed=12)
    assert stats.ks_2samp(a.total.ravel(), b.total.ravel()).pvalue > 1e-4
    for k in (0, 4):
        assert stats.ks_2samp(a.messages[k].ravel(), b.messages[k].ravel()).pvalue > 1e-4
    covariance = np.cov(b.messages[:, 0, 0])
    assert np.allclose(covariance, (1 + 1 / 5) * np.eye(5) - 1 / 5, atol=5 * 1.2 / np.sqrt(20_000))


@pytest.mark.parametrize("transport", [None, in_process])
def test_whoever_drops_out_the_zero_sum_noise_of_the_survivors_cancels(transport) -> None:
    gone = {1: Stage.MASKED, 4: Stage.SHARES, 6: Stage.UNMASK}
    shares = np.random.default_rng(0).standard_normal((9, 20_000))
    scales = np.full((1, 20_000), 0.5)
    found = cape_sum(shares, scales, np.random.default_rng(3), transport, spread=MASK, dropouts=gone)
    survivors = [0, 2, 3, 5, 6, 7, 8]
    assert found.survivors.tolist() == survivors
    left = found.total[0, 0] - shares[survivors].sum(axis=0)
    assert left.var() == pytest.approx(0.25 * 7 / 9, rel=0.05)  # nothing of a noise 1000 times as wide
    e = found.sent[:, 0, 0] - shares[survivors] - 0.5 * found.zero_sum / 7  # tau (e + g)
    assert np.allclose(e.sum(axis=0), left, atol=1e-9)


def test_noise_for_fewer_survivors_and_too_few_of_them() -> None:
    gone = {0: Stage.MASKED, 2: Stage.MASKED}
    found = sample(in_process, 6, seed=4, least=4, dropouts=gone)
    assert found.total.var() == pytest.approx(1, rel=0.05)
    with pytest.raises(ProtocolError, match="4 sites are left, fewer than the 5 whose noise was to be enough"):
        sample(in_process, 6, seed=4, n=3, least=5, dropouts=gone)


@pytest.mark.parametrize("spread", [1.0, MASK])
def test_the_view_with_dropouts_against_the_covariance_of_everything_seen(spread) -> None:
    """mu^2 = 1/(h v) + (1 - 1/h)/(s^2 + v): h honest survivors, g of variance v; seen are their m and sum ehat."""
    for h, v in ((7, 1 / 9), (3, 0.2), (1, 0.5)):
        covariance = np.zeros((h + 1, h + 1))
        covariance[:h, :h] = (spread**2 + v) * np.eye(h)
        covariance[h, :h] = covariance[:h, h] = spread**2
        covariance[h, h] = h * spread**2
        shift = np.eye(h + 1)[0]
        exact = gdp.correlated(covariance / spread**2, shift / spread)
        assert exact**2 == pytest.approx(1 / (h * v) + (1 - 1 / h) / (spread**2 + v), rel=1e-4)


def test_over_tcp_the_same_numbers() -> None:
    shares = np.random.default_rng(0).standard_normal((3, 10))
    here, apart = (cape_sum(shares, np.ones((1, 10)), np.random.default_rng(5), t) for t in (in_process, over_tcp))
    assert np.array_equal(here.total, apart.total)
    assert here.traffic.server == apart.traffic.server


@pytest.mark.parametrize("recipe", ["linear", "logistic"])
@pytest.mark.parametrize("calibration", ["published", "tight"])
def test_capefm_by_the_protocol_releases_what_the_simulation_does(recipe, calibration) -> None:
    data = Synthetic(recipe, d=6, rows=600).load(Files(), None, np.random.default_rng(0))
    loss = LOSSES["squared" if recipe == "linear" else "logistic"]
    budgets = [Budget(0.5, 1e-3), Budget(np.inf), Budget(5.0, 1e-3)]
    for rule in (Equal(), Fractions(fractions=(0.1, 0.2, 0.3, 0.4))):
        parties = partition(data, rule, 4, np.random.default_rng(1))
        simulated, real = (
            CapeFM(loss, calibration, lam=0.01, protocol=protocol)
            .prepare(parties, np.random.default_rng(0))
            .release(budgets, np.random.default_rng(3), 5)
            for protocol in ("simulate", "secagg")
        )
        assert np.allclose(simulated.weights, real.weights, atol=1e-9)
        for name, values in simulated.metrics.items():
            assert np.allclose(values, real.metrics[name], atol=1e-9)
    with pytest.raises(UserError, match=r"algo\.protocol must be simulate or secagg, got 'mpc'"):
        CapeFM(loss, protocol="mpc")


def test_commands(run_command) -> None:
    simulated = run_command("dpml-run", "algo=capefm", "draws=2", "hydra.run.dir=a")
    real = run_command("dpml-run", "algo=capefm", "draws=2", "hydra.run.dir=b", "algo.protocol=secagg")
    assert (simulated.code, real.code) == (0, 0), real.err
    tables = [outcome.out.splitlines()[:-1] for outcome in (simulated, real)]  # all but the folder's name
    assert tables[0] == tables[1]
    alone = run_command("dpml-run", "algo=capefm", "M=1", "algo.protocol=secagg")
    assert alone.code == 2
    assert "secure aggregation needs at least 2 parties" in alone.err
    done = run_command("dpml", "secagg", "-M", "6", "-d", "100", "--drop", "0.2")
    assert done.code == 0
    assert "5 of 6" in done.out
    assert "exact" in done.out
    for words, reason in (
        (("--drop", "1.5"), "--drop must be"),
        (("-M", "1"), "M >= 2"),
        (("--drop", "0.9"), "only 1 of 10"),
    ):
        assert reason in run_command("dpml", "secagg", *words).err
