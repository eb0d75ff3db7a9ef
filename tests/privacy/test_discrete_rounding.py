"""Rows as integers: lengths and sums in Python's whole numbers, which have no rounding. Seeded."""

import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dpml.errors import UserError
from dpml.privacy.discrete import divide, integer_radius, to_integers
from dpml.privacy.discrete.rounding import _root_above

CLIPS = [1.0, 0.1, 1 / 3, 2.5]


def unit_rows(n: int, k: int, seed: int = 0) -> np.ndarray:
    rows = np.random.default_rng(seed).standard_normal((n, k))
    return rows / np.linalg.norm(rows, axis=1, keepdims=True)


def squared(row: np.ndarray) -> int:
    return sum(int(entry) ** 2 for entry in row)


@pytest.mark.parametrize("clip", CLIPS)
@pytest.mark.parametrize("bits", [4, 10, 20, 24])
@pytest.mark.parametrize("k", [1, 3, 104])
def test_no_row_is_longer_than_the_clip(clip: float, bits: int, k: int) -> None:
    """Rows on the sphere, where half of them are too long once rounded, inside, far outside, and odd ones."""
    rows = unit_rows(300, k, seed=bits) * clip
    odd = np.zeros((7, k))
    odd[0], odd[1, 0], odd[2], odd[3], odd[4, -1] = 1e308, -1e308, 5e-324, -clip, np.nextafter(clip, 9)
    odd[5] = (clip - 2.0**-bits / 2) / math.sqrt(k)
    radius = integer_radius(clip, bits)
    rounded = to_integers(np.concatenate([rows, rows * 0.6, rows * 7, odd]), bits, clip)
    assert rounded.dtype == np.int64
    assert max(squared(row) for row in rounded) <= radius**2
    assert max(squared(row) for row in rounded[:300]) >= max(radius - 2 * math.sqrt(k), 0) ** 2
    assert radius == math.floor(Fraction(clip) * 2**bits) <= clip * 2**bits


def test_rows_inside_are_rounded_to_the_nearest_and_others_lose_little() -> None:
    rows, bits = unit_rows(2000, 50), 20
    inside = to_integers(rows * 0.99, bits, 1.0)
    assert np.abs(inside - rows * 0.99 * 2**bits).max() <= 0.5
    on_the_sphere = to_integers(rows, bits, 1.0)
    assert np.abs(on_the_sphere - rows * 2**bits).max() < 2.5
    outside = to_integers(rows * 1000, bits, 1.0)
    assert np.abs(outside - rows * 2**bits).max() < 2.5  # the direction is kept


def test_what_is_not_a_number_or_does_not_fit_is_refused() -> None:
    wrong = [(math.nan, 20, 1), (math.inf, 20, 1), (-math.inf, 20, 1)]
    for entry, bits, clip in (*wrong, (0, 31, 1), (0, 20, 4096), (0, 0, 0.5), (0, 20, 0), (0, 20, -1)):
        with pytest.raises(UserError):
            to_integers(np.array([[0.5, entry]]), bits, clip)


@given(st.lists(st.integers(0, 2**62 - 1), min_size=1, max_size=20), st.integers(0, 2**31 - 1))
def test_roots_are_the_least_whole_numbers(numbers: list[int], root: int) -> None:
    numbers += [root**2, root**2 + 1, max(root**2 - 1, 0)]
    found = _root_above(np.array(numbers)).tolist()
    assert found == [math.isqrt(number - 1) + 1 if number else 0 for number in numbers]


@given(st.integers(-(2**60), 2**60), st.integers(1, 10**6))
def test_division_is_to_the_nearest(total: int, count: int) -> None:
    found = int(divide(np.array([total]), count)[0])
    assert abs(Fraction(total, count) - found) <= Fraction(1, 2)
