"""The ledger: what it adds up to, what it refuses, and that no release is ever without its entry."""

import math
import signal
import sqlite3
import subprocess
import sys
import time
from collections import Counter
from contextlib import closing
from pathlib import Path

import numpy as np
import pytest
from scipy.stats import binom, norm

from dpml.api.release import request_of
from dpml.api.settings import Settings
from dpml.errors import UserError
from dpml.privacy import Guarantee, gdp
from dpml.release.ledger import Cap, Ledger, LedgerEntry, default_ledger, spent


def gaussian(mu: float, view: str = "release", unit: str = "sample", delta: float = 1e-5) -> Guarantee:
    return Guarantee(view, unit, gdp.eps_of(mu, delta), delta, "proven", "test", mu)  # type: ignore[arg-type]


def pure(eps: float, unit: str = "sample") -> Guarantee:
    return Guarantee("release", unit, eps, 0.0, "proven", "test")  # type: ignore[arg-type]


@pytest.fixture
def ledger(tmp_path: Path) -> Ledger:
    return Ledger(tmp_path / "people.csv.ledger")


def test_gaussian_releases_add_up_as_one_gaussian(ledger):
    """Against the definition: delta of N(0, 1) and N(mu, 1) with mu^2 the sum, by SciPy."""
    assert ledger.spent("sample", "worst").eps(1e-5) == 0
    assert not ledger.path.exists()  # a look makes none
    for mu in (0.3, 0.4, 1.2):
        ledger.enter("", [gaussian(mu), gaussian(1.5 * mu, "colluders")])
    for audience, factor in (("release", 1.0), ("worst", 1.5)):
        mu = 1.3 * factor
        eps = ledger.spent("sample", audience).eps(1e-6)
        delta = norm.cdf(-eps / mu + mu / 2) - math.exp(eps) * norm.cdf(-eps / mu - mu / 2)
        assert delta == pytest.approx(1e-6, rel=1e-6)


def test_views_of_different_kinds_have_a_total_that_holds_for_each(ledger):
    """A release may be told by code outside dpml: one view as (eps, delta), another, of a larger eps, as mu-GDP."""
    plain, told = Guarantee("release", "sample", 0.9, 1e-5, "declared", "test"), gaussian(0.3, "colluders")
    assert told.eps > plain.eps
    for _ in range(20):
        ledger.enter("", [plain, told])
    everybody = ledger.spent("sample", "worst")
    assert everybody.eps(1e-4) == math.inf  # at 20 deltas of 1e-5 the first may have revealed everything
    for eps in (1.0, 4.0):  # randomised response and what reveals everything, 20 times
        lies = np.arange(21)
        kept = binom.pmf(lies, 20, 1 / (1 + math.exp(0.9))) @ np.maximum(-np.expm1(eps - 0.9 * (20 - 2 * lies)), 0)
        assert everybody.delta(eps) >= 1 - (1 - 1e-5) ** 20 * (1 - kept)
    told = Guarantee("client", "sample", 1.0, 1e-9, "declared", "test")
    assert LedgerEntry(1, "", "", (plain, told)).seen_by("worst").delta == 1e-5


def test_what_protects_a_party_protects_its_samples_and_not_the_other_way_round(ledger):
    ledger.enter("", [gaussian(0.3, unit="party")])
    assert ledger.spent("party", "worst").eps(1e-5) == pytest.approx(gdp.eps_of(0.3, 1e-5))
    ledger.enter("", [gaussian(0.4)])
    assert ledger.spent("party", "worst") is None
    assert spent(ledger.entries()[1:], "party", "worst") is None
    assert ledger.spent("sample", "worst").eps(1e-5) == pytest.approx(gdp.eps_of(0.5, 1e-5))


def test_a_cap_refuses_what_would_exceed_it_and_enters_nothing(ledger):
    cap = Cap(gdp.eps_of(1.0, 1e-5) * (1 + 1e-9), 1e-5)
    ledger.enter("", [gaussian(0.6)], cap)
    with pytest.raises(UserError, match=r"above its cap of 4\.377"):
        ledger.enter("", [gaussian(0.81)])
    assert len(ledger.entries()) == 1
    ledger.enter("", [gaussian(0.8)])  # 3, 4, 5: exactly the cap
    with pytest.raises(UserError, match="above its cap"):
        ledger.enter("", [gaussian(0.001)])


@pytest.mark.parametrize(("cap", "delta"), [(math.nan, 1e-5), (0, 1e-5), (3, 1)])
def test_a_cap_that_bounds_nothing_is_refused(tmp_path, cap, delta):
    with pytest.raises(UserError, match=r"ledger\.cap"):
        Ledger(tmp_path / "ledger", cap=cap, delta=delta)


def test_the_least_of_all_caps_counts_for_who_sees_most(ledger):
    ledger.enter("", [gaussian(0.1)], Cap(3.0, 1e-5))
    ledger.enter("", [gaussian(0.1)], Cap(1.0, 1e-5))
    assert ledger.caps() == [Cap(3.0, 1e-5), Cap(1.0, 1e-5)]
    with pytest.raises(UserError, match="above its cap of 1:"):
        ledger.enter("", [gaussian(0.1), gaussian(0.4, "colluders")], Cap(10.0, 1e-5))


@pytest.mark.parametrize(
    "guarantees",
    [[], [Guarantee("release", "sample", 1.0, 1e-5, "published", "a paper")], [pure(math.inf)]],
    ids=["nothing", "only claimed", "no noise"],
)
def test_what_is_not_proven_cannot_be_entered(ledger, guarantees):
    with pytest.raises(UserError, match="nothing is proven"):
        ledger.enter("", guarantees)
    assert ledger.entries() == []


@pytest.mark.parametrize("damage", ["eps", "time", "row", "tail", "order", "newer", "page", "text", "nothing"])
def test_a_damaged_ledger_allows_no_release(ledger, damage):
    for mu in (0.1, 0.2, 0.3):
        ledger.enter("", [gaussian(mu)])
    content = ledger.path.read_bytes()
    files = {"page": content[: len(content) // 2], "text": b"not a database at all" * 99, "nothing": b""}
    if damage in files:
        ledger.path.write_bytes(files[damage])
    else:
        change = {
            "eps": "UPDATE event SET content = replace(content, '0.2', '0.1') WHERE number = 2",
            "time": "UPDATE event SET time = '2000-01-01' WHERE number = 1",
            "row": "DELETE FROM event WHERE number = 2",
            "tail": "DELETE FROM event WHERE number = 3",
            "order": "UPDATE event SET number = number + 10 WHERE number = 3",
            "newer": "PRAGMA user_version = 7",
        }[damage]
        with closing(sqlite3.connect(ledger.path)) as connection, connection:
            connection.execute(change)
        connection.close()
    for use in (ledger.entries, lambda: ledger.enter("", [gaussian(0.1)])):
        with pytest.raises(UserError):
            use()


def test_a_full_disk_is_one_sentence_and_leaves_the_ledger_as_it_was(ledger, monkeypatch):
    ledger.enter("", [gaussian(0.1)])
    connect = sqlite3.connect

    def full(*arguments: object, **options: object) -> sqlite3.Connection:
        connection = connect(*arguments, **options)  # type: ignore[call-overload]
        pages = connection.execute("PRAGMA page_count").fetchone()[0]
        connection.execute(f"PRAGMA max_page_count = {pages}")
        return connection

    with monkeypatch.context() as patch:
        patch.setattr(sqlite3, "connect", full)
        with pytest.raises(UserError, match="nothing was released"):
            ledger.enter("x" * 20_000, [gaussian(0.1)])
    assert len(ledger.entries()) == 1
    ledger.enter("", [gaussian(0.1)])


MANY = """
import os
import sys
import time
from pathlib import Path
from dpml.privacy import Guarantee, gdp
from dpml.release.ledger import Ledger
one = Guarantee("release", "sample", gdp.eps_of(0.01, 1e-5), 1e-5, "proven", "test", 0.01)
for path in map(Path, sys.argv[1:]):
    path.with_name(f"{path.name}-{os.getpid()}").touch()
    while len(list(path.parent.glob(f"{path.name}-*"))) < 2:  # so that both enter at once
        time.sleep(0.0005)
    for _ in range(4):
        Ledger(path).enter(str(os.getpid()), [one])
"""


@pytest.mark.slow
def test_processes_that_enter_at_once_lose_no_entry(tmp_path):
    """Not the first one either, which makes the ledger. Each reads all entries before it, none as another writes."""
    ledgers = [Ledger(tmp_path / f"ledger{number}.db") for number in range(12)]
    command = [sys.executable, "-c", MANY, *(str(ledger.path) for ledger in ledgers)]
    both = [subprocess.Popen(command) for _ in range(2)]
    assert [process.wait(60) for process in both] == [0, 0]
    for ledger in ledgers:
        assert sorted(Counter(entry.setting for entry in ledger.entries()).values()) == [4, 4]
        assert ledger.spent("sample", "worst").mu == pytest.approx(0.01 * math.sqrt(8))


RELEASES = """
import sys
from pathlib import Path
from dpml.privacy import Guarantee
from dpml.release.ledger import Ledger
ledger = Ledger(Path(sys.argv[1]))
for number in range(10_000):
    ledger.enter(str(number), [Guarantee("release", "sample", 1e-3, 0.0, "proven", "test")])
    with open(sys.argv[2], "a") as published:  # the noise is drawn, the model is out
        published.write(f"{number}\\n")
"""


@pytest.mark.slow
def test_killed_at_any_moment_there_is_no_release_without_its_entry(tmp_path):
    ledger, published = Ledger(tmp_path / "ledger"), tmp_path / "published"
    for attempt in range(12):
        ledger.path.unlink(missing_ok=True)
        published.unlink(missing_ok=True)
        process = subprocess.Popen([sys.executable, "-c", RELEASES, str(ledger.path), str(published)])
        while not published.exists():
            time.sleep(0.01)
        time.sleep(0.037 * attempt)
        process.send_signal(signal.SIGKILL)
        process.wait()
        entered = [entry.setting for entry in ledger.entries()]
        out = published.read_text().splitlines()
        assert len(out) <= len(entered) <= len(out) + 1
        assert entered[: len(out)] == [str(number) for number in range(len(entered))][: len(out)]
        ledger.enter("after", [gaussian(0.1)])  # and the ledger goes on


def test_the_names_of_a_file_have_one_ledger_or_none_without_being_told(tmp_path):
    """Another name of the file, a link or a hard link, would have a ledger in which nothing is spent."""
    data, link, other = (tmp_path / f"{name}.csv" for name in ("people", "link", "others"))
    data.touch()
    link.symlink_to(data)
    assert default_ledger(data) == default_ledger(link) == tmp_path / "people.csv.ledger"
    old = Ledger(tmp_path / "link.csv.ledger")
    old.enter("", [pure(0.1)])
    assert default_ledger(link) == old.path  # what was spent before is not forgotten
    Ledger(default_ledger(data)).enter("", [pure(0.1)])
    with pytest.raises(UserError, match="--ledger FILE"):
        default_ledger(link)
    other.hardlink_to(data)
    for name in (data, other):
        with pytest.raises(UserError, match="--ledger FILE"):
            default_ledger(name)


def test_data_sets_of_the_same_files_have_one_ledger(tmp_path, monkeypatch) -> None:
    """Each had its own, so that a cap of one let the other's releases of the same rows pass."""
    monkeypatch.setenv("DPML_CACHE", str(tmp_path))

    def place(*words: str) -> Path:
        usual = ("dataset.bounds=public", "algo=ssp", "eps=1", "delta=1e-5")
        return request_of(Settings((*words, *usual)))[1]

    all_rows, some = ("dataset=kddcup99",), ("dataset=kddcup99_70k",)
    assert place(*all_rows) == place(*some)
    steps = "dataset.steps=[sample_norm]"
    assert place("dataset=har", steps) == place("dataset=har_73of561", steps)
    assert place("dataset=breast_cancer").parent == tmp_path  # which is there, whatever its files' folder is called
