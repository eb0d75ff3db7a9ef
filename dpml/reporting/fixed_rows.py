"""What seeds do not vary in a claim's rows, and whether its verdict is the same with other test rows.

A data set with an official split has one test file. However many seeds there are, an interval over them is about this
file; where all training rows are in use, about these, too. Claims on accuracies are therefore judged a second time,
with the sampling of the file's rows in every interval. Its size there is an upper bound, so it takes no verdict back:
what it changes is told.
"""

from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from functools import cached_property
from typing import Any

import pandas as pd

from dpml.reporting.claims import IN_WORDS, Check, Claim, Evidence, Verdict, effect_of
from dpml.reporting.criteria import TEST_FILE
from dpml.reporting.replicates import official, same_rows, varied

_SHARES = ("accuracy", "error")  # of the rows of a test file


@dataclass(frozen=True, eq=False)
class OtherTestRows(Evidence):
    """Evidence whose accuracies are marked with their test file, if every seed has the same: effects count its rows."""

    @classmethod
    def of(cls, evidence: Evidence) -> "OtherTestRows":
        return cls(**{field.name: getattr(evidence, field.name) for field in fields(evidence) if field.init})

    @cached_property
    def has_files(self) -> bool:
        """Whether some data set has an official test file."""
        return any(official(str(name)) for names in self.datasets.values() for name in names)

    @cached_property
    def same_rows(self) -> pd.DataFrame:
        """The rows of data sets of which every seed has the same rows."""
        return self.rows[same_rows(self.rows)]

    def _runs(self, block: str, algorithm: str, places: Any) -> pd.DataFrame:
        found = super()._runs(block, algorithm, places)
        marked = "dataset" in self.rows and self.rows["metric"].iat[places[0]] in _SHARES
        names = self.rows["dataset"].iloc[places].unique() if marked else []
        if len(names) == 1 and (split := official(str(names[0]))):
            found.attrs[TEST_FILE] = str(names[0]), split[1]
        return found


def with_rows(claim: Claim, verdict: Verdict, evidence: OtherTestRows) -> Verdict:
    """A verdict with what its seeds do not vary, in words; none of a claim of which no reading could be tested."""
    checks = verdict.checks
    told = [*_same_rows(claim, evidence), *_same_file(claim, checks, evidence)] if checks else []
    return replace(verdict, rows="; ".join(told))


def _same_rows(claim: Claim, evidence: OtherTestRows) -> list[str]:
    same = evidence.same_rows
    own = same[same["metric"].isin({reading.metric for reading in claim.readings})]
    if own.empty:
        return []
    what = "the noise and who holds which row" if (varied(own) == "parties").any() else "the noise"
    names = ", ".join(own["dataset"].unique())
    return [f"every seed has the same rows of {names}, so that intervals there are over {what}"]


def _same_file(claim: Claim, checks: Mapping[str, Check], evidence: OtherTestRows) -> list[str]:
    # a reading may leave its metric to the test
    readings = [one for one in claim.readings if one.metric in (*_SHARES, "") and one.name in checks]
    if not evidence.has_files or not readings:
        return []
    again, _ = replace(claim, readings=readings).checked(evidence)
    compared = (one.effect for check in again.values() for one in check.shown.values() if one.effect)
    files = dict.fromkeys(effect.file for effect in compared if effect.file)
    if not files:
        return []
    differ = [f"[{name}] {IN_WORDS[check.holds]}" for name, check in again.items() if check.holds != checks[name].holds]
    effect = effect_of(again)
    if effect == effect_of({name: checks[name] for name in again}):
        effect = ""  # of other data
    outcome = ", ".join(differ) or "no outcome changes"
    names = ", ".join(f"{number:,} test rows of {name}" for name, number in files)
    return [f"every seed has the same {names}; paired over them too, {outcome}{effect and f', {effect}'}"]
