"""Tests of claims about several data sets, of which some may not count."""

import math
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace

import numpy as np
import pandas as pd

from dpml.reporting.claim_tests import fewest_seeds, together
from dpml.reporting.claims import Check, Evidence, NotComputedError, NothingCountsError, Reading, Test
from dpml.reporting.criteria import MetricScale, scale

Curves = Mapping[str, pd.DataFrame]
"""The runs of one data set by what the algorithms are called."""

Judge = Callable[[Curves, MetricScale, str], Check]
"""The test of a claim on the runs of one data set, with the scale of the metric and the name of the block."""

YES = {True: "yes", False: "no", None: "undecided"}


def on_sets(
    blocks: Sequence[str], algorithms: Mapping[str, str], judge: Judge, extra: str = "", said: str = ""
) -> Test:
    """A test that holds if `judge` does for each block, one per data set.

    A data set is left out if it is not here, if it is a substitute, or if all that is compared is less accurate than
    the constant classifier: chance. The claim is judged if more than half are left; the numbers have the others too.

    Args:
        blocks: one per data set.
        algorithms: by what `judge` calls them.
        judge: of one data set.
        extra: an end of names: blocks with it decide nothing, and their numbers are told too.
        said: what is told of these.
    """
    more = on_sets([f"{block}{extra}" for block in blocks], algorithms, judge) if extra else None

    def test(evidence: Evidence, reading: Reading) -> Check:
        have, on = set(evidence.rows["block"].unique()), scale(reading.metric)
        here = [block for block in blocks if block in have and not evidence.stand_ins([block])]
        if 2 * len(here) <= len(blocks):
            here = list(blocks)  # which says what is missing
        runs = evidence.all_runs(
            {block: [*algorithms.values()] for block in blocks if block in (*here, *have)}, reading
        )
        texts, gone = [], []
        found: dict[str, Check] = {}
        parts: dict[str, tuple[Check, str]] = {}
        for block in blocks:
            curves = {word: runs[block, name].abs() for word, name in algorithms.items() if (block, name) in runs}
            stand_ins = [] if block in here else evidence.stand_ins([block])
            why, words = _why_not(curves, _floor(evidence, block, reading), stand_ins)
            one = judge(curves, on, block) if curves else None
            judged = f"{YES[one.holds]}{words}): {one.numbers}" if one else "not here)"
            texts.append(f"{block.split('_')[0]} ({judged}")
            if one:
                parts[block] = one, why
            if one and not why:
                found[block] = one
            else:
                gone.append(f"{block} ({why})")
        if 2 * len(found) <= len(blocks):
            raise NothingCountsError([f"{len(gone)} of {len(blocks)} data sets do not count: {', '.join(gone)}"])
        on_ = f"{len(found)} of {len(blocks)} data sets" if len(found) < len(blocks) else ""
        seeds = fewest_seeds({key: values for key, values in runs.items() if key[0] in found})
        whole = replace(together([*found.values()]), numbers="; ".join(texts), seeds=seeds, on=on_)
        if more:
            with suppress(NotComputedError):
                also = more(evidence, reading)
                whole = replace(whole, numbers=f"{whole.numbers}; {said}: {YES[also.holds]}, {also.numbers}")
        return replace(whole, substitutes=evidence.stand_ins(found), parts=parts)

    return test


def by_data_set(  # many parameters: the arguments of a test on a card
    block: str,
    names: Mapping[str, str],
    axis: str,
    where: Mapping[str, object],
    algorithms: Mapping[str, str],
    judge: Judge,
) -> Test:
    """`on_sets` on the rows of one block with some settings, of any variant: its data sets are blocks of their own.

    Args:
        block: with several data sets.
        names: what the data sets are called, by their names in rows.
        axis: the column that is x.
        where: the settings; a text is a part of a list in words.
        algorithms: as for `on_sets`.
        judge: as for `on_sets`.
    """
    blocks = [f"{name}_chosen" for name in dict.fromkeys(names.values())]
    whole = on_sets(blocks, algorithms, judge)

    def chosen(evidence: Evidence, variant: str) -> Evidence:
        rows = evidence.where("block", block).rows
        for key, value in where.items():
            if key not in rows:
                raise NotComputedError([f"{block} by {key}"])
            text = rows[key].astype(str).str.contains(str(value), regex=False)
            # what has no such setting belongs to every value of it
            rows = rows[(text if isinstance(value, str) else rows[key] == value) | rows[key].isna()]
        rows = rows.assign(variant=variant, block=rows["dataset"].map(names) + "_chosen", of=rows["block"])
        return replace(evidence, rows=rows, axes=dict.fromkeys(blocks, axis))

    def test(evidence: Evidence, reading: Reading) -> Check:
        key = (block, *where.items(), axis, reading.variant)
        return whole(evidence.kept(key, lambda: chosen(evidence, reading.variant)), reading)

    return test


def _why_not(curves: Curves, floor: float, stand_ins: Sequence[str]) -> tuple[str, str]:
    """Why a data set does not count, and that in the words of its numbers; empty if it does."""
    if not curves:
        return "it is not here", ""
    if all((values.mean() < floor).all() for values in curves.values()):
        words = f", all below the constant classifier ({floor:.3g}), so that it does not count"
        return f"all are below the constant classifier, {floor:.3g}", words
    why = f"on {', '.join(stand_ins)}" if stand_ins else ""
    return why, f", {why}, which does not count" if why else ""


def _floor(evidence: Evidence, block: str, reading: Reading) -> float:
    """The mean accuracy of the constant classifier in a block; -inf for another metric, or if it is not there."""
    runs = evidence.runs(block, "constant", reading) if reading.metric == "accuracy" else pd.DataFrame()
    return -math.inf if runs.empty else float(np.nanmean(runs.to_numpy().ravel()))
