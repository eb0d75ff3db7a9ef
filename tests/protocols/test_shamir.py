from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from dpml.protocols import shamir


@given(st.binary(min_size=32, max_size=32), st.integers(1, 40), st.data())
@settings(max_examples=60, deadline=None)
def test_any_t_shares_give_the_secret_and_fewer_give_another(secret, n, data) -> None:
    t = data.draw(st.integers(1, n))
    holders = np.array(
        data.draw(st.lists(st.integers(1, shamir.PRIME - 1), min_size=n, max_size=n, unique=True)), dtype=np.uint64
    )
    shares = shamir.share(shamir.split(secret), holders, t)
    chosen = np.array(data.draw(st.permutations(range(n))))[:t]
    assert shamir.join(shamir.reconstruct(holders[chosen], shares[chosen])) == secret
    if t > 1:
        few = shamir.reconstruct(holders[chosen[1:]], shares[chosen[1:]])
        assert not np.array_equal(few, shamir.split(secret))  # equal with probability 2^-279


def test_arithmetic_against_python_integers() -> None:
    rng, P = np.random.default_rng(0), shamir.PRIME
    A, B = (rng.integers(0, P, shape, dtype=np.uint64) for shape in ((7, 300), (300, 5)))
    A[0], B[:, 0] = P - 1, P - 1
    exact = [[sum(int(a) * int(b) for a, b in zip(row, column, strict=True)) % P for column in B.T] for row in A]
    assert shamir._matmul(A, B).tolist() == exact
    x = rng.integers(1, P, 9, dtype=np.uint64)
    assert (shamir._inverse(x) * x % P == 1).all()
    assert shamir._powers(x, 6).tolist() == [[pow(int(a), j, P) for j in range(6)] for a in x]


def test_fewer_than_t_shares_say_nothing_for_every_secret_there_is_one_polynomial() -> None:
    """Algebra: t - 1 shares and any assumed secret are met by exactly one polynomial of degree t - 1."""
    holders = np.array([2, 3, 7, 11], dtype=np.uint64)
    shares = shamir.share(np.array([123, 456], dtype=np.uint64), holders, 4)
    known, points = holders[:3], shares[:3]
    for guess in (0, 1, 123, shamir.PRIME - 1):
        # the share that holder 11 would have, were the secret the guess: from the values at 2, 3, 7 and at 0
        fourth = []
        for limb in range(2):
            total = 0
            xs, ys = [0, *map(int, known)], [guess, *map(int, points[:, limb])]
            for i, x in enumerate(xs):
                w = ys[i]
                for j, other in enumerate(xs):
                    if i != j:
                        w = w * (11 - other) * pow(x - other, -1, shamir.PRIME) % shamir.PRIME
                total += w
            fourth.append(total % shamir.PRIME)
        back = shamir.reconstruct(holders, np.vstack([points, np.array([fourth], dtype=np.uint64)]))
        assert back.tolist() == [guess, guess]


def test_one_share_is_uniform_whatever_the_secret() -> None:
    """Chi-squared over 32 bins, false alarm 1e-4 for each of two secrets; fixed entropy."""
    rng = np.random.default_rng(1)
    for secret in (0, shamir.PRIME - 1):
        shares = shamir.share(np.full(20_000, secret, dtype=np.uint64), np.array([1, 2], dtype=np.uint64), 2, rng.bytes)
        for holder, row in product(range(2), [shares]):
            counts = np.bincount((row[holder] >> np.uint64(26)).astype(int), minlength=32)
            assert stats.chisquare(counts).pvalue > 1e-4


@pytest.mark.parametrize("holders", [[1, 1], [0, 2], [1, shamir.PRIME]])
def test_holders_must_be_distinct_elements_other_than_zero(holders) -> None:
    with pytest.raises(ValueError, match="holders must be different numbers"):
        shamir.share(np.array([5], dtype=np.uint64), np.array(holders, dtype=np.uint64), 2)


def test_limbs_that_no_secret_has_are_refused() -> None:
    limbs = shamir.split(bytes(32))
    limbs[-1] = 1 << 29
    with pytest.raises(ValueError, match="do not belong"):
        shamir.join(limbs)
    with pytest.raises(ValueError, match="32 bytes"):
        shamir.split(b"short")
