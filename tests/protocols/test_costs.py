"""The communication table: bytes against the lengths of the messages' parts, and the exponents."""

import pytest

from dpml.protocols import complete
from dpml.protocols.costs import communication, exponents


def test_bytes_are_what_the_messages_are_made_of() -> None:
    table = communication([2, 7], [10, 1000]).set_index(["M", "d", "metric"])["value"]
    for M in (2, 7):
        for d in (10, 1000):
            n, frame = M - 1, 1 + 16 + 4 + 8
            sealed, share = 4 + 2 * 36 + 16, 4 + 36
            sent = 64 + (32 + n * sealed) + 8 * d + (4 + M * share) + 4 * frame
            received = n * (4 + 64) + n * sealed + 4 * M + 3 * frame
            assert table[M, d, "site_bytes"] == sent + received
            assert table[M, d, "aggregator_bytes"] == M * (sent + received)
            assert table[M, d, "degree"] == complete(M).degree


def test_exponents_are_those_of_the_papers_table() -> None:
    """O(M + d) for a site, O(M^2 + Md) for the aggregator: slopes within 0.15 where each term dominates."""
    found = exponents([5, 20, 40], [10, 1000, 10_000])
    value = found.set_index(["who", "metric"])["value"]
    for who, in_M in (("site", 1), ("aggregator", 2)):
        assert value[who, "in_M"] == pytest.approx(in_M, abs=0.15)
        assert value[who, "in_d"] == pytest.approx(1, abs=0.15)
