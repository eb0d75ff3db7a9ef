"""The rules of the package's structure: which way imports go, how large a piece of code may be, and who draws noise."""

import ast
import pkgutil
import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from functools import cache
from graphlib import CycleError, TopologicalSorter
from pathlib import Path
from typing import get_args

import pytest
import yaml
from harness import algorithms

from dpml.privacy import Budget, Problem, View

ROOT = Path(__file__).parents[1]
PACKAGE = ROOT / "dpml"

# a module imports from its own line and the lines above it, never from those below
ORDER = (
    (
        "errors",
        "arrays",
        "sums",
        "files",
        "options",
        "seeds",
        "version",
        "code",
        "packs",
        "screen",
    ),
    ("privacy",),
    ("data",),
    ("optim",),
    ("protocols",),
    ("mechanism",),
    ("algorithms",),
    ("program",),
    ("config",),
    ("audit",),
    ("running",),
    ("release",),
    ("recipes",),
    ("reporting",),
    ("federated",),
    ("api",),
    ("cli",),
)
TARGETS = {
    path.stem: yaml.safe_load(path.read_text(encoding="utf-8"))["_target_"]
    for path in sorted((ROOT / "conf" / "algo").glob("*.yaml"))
}
RANK = {name: rank for rank, line in enumerate(ORDER) for name in line}

MODULE_LINES, FUNCTION_LINES, PARAMETERS, NESTING = 700, 80, 6, 4

# name: (folders, lines today, budget). A room may only get lighter: whoever makes it so lowers its number here
ROOMS = {
    "top level": ("dpml/*.py", 767, 700),
    "data": ("dpml/data", 4955, 4100),
    "privacy": ("dpml/privacy", 2256, 2350),
    "optim": ("dpml/optim", 1875, 1400),
    "mechanism": ("dpml/mechanism", 1924, 2000),
    "algorithms": ("dpml/algorithms", 4187, 4000),
    "protocols": ("dpml/protocols", 1732, 1700),
    "audit": ("dpml/audit", 2254, 2000),
    "config and running": ("dpml/config dpml/running", 2751, 1950),
    "reporting": ("dpml/reporting", 6112, 4200),
    "release": ("dpml/release", 1543, 1450),
    "federated": ("dpml/federated", 1889, 1600),
    "recipes": ("dpml/recipes", 605, 520),
    "api and cli": ("dpml/api dpml/cli", 3801, 2900),
    "experiments": ("experiments", 1972, 2900),
    "scripts": ("scripts", 2818, 1500),
    "tests": ("tests", 40553, 28000),
}
REASON = re.compile(r"# many parameters: \w")  # on the line of the def, or on the line above it

SAMPLERS = {
    "exponential", "gamma", "laplace", "multivariate_normal", "normal", "standard_exponential", "standard_gamma",
    "standard_normal",
}  # fmt: skip
DRAWING = {"privacy", "optim", "protocols", "mechanism", "algorithms", "running"}
# what is drawn from these distributions and is no privacy noise: an initial model, or one from which a search starts,
# which knows no budget and no data
INITIAL_MODELS = {
    "initial_model": "algorithms/descent/noisy_descent.py",
    "initial_weights": "algorithms/descent/network.py",
    "least_found": "optim/reference.py",
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
def tree(path: Path) -> ast.Module:
    return ast.parse(path.read_text(encoding="utf-8"))


@cache
def nodes(path: Path) -> tuple[ast.AST, ...]:
    """All of a module's tree, which takes longer to walk than to parse."""
    return tuple(ast.walk(tree(path)))


@cache
def imported(name: str) -> set[str]:
    """All that a module imports anywhere in it, inside functions and under TYPE_CHECKING too, as dotted names.

    ``from dpml.data import cache`` is the module dpml.data.cache if there is one, else something in dpml.data.
    """
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


@cache
def functions() -> list[tuple[Path, str, ast.FunctionDef | ast.AsyncFunctionDef]]:
    """Every function and method of the package, with the path of its module and its qualified name."""

    def inside(node: ast.AST, prefix: str) -> Iterator[tuple[str, ast.FunctionDef | ast.AsyncFunctionDef]]:
        for child in ast.iter_child_nodes(node):
            if isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef):
                yield prefix + child.name, child
            named = isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef)
            yield from inside(child, f"{prefix}{child.name}." if named else prefix)

    return [
        (path.relative_to(ROOT), name, node) for path in modules().values() for name, node in inside(tree(path), "")
    ]


def listed(sizes: dict[str, int]) -> str:
    return "\n".join(f"{name}: {size}" for name, size in sizes.items())


# ---- imports


def test_every_module_has_a_place_in_the_order() -> None:
    assert {room(name) for name in modules()} - {""} <= set(RANK)


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


@pytest.mark.parametrize("name", ["privacy", "optim", "protocols", "mechanism", "algorithms"])
def test_mathematics_knows_no_screen_no_files_and_no_plots(name: str) -> None:
    foreign = {"matplotlib", "rich", "hydra", "omegaconf", "requests", "urllib3"}
    if name in ("mechanism", "algorithms"):
        foreign |= {"pathlib", "pandas"}
    wrong = [
        f"{module} imports {other}"
        for module in modules()
        if room(module) == name
        for other in sorted(imported(module))
        if other.partition(".")[0] in foreign
    ]
    assert not wrong, "\n".join(wrong)


def test_only_reporting_draws_plots() -> None:
    users = {room(name) for name in modules() if any(other.startswith("matplotlib") for other in imported(name))}
    assert users <= {"reporting"}


# ---- sizes


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


def test_modules_are_short() -> None:
    lengths = {str(path.relative_to(ROOT)): len(path.read_text("utf-8").splitlines()) for path in modules().values()}
    wrong = {path: lines for path, lines in lengths.items() if lines > MODULE_LINES}
    assert not wrong, listed(wrong)


def test_functions_are_short() -> None:
    lengths = {f"{path}: {name}": node.end_lineno - node.lineno + 1 for path, name, node in functions()}
    wrong = {name: lines for name, lines in lengths.items() if lines > FUNCTION_LINES}
    assert not wrong, listed(wrong)


def test_functions_have_few_parameters_or_a_reason() -> None:
    many = {}
    for path, name, node in functions():
        names = [arg.arg for arg in (*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs)]
        count = len([arg for arg in names if arg not in ("self", "cls")])
        if count <= PARAMETERS:
            continue
        lines = (ROOT / path).read_text("utf-8").splitlines()
        top = min(node.lineno, *(decorator.lineno for decorator in node.decorator_list), node.lineno)
        if not any(REASON.search(line) for line in (lines[node.lineno - 1], lines[top - 2])):
            many[f"{path}: {name}"] = count
    assert not many, listed(many)


def test_no_decorator_is_there_twice() -> None:
    """Of two ``@classmethod`` in a row Python 3.13 makes something that cannot be called; 3.11 does not notice."""
    names = [(name, [ast.unparse(each) for each in node.decorator_list]) for _, name, node in functions()]
    assert not [name for name, found in names if len(set(found)) < len(found)]


def test_blocks_are_not_deeply_nested() -> None:
    depths = {f"{path}: {name}": depth(node.body) for path, name, node in functions()}
    wrong = {name: levels for name, levels in depths.items() if levels > NESTING}
    assert not wrong, listed(wrong)


BLOCKS = (ast.If, ast.For, ast.AsyncFor, ast.While, ast.With, ast.AsyncWith, ast.Try, ast.TryStar, ast.Match)


def depth(statements: list[ast.stmt]) -> int:
    """How deep if, for, while, with, try and match are nested. An elif is as deep as its if."""
    deepest = 0
    for statement in statements:
        if not isinstance(statement, BLOCKS):
            continue
        inner = [handler.body for handler in getattr(statement, "handlers", [])]
        inner += [case.body for case in getattr(statement, "cases", [])]
        inner += [getattr(statement, field) for field in ("body", "finalbody") if hasattr(statement, field)]
        otherwise = getattr(statement, "orelse", [])
        chained = isinstance(statement, ast.If) and len(otherwise) == 1 and isinstance(otherwise[0], ast.If)
        levels = [1 + depth(body) for body in [*inner, *([] if chained else [otherwise])]]
        deepest = max(deepest, *levels, depth(otherwise) if chained else 0)
    return deepest


def test_depth_is_counted_as_it_is_read() -> None:
    text = "if a:\n  for b in c:\n    try:\n      d\n    except E:\n      with f:\n        g\nelif h:\n  i\n"
    assert depth(ast.parse(text).body) == 4
    assert depth(ast.parse("if a:\n  b\nelif c:\n  d\nelif e:\n  f\n").body) == 1


# ---- classes


@cache
def classes() -> list[tuple[Path, ast.ClassDef]]:
    """Every class of the package, with the path of its module."""
    return [
        (path.relative_to(PACKAGE), node)
        for path in modules().values()
        for node in nodes(path)
        if isinstance(node, ast.ClassDef)
    ]


def test_no_two_classes_have_one_name() -> None:
    count = Counter(node.name for _, node in classes())
    assert not {name: number for name, number in count.items() if number > 1}


def test_nothing_asks_which_algorithm_it_has() -> None:
    """What differs between algorithms is said by their methods, or registered for their class."""
    named = {target.rpartition(".")[2] for target in TARGETS.values()}
    wrong = [
        f"{path.relative_to(ROOT)}:{node.lineno}: {ast.unparse(node)}"
        for path in modules().values()
        for node in nodes(path)
        if isinstance(node, ast.Call) and getattr(node.func, "id", None) in ("isinstance", "issubclass")
        if named & {inner.id for inner in ast.walk(node.args[1]) if isinstance(inner, ast.Name)}
    ]
    assert not wrong, "\n".join(wrong)


@pytest.mark.parametrize("algo", TARGETS)
def test_views_have_the_names_that_all_algorithms_use(algo: str) -> None:
    algorithm = algorithms()[algo]
    problem = Problem(M=5, N=500, d=3, auxiliary=50, classes=2, colluders=1)
    views = {guarantee.view for guarantee in algorithm.guarantees(Budget(1.0, 1e-5), problem)}
    assert views <= set(get_args(View))
    if algo in ("psgd", "ssp", "dpgd", "ssp_descent", "wdgd"):
        tight = replace(algorithm, calibration="tight").guarantees(Budget(1.0, 1e-5), problem)
        assert {guarantee.view for guarantee in tight} == {"release", "aggregate", "colluders"}


# ---- noise


def draws(node: ast.AST) -> set[str]:
    """The calls inside `node` that sample from a distribution of privacy noise, unless `noise` does it."""
    calls = [child.func for child in ast.walk(node) if isinstance(child, ast.Call)]
    return {
        ast.unparse(call)
        for call in calls
        if isinstance(call, ast.Attribute) and call.attr in SAMPLERS and ast.unparse(call.value) != "noise"
    }


def is_initial_model(path: Path, name: str) -> bool:
    return name in INITIAL_MODELS and path == Path("dpml", INITIAL_MODELS[name])


def test_privacy_noise_is_drawn_in_one_module() -> None:
    wrong = [
        f"{path}: {name} calls {call}"
        for path, name, node in functions()
        if path.parts[1] in DRAWING and path != Path("dpml/privacy/noise.py") and not is_initial_model(path, name)
        for call in sorted(draws(node))
    ]
    assert not wrong, "\n".join(wrong)


def test_the_list_of_other_draws_has_nothing_that_is_gone() -> None:
    drawing = {name for path, name, node in functions() if is_initial_model(path, name) and draws(node)}
    assert drawing == set(INITIAL_MODELS)


# ---- the map in CONTRIBUTING.md


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


@pytest.mark.parametrize("document", DOCUMENTS)
def test_documents_name_files_that_exist(document: str) -> None:
    text = (ROOT / document).read_text(encoding="utf-8")
    paths = re.findall(r"`((?:dpml|experiments|scripts|tests|docs)/[\w./]*)`", text)
    real = [path for path in paths if not re.search("[A-Z]{3}", path)]  # capitals stand for any name
    assert [path for path in real if not (ROOT / path).exists()] == []


@pytest.mark.parametrize("document", DOCUMENTS)
def test_documents_name_code_that_exists(document: str) -> None:
    names = re.findall(r"`(dpml(?:\.\w+)+)", (ROOT / document).read_text(encoding="utf-8"))
    missing = []
    for name in names:
        try:
            pkgutil.resolve_name(name)
        except (ImportError, AttributeError):
            missing.append(name)
    assert missing == []


@cache
def names_of_tests() -> set[str]:
    return {
        name
        for path in (ROOT / "tests").rglob("test_*.py")
        for name in re.findall(r"def (test_\w+)", path.read_text("utf-8"))
    }


@pytest.mark.parametrize("document", DOCUMENTS)
def test_documents_name_tests_that_exist(document: str) -> None:
    named = set(re.findall(r"`(test_\w+)`", (ROOT / document).read_text(encoding="utf-8")))
    assert named - names_of_tests() == set()
