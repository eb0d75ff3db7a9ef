"""The sparse ring: its tail bounds against independent sums and simulated seatings, its degree, its seats."""

import math

import numpy as np
import pytest

from dpml.protocols import ProtocolError, Session, Topology, complete, sparse
from dpml.protocols.session import FAILURE, SECURITY, choose, seat


def chances(total: int, marked: int, drawn: int) -> np.ndarray:
    """The chances of 0, 1, ... marked items among some that are drawn, by exact integers."""
    others, first = total - marked, max(0, drawn - total + marked)
    ways, way = [0] * first, math.comb(marked, first) * math.comb(others, drawn - first)
    for i in range(first, drawn + 1):
        ways.append(way)
        way = way * (marked - i) * (drawn - i) // ((i + 1) * (others - drawn + i + 1))
    every = math.comb(total, drawn)
    return np.array([way / every for way in ways])


def safe_thresholds(parties: int, C: int, D: int, degree: int) -> list[int]:
    """The thresholds with which a ring of this degree is safe, and ends."""
    row = parties * chances(parties, C + D, degree // 2)[-1]
    colluding, there, others = (chances(parties - 1, marked, degree) for marked in (C, parties - D, parties - D - 1))
    return [
        t
        for t in range(2, degree + 2)
        if (parties - C) * colluding[t:].sum() + row <= SECURITY
        and D * there[:t].sum() + (parties - D) * others[: t - 1].sum() <= FAILURE
    ]


@pytest.mark.parametrize("parties", [400, 1000, 100_000])
def test_the_chosen_ring_keeps_its_bounds(parties: int) -> None:
    found = sparse(parties)
    assert found is not None
    C, D = found.colluders, parties - found.quorum
    assert (math.ceil(parties / 3) - 1, math.floor(0.3 * parties)) == (C, D)
    assert found.threshold in safe_thresholds(parties, C, D, found.degree)


@pytest.mark.parametrize(
    ("parties", "colluders", "dropouts"),
    [(60, 0.1, 0.1), (300, 0.05, 0.6), (300, 0.3, 0.05), pytest.param(1000, 1 / 3, 0.3, marks=pytest.mark.slow)],
)
def test_the_ring_has_the_least_degree_that_keeps_its_bounds(parties: int, colluders: float, dropouts: float) -> None:
    """Where drop-outs abound it is a cut of the ring that asks for neighbours, not the colluders."""
    C, D = math.ceil(colluders * parties) - 1, math.floor(dropouts * parties)
    found = sparse(parties, colluders, dropouts)
    least = next((degree for degree in range(2, parties - 1, 2) if safe_thresholds(parties, C, D, degree)), None)
    if found is None:
        assert least is None
        return
    assert found == Topology(least, min(safe_thresholds(parties, C, D, least)), parties - D, C)


def test_a_ring_is_chosen_where_it_halves_the_work() -> None:
    both = {M: (sparse(M), choose(M)) for M in range(300, 900, 50)}
    kinds = {M: chosen.degree < M - 1 for M, (_, chosen) in both.items()}
    assert set(kinds.values()) == {True, False}
    for M, (ring, chosen) in both.items():
        assert kinds[M] == (ring is not None and ring.degree <= (M - 1) / 2)
        assert chosen == (ring if kinds[M] else complete(M))
    # so many colluders and a lying server cannot have both secrets of a party, or the ring allows for them
    assert choose(1000, 500).threshold == 751
    assert all(choose(1000, colluders).colluders >= colluders for colluders in (0, 300, 333, 334, 700, 999))
    for threshold in (1, 5, 11):
        with pytest.raises(ProtocolError, match="the least is 6"):
            complete(10, threshold)


def test_the_bounds_hold_where_they_can_be_simulated() -> None:
    """Loose bounds of 0.3, 4,000 seatings: the share of bad ones stays below (five standard errors: 1e-6)."""
    M, runs = 60, 4000
    found = sparse(M, colluders=0.2, dropouts=0.1, security=0.3, failure=0.3)
    assert found is not None
    assert found.degree < M - 1
    rng = np.random.default_rng(1)
    k, t, C, D = found.degree, found.threshold, found.colluders, M - found.quorum
    places = (np.arange(M)[:, None] + [*range(-(k // 2), 0), *range(1, k // 2 + 1)]) % M
    insecure = failed = 0
    for _ in range(runs):
        state = rng.permutation(np.repeat([0, 1, 2], [M - C - D, C, D]))  # honest and here, colluding, dropped out
        around = state[places]
        caught = ((around == 1).sum(axis=1) >= t) & (state != 1)
        insecure += caught.any() or not connected(state == 0, k // 2)
        # the worst case for ending: colluders stay
        here = (around != 2).sum(axis=1) + (state != 2)
        failed += (here < t).any()
    slack = 5 * math.sqrt(0.3 * 0.7 / runs)
    assert insecure / runs <= 0.3 + slack
    assert failed / runs <= 0.3 + slack
    assert insecure + failed > 0  # the simulation can find what it looks for


def connected(alive: np.ndarray, reach: int) -> bool:
    """Whether those alive on a ring hang together when each reaches `reach` seats to either side."""
    seats = np.flatnonzero(alive)
    gaps = np.diff(np.append(seats, seats[0] + len(alive)))
    return int((gaps > reach).sum()) <= 1


@pytest.mark.parametrize(("parties", "degree"), [(11, 4), (12, 10), (6, 5)])
def test_neighbours_are_mutual_and_as_many_as_asked_for(parties: int, degree: int) -> None:
    neighbours = seat(parties, degree, bytes(16))
    for party, others in enumerate(neighbours):
        assert list(others) == sorted(set(others) - {party})
        assert len(others) == degree
        assert all(party in neighbours[other] for other in others)


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (lambda: Session(6, 5, Topology(3, 2, 4, 1)), "6 parties"),
        (lambda: Session(6, 5, Topology(4, 6, 6, 1)), "6 parties"),
        (lambda: Session(9, 5, Topology(4, 3, 5, 1)), "a quorum of 5"),
        (lambda: Session(6, 5, Topology(5, 2, 5, 2)), "a threshold of 2"),
        (lambda: Session(2, 5, Topology(1, 2, 2, 1), identities=(bytes(32), bytes(32))), "different identities"),
        *((lambda d=d: Session.of(6, d), "1 to 268435456 entries") for d in (0, 1 << 29)),
        (lambda: Session.of(1, 5), "at least 2 parties"),
    ],
)
def test_a_session_that_does_not_protect_is_refused(make, said: str) -> None:
    with pytest.raises(ProtocolError, match=said):
        make()
