"""How unequal a partition is: the numbers, the picture, and the command that shows both."""

import numpy as np
import pytest
from test_partition import classed, dealt

from dpml.algorithms.descent.noisy_descent import NoisyDescent
from dpml.data.partition import Classes, Dirichlet, Equal, Shards, Skew, distances, named_classes
from dpml.data.sets.wdbc import WDBC
from dpml.optim.losses import LOSSES
from dpml.privacy import Budget
from dpml.running.cell import Cell, deal, measure
from dpml.running.rows import joined, tabulate


def skew_of(rule, counts=(400, 600), M=10) -> Skew:
    return Skew.of(dealt(classed(*counts), rule, M), np.random.default_rng(1))


def test_distances_by_hand() -> None:
    """Of 8 rows 4 have class 0: shares 1, 1/2 and 1/4 are 1/2, 0 and 1/4 away."""
    assert distances(np.array([[2, 0], [1, 1], [1, 3]])) == pytest.approx([0.5, 0.0, 0.25])
    three = distances(np.array([[3, 0, 0], [0, 3, 0], [0, 0, 3]]))
    assert three == pytest.approx(np.full(3, 2 / 3))


def test_counts_are_those_of_the_parties_and_chance_has_the_same_margins() -> None:
    skew = skew_of(Dirichlet(alpha=0.3), (300, 200, 500), 12)
    assert list(skew.counts.sum(axis=0)) == list(skew.chance.sum(axis=0)) == [300, 200, 500]
    assert np.array_equal(skew.sizes, skew.chance.sum(axis=1))
    assert distances(skew.counts).mean() > 3 * distances(skew.chance).mean()
    assert list(distances(skew_of(Classes(k=1), (500, 500)).counts)) == [0.5] * 10


def test_a_random_deal_is_as_far_as_chance() -> None:
    """Means of 200 parties of 50 rows; their s.d. is 0.05: false-alarm rate below 1e-4, seeded."""
    skew = skew_of(Equal(), (4000, 6000), 200)
    assert abs(distances(skew.counts).mean() - distances(skew.chance).mean()) < 4 * 0.05 * np.sqrt(2 / 200)


def test_real_targets_have_fifths() -> None:
    y = np.random.default_rng(0).permutation(100) / 50 - 1
    classes, names = named_classes(y, "regression")
    assert list(np.bincount(classes)) == [20] * 5
    assert names[0].startswith("-1 to ")
    assert [y[classes == c].max() < y[classes == c + 1].min() for c in range(4)] == [True] * 4
    tied, names = named_classes(np.repeat([0.0, 1.0], [90, 10]), "regression")
    assert list(np.bincount(tied)) == [90, 10]
    assert len(names) == 2
    assert named_classes(np.array([1.0, -1.0]), "binary")[1] == ["-1", "+1"]


WORDS = ("data", "partition", "dataset=wdbc", "partition=dirichlet", "M=8", "seed=3")


@pytest.mark.usefixtures("sketched")
def test_the_command_shows_what_a_run_deals(run_command) -> None:
    outcome = run_command("dpml", *WORDS, "--figure", "picture.png", "partition.alpha=0.3")
    assert outcome.code == 0, outcome.err
    rule, algorithm = Dirichlet(auxiliary=0.0, alpha=0.3), NoisyDescent(LOSSES["logistic"], sites="clients")
    sizes = deal(Cell(WDBC(), rule, algorithm, 8, None, 3, (Budget(1.0, 1e-5),), 1)).sizes
    line = next(line for line in outcome.out.splitlines() if line.strip().startswith("rows"))
    assert [float(word) for word in line.split()[1:]] == pytest.approx(
        [sizes.min(), np.median(sizes), sizes.mean(), sizes.max()], rel=1e-3
    )
    assert outcome.out.rstrip().endswith("do not publish it.")
    assert outcome.err.split() == ["picture.png", "picture.svg"]


def test_the_command_counts_rows_that_nobody_has(run_command) -> None:
    words = ("dataset=wdbc", "partition=per_party", "partition.n=20", "partition.auxiliary=0.1", "M=10")
    told = " ".join(run_command("dpml", "data", "partition", *words).out.split())
    assert "200 rows, M=10 parties, 2 classes, 46 auxiliary rows, 209 unused rows" in told
    asked = run_command("dpml", "data", "partition", "dataset=wdbc", "algo=soft")  # it asks for a tenth
    assert "409 rows, M=5 parties, 2 classes, 46 auxiliary rows;" in " ".join(asked.out.split())
    regression = run_command("dpml", "data", "partition", "dataset=synthetic", "partition=shards", "M=5")
    assert "5 intervals of the target" in " ".join(regression.out.split())


@pytest.mark.parametrize("rule", [Dirichlet(auxiliary=0.0, alpha=0.3), Shards(auxiliary=0.0), Classes(auxiliary=0.0)])
def test_guarantees_count_the_parties_as_dealt(rule) -> None:
    """Published noise of `wddp` protects small clients less: rows and guarantees have the eps of the real sizes."""
    budget = Budget(1.0, 1e-5)
    algorithm = NoisyDescent(LOSSES["logistic"], sites="clients", rounds=3)
    cell = Cell(WDBC(), rule, algorithm, 8, None, 3, (budget,), 2)
    measured = measure(cell)
    parties = deal(cell)
    assert measured.problem == parties.problem
    assert measured.problem.smallest == min(measured.sizes) == parties.sizes.min()
    assert list(measured.guarantees[0]) == algorithm.guarantees(budget, parties.problem)
    rows, _ = joined([tabulate(cell, measured)])
    proven = max(g.eps for g in algorithm.guarantees(budget, parties.problem) if g.basis == "proven")
    assert rows["proven_eps"].unique() == pytest.approx([proven], rel=1e-12)
    assert cell.problem.smallest == 455 // 8  # not known before the labels are read
    if isinstance(rule, Dirichlet):
        equal = max(g.eps for g in algorithm.guarantees(budget, cell.problem) if g.basis == "proven")
        assert proven > 1.01 * equal
