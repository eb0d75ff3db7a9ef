"""How often an algorithm must be better, where the text says "outperforms" without a number: two readings."""

from collections.abc import Sequence
from dataclasses import replace

from dpml.reporting.claim_tests import Amount, most
from dpml.reporting.claims import Reading, some


def both_ways(readings: Sequence[Reading]) -> tuple[Reading, ...]:
    """Each of the readings twice: `mostly`, at more than half of the grid, and `somewhere`, at one point at least."""
    return tuple(
        replace(reading, name=f"{reading.name}, {often}") for reading in readings for often in ("mostly", "somewhere")
    )


def how_often(reading: Reading) -> Amount:
    """The amount that a reading of `both_ways` asks for."""
    return some if reading.name.endswith("somewhere") else most
