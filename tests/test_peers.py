"""What the programs of others share (scripts/peers/rows.py): sets that were measured are not measured again.

And what MST's program (scripts/peers/mst.py) makes of noisy marginals; the packages that it needs are stood in for.
"""

import sys
from pathlib import Path
from types import ModuleType, SimpleNamespace

import numpy as np
import pandas as pd
import pytest
from scipy.optimize import minimize

from dpml.data.preprocess import fit_apply
from dpml.reporting.manifest import Manifest
from dpml.reporting.ranking import beside

ROOT = Path(__file__).parents[1]
sys.path[:0] = [str(ROOT / "scripts" / "peers"), str(ROOT / "scripts")]
rows, peers = pytest.importorskip("rows"), pytest.importorskip("peers")
HELDOUT = ROOT / "results" / "frontier" / "heldout.json"
POINTS = ROOT / "experiments" / "frontier" / "peers.csv"


def one_row(name, seed, data):
    return [(name, 1.0, seed, 0, "theirs", "rmse", float(data.y.sum()))]


@pytest.fixture
def work(tmp_path, monkeypatch):
    """A folder with two data sets, and a program whose rows go to all.csv."""
    (tmp_path / "data").mkdir()
    for name in ("a", "b"):
        for seed in rows.SEEDS:
            X, y = np.ones((3, 2)), np.full(3, 0.1 * seed)
            np.savez(tmp_path / "data" / f"{name}_{seed}.npz", X=X, y=y, X_test=X, y_test=y)
    (tmp_path / "program.py").write_text("first")
    monkeypatch.setattr(sys, "argv", [str(tmp_path / "program.py"), str(tmp_path / "data"), str(tmp_path / "all.csv")])
    return tmp_path


def test_a_run_that_was_cut_off_goes_on_with_the_rows_it_has(work):
    def cut_off(name, seed, data):
        if name == "b":
            raise KeyboardInterrupt
        return one_row(name, seed, data)

    asked = []

    def counted(name, seed, data):
        asked.append(name)
        return one_row(name, seed, data)

    with pytest.raises(KeyboardInterrupt):
        rows.set_by_set(work / "data", cut_off)
    found = rows.set_by_set(work / "data", counted)
    assert set(asked) == {"b"}
    wanted = [(name, seed, rows.load(work / "data", name, seed)) for name in "ab" for seed in rows.SEEDS]
    assert found == [row for each in wanted for row in one_row(*each)]


@pytest.mark.parametrize("change", ["program", "data"])
def test_another_program_and_other_data_are_measured_anew(work, change):
    rows.set_by_set(work / "data", one_row)
    if change == "program":
        (work / "program.py").write_text("second")
    else:
        X, y = np.ones((3, 2)), np.full(3, 7.0)
        np.savez(work / "data" / "a_0.npz", X=X, y=y, X_test=X, y_test=y)
    asked = []

    def counted(name, seed, data):
        asked.append(name)
        return one_row(name, seed, data)

    rows.set_by_set(work / "data", counted)
    assert set(asked) == ({"a", "b"} if change == "program" else {"a"})


@pytest.mark.skipif(not HELDOUT.is_file(), reason="an sdist has no results")
def test_what_the_page_of_heldout_says_of_programs_of_others_is_so():
    about = Manifest(HELDOUT).read()
    assert (
        "diffprivlib, DP-EBM and MST on every panel at every ε, and than those of DP-SGD and Opacus on most"
        in about["note"]
    )
    table = beside(about["rankings"], "wdgd")["rows"]
    shares = {program: [[int(part) for part in cell.split(" of ")] for cell in cells] for program, *cells in table}
    assert all(
        won == panels == 14 for name in ("diffprivlib (pure ε)", "DP-EBM", "MST") for won, panels in shares[name]
    )
    assert all(panels == 9 and won > panels / 2 for name in ("DP-SGD", "Opacus") for won, panels in shares[name])
    assert {len(cells) for cells in shares.values()} == {5}


def test_mst_has_a_point_on_every_data_set_at_every_eps():
    points = pd.read_csv(POINTS, comment="#")
    found = points[points["algo"] == "MST"]
    metrics = found.groupby("series")["metric"].agg(lambda each: tuple(sorted(set(each))))
    assert set(metrics.index) == set(peers.DATA)
    assert set(metrics) == {("accuracy", "auc"), ("rmse",)}
    for _, one in found.groupby(["series", "metric"]):
        assert one["x"].tolist() == list(rows.EPS)
    large = found["series"].isin(["adult", "bank", "caravan", "crime", "diamonds", "kddcup99_70k"])
    assert set(found.loc[large, "n"]) == {len(rows.SEEDS)}
    assert set(found.loc[~large, "n"]) == {len(rows.SEEDS) * rows.DRAWS}


# ---- MST


class Domain:
    """As mbi's: names and numbers of values."""

    def __init__(self, attrs, shape):
        self.attrs, self.shape = list(attrs), dict(zip(attrs, shape, strict=True))

    def size(self, names):
        return int(np.prod([self.shape[name] for name in names]))


class Synthesizer:
    """As the library's: of a column's noisy counts, those below 3 widths are merged, and their sum divided."""

    def compress_domain(self, data, measurements):
        found = []
        for each in measurements:
            y = each.noisy_measurement
            kept = y >= 3 * each.stddev
            if not kept.all():
                merged = np.append(y[kept], y[~kept].sum() / np.sqrt(y.size - kept.sum() + 1))
                each = SimpleNamespace(noisy_measurement=merged, clique=each.clique, stddev=each.stddev)
            found.append(each)
        return data, found, None


@pytest.fixture
def mst(monkeypatch):
    """The program, with stand-ins for what it imports and dpml has not."""
    modules = {
        "numba": {"njit": lambda **_: lambda function: function},
        "mbi": {
            "Dataset": type("Dataset", (), {"__init__": lambda self, data, _: setattr(self, "data", data)}),
            "Domain": Domain,
            "LinearMeasurement": lambda y, clique, width: SimpleNamespace(
                noisy_measurement=y, clique=clique, stddev=width
            ),
        },
        "snsynth": {},
        "snsynth.mst": {},
        "snsynth.mst.mst": {"MSTSynthesizer": Synthesizer},
        "sklearn.linear_model": {"LogisticRegression": None, "Ridge": None},
    }
    for name, content in modules.items():
        module = ModuleType(name)
        module.__dict__.update(content)
        monkeypatch.setitem(sys.modules, name, module)
    monkeypatch.setattr(sys.modules["snsynth"], "mst", sys.modules["snsynth.mst"], raising=False)
    monkeypatch.setattr(sys.modules["snsynth.mst"], "mst", sys.modules["snsynth.mst.mst"], raising=False)
    monkeypatch.delitem(sys.modules, "mst", raising=False)
    program = pytest.importorskip("mst")
    monkeypatch.delitem(sys.modules, "mst")
    return program


def test_the_estimate_of_a_tree_is_nearest_to_the_noisy_marginals(mst):
    """Against a general solver on all 12 cells of the joint table."""
    rng = np.random.default_rng(0)
    shape, total = (2, 3, 2), 50.0
    parts = {"a": (1, 2), "b": (0, 2), "c": (0, 1), "ba": (2,), "ac": (1,)}  # axes that a marginal sums over
    table = rng.dirichlet(np.full(12, 0.5)).reshape(shape) * total
    measured = {}
    for key, axes in parts.items():
        true = table.sum(axis=axes)
        true = true.T if key == "ba" else true
        measured[key] = (true + 4 * rng.standard_normal(true.shape), 3.0 if len(key) == 2 else 5.0)

    def distance(cells):
        here = 0.0
        for key, (y, width) in measured.items():
            found = cells.reshape(shape).sum(axis=parts[key])
            here += (((found.T if key == "ba" else found) - y) ** 2).sum() / width**2
        return here

    best = minimize(
        distance, np.full(12, total / 12), method="SLSQP", bounds=[(0, None)] * 12, options={"ftol": 1e-12},
        constraints={"type": "eq", "fun": lambda cells: cells.sum() - total},
    )  # fmt: skip
    nearest = best.x.reshape(shape)
    found = mst.estimate(
        Domain("abc", shape),
        [SimpleNamespace(noisy_measurement=y.ravel(), clique=tuple(key), stddev=w) for key, (y, w) in measured.items()],
        known_total=total,
        iters=3000,
    )
    assert found.edges == [("a", "b"), ("a", "c")]
    assert found.joint[0] == pytest.approx(nearest.sum(axis=2), abs=2e-3)
    assert found.joint[1] == pytest.approx(nearest.sum(axis=1), abs=2e-3)


def test_the_estimate_of_single_columns_is_the_nearest_of_at_least_zero(mst):
    y, width = np.array([9.0, -3.0, 4.0, 1.0]), np.array([1.0, 1.0, 1.0, 2.0])
    found = mst.nearest(y, width, 8.0)
    best = minimize(
        lambda counts: (((counts - y) / width) ** 2).sum(), np.full(4, 2.0), method="SLSQP", bounds=[(0, None)] * 4,
        constraints={"type": "eq", "fun": lambda counts: counts.sum() - 8}, options={"ftol": 1e-14},
    )  # fmt: skip
    assert found == pytest.approx(best.x, abs=1e-4)
    assert found.min() == 0


def test_children_of_one_parent_are_independent_given_it_and_have_its_shares(mst):
    joint = np.array([[300.0, 700.0], [750.0, 250.0]])
    tree = mst.Tree(Domain("abc", (2, 2, 2)), [("a", "b"), ("a", "c")], [joint, joint])
    drawn = tree.rows(2000, np.random.default_rng(0)).data
    for value in (0, 1):
        b, c = (drawn[name][drawn["a"] == value] for name in "bc")
        assert abs(np.corrcoef(b, c)[0, 1]) < 0.15  # 1 without shuffling
        assert abs(b.sum() - joint[value, 1]) <= 1
        assert abs(c.sum() - joint[value, 1]) <= 1


def test_merged_counts_of_rare_values_are_in_their_own_unit(mst):
    y = np.array([100.0, 4.0, 90.0, 2.0, 3.0])
    noisy = SimpleNamespace(noisy_measurement=y, clique=("a",), stddev=3.0)
    whole = SimpleNamespace(noisy_measurement=y + 50, clique=("b",), stddev=3.0)
    _, found, _ = mst.MST().compress_domain(None, [noisy, whole])
    assert found[0].noisy_measurement == pytest.approx([100, 90, 9])
    assert found[0].stddev == pytest.approx([3, 3, 3 * np.sqrt(4)])
    assert found[1] is whole


@pytest.mark.parametrize("bias", [False, True])
def test_synthetic_rows_get_the_steps_that_ours_get(mst, bias):
    rng = np.random.default_rng(1)
    plain = np.column_stack([rng.normal(size=40), rng.integers(3, size=40), rng.integers(5, size=40), np.full(40, 2.0)])
    steps = ["one_hot", "symmetric", *(["bias"] if bias else []), "sample_norm"]
    X, _, _ = fit_apply(steps, plain, plain[:3], (0, 3, 0, 0))
    data = rows.Data(X, np.ones(40), X[:3], np.ones(3), plain, plain[:3], np.array([0, 3, 0, 0]))
    assert mst.Steps("one", data).features(plain) == pytest.approx(X, abs=1e-9)


def test_numbers_become_middles_of_bins_and_few_whole_ones_stay(mst):
    codes, values = mst.coded(np.array([0.0, 0.9, 2.5, 4.0]), 0, 4)
    assert codes.tolist() == [0, 0, 2, 3]
    assert values.tolist() == [0.5, 1.5, 2.5, 3.5]
    codes, values = mst.coded(np.array([3.0, 5.0, 3.0]), 0, 4)
    assert values[codes].tolist() == [3, 5, 3]
    assert len(values) == 3
    codes, values = mst.coded(np.array([1.0, 0.0]), 3, 4)
    assert (codes.tolist(), values.tolist()) == ([1, 0], [0, 1, 2])
    assert mst.coded(np.array([2.5, 2.5]), 0, 4)[1].tolist() == [2.5]
