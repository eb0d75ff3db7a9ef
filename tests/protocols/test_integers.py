"""Sums of integers through the protocol: exact, modulo 2^64, of those who sent theirs."""

import numpy as np
import pytest

from dpml.protocols import Stage, secure_sum_integers

ENDS = [-(2**63), 2**63 - 1, -1, 0, 1]


def modular(rows) -> list[int]:
    """In Python's whole numbers."""
    return [(sum(column) + 2**63) % 2**64 - 2**63 for column in zip(*rows, strict=True)]


@pytest.mark.parametrize("M", [2, 5])
def test_sums_are_those_of_python_modulo_2_64(M) -> None:
    values = np.random.default_rng(0).integers(-(2**63), 2**63 - 1, (M, 40), endpoint=True)
    values[:, :5] = ENDS
    summed = secure_sum_integers(values)
    assert summed.total.dtype == np.int64
    assert summed.total.tolist() == modular(values.tolist())
    assert summed.survivors.tolist() == list(range(M))


def test_those_who_drop_out_are_not_in_it() -> None:
    values = np.random.default_rng(1).integers(-100, 100, (7, 3))
    summed = secure_sum_integers(values.T.copy().T, dropouts={4: Stage.MASKED, 0: Stage.UNMASK})
    assert summed.survivors.tolist() == [0, 1, 2, 3, 5, 6]
    assert summed.total.tolist() == modular(values[[0, 1, 2, 3, 5, 6]].tolist())
