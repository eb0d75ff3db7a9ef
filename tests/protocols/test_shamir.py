"""Shamir's sharing: any t shares give the secret, fewer say nothing, and shares of two secrets do not pass as one."""

import itertools
import os

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from dpml.protocols import shamir
from dpml.protocols.shamir import LIMBS, PRIME


def weights_at_zero(holders: list[int]) -> list[int]:
    """Lagrange's weights by Python's integers."""
    found = []
    for i, x in enumerate(holders):
        top = bottom = 1
        for other in holders[:i] + holders[i + 1 :]:
            top, bottom = top * other % PRIME, bottom * (other - x) % PRIME
        found.append(top * pow(bottom, -1, PRIME) % PRIME)
    return found


@pytest.mark.slow
@settings(max_examples=60, deadline=None)
@given(st.binary(min_size=32, max_size=32), st.data())
def test_any_threshold_shares_determine_the_secret(secret: bytes, data: st.DataObject) -> None:
    holders = data.draw(st.lists(st.integers(1, PRIME - 1), min_size=1, max_size=12, unique=True))
    t = data.draw(st.integers(1, len(holders)))
    x = np.array(holders, dtype=np.uint64)
    shares = shamir.share(shamir.split(secret), x, t)
    chosen = data.draw(st.permutations(range(len(holders))))[:t]
    assert shamir.join(shamir.reconstruct(x[chosen], shares[chosen])) == secret
    weights = weights_at_zero([holders[i] for i in chosen])
    for limb, due in zip(range(LIMBS), shamir.split(secret), strict=True):
        assert sum(w * int(shares[i, limb]) for w, i in zip(weights, chosen, strict=True)) % PRIME == due


@pytest.mark.parametrize("secret", [bytes(32), b"\xff" * 32])
def test_fewer_than_threshold_shares_are_uniform(secret: bytes) -> None:
    """Chi-squared on 64 cells of each of t - 1 = 2 shares, and of their pair; p < 1e-9 has that false-alarm rate."""
    x = np.array([1, 2, 3], dtype=np.uint64)
    many = np.tile(shamir.split(secret), 4000)  # limbs are shared independently: 36,000 sharings of nine limbs
    shares = shamir.share(many, x, 3)[:2].reshape(2, 4000, LIMBS)
    cells = (shares * 8 // PRIME).astype(int)  # 8 cells each
    for limb in (0, LIMBS - 1):
        counts = np.bincount(8 * cells[0, :, limb] + cells[1, :, limb], minlength=64)
        assert stats.chisquare(counts).pvalue > 1e-9


def test_matrix_product_in_the_field_is_exact_at_its_largest() -> None:
    A = np.full((2, 5000), PRIME - 1, dtype=np.uint64)
    A[1] = np.random.default_rng(0).integers(0, PRIME, 5000)
    found = shamir._matmul(A, A.T.copy())
    for i, j in itertools.product(range(2), repeat=2):
        assert int(found[i, j]) == sum(int(a) * int(b) for a, b in zip(A[i], A[j], strict=True)) % PRIME


def test_elements_that_do_not_lie_in_the_field_are_drawn_again() -> None:
    blocks = [np.array([PRIME, 5, 2**31 + 7], "<u4").tobytes(), np.array([PRIME], "<u4").tobytes(), b"\x09\0\0\0"]
    assert shamir._uniform((1, 3), lambda size: blocks.pop(0)).tolist() == [[9, 5, 7]]


def test_shares_of_two_secrets_do_not_pass_as_one() -> None:
    """A mixture is uniform in each of nine limbs: it looks like a secret with probability 2^-23."""
    x = np.arange(1, 5, dtype=np.uint64)
    one, two = (shamir.share(shamir.split(os.urandom(32)), x, 3) for _ in range(2))
    mixed = np.vstack([one[:2], two[2:3]])
    with pytest.raises(ValueError, match="do not belong to one secret"):
        shamir.join(shamir.reconstruct(x[:3], mixed))
