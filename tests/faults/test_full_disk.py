"""A full or read-only disk at any moment: one sentence, nothing half-written, and the next try works."""

from collections.abc import Iterator
from pathlib import Path

import mini
import pytest
from failing import BEFORE, COMMANDS, Disk, failing, full, go, made, prepare, read_only, temporary

QUICK = ("describe",)
ONCE = ("describe",)  # what it writes it does not overwrite
CASES = [
    pytest.param(name, fault, lasting, marks=() if name in QUICK and lasting else pytest.mark.slow)
    for name in COMMANDS
    if name != "sweep"  # which writes as a run does
    for fault, lasting in ((full, True), (full, False), (read_only, True))
    if name in (*QUICK, "run") or (fault, lasting) == (full, True)
]


def ready(folder: Path, name: str) -> None:
    prepare(folder)
    for words in BEFORE.get(name, ()):
        assert go(folder, words)[0] == 0


@pytest.fixture(autouse=True)
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    with mini.serving() as address:
        for name, value in {mini.URL: address, "DPML_OFFLINE": "0", "NO_PROXY": "127.0.0.1"}.items():
            monkeypatch.setenv(name, value)
        yield


@pytest.mark.usefixtures("light")
@pytest.mark.parametrize(("name", "fault", "lasting"), CASES)
def test_whichever_step_of_writing_fails(folder: Path, name: str, fault: object, lasting: bool) -> None:
    """`lasting`: so do all that follow."""
    ready(folder, name)
    before = made(folder)
    with failing(Disk(folder)) as disk:
        assert go(folder, COMMANDS[name])[0] == 0
    expected, moments = made(folder), disk.moments
    assert len(moments) > 2
    for at in moments:
        ready(folder, name)
        disk = Disk(folder, at, lasting, fail=fault)  # type: ignore[arg-type]
        with failing(disk):
            status, _, err = go(folder, COMMANDS[name])
        found = made(folder)
        if status:
            last = err.splitlines()[-1]
            assert f"{COMMANDS[name][0]}: error: " in last, (at, err)
            assert "the disk is full" in last or "read-only" in last or "No space" in last, (at, err)
            assert all(content in (expected[path], before.get(path)) for path, content in found.items()), at
        else:
            assert found == expected, at  # what failed was no more than a cache
        assert temporary(folder) == [], at
        if status or name not in ONCE:
            assert go(folder, COMMANDS[name])[0] == 0, at
            assert made(folder) == expected, at
