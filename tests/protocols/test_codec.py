"""The fixed-point codec: its error bound, its mean, and that it refuses what could wrap around."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dpml.protocols import FixedPoint, ProtocolError

SIZES = st.floats(1e-12, 1e12)


@settings(max_examples=200, deadline=None)
@given(st.integers(1, 10**6), SIZES, st.integers(0, 2**32))
def test_the_finest_codec_holds_the_largest_sum_and_no_finer_one_does(parties: int, bound: float, seed: int) -> None:
    codec = FixedPoint.fit(parties, bound)
    for sign in (1.0, -1.0):
        word = int(codec.encode(np.array([sign * bound]), np.random.default_rng(seed)).view(np.int64)[0])
        assert -(2**63) < parties * word < 2**63  # Python's integers do not wrap
    with pytest.raises(ProtocolError):
        FixedPoint(parties, bound, codec.bits + 1)


@settings(max_examples=100, deadline=None)
@given(st.integers(1, 50), SIZES, st.integers(0, 2**32))
def test_a_sum_is_off_by_less_than_the_bound(parties: int, bound: float, seed: int) -> None:
    rng = np.random.default_rng(seed)
    values = rng.uniform(-bound, bound, (parties, 6))
    for codec in (FixedPoint.fit(parties, bound), FixedPoint(parties, bound, 20 - int(np.log2(bound)))):
        total = codec.decode(codec.encode(values, rng).sum(axis=0))
        rounding = parties * bound * 2.0**-50  # of the sum that we compare with, and of decoding
        assert np.abs(total - values.sum(axis=0)).max() < codec.error + rounding


def test_rounding_is_unbiased() -> None:
    """The mean of n roundings: |z| > 5 has probability 6e-7 for each of nine values, of which two are on the grid."""
    codec, n = FixedPoint(1, 4.0, 3), 200_000
    values = np.array([0.0, 0.01, 0.06, 0.124, -0.01, -0.1, 3.99, -3.3, -3.25])
    found = codec.decode(codec.encode(np.tile(values, (n, 1)), np.random.default_rng(3)))
    assert set(np.unique(np.abs(found - values) < 2.0**-3)) == {True}
    fraction = values * 8 - np.floor(values * 8)
    error = np.sqrt(fraction * (1 - fraction) / n) / 8
    assert np.all(np.abs(found.mean(axis=0) - values) <= 5 * error)


@pytest.mark.parametrize("bad", [1.0000001, -1.5, np.nan, -np.inf])
def test_what_does_not_fit_raises_and_is_not_clipped_or_printed(bad: float) -> None:
    codec = FixedPoint.fit(4, 1.0)
    with pytest.raises(ProtocolError, match="the range") as caught:
        codec.encode(np.array([0.1, bad]), np.random.default_rng(0))
    assert f"{bad:g}" not in str(caught.value).replace("[-1, 1]", "") or not np.isfinite(bad)
