"""Noise from the operating system's random numbers: its laws, and that there is no other source."""

import os
import pickle

import numpy as np
import pytest
from noise_samplers import SAMPLERS
from scipy import stats

from dpml.errors import UserError
from dpml.privacy.entropy import LARGEST_NORMAL, SystemGenerator, check_tail


@pytest.fixture
def held(monkeypatch):
    """The system's random numbers, from a seed."""

    def hold(seed: int) -> SystemGenerator:
        monkeypatch.setattr(os, "urandom", np.random.default_rng(seed).bytes)
        return SystemGenerator()

    return hold


LAWS = {
    "standard_normal": (lambda rng, n: rng.standard_normal(n), stats.norm),
    "in place": (lambda rng, n: rng.standard_normal(out=np.empty((n // 2, 2))).ravel(), stats.norm),
    "laplace": (lambda rng, n: rng.laplace(size=n), stats.laplace),
    "exponential": (lambda rng, n: rng.exponential(size=n), stats.expon),
    "gamma": (lambda rng, n: rng.gamma(7, size=n), stats.gamma(7)),
    "half": (lambda rng, n: rng.standard_gamma(0.5, size=n), stats.gamma(0.5)),
    "wide": (lambda rng, n: rng.standard_gamma(20_000.5, size=(n, 1))[:, 0], stats.gamma(20_000.5)),
    "random": (lambda rng, n: rng.random(n), stats.uniform),
    "single": (lambda rng, n: rng.standard_normal((n // 2, 2), dtype=np.float32).ravel().astype(float), stats.norm),
}


@pytest.mark.parametrize("name", LAWS)
def test_every_number_has_its_law(held, name) -> None:
    """Kolmogorov and Smirnov's test on 60,000 numbers, and on the largest and least hundredth; false alarm 3e-6."""
    draw, law = LAWS[name]
    found = draw(held(5), 60_000)
    assert stats.kstest(found, law.cdf).pvalue > 1e-6
    ends = [found[found < law.ppf(0.01)], found[found > law.ppf(0.99)]]
    assert stats.kstest(law.cdf(ends[0]) * 100, "uniform").pvalue > 1e-6
    assert stats.kstest(law.sf(ends[1]) * 100, "uniform").pvalue > 1e-6


def test_what_noise_is_made_of_is_the_systems(held) -> None:
    """All samplers of `noise` twice from the same bytes, which are all that they depend on, and from others."""
    assert held(1).bytes(9) == held(1).bytes(9)
    for draw in (*SAMPLERS.values(), lambda rng: rng.random((9, 3))):
        one, again, other = (draw(held(seed)) for seed in (1, 1, 2))
        np.testing.assert_array_equal(one, again)
        assert not np.isclose(one, other).any()
        whole = draw(np.random.default_rng(0))
        assert (one.shape, one.dtype) == (whole.shape, whole.dtype)


def test_no_state_is_kept_or_handed_on() -> None:
    """Copies, and generators that are split off, draw afresh."""
    rng = SystemGenerator()
    copies = [pickle.loads(pickle.dumps(rng)), *rng.spawn(2)]
    assert {type(copy) for copy in copies} == {SystemGenerator}
    drawn = [copy.standard_normal(4) for copy in (rng, *copies)]
    assert len(np.unique(drawn)) == 16
    assert len({copy.bytes(8) for copy in (rng, *copies)}) == 4
    assert len(np.unique([SystemGenerator().permutation(1000) for _ in range(3)], axis=0)) == 3


@pytest.mark.parametrize("bits", [b"\x00", b"\xff"])
def test_where_the_numbers_end(monkeypatch, bits) -> None:
    """The least uniform number is half a grain, 2^-53, and half of it lies at either side."""
    monkeypatch.setattr(os, "urandom", lambda n: bits * n)
    rng = SystemGenerator()
    assert np.isfinite([rng.laplace(size=3), rng.exponential(size=3), rng.gamma(0.5, size=3)]).all()
    assert 0 < rng.random() < 1
    drawn = abs(float(rng.standard_normal()))
    assert drawn == LARGEST_NORMAL if bits == b"\x00" else drawn < 1e-15
    assert stats.norm.sf(LARGEST_NORMAL) == pytest.approx(2.0**-54, rel=1e-12)


def test_a_delta_that_the_tail_cannot_carry() -> None:
    check_tail(0.0, False)
    check_tail(1e-14, False)
    check_tail(1e-300, True)
    with pytest.raises(UserError):
        check_tail(1e-15, False)
