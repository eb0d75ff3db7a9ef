import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dpml.protocols import FixedPoint, ProtocolError, secure_sum


@given(st.integers(1, 10**6), st.floats(1e-12, 1e12), st.integers(0, 2**32))
@settings(max_examples=100, deadline=None)
def test_sums_at_the_edge_of_the_range_do_not_wrap_and_keep_the_bound(parties, bound, seed) -> None:
    codec = FixedPoint.fit(parties, bound)
    rng = np.random.default_rng(seed)
    values = np.concatenate([rng.uniform(-bound, bound, 20), [bound, -bound, 0.0]])
    encoded = codec.encode(values, rng)
    assert (np.abs(codec.decode(encoded) - values) <= np.ldexp(1.0, -codec.bits) + 2.0**-52 * np.abs(values)).all()
    # all parties at the same value: the exact sum, as Python's integers have it, is the ring's
    exact = [parties * int(q) for q in encoded.view(np.int64)]
    assert max(map(abs, exact)) < 2**63
    with np.errstate(over="ignore"):
        assert (encoded * np.uint64(parties)).view(np.int64).tolist() == exact
    with pytest.raises(ProtocolError):
        FixedPoint(parties, bound, codec.bits + 2)  # fit is within a bit of the finest


def test_rounding_is_to_a_neighbour_and_right_on_average() -> None:
    codec = FixedPoint(parties=1, bound=4.0, bits=2)
    x = np.full(40_000, 1.1)  # between 4 and 5 quarters, 0.4 of the way
    found = codec.decode(codec.encode(x, np.random.default_rng(0)))
    assert set(found) == {1.0, 1.25}
    assert found.mean() == pytest.approx(1.1, abs=5 * 0.25 * np.sqrt(0.24 / 40_000))  # five standard errors


@pytest.mark.parametrize("value", [1.0001, -2.0, np.nan, np.inf])
def test_a_value_out_of_range_raises(value) -> None:
    vectors = np.zeros((3, 4))
    vectors[1, 2] = value
    with pytest.raises(ProtocolError, match=r"a value of size \S+ is out of the range of the codec, \[-1, 1\]"):
        secure_sum(vectors, 1.0, np.random.default_rng(0))


@pytest.mark.parametrize(("parties", "bound", "bits"), [(0, 1.0, 3), (2, 0.0, 3), (2, np.inf, 3), (2, 1.0, 62)])
def test_impossible_codecs(parties, bound, bits) -> None:
    with pytest.raises(ProtocolError):
        FixedPoint(parties, bound, bits)
