"""Tables of Python packages: what is read of a file, and that its content is pinned."""

import hashlib
from types import MappingProxyType

import numpy as np
import pytest

from dpml.data import Files
from dpml.data.sets import packaged
from dpml.data.sets.packaged import Packaged
from dpml.errors import UserError

ROWS = "id,size,kind,shop,bought\n1,2.0,b,7,yes\n2,4.0,a,9,no\n3,,a,9,yes\n4,1.5,b,7,no\n"


@pytest.fixture
def table(tmp_path, monkeypatch):

    def load(*contents, rows, features, classes=MappingProxyType({}), pinned=None, **about):
        folder = tmp_path / "data" / "mine"
        folder.mkdir(parents=True)
        files = {}
        for number, content in enumerate(contents):
            (folder / f"t{number}.csv").write_text(content)
            files[f"t{number}.csv"] = {"sha256": hashlib.sha256((pinned or content).encode()).hexdigest()}
        facts = {"title": "", "citation": "", "files": files, "rows": rows, "features": features, "classes": classes}
        task = "regression" if not classes else "binary" if -1 in classes else "multiclass"
        monkeypatch.setitem(packaged.PACKED, "mine", facts | {"task": task} | about)
        found, _ = Packaged(table_name="mine").table(Files(data_dir=str(tmp_path / "data"), offline=True))
        return found

    return load


def test_columns_are_dropped_coded_and_the_label_is_split_off(table):
    about = {"label": "bought", "positive": "yes", "drop": ("id",), "categorical": ("shop",), "classes": {-1: 2, 1: 1}}
    found = table(ROWS, rows=3, features=5, **about)
    np.testing.assert_array_equal(found.X, [[2, 1, 0], [4, 0, 1], [1.5, 1, 0]])
    np.testing.assert_array_equal(found.y, [1, -1, -1])
    assert (found.levels, found.left_out) == ((0, 2, 2), ROWS.count("\n") - 4)


def test_a_file_without_names_has_the_label_last(table):
    found = table("1,2,0\n3,4,1\n5,6,2\n", rows=3, features=2, classes={0: 1, 1: 1, 2: 1})
    np.testing.assert_array_equal(found.X, [[1, 2], [3, 4], [5, 6]])
    np.testing.assert_array_equal(found.y, [0, 1, 2])


def test_labels_may_be_in_a_file_of_their_own(table):
    found = table("1 2\n3 4\n", "0.5\n7\n", rows=2, features=2)
    np.testing.assert_array_equal(found.X, [[1, 2], [3, 4]])
    np.testing.assert_array_equal(found.y, [0.5, 7])


def test_more_than_nothing_is_yes_where_no_label_is_positive(table):
    found = table("a,b\n1,0\n2,.3\n3,2\n", label="b", rows=3, features=1, classes={-1: 1, 1: 2})
    np.testing.assert_array_equal(found.y, [-1, 1, 1])


def test_another_content_is_refused(table):
    with pytest.raises(UserError, match=r"is not the official t0\.csv of dataset=mine: its sha256 is"):
        table("1,2\n", pinned="1,3\n", rows=1, features=1)
