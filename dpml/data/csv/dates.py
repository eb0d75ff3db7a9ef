"""Dates in a file: the forms in which they are written, and the number of days that each is."""

import datetime
from collections.abc import Sequence

import numpy as np
import pandas as pd

from dpml.arrays import Array

ISO = "iso"
"""The form 2024-12-31, with or without a time of day."""

_DATES = ("%d.%m.%Y", "%d/%m/%Y", "%m/%d/%Y", "%d-%m-%Y", "%Y/%m/%d", "%d.%m.%y")
FORMS = (ISO, *_DATES, *(f"{form} %H:%M" for form in _DATES))
"""The forms that are recognised; any other one that `strptime` knows can be stated."""

_DAY = pd.Timedelta(days=1)
_START = pd.Timestamp(0, tz="UTC")
_EPOCH = datetime.date(1970, 1, 1).toordinal()


def days(texts: Sequence[str], form: str) -> Array:
    """The days from 1970-01-01 to each date (n,), with the time of day as a fraction; NaN for what is no date."""
    found = _days(texts, form)
    late = np.flatnonzero(np.isnan(found))
    if 0 < len(late) < len(found):  # one date with nanoseconds takes the years after 2262 from the others
        found[late] = _days([texts[int(place)] for place in late], form)
    return found


def _days(texts: Sequence[str], form: str) -> Array:
    stamps = pd.to_datetime(list(texts), format="ISO8601" if form == ISO else form, errors="coerce", utc=True)
    if not len(texts):
        return np.empty(0)
    since = stamps - _START.as_unit(stamps.unit)  # in nanoseconds there is no year 9999
    # the same bits in every unit, which the finest of the dates decides: both parts of the fraction are exact
    return np.asarray(since // _DAY, dtype=float) + np.asarray(since % _DAY / _DAY, dtype=float)


def forms_of(texts: Sequence[str]) -> list[str]:
    """The forms of which all the texts are dates; empty if they are no dates, more than one if it cannot be told."""
    if not texts or any(len(text) < 8 or not text[:1].isdigit() for text in texts):
        return []
    likely = [form for form in FORMS if not np.isnan(days(texts[:50], form)).any()]
    return [form for form in likely if not np.isnan(days(texts, form)).any()]


def day_of(said: object) -> float | None:
    """The day that a YAML file states, a date or a text such as 2024-12-31; None if it is none."""
    if isinstance(said, datetime.date):
        return float(said.toordinal() - _EPOCH)
    found = days([said], ISO)[0] if isinstance(said, str) else np.nan
    return None if np.isnan(found) else float(found)


def iso(day: float) -> str:
    """A day as 2024-12-31."""
    return datetime.date.fromordinal(_EPOCH + int(np.floor(day))).isoformat()
