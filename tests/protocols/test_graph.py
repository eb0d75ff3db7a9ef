from collections import deque
from random import SystemRandom

import numpy as np
import pytest
from scipy.stats import hypergeom

from dpml.protocols import ProtocolError, Session, Topology, complete, sparse
from dpml.protocols.graph import _hypergeometric, choose, seat


def test_every_party_has_the_degree_and_neighbours_are_mutual() -> None:
    for parties, degree in ((9, 4), (30, 8), (5, 4), (4, 3)):
        neighbours = seat(parties, degree, SystemRandom())
        for party, others in enumerate(neighbours):
            assert len(set(others)) == len(others) == degree
            assert party not in others
            assert others == sorted(others)
            assert all(party in neighbours[other] for other in others)


def test_tails_against_scipy() -> None:
    for total, marked, drawn in ((99, 33, 40), (999, 700, 272), (50, 49, 10), (50, 2, 40), (50, 0, 3)):
        exact = hypergeom(total, marked, drawn).pmf(np.arange(drawn + 1))
        assert np.allclose(_hypergeometric(total, marked, drawn), exact, rtol=1e-7, atol=1e-300)


def test_the_bounds_hold_and_one_degree_less_breaks_them() -> None:
    M, C, D = 1000, 333, 300
    found = sparse(M)
    assert found is not None
    k, t = found.degree, found.threshold
    assert found.quorum == M - D
    assert found.colluders == C
    corrupt = (M - C) * hypergeom(M - 1, C, k).sf(t - 1)
    row = np.prod([(C + D - i) / (M - i) for i in range(k // 2)])
    assert corrupt + M * row <= 2**-40
    stuck = D * hypergeom(M - 1, M - D, k).cdf(t - 1) + (M - D) * hypergeom(M - 1, M - D - 1, k).cdf(t - 2)
    assert stuck <= 2**-30
    for other in range(2, k):  # no threshold does with two neighbours fewer
        ok = (M - C) * hypergeom(M - 1, C, k - 2).sf(other - 1) <= 2**-40
        stuck = D * hypergeom(M - 1, M - D, k - 2).cdf(other - 1)
        stuck += (M - D) * hypergeom(M - 1, M - D - 1, k - 2).cdf(other - 2)
        assert not (ok and stuck <= 2**-30)


def test_what_the_bounds_are_for_happens_as_often_as_they_say() -> None:
    """Small and lax: seats drawn 2,000 times; the bounds are upper ones, so five standard errors above them at most."""
    found = sparse(60, colluders=0.2, dropouts=0.2, security=0.05, failure=0.05)
    assert found is not None
    rng, caught, cut, stuck, runs = np.random.default_rng(0), 0, 0, 0, 2000
    lost = rng.permuted(np.tile(np.arange(60), (runs, 1)), axis=1)  # the same law as random seats: colluders, drop-outs
    for order in lost:
        neighbours = seat(60, found.degree, SystemRandom())
        colluders, gone = set(order[: found.colluders].tolist()), set(order[-12:].tolist())
        honest = [p for p in range(60) if p not in colluders]
        caught += any(len(colluders & set(neighbours[p])) >= found.threshold for p in honest)
        alive = {p for p in honest if p not in gone}
        cut += not _connected(alive, neighbours)
        stuck += any(sum(q not in gone for q in (p, *neighbours[p])) < found.threshold for p in range(60))
    slack = 5 * np.sqrt(0.05 / runs)
    assert (caught + cut) / runs <= 0.05 + slack
    assert stuck / runs <= 0.05 + slack
    assert caught + stuck > 0  # the bounds are not idle either


def _connected(alive: set[int], neighbours: list[list[int]]) -> bool:
    start = next(iter(alive))
    seen, queue = {start}, deque([start])
    while queue:
        for other in neighbours[queue.popleft()]:
            if other in alive and other not in seen:
                seen.add(other)
                queue.append(other)
    return seen == alive


def test_the_degree_grows_like_a_logarithm() -> None:
    degrees = [sparse(M).degree for M in (10**3, 10**4, 10**5, 10**6)]
    assert degrees == sorted(degrees)
    assert degrees[3] - degrees[2] < degrees[1] - degrees[0] < 150
    assert choose(10**6).degree == degrees[3]
    assert choose(100).degree == 99


@pytest.mark.parametrize(("parties", "threshold"), [(1, None), (5, 1), (5, 6)])
def test_impossible_thresholds(parties, threshold) -> None:
    with pytest.raises(ProtocolError, match="at least 2 parties and a threshold"):
        complete(parties, threshold)


@pytest.mark.parametrize("topology", [Topology(3, 2, 2, 1), Topology(4, 6, 6, 1), Topology(4, 3, 2, 1)])
def test_a_topology_must_suit_the_session(topology) -> None:
    with pytest.raises(ProtocolError, match="does not suit 6 parties"):
        Session(6, 10, topology)
