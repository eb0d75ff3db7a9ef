"""Every algorithm, protocol, noise and unit releases what it did, from the same random numbers."""

import json

import numpy as np
import pytest

from tests.golden.settings import FILE, numbers, released, settings

SETTINGS = settings()
STORED = json.loads(FILE.read_text())


def test_what_is_stored_is_what_is_compared():
    assert set(STORED) == set(SETTINGS)


@pytest.mark.parametrize("name", SETTINGS)
def test_a_release_is_what_it_was(name):
    was, now = STORED[name], json.loads(json.dumps(released(*SETTINGS[name])))
    assert now["guarantees"] == [
        [view, unit, pytest.approx(eps, rel=1e-9), delta, basis, mu if mu is None else pytest.approx(mu, rel=1e-9)]
        for view, unit, eps, delta, basis, mu in was["guarantees"]
    ]
    for part in ("weights", "metrics"):
        # another machine's BLAS rounds otherwise, and noise on a grid may then fall on the next step
        first, second = np.array(numbers(was[part])), np.array(numbers(now[part]))
        np.testing.assert_allclose(second, first, rtol=1e-3, atol=1e-3 * np.nanmax(np.abs(first), initial=1e-6))
