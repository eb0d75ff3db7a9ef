"""What changes a checksum of code, and what does not."""

import textwrap

import pytest

from dpml import code

MODULES = {
    "paper/__init__.py": "",
    "paper/losses.py": '"""Losses."""\n\n\ndef loss(x):\n    """The loss."""\n    return x * x  # squared\n',
    "paper/model.py": "from paper.losses import loss\n\n\ndef fit(x):\n    return loss(x)\n",
    "paper/lazy.py": "def fit(x):\n    from paper import losses\n\n    return losses.loss(x)\n",
    "paper/unrelated.py": "ANSWER = 42\n",
    "beside.py": "import plain\n\nTWICE = 2 * plain.ONE\n",
    "plain.py": "ONE = 1\n",
}


@pytest.fixture
def package(tmp_path, monkeypatch):
    """A folder of modules, and a function that changes one and returns the digests of some."""
    for name, content in MODULES.items():
        path = tmp_path / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(content)
    monkeypatch.syspath_prepend(tmp_path)

    def changed(name, old, new):
        path = tmp_path / name
        content = path.read_text()
        assert old in content
        path.write_text(content.replace(old, new))
        return digests()

    def digests():
        code.forget()
        return {name: code.digest(name) for name in ("paper.losses", "paper.model", "paper.lazy", "beside")}

    return digests, changed


def test_a_formula_changes_all_that_reach_it_and_nothing_else(package):
    digests, changed = package
    before = digests()
    after = changed("paper/losses.py", "x * x", "x * x * x")
    assert {name for name in before if before[name] != after[name]} == {"paper.losses", "paper.model", "paper.lazy"}


def test_imports_of_modules_that_lie_beside_are_followed(package):
    digests, changed = package
    before = digests()
    after = changed("plain.py", "ONE = 1", "ONE = 1.5")
    assert {name for name in before if before[name] != after[name]} == {"beside"}


def test_a_yaml_file_of_a_modules_name_is_a_part_of_it(package, tmp_path):
    digests, changed = package
    (tmp_path / "plain.yaml").write_text("one: 1\n")
    before = digests()
    after = changed("plain.yaml", "1", "1.5")
    assert {name for name in before if before[name] != after[name]} == {"beside"}


@pytest.mark.parametrize(
    ("old", "new"),
    [("# squared", "# the square"), ("The loss.", "What it costs."), ('"""Losses."""\n\n\n', ""), ("x * x ", "x*x ")],
)
def test_comments_docstrings_and_layout_change_nothing(package, old, new):
    digests, changed = package
    before = digests()
    assert changed("paper/losses.py", old, new) == before


def test_no_version_of_python_changes_a_checksum():
    """Since 3.12 an f-string is several tokens; the constant is that of 3.11, 3.12 and 3.13."""
    assert (
        code.checksums(b'x = f"{a!r:>{w}} {{}} {b}" f\'c\'  # c\nf"{g()}"\n').tokens
        == "8b2f9e0eca386b26b577ef3afe7a9796"
    )


def test_what_is_no_program_counts_by_its_bytes():
    for content in (b"def f(:", b"(", b"  x\n y\n", b"\xff\xfe", b"'"):
        assert code.checksums(content).tokens == code.checksums(content, ".so").tokens


def test_a_string_that_does_something_counts():
    assert code.checksums(b'f"{go()}"\n') != code.checksums(b'f"{come()}"\n')
    assert code.checksums(b'"go"\n').tokens == code.checksums(b'"""come"""\n').tokens
    assert code.checksums(b'x = "go"\n').tokens != code.checksums(b'x = "come"\n').tokens


def test_an_unrelated_module_changes_nothing(package):
    digests, changed = package
    before = digests()
    assert changed("paper/unrelated.py", "42", "43") == before


def test_relative_imports_are_followed(package, tmp_path):
    digests, changed = package
    (tmp_path / "paper/model.py").write_text(textwrap.dedent("from .losses import loss\nfrom . import unrelated\n"))
    before = digests()
    after = changed("paper/unrelated.py", "42", "43")
    assert {name for name in before if before[name] != after[name]} == {"paper.model"}


def test_the_classes_of_dpml_reach_their_mathematics():
    reached = set()
    names = ["dpml.algorithms.quadratic.functional_mechanism"]
    while names:
        name = names.pop()
        if name not in reached and name.startswith("dpml"):
            reached.add(name)
            path = code.source(name)
            names += code.read(path, name)[1] if path else ()
    assert {"dpml.privacy.gdp", "dpml.privacy.noise", "dpml.optim.losses", "dpml.data.preprocess"} <= reached
    assert not any(name.startswith(("dpml.reporting", "dpml.cli", "dpml.running.runner")) for name in reached)


def test_modules_that_no_number_depends_on_are_there():
    """A misspelt or moved one would be followed again."""
    assert all(code.source(name) for name in code._IDLE)
