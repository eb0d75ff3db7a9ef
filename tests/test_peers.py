"""MST's program (scripts/peers/mst.py), whose packages are stood in for, and what replace-one costs others in noise."""

import importlib
import sys
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from scipy.optimize import brentq, minimize
from scipy.stats import norm

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT / "scripts" / "peers"))
rows = pytest.importorskip("rows")


def mu_of(eps, delta):
    """The Gaussian mechanism's mu at (eps, delta), by its definition."""
    return brentq(lambda mu: norm.cdf(mu / 2 - eps / mu) - np.exp(eps) * norm.cdf(-mu / 2 - eps / mu) - delta, 1e-4, 9)


def zcdp_of(eps, delta):
    """The largest rho whose zCDP gives (eps, delta): Canonne, Kamath & Steinke 2020, Prop. 12."""

    def least(rho):
        order = 1 + np.geomspace(1e-2, 1e6, 20_000)
        return ((order - 1) * (order * rho - eps) + order * np.log1p(-1 / order) - np.log(order - 1)).min()

    return brentq(lambda rho: least(rho) - np.log(delta), 1e-8, 5)


def test_what_it_costs_to_count_a_replaced_row_as_two_steps_is_as_said():
    """A replaced row moves gradients by 2 clips, marginals by root 2, MST's scores by 2; one more moves all by 1."""
    said = " ".join((ROOT / "docs" / "frontier.md").read_text("utf-8").split())
    assert all(numbers in said for numbers in ("0.80 to 0.82", "0.91 to 1", "0.97 to 1"))
    for eps in rows.EPS:
        half = eps / 2, rows.DELTA / (1 + np.exp(eps / 2))
        assert 0.97 < 2 * mu_of(*half) / mu_of(eps, rows.DELTA) <= 1
        mst = np.sqrt((2 * 2 / 3 + 4 / 3) * zcdp_of(*half) / zcdp_of(eps, rows.DELTA))
        assert 0.795 < mst < 0.825


class Domain:
    def __init__(self, attrs, shape):
        self.attrs, self.shape = tuple(attrs), dict(zip(attrs, shape, strict=True))

    def size(self, names):
        return int(np.prod([self.shape[name] for name in names]))


@pytest.fixture
def mst(monkeypatch):
    """The program, with stand-ins for what it imports and dpml has not."""
    pytest.importorskip("cvxpy")
    rows = type("Dataset", (), {"__init__": lambda self, data, _: setattr(self, "data", data)})
    library = SimpleNamespace(MSTSynthesizer=object)
    inner = SimpleNamespace(mst=library)
    modules = {"snsynth": SimpleNamespace(mst=inner), "snsynth.mst": inner, "snsynth.mst.mst": library}
    modules["mbi"] = SimpleNamespace(Dataset=rows, Domain=Domain, LinearMeasurement=SimpleNamespace)
    for name, module in modules.items():
        monkeypatch.setitem(sys.modules, name, module)
    monkeypatch.delitem(sys.modules, "mst", raising=False)
    program = importlib.import_module("mst")
    monkeypatch.delitem(sys.modules, "mst")
    return program


@pytest.mark.slow
@pytest.mark.parametrize("keys", [("a", "b", "c"), ("a", "b", "c", "ba", "ac")])
def test_the_estimate_is_nearest_to_the_noisy_marginals(mst, keys):
    """Against a general solver on all 12 cells of the joint table."""
    rng = np.random.default_rng(0)
    shape, total = (2, 3, 2), 50.0
    parts = {"a": (1, 2), "b": (0, 2), "c": (0, 1), "ba": (2,), "ac": (1,)}  # axes that a marginal sums over
    table = rng.dirichlet(np.full(12, 0.5)).reshape(shape) * total
    measured = {}
    for key in keys:
        true = table.sum(axis=parts[key])
        true = true.T if key == "ba" else true
        width = np.array([5.0, 4.0, 3.0])[: len(true)] if len(key) == 1 else 3.0
        measured[key] = (true + 15 * rng.standard_normal(true.shape), width)

    def distance(cells):
        here = 0.0
        for key, (y, width) in measured.items():
            found = cells.reshape(shape).sum(axis=parts[key])
            here += ((((found.T if key == "ba" else found) - y) / width) ** 2).sum()
        return here

    best = minimize(
        distance, np.full(12, total / 12), method="SLSQP", bounds=[(0, None)] * 12, options={"ftol": 1e-13},
        constraints={"type": "eq", "fun": lambda cells: cells.sum() - total},
    )  # fmt: skip
    noisy = [
        SimpleNamespace(noisy_measurement=y.ravel(), clique=tuple(key), stddev=width)
        for key, (y, width) in measured.items()
    ]
    found = mst.estimate(Domain("abc", shape), noisy, known_total=total)
    for key in keys:
        marginal = best.x.reshape(shape).sum(axis=parts[key])
        assert total * found.shares[tuple(key)] == pytest.approx(marginal.T if key == "ba" else marginal, abs=2e-3)
    if len(keys) == 3:
        counts = np.outer(found.shares[("a",)], found.shares[("b",)]).ravel() * total
        assert found.project(["a", "b"]).datavector() == pytest.approx(counts)


def test_children_of_one_parent_are_independent_given_it_and_have_its_shares(mst):
    joint = np.array([[300.0, 700.0], [750.0, 250.0]])
    shares = {("a",): np.array([0.5, 0.5]), ("b", "a"): joint.T / 2000, ("a", "c"): joint / 2000}
    tree = mst.Tree(Domain("abc", (2, 2, 2)), shares, 2000)
    drawn = tree.rows(2000, np.random.default_rng(0)).data
    for value in (0, 1):
        b, c = (drawn[name][drawn["a"] == value] for name in "bc")
        assert abs(np.corrcoef(b, c)[0, 1]) < 0.15  # 1 without shuffling
        assert abs(b.sum() - joint[value, 1]) <= 1
        assert abs(c.sum() - joint[value, 1]) <= 1
