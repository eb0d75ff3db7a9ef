"""Sums of integers through the protocol: exact, modulo 2^64, of those who sent theirs."""

import numpy as np
import pytest

from dpml.protocols import ProtocolError, Stage, secure_sum_integers

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


@pytest.mark.parametrize("vectors", [np.ones((3, 2)), np.ones((3, 2), np.int32), np.ones(3, np.int64), [[0.5], [1.5]]])
def test_what_is_no_integer_of_64_bits_is_refused(vectors) -> None:
    """The sum of the bits of floating-point numbers is a number, too."""
    with pytest.raises(ProtocolError, match="a secure sum is of 64-bit integers"):
        secure_sum_integers(vectors)


@pytest.mark.parametrize("party", [3, -1])
def test_nobody_drops_out_who_is_not_there(party) -> None:
    with pytest.raises(ProtocolError, match=f"party {party} cannot drop out"):
        secure_sum_integers(np.ones((3, 2), np.int64), dropouts={party: Stage.MASKED})
