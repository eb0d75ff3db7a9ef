"""Parsed arrays are kept whole, reused, made anew when they are damaged or their code changes, and never in the way."""

import numpy as np
import pytest

from dpml import code
from dpml.code import UNKNOWN
from dpml.data import Files
from dpml.data.sources import cache


@pytest.fixture
def build():
    calls = []

    def make():
        calls.append(1)
        return {"X": np.arange(12.0).reshape(4, 3), "none": np.empty((0, 3))}, {"levels": [0, 2]}

    make.calls = calls
    return make


def test_built_once_then_mapped(build):
    for _ in range(3):
        arrays, facts = cache.load_or_build("mini", {"version": 1}, build)
        np.testing.assert_array_equal(arrays["X"], np.arange(12.0).reshape(4, 3))
        assert arrays["none"].shape == (0, 3)
        assert facts == {"levels": [0, 2]}
        assert not arrays["X"].flags.writeable
        assert type(arrays["X"]) is np.ndarray
    assert len(build.calls) == 1


@pytest.mark.parametrize("keys", [[{"version": 1}, {"version": 2}], [{"code": f"{UNKNOWN}1"}] * 2])
def test_another_key_is_another_entry_and_what_unknown_code_has_made_is_not_kept(build, keys):
    for key in keys:
        cache.load_or_build("mini", key, build)
    assert len(build.calls) == 2


@pytest.mark.parametrize("name", ["X.npy", "none.npy", "facts.json"])
def test_a_damaged_entry_is_made_anew(build, name):
    """Whatever bit of whatever file is flipped, in its header or its last number; or a file is cut, or gone."""
    arrays, facts = build()
    for damage in (0, 20, 64, -1, "cut", "gone"):
        key = {"damage": damage}
        cache.load_or_build("mini", key, build)
        path = cache.folder("mini", key) / name
        content = bytearray(path.read_bytes())
        path.unlink()
        if damage == "cut":
            path.write_bytes(content[:-8])
        elif damage != "gone":
            content[damage] ^= 1
            path.write_bytes(content)
        before = len(build.calls)
        for _ in range(2):
            again, known = cache.load_or_build("mini", key, build)
            assert len(build.calls) == before + 1
        np.testing.assert_array_equal(again["X"], arrays["X"])
        assert known == facts


def test_a_cache_that_cannot_be_written_costs_only_time(build, tmp_path, monkeypatch, capsys):
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("DPML_CACHE", str(tmp_path / "file" / "cache"))
    for _ in range(2):
        arrays, _ = cache.load_or_build("mini", {}, build)
        assert arrays["X"].shape == (4, 3)
    assert capsys.readouterr().err.count("note: cannot keep parsed data") == 1


def test_no_half_entry_when_the_disk_is_full(build, tmp_path, monkeypatch):
    def full(*args, **kwargs):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(np, "save", full)
    arrays, _ = cache.load_or_build("mini", {}, build)
    assert arrays["X"].shape == (4, 3)
    assert not [path for path in (tmp_path / "cache" / "processed").iterdir() if path.suffix != ".lock"]


def test_arrays_are_made_again_when_the_code_that_made_them_has_changed(own):
    """Or an option that the parser looks at."""
    from my_cubes import PARSED, Cubes

    def parsed(column=2):
        code._checksum.cache_clear()
        Cubes(column=column).load(Files(), None, np.random.default_rng(0))
        return len(PARSED)

    assert [parsed(), parsed(), parsed(1), parsed()] == [1, 1, 2, 2]
    with (own / "my_cubes.py").open("a") as file:
        file.write("OTHER = 1\n")
    assert [parsed(), parsed(), parsed(1)] == [3, 3, 4]
