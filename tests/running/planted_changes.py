"""Small cells and blocks that depend on something of every kind, for `test_what_changes.py`.

As a program, ``python planted.py FOLDER RESULTS [WORKERS]``, it computes them, and prints which of them it had to
compute and a checksum of the numbers of each.
"""

import hashlib
import json
import sys
from collections.abc import Iterator, Mapping
from importlib import import_module
from io import StringIO
from pathlib import Path
from typing import Any

from dpml.data import Files
from dpml.data.partition import Equal
from dpml.data.sets.csv import CSV
from dpml.data.sets.synthetic import Synthetic
from dpml.optim.losses import LOSSES
from dpml.privacy import Budget
from dpml.running.cell import Cell
from dpml.running.computed import Computed
from dpml.running.executors import attempt
from dpml.running.expansion import Point
from dpml.running.plan import Options, Plan, Task, make_plan
from dpml.running.runner import carry_out
from dpml.running.store import Store
from dpml.screen import Screen

_PLUG_IN = '''"""A plug-in."""

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cache
from importlib import import_module
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from typing import Any

import numpy as np

from dpml.algorithms import Release
from dpml.privacy import Guarantee

HERE = Path(__file__).parent
{before}


@dataclass(frozen=True)
class Plug:
    """It releases one number."""

    name = "{name}"
    loss: Any
    calibration: str = "published"
    variant: str = "paper"
    lam: float = 0.0
    {field}

    def guarantees(self, budget, problem):
        return [Guarantee("release", "sample", 1.0, 0.0, "proven", "none")]

    def prepare(self, parties, rng):
        return Prepared(self, parties.problem.d)


@dataclass(frozen=True)
class Prepared:
    algorithm: Plug
    d: int

    def release(self, budgets, rng, draws):
        algorithm = self.algorithm
        return Release(np.full((len(budgets), draws, self.d), float({value})))
'''
_LOAD = """
def load():
    spec = spec_from_file_location("nobody_knows", HERE / "by_path.py")
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.VALUE"""
_TRY = """
def attempted():
    try:
        return (HERE / "wished.txt").read_text()
    except FileNotFoundError:
        return "1" """
# module: the folder on the path, what stands before the class, a field, the released number
PLUG_INS = {
    "alone": ("own", "# as good as any", "", "1"),
    "packed.plugs": ("own", "from .helper import VALUE", "", "VALUE"),
    "spaced.plugs": ("own", "", "", "1"),
    "placed": ("venv/site-packages", "", "", "1"),
    "tabnanny": ("own", "", "", "1"),  # in front of one of the standard library
    "far": ("own", "from helper import VALUE", "", "VALUE"),
    "late": ("own", "", "", "import_module('sel' + 'dom').VALUE"),
    "listed": ("own", "", "local: tuple = ('mine.one',)", "named(algorithm.local[0])()"),
    "nested": ("own", "", "of: Any = None", "named(algorithm.of['a'][0]['target'])()"),
    "calling": ("own", "from functions import twice", "call: Callable = twice", "algorithm.call(1)"),
    "reader": ("own", "", "", "(HERE / 'constants.txt').read_text()"),
    "early": ("own", "VALUE = (HERE / 'early.txt').read_text()", "", "VALUE"),
    "once": ("own", "@cache\ndef value():\n    return np.loadtxt(HERE / 'once.txt')", "", "value()"),
    "wishing": ("own", _TRY, "", "attempted()"),
    "loading": ("own", _LOAD, "", "load()"),
    "plugged": ("venv/site-packages", "", "", "1"),
    "using": ("own", "import compiled", "", "compiled.VALUE"),
}
_NAMED = (
    "\ndef named(path):\n    module, _, name = path.rpartition('.')\n    return getattr(import_module(module), name)\n"
)
FILES = {
    "own/packed/__init__.py": "",
    "own/packed/helper.py": "VALUE = 1\n",
    "elsewhere/helper.py": "VALUE = 1\n",
    "elsewhere/seldom.py": "VALUE = 1\n",
    "own/mine.py": "def one():\n    return 1\n",
    "own/deep/er.py": "def one():\n    return 1\n",
    "own/functions.py": "def twice(x):\n    return (lambda y: 2 * y)(x)\n",
    "own/constants.txt": "1",
    "own/early.txt": "1",
    "own/once.txt": "1",
    "own/by_path.py": "VALUE = 1\n",
    "own/measures.py": "def length(weights, parties, loss, lam):\n    return (weights**2).sum(1)\n",
    "own/blocks.py": "import pandas as pd\n\n\ndef rows(path):\n    return pd.read_csv(path)\n",
    "own/block.csv": "metric,value\nbytes,1\n",
    "own/rows.csv": "a,b,y\n" + "".join(f"{i % 7},{i % 5},{i % 2}\n" for i in range(60)),
    "own/bounds.yaml": "classes: [0, 1]\ncolumns:\n  a: {low: 0, high: 7}\n  b: {low: 0, high: 5}\n",
    "venv/site-packages/compiled/__init__.py": "VALUE = 1\n",
}


def distribution(name: str, version: str, pure: bool, record: str) -> dict[str, str]:
    """What pip leaves beside the modules of a distribution."""
    folder = f"venv/site-packages/{name}-{version}.dist-info"
    return {
        f"{folder}/METADATA": f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n",
        f"{folder}/WHEEL": f"Wheel-Version: 1.0\nRoot-Is-Purelib: {str(pure).lower()}\n",
        f"{folder}/RECORD": f"{name}.py,sha256={record},1\n",
    }


def write(folder: Path) -> None:
    """All files."""
    contents = FILES | distribution("plugged", "1.0", True, "one") | distribution("compiled", "1.0", False, "one")
    for module, (place, before, field, value) in PLUG_INS.items():
        name = module.partition(".")[0]
        text = _PLUG_IN.format(
            name=name, before=before + (_NAMED if "named" in value else ""), field=field, value=value
        )
        contents[f"{place}/{module.replace('.', '/')}.py"] = text
    put(folder, contents)


def put(folder: Path, contents: Mapping[str, str]) -> None:
    """Some files."""
    for name, content in contents.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(content)


def search_path(folder: Path) -> list[str]:
    """The folders of modules."""
    return [str(folder / name) for name in ("own", "elsewhere", "venv/site-packages")]


def jobs(folder: Path) -> dict[str, Cell | Computed]:
    """Cells and blocks, by name."""
    data = Synthetic(recipe="two_gaussians", d=2, rows=40, test_rows=10)
    options = {"nested": {"of": {"a": [{"target": "deep.er.one"}]}}}
    made: dict[str, Cell | Computed] = {}
    for module in PLUG_INS:
        name = module.partition(".")[0]
        made[name] = _cell(data, f"{module}.Plug", **options.get(name, {}))
    made["once more"] = _cell(data, "once.Plug", seed=1)  # from a cache of its own
    made["measured"] = _cell(data, "alone.Plug", metrics=("measures.length",))
    quadratic = "dpml.algorithms.quadratic"
    fm, ssp = (
        f"{quadratic}.functional_mechanism.FunctionalMechanism",
        f"{quadratic}.sufficient_statistics.SufficientStatistics",
    )
    made["fm"], made["ssp"] = (_cell(data, kind, calibration="tight") for kind in (fm, ssp))
    path = str(folder / "own/rows.csv")
    made["csv"] = _cell(CSV(path, label="y"), ssp)
    made["bounded"] = _cell(CSV(path, label="y", bounds=str(folder / "own/bounds.yaml")), ssp)
    tried = {"loss": "squared", "calibrations": ["tight"], "rows": 5}
    for name, kind in {"audit of fm": fm, "audit of ssp": ssp}.items():
        made[name] = Computed(
            name, "dpml.audit.table.rows", {"algorithms": [{"target": kind, **tried}], "draws": 300, "M": 2}
        )
    made["block"] = Computed("block", "blocks.rows", {"path": str(folder / "own/block.csv")})
    return made


def _cell(data: Any, target: str, seed: int = 0, metrics: tuple[str, ...] = (), **options: Any) -> Cell:
    module, _, name = target.rpartition(".")
    algorithm = getattr(import_module(module), name)(LOSSES["squared"], **options)
    return Cell(
        data, Equal(), algorithm, 2, None, seed, (Budget(1.0, 1e-5),), 1, metrics=metrics, files=Files(offline=True)
    )


def compute(made: dict[str, Cell | Computed], root: Path) -> None:
    """Compute and store all, in this process."""
    plan, names = plan_of(made, root)
    assert not [entry.reason for entry in names.values() if entry.status != "to run"]
    for name, job in made.items():
        outcome: Any = attempt(job)
        if isinstance(job, Computed):
            job.keep(plan.store, outcome)
        else:
            entry = names[name]
            plan.store.write(entry.key, entry.identity, outcome)


def plan_of(made: dict[str, Cell | Computed], root: Path) -> tuple[Plan, dict[str, Any]]:
    """The plan as a new process would make it, and the entries of cells by name."""
    points = [Point(name, {}, job) for name, job in made.items() if isinstance(job, Cell)]
    blocks = [job for job in made.values() if isinstance(job, Computed)]
    plan = make_plan([Task("all", points, blocks)], Store(root), Options())
    return plan, {point.block: entry for point, entry in plan.points["all"]}


def waiting(made: dict[str, Cell | Computed], root: Path) -> set[str]:
    """The names of those that would be computed."""
    plan, entries = plan_of(made, root)
    blocks = {name for name, job in made.items() if isinstance(job, Computed) and job.kept(plan.store) is None}
    return blocks | {name for name, entry in entries.items() if entry.status == "to run"}


def _numbers(made: dict[str, Cell | Computed], plan: Plan, entries: dict[str, Any]) -> Iterator[tuple[str, str]]:
    for name, job in made.items():
        if isinstance(job, Computed):
            values: Any = job.rows(plan.store)["value"].tolist()
        else:
            values = {key: value.tolist() for key, value in plan.measured(entries[name]).metrics.items()}
        yield name, hashlib.sha256(json.dumps(values).encode()).hexdigest()


def main() -> None:
    folder, results, *workers = sys.argv[1:]
    made = jobs(Path(folder))
    again = waiting(made, Path(results))
    plan, entries = plan_of(made, Path(results))
    options = Options(workers=int(workers[0])) if workers else Options()
    carry_out(plan, options, Screen(file=StringIO()))
    numbers = dict(_numbers(made, plan, entries))
    print(json.dumps({"computed": sorted(again), "numbers": numbers, "versions": plan.versions(plan.tasks[0])}))


if __name__ == "__main__":
    main()
