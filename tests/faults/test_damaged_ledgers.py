"""A ledger in which a bit is flipped anywhere tells of no release less: it is whole, or it is refused."""

from pathlib import Path

import numpy as np
import pytest

from dpml.errors import UserError
from dpml.privacy import Guarantee
from dpml.release.ledger import Ledger


@pytest.fixture
def ledger(tmp_path: Path) -> Ledger:
    made = Ledger(tmp_path / "ledger")
    for mu in (0.1, 0.2, 0.3):
        made.enter("", [gaussian(mu)])
    return made


def gaussian(mu: float) -> Guarantee:
    return Guarantee("release", "sample", 1.0, 1e-5, "proven", "made up", mu)


def forgotten(ledger: Ledger, content: bytes) -> str:
    """What is wrong with a ledger of this content; nothing where it says the same as before, or is refused."""
    ledger.path.write_bytes(content)
    try:
        return "" if len(ledger.entries()) == 3 else "releases are forgotten"
    except UserError:
        return ""
    except Exception as error:
        return type(error).__name__


def test_nothing_is_wrong_with_it_as_it_is(ledger: Ledger) -> None:
    assert forgotten(ledger, ledger.path.read_bytes()) == ""


@pytest.mark.parametrize(("place", "bit"), [(104, 0), (3878, 0), (3888, 5), (3888, 7), (4100, 0), (4100, 1)])
def test_a_bit_that_hides_releases(ledger: Ledger, place: int, bit: int) -> None:
    content = bytearray(ledger.path.read_bytes())
    content[place] ^= 1 << bit
    assert forgotten(ledger, bytes(content)) == ""


@pytest.mark.slow
def test_any_bit(ledger: Ledger) -> None:
    content = ledger.path.read_bytes()
    wrong = {}
    for place, bit in enumerate(np.random.default_rng(0).integers(8, size=len(content))):
        changed = bytearray(content)
        changed[place] ^= 1 << int(bit)
        if problem := forgotten(ledger, bytes(changed)):
            wrong[place] = problem
    assert wrong == {}
