"""The tests that claims of several papers share, what is missing, and readings: made-up rows with known verdicts."""

import math
from dataclasses import replace
from itertools import product

import numpy as np
import pandas as pd
import pytest

from dpml.reporting import claim_exact, claim_tests, claims
from dpml.reporting.claims import Claim, Evidence, Group, NotComputedError, Reading
from dpml.reporting.criteria import Comparison

READING = Reading("true", "paper", "loss")
OTHER = Reading("plotted", "authors", "noisy_objective")
EPS = [0.1, 1.0, 10.0]
NO_POINTS = pd.DataFrame(columns=["series", "x", "algo", "metric", "mean", "std", "n"])


def evidence(curves, reading=READING, shape=(5, 4), block="d20_eps", points=NO_POINTS, seeds_apart=0.0, noise=0.01):
    """Rows whose means are `curves` (algorithm -> one per eps), up to `noise`; seeds differ by `seeds_apart`."""
    rng = np.random.default_rng(1)
    hard = seeds_apart * rng.standard_normal(shape[0])
    lines = [
        {"block": block, "algo": algo, "variant": reading.variant, "metric": reading.metric, "eps": eps, "seed": seed,
         "draw": draw, "value": mean * (1 + hard[seed] + noise * rng.standard_normal())}
        for algo, means in curves.items() for eps, mean in zip(EPS, means, strict=True)
        for seed in range(shape[0]) for draw in range(shape[1])
    ]  # fmt: skip
    return Evidence(pd.DataFrame(lines), points, {block: "eps"})


def made(test, *arguments, **options):
    return lambda asked: test(asked, *arguments, **options)


FALLS = made(claim_tests.improves, ["d20_eps"], ["capefm"])


def judge(test, found, readings=(READING,)):
    return Claim("X", "x/x", "text", "criterion", test, readings).judge(found)


def decide(test, found, readings=(READING,)):
    return judge(test, found, readings).decision


def outcome(holds):
    return [Group("b", "x", "y", {"": Comparison(holds, slack=0.0)})]


def joined(*several):
    return Evidence(
        pd.concat([one.rows for one in several]), NO_POINTS, {k: x for e in several for k, x in e.axes.items()}
    )


@pytest.mark.parametrize(
    ("means", "decision"),
    [
        ([3, 2, 1], "reproduced"),
        ([1, 2, 3], "not reproduced"),
        ([3, 1, 2], "not reproduced"),
        ([2, 2, 2], "not reproduced"),
    ],
)
@pytest.mark.parametrize("shape", [(1, 8), (5, 4)])
def test_improves(means, decision, shape):
    found = evidence(dict.fromkeys(("capefm", "conv"), means), shape=shape)
    assert decide(made(claim_tests.improves, ["d20_eps"], ("capefm", "conv")), found) == decision


@pytest.mark.parametrize(
    ("other", "decision"),
    [
        ([3, 3, 3], "reproduced"),
        ([2, 3, 3], "reproduced"),
        ([2, 2, 3], "not reproduced"),
        ([1, 3, 3], "not reproduced"),
    ],
)
@pytest.mark.parametrize("shape", [(1, 8), (5, 4)])
def test_beats(other, decision, shape):
    found = evidence({"capefm": [2, 2, 2], "conv": other}, shape=shape)
    assert decide(made(claim_tests.compare, ["d20_eps"], "capefm", ["conv"], often="most"), found) == decision


def test_a_difference_is_seen_through_what_all_runs_of_a_seed_have_in_common():
    found = evidence({"capefm": [2, 2, 2], "conv": [2.3, 2.3, 2.3]}, seeds_apart=0.5)
    assert decide(made(claim_tests.compare, ["d20_eps"], "capefm", ["conv"], often="most"), found) == "reproduced"
    falling = evidence({"capefm": [2.3, 2.15, 2]}, seeds_apart=0.5)
    assert decide(FALLS, falling) == "reproduced"


def test_what_few_seeds_cannot_show_is_undecided_and_the_seeds_that_would_are_named():
    few, many = (evidence({"capefm": [2, 2, 1.75]}, noise=0.4, shape=(seeds, 1)) for seeds in (6, 400))
    verdict = judge(FALLS, few)
    assert verdict.decision == "undecided with these seeds"
    assert verdict.readings[0]["groups"] == [["d20_eps", "capefm", "capefm", "is undecided", ""]]
    assert judge(FALLS, many).decision == "reproduced"
    # as many seeds without a difference rule out one that matters
    flat_ = evidence({"capefm": [2, 2, 2]}, noise=0.5, shape=(400, 1))
    assert judge(FALLS, flat_).decision == "not reproduced"
    rivals = evidence({"capefm": [2, 2, 2], "conv": [2.4, 2.4, 2.4]}, noise=0.5, shape=(4, 1))
    verdict = judge(made(claim_tests.compare, ["d20_eps"], "capefm", ["conv"], often="most"), rivals)
    assert verdict.decision == "undecided with these seeds"


def test_what_is_undecided_is_decided_where_it_cannot_matter():
    """Where all ways of deciding it give the same: tried for all parts of up to four comparisons."""
    tests = {"all": all, "some": any, "most": lambda parts: 2 * sum(parts) > len(parts)}
    for parts in (parts for number in range(1, 5) for parts in product((True, False, None), repeat=number)):
        ways = list(product(*((part,) if part is not None else (True, False) for part in parts)))
        shown = {number: Comparison(holds) for number, holds in enumerate(parts)}
        for often, test in tests.items():
            outcomes = {test(way) for way in ways}
            expected = outcomes.pop() if len(outcomes) == 1 else None
            assert Group("b", "x", "y", shown, often).holds is expected, (parts, often)
            groups = [Group("b", "x", "y", {"": one}) for one in shown.values()]
            assert often != "all" or claims.holds(groups) is expected


def test_a_reading_that_is_undecided_neither_hides_nor_makes_a_dependence():
    checks = {"a": True, "b": False, "c": None}

    def decision(*names):
        readings = [Reading(name, "paper", "loss") for name in names]

        return judge(lambda asked: outcome(checks[asked.reading.name]), evidence({"capefm": [1, 1, 1]}), readings)

    assert decision("a", "c").decision == decision("b", "c").decision == "undecided with these seeds"
    assert decision("a", "b", "c").decision == "depends on an unstated choice"
    assert decision("a", "b", "c").readings[2]["groups"] == [["b", "x", "y", "is undecided", ""]]


def test_what_decides_is_the_nearest_to_the_limit_of_those_that_turned_out_alike():
    shown = {
        "far": Comparison(True, slack=2.0),
        "near": Comparison(True, slack=0.1),
        "no": Comparison(False, slack=-1.0),
        "further": Comparison(False, slack=-2.0),
        "unknown": Comparison(False),
    }
    found = evidence({"capefm": [1, 1, 1]})
    for often, x in (("some", "near"), ("all", "further")):
        assert judge(lambda _: [Group("b", "x", "y", shown, often)], found).deciding["x"] == x  # noqa: B023


def missing(*names):
    def test(*_):
        raise NotComputedError(names)

    return test


def test_half_a_test_is_none_and_everything_missing_is_named():
    yes = lambda *_: outcome(True)  # noqa: E731
    found = evidence({"capefm": [1, 1, 1]})
    for parts in ((yes, missing("a", "b")), (missing("a"), missing("b", "a"))):
        test = made(claim_tests.all_of, parts)
        verdict = judge(test, found)
        assert verdict.decision == "cannot be tested here"
        assert verdict.readings[0]["lacks"] == ["not computed: a; b"]


def test_what_is_missing_is_named():
    found = evidence({"capefm": [1, 1, 1], "conv": [2, 2, 2]})
    rows = found.rows
    beats = made(claim_tests.compare, ["d20_eps", "d50_eps"], "capefm", ["conv", "dpfm"])
    falls = made(claim_tests.improves, ["d20_eps"], ["capefm", "conv"])
    for test, less, lacks in (
        (beats, rows, "dpfm in d20_eps; d50_eps"),
        (falls, rows[(rows["algo"] != "conv") | (rows["eps"] < 10)], "conv in d20_eps at eps = 10"),
        (falls, rows[(rows["algo"] != "conv") | (rows["seed"] + rows["draw"] == 0)], "a second run of conv in d20_eps"),
        (falls, rows[rows["eps"] == 1], "a second x of d20_eps"),
    ):
        verdict = judge(test, replace(found, rows=less))
        assert verdict.decision == "cannot be tested here"
        assert verdict.readings[0]["lacks"] == [f"not computed: {lacks}"]


def test_settings_are_never_averaged():
    found = evidence({"capefm": [3, 2, 1]})
    rows = pd.concat([found.rows.assign(**{"algo.lam": lam}, value=found.rows["value"] + lam) for lam in (0, 1)])
    verdict = judge(FALLS, Evidence(rows, NO_POINTS, found.axes))
    assert verdict.readings[0]["lacks"] == ["not computed: capefm in d20_eps with one value of algo.lam"]
    twice = Evidence(pd.concat([found.rows, found.rows]), NO_POINTS, found.axes)
    assert judge(FALLS, twice) == judge(FALLS, found)


def test_a_block_runs_over_the_x_of_its_panel():
    """A panel over 1/eps shows runs over eps."""
    found = evidence({"capefm": [3, 2, 1]}).under(READING)
    inverse = replace(found, axes={"d20_eps": "inverse_eps"})
    assert inverse.runs("d20_eps", "capefm").equals(found.runs("d20_eps", "capefm"))
    rows = found.rows.rename(columns={"eps": "partition.u"}).assign(eps=1.0)
    found = Evidence(rows, NO_POINTS, {"d20_eps": "partition.u"})
    assert found.under(READING).runs("d20_eps", "capefm").columns.name == "partition.u"


def test_a_block_without_a_panel_runs_over_what_varies_in_it():
    rows = evidence({"capefm": [3, 2, 1]}).rows.assign(N=10, M=2)
    assert Evidence(rows, NO_POINTS).axis("d20_eps") == "eps"
    both = rows.assign(N=rows["eps"] * 10)
    for table in (both, rows.assign(eps=1.0)):
        with pytest.raises(NotComputedError, match="d20_eps along one axis"):
            Evidence(table, NO_POINTS).axis("d20_eps")


def test_readings_that_disagree_are_the_verdict_whatever_was_not_computed():
    falls, rises = evidence({"capefm": [3, 2, 1]}, OTHER, noise=1e-4), evidence({"capefm": [1, 2, 3]})
    third = Reading("third", "third", "loss")
    verdict = judge(FALLS, joined(falls, rises), (OTHER, READING, third))
    assert verdict.decision == "depends on an unstated choice"
    assert [one["outcome"] for one in verdict.readings] == ["holds", "does not hold", "cannot be tested here"]
    assert [one["lacks"] for one in verdict.readings] == [[], [], ["not computed: d20_eps"]]
    alone = judge(FALLS, falls, (OTHER, READING))
    assert alone.decision == "cannot be tested here"


def test_seeds_are_counted_where_there_are_fewest():
    found = evidence({"capefm": [3, 2, 1]})
    cut = replace(found, rows=found.rows[(found.rows["eps"] < 10) | (found.rows["seed"] < 2)])
    assert [judge(FALLS, one).seeds for one in (found, cut)] == [5, 2]


def test_runs_are_compared_in_size():
    found = evidence({"capefm": [-3, 2, -1]})
    assert decide(FALLS, found) == "reproduced"


def test_every_combination_of_several_settings_is_looked_at():
    falls, rises = evidence({"capefm": [3, 2, 1]}).rows, evidence({"capefm": [1, 2, 3]}).rows
    parts = [(falls, 1, 0.1), (falls, 1, 0.2), (rises, 2, 0.1), (falls, 2, 0.2)]
    found = Evidence(pd.concat([rows.assign(k=k, s=s) for rows, k, s in parts]), NO_POINTS, {"d20_eps": "eps"})

    def decision(each):
        return decide(made(claim_tests.improves, ["d20_eps"], ["capefm"], each), found)

    assert decision({"k": [1], "s": [0.1, 0.2]}) == decision({"k": [1, 2], "s": [0.2]}) == "reproduced"
    assert decision({"k": [1, 2], "s": [0.1, 0.2]}) == decision({"s": [0.1, 0.2], "k": [1, 2]}) == "not reproduced"
    for each in ({"k": [3], "s": [0.1]}, {"k": []}, {"unheard": [1]}):
        assert decision(each) == "cannot be tested here"
        equal = made(claim_tests.compare, ["d20_eps"], "capefm", "capefm", "equal", each=each)
        assert decide(equal, found) == "cannot be tested here"


@pytest.mark.parametrize(
    ("by", "means"),
    [
        ("better", {0.5: True, 1.5: False, 3.0: False}),
        ("not better", {0.5: False, 1.5: True, 3.0: True}),
        ("equal", {0.4: False, 1.5: True, 3.0: False}),
        ("as good as", {0.4: True, 1.5: True, 3.0: False}),
    ],
)
def test_the_four_words_of_a_comparison(by, means):
    for mean, holds in means.items():
        found = evidence({"capefm": [9, mean, 9], "conv": [1, 1, 1]}, noise=1e-4)
        test = made(claim_tests.compare, ["d20_eps"], "capefm", "conv", by, x=1.0)
        assert decide(test, found) == ("reproduced" if holds else "not reproduced"), (by, mean)


@pytest.mark.parametrize(("constant", "decision"), [(0.01, "not reproduced"), (10.0, "reproduced")])
def test_a_loss_below_a_hundredth_of_the_constant_models_counts_as_zero(constant, decision):
    found = evidence({"capefm": [1, 1e-3, 1e-3], "conv": [1, 1e-9, 1e-9], "constant": [constant] * 3}, noise=1e-4)
    assert decide(made(claim_tests.compare, ["d20_eps"], "capefm", "conv", "equal"), found) == decision
    none = evidence({"capefm": [1, 1e-3, 1e-3], "conv": [1, 1e-9, 1e-9]}, noise=1e-4)
    assert decide(made(claim_tests.compare, ["d20_eps"], "capefm", "conv", "equal"), none) == "not reproduced"


def test_places_of_a_comparison():
    found = evidence({"capefm": [3, 2, 1], "conv": [2, 2.5, 2]}, noise=1e-4)

    def decision(*given, **options):
        return decide(made(claim_tests.compare, ["d20_eps"], *given, **options), found)

    assert decision([["capefm", 10.0]], [["conv", 0.1]]) == "reproduced"
    assert decision("capefm", [2.4], x=[1.0, 10.0]) == "reproduced"
    assert decision("capefm", [2.4]) == decision("capefm", "conv") == "not reproduced"
    assert decision("capefm", "conv", often="any") == "reproduced"
    assert decision("capefm", "conv", often="some") == "not reproduced"  # it is worse at the first
    assert decision("capefm", [2.4], x=[1.0, 20.0]) == "cannot be tested here"
    first, previous, last = ([["same", x]] for x in ("first", "previous", "last"))
    best = [["capefm", "best"]]  # of all but the last
    assert decision("capefm", previous) == decision(best, first) == decision("conv", first, by="equal") == "reproduced"
    assert (
        decision("conv", previous) == decision(best, last) == decision("capefm", first, by="equal") == "not reproduced"
    )
    assert decision([["conv minus capefm", "last"]], [["same", 1.0]], by="worse") == "reproduced"  # 1 and 0.5
    both = made(claim_tests.compare, {"easy_eps": "d20_eps"}, "capefm", "same")
    easy = evidence({"capefm": [2, 1.5, 0.5]}, block="easy_eps", noise=1e-4)
    assert (decide(both, joined(found, easy)), decide(both, easy)) == ("reproduced", "cannot be tested here")


def test_a_published_point_without_a_deviation_is_not_explained_by_chance():
    for std, n in ((math.nan, 10), (0.1, math.nan), (-1000.0, 10)):
        points = pd.DataFrame([["s", eps, "capefm", "loss", 20.0, std, n] for eps in EPS], columns=NO_POINTS.columns)
        found = evidence({"capefm": [2, 2, 2]}, points=points)
        assert decide(made(claim_tests.agrees, {"d20_eps": "s"}, ["capefm"]), found) == "not reproduced"


COMPUTED = [
    ("x", 1.0, "mine", "s", 2.0),
    ("y", 1.0, "mine", "s", 1.0),
    ("x", 2.0, "mine", "s", 2.0),
    ("y", 2.0, "mine", "s", 1.5),
    ("y", 1.0, "stated", "s", 2.0),
    ("y", 1.0, "stated", "of another reading", 2.0),
]


@pytest.mark.parametrize(
    ("more", "larger", "stated"),
    [
        ([], True, False),
        ([("y", 3.0, "mine", "t", math.nan), ("x", 3.0, "mine", "t", 2.0)], None, None),
        ([("y", 3.0, "mine", "t", 1.0)], None, None),
        ([("x", 2.0, "mine", "s", 0.1)], None, False),
        ([("x", 1.0, "mine", "s", 2.0)], True, False),
    ],
)
def test_computed_rows_that_are_missing_or_several_are_not_judged(more, larger, stated) -> None:
    keys = ["algo", "eps", "reading", "setting", "value"]
    rows = pd.DataFrame([*COMPUTED, *more], columns=keys).assign(metric="m", block="b")
    found = Evidence(rows, NO_POINTS, {"b": "eps"})
    words = {True: "reproduced", False: "not reproduced", None: "cannot be tested here"}
    readings = [Reading("mine", "paper", "m")]
    assert decide(made(claim_exact.exceeds, ["b"], "x", "y", "mine"), found, readings) == words[larger]
    alone = replace(found, rows=rows[rows["algo"] == "y"].drop_duplicates(["setting", "reading"], keep="first"))
    assert decide(made(claim_exact.as_stated, "m"), alone, readings) == words[stated]
