"""The rules of the package's structure: which way imports go, how heavy a room may be, and who draws noise."""

import ast
import pkgutil
import re
from collections import Counter
from functools import cache
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PACKAGE = ROOT / "dpml"

# a module imports from its own line and the lines above it, never from those below
ORDER = """
errors arrays sums files options seeds version code packs screen
privacy
data
optim
protocols
mechanism
program
algorithms
config
audit
running
release
recipes
reporting
federated
api
cli
"""
RANK = {name: rank for rank, line in enumerate(ORDER.split("\n")) for name in line.split()}
MATHEMATICS = {"privacy", "optim", "protocols", "mechanism", "algorithms"}
SCREEN_AND_NETWORK = {"matplotlib", "rich", "hydra", "omegaconf", "requests", "urllib3"}

# name: (folders, lines today, budget). A room may only get lighter: whoever makes it so lowers its number here
ROOMS = {
    "top level": ("dpml/*.py", 826, 700),
    "data": ("dpml/data", 4158, 4100),
    "privacy": ("dpml/privacy", 2162, 2350),
    "optim": ("dpml/optim", 1455, 1400),
    "mechanism": ("dpml/mechanism", 1740, 2000),
    "algorithms": ("dpml/algorithms", 4128, 4000),
    "protocols": ("dpml/protocols", 1499, 1700),
    "audit": ("dpml/audit", 1947, 2000),
    "config and running": ("dpml/config dpml/running", 2068, 1950),
    "reporting": ("dpml/reporting", 4183, 4200),
    "release": ("dpml/release", 1570, 1600),
    "federated": ("dpml/federated", 1573, 1600),
    "recipes": ("dpml/recipes", 582, 520),
    "api and cli": ("dpml/api dpml/cli", 3361, 2900),
    "experiments": ("experiments", 2622, 2900),
    "scripts": ("scripts", 1934, 1500),
    "tests": ("tests", 27608, 28000),
}
SAMPLERS = {
    "exponential", "gamma", "laplace", "multivariate_normal", "normal", "standard_exponential", "standard_gamma",
    "standard_normal",
}  # fmt: skip
DRAWING = {"privacy", "optim", "protocols", "mechanism", "algorithms", "running"}
# initial models, or those from which a search starts, which know no budget and no data
INITIAL_MODELS = {
    ("algorithms/descent/noisy_descent.py", "initial_model"),
    ("algorithms/descent/network.py", "initial_weights"),
}


@cache
def modules() -> dict[str, Path]:
    """Every module of the package by its dotted name."""
    names = {}
    for path in sorted(PACKAGE.rglob("*.py")):
        parts = path.relative_to(ROOT).with_suffix("").parts
        names[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = path
    return names


@cache
def nodes(path: Path) -> tuple[ast.AST, ...]:
    return tuple(ast.walk(ast.parse(path.read_text(encoding="utf-8"))))


@cache
def imported(name: str) -> set[str]:
    """All that a module imports anywhere in it, inside functions and under TYPE_CHECKING too, as dotted names."""
    path, names = modules()[name], set()
    by_name = "import_module" in path.read_text(encoding="utf-8")
    for node in nodes(path):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path} has a relative import in line {node.lineno}"
            for alias in node.names:
                whole = f"{node.module}.{alias.name}"
                names.add(whole if whole in modules() else str(node.module))
        elif by_name and isinstance(node, ast.Call) and "import_module" in ast.unparse(node.func):
            names |= {arg.value for arg in node.args if isinstance(arg, ast.Constant) and isinstance(arg.value, str)}
    return names


@cache
def graph() -> dict[str, set[str]]:
    """The imports among the package's modules."""
    return {name: {other for other in imported(name) if other in modules()} for name in modules()}


def room(name: str) -> str:
    """The first part of a module's name inside the package; the package itself has none."""
    return name.partition(".")[2].partition(".")[0]


def test_imports_go_one_way() -> None:
    """The package itself, the public API, stands above everything and is imported by nothing inside."""
    wrong = [
        f"{name} imports {other}"
        for name, others in graph().items()
        for other in sorted(others)
        if room(name) and RANK[room(name)] < RANK.get(room(other), len(ORDER))
    ]
    assert not wrong, "\n".join(wrong)


def test_no_modules_import_each_other_in_a_circle() -> None:
    try:
        TopologicalSorter(graph()).prepare()
    except CycleError as error:
        pytest.fail(" -> ".join(reversed(error.args[1])))


def test_mathematics_knows_no_screen_no_files_and_no_plots() -> None:
    users = {(room(name), other.partition(".")[0]) for name in modules() for other in imported(name)}
    assert not {(name, library) for name, library in users if name in MATHEMATICS and library in SCREEN_AND_NETWORK}
    assert not {(name, library) for name in ("mechanism", "algorithms") for library in ("pathlib", "pandas")} & users
    assert {name for name, library in users if library == "matplotlib"} <= {"reporting"}


def weight(folders: str) -> int:
    """Count the lines of all Python files below some folders."""
    files = (path for place in folders.split() for path in ROOT.glob(place if "*" in place else f"{place}/**/*.py"))
    return sum(len(path.read_text("utf-8").splitlines()) for path in files)


@pytest.mark.parametrize("name", ROOMS)
def test_rooms_only_get_lighter(name: str) -> None:
    folders, today, budget = ROOMS[name]
    assert weight(folders) <= max(today, budget)


def test_all_of_the_package_is_in_a_room() -> None:
    rooms = [folders for folders, _, _ in ROOMS.values() if folders.startswith("dpml")]
    assert sum(map(weight, rooms)) == weight("dpml")


def test_no_two_classes_have_one_name() -> None:
    names = Counter(node.name for path in modules().values() for node in nodes(path) if isinstance(node, ast.ClassDef))
    assert not {name: number for name, number in names.items() if number > 1}


def draws(node: ast.AST) -> set[str]:
    """The calls inside `node` that sample from a distribution of privacy noise, unless `noise` does it."""
    calls = [child.func for child in ast.walk(node) if isinstance(child, ast.Call)]
    return {
        ast.unparse(call)
        for call in calls
        if isinstance(call, ast.Attribute) and call.attr in SAMPLERS and ast.unparse(call.value) != "noise"
    }


def test_privacy_noise_is_drawn_in_one_module() -> None:
    drawing = {
        (path.relative_to(PACKAGE).as_posix(), node.name)
        for name, path in modules().items()
        for node in nodes(path)
        if room(name) in DRAWING and name != "dpml.privacy.noise"
        if isinstance(node, ast.FunctionDef) and draws(node)
    }
    assert drawing == INITIAL_MODELS


CONTRIBUTING = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")


def test_the_map_has_every_room() -> None:
    described = set(re.findall(r"^  (\w+)(?:/|\.py)? ", CONTRIBUTING.split("```")[1].split("\ndpml/")[1], flags=re.M))
    assert described == {room(name) for name in modules()} - {""}


DOCUMENTS = ["README.md", "CONTRIBUTING.md"]
GENERATED = {"gallery", "verdicts"}  # made when the site is built
DOCUMENTS += [
    path.relative_to(ROOT).as_posix()
    for path in sorted((ROOT / "docs").rglob("*.md"))
    if not GENERATED & set(path.relative_to(ROOT).parts)
]


@cache
def names_of_tests() -> set[str]:
    return {
        name
        for path in (ROOT / "tests").rglob("test_*.py")
        for name in re.findall(r"def (test_\w+)", path.read_text("utf-8"))
    }


def code_exists(name: str) -> bool:
    try:
        pkgutil.resolve_name(name)
    except (ImportError, AttributeError):
        return False
    return True


@pytest.mark.parametrize("document", DOCUMENTS)
def test_documents_name_files_code_and_tests_that_exist(document: str) -> None:
    text = (ROOT / document).read_text(encoding="utf-8")
    paths = re.findall(r"`((?:dpml|experiments|scripts|tests|docs)/[\w./]*)`", text)
    real = [path for path in paths if not re.search("[A-Z]{3}", path)]  # capitals stand for any name
    assert [path for path in real if not (ROOT / path).exists()] == []
    assert [name for name in re.findall(r"`(dpml(?:\.\w+)+)", text) if not code_exists(name)] == []
    assert set(re.findall(r"`(test_\w+)`", text)) <= names_of_tests()
