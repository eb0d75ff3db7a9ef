"""`dpml.guarantee`, `dpml.attack`, `dpml.load`: one setting; `dpml.check`: one recipe; `dpml.rows`: what runs wrote."""

from pathlib import Path
from typing import TYPE_CHECKING, Any

from dpml.api.arguments import one_job
from dpml.audit import Finding
from dpml.commands import data
from dpml.commands.audit import AttackRequest
from dpml.commands.guarantee import guarantees_of
from dpml.data import Dataset
from dpml.errors import UserError, nearest
from dpml.privacy import Guarantee
from dpml.recipes import Judged, judge, recipe_of

if TYPE_CHECKING:
    import pandas as pd

_OF_DATA = ("dataset", "N", "seed", "data_dir", "mirror", "offline")


def guarantee(*overrides: str, config_dir: str | Path | None = None, **keys: Any) -> list[Guarantee]:
    """The guarantees of a release in every view, claimed and proven: `dpml guarantee`. Touches no data.

    >>> import dpml
    >>> for g in dpml.guarantee(algo="capefm", eps=0.1, delta=1e-5, M=10, N=5000, d=30, calibration="tight"):
    ...     print(g.view, g.unit, round(g.eps, 4), g.basis)
    release sample 0.0822 proven
    aggregate sample 0.0822 proven
    client sample 0.0 proven
    transcript sample 0.0822 proven
    colluders sample 0.1 proven

    Args:
        overrides: as on the command line, ``"algo=capefm"``.
        config_dir: a folder of your own options, as ``--config-dir``.
        keys: the same as keyword arguments. M, N and d (features) may be any numbers; N and d default to those of the
            data set.
    """
    guarantees, _ = guarantees_of(one_job("guarantee", overrides, keys, config_dir))
    return guarantees


def attack(*overrides: str, config_dir: str | Path | None = None, **keys: Any) -> list[Finding]:
    """The results of attacks on a release in every view, beside the claimed and the proven eps: `dpml audit`.

    The data are synthetic: the worst neighbours known from a proof or a search. The eps that an attack demonstrates
    (`Finding.attacked`) is a lower bound; if it is above the proven eps, there is a bug (`Finding.verdict`).

    >>> import dpml
    >>> for finding in dpml.attack(algo="ssp", dataset="synthetic", eps=1, delta=1e-5, M=1, draws=2000):
    ...     print(finding.view, round(finding.proven, 4), finding.attacked < finding.proven, finding.verdict)
    release 1.0 True consistent

    Args:
        overrides: as on the command line, ``"algo=capefm"``.
        config_dir: a folder of your own options, as ``--config-dir``.
        keys: the same as keyword arguments. N, d, draws, algo.rounds and algo.epochs have defaults for audits
            (docs/audit.md).
    """
    return AttackRequest.of(one_job("attack", overrides, keys, config_dir)).findings()


def check(recipe: str | Path | None = None, **keys: Any) -> list[Judged]:
    """What a training recipe of anybody guarantees in every view: `dpml check`.

    >>> import dpml
    >>> for view in dpml.check(rounds=100, noise_multiplier=10, delta=1e-5, unit="client", clients=20, claimed_eps=3):
    ...     print(view.view, round(view.proven, 2), view.verdict)
    release 10.0 false
    aggregate 10.0 false
    client inf false
    transcript inf false

    Args:
        recipe: a YAML or JSON file with keys of `dpml.recipes.TrainingRecipe`, or in the words of another framework.
        keys: the same as keyword arguments, which take the place of the file's.
    """
    return judge(recipe_of(recipe, **keys))


def load(*overrides: str, config_dir: str | Path | None = None, **keys: Any) -> Dataset:
    """A data set as `dpml.run` uses it: training and test arrays with rows in the unit ball.

    >>> import dpml
    >>> data = dpml.load("wdbc", N=100, seed=1)
    >>> data.X.shape, data.X_test.shape, sorted(set(data.y))
    ((100, 30), (114, 30), [np.float64(-1.0), np.float64(1.0)])

    Args:
        overrides: a name, ``"wdbc"``, or as on the command line, ``"dataset.bounds=public"``.
        config_dir: a folder of your own options, as ``--config-dir``.
        keys: dataset and its options, N (training rows; None: all), seed (for drawing and splitting rows), data_dir,
            mirror, offline.

    Returns:
        Arrays that may be read-only and memory-mapped.
    """
    named = [word if "=" in word else f"dataset={word}" for word in overrides if isinstance(word, str)]
    settings = one_job("load", named, keys, config_dir)
    for name in settings.given:
        key = name.partition(".")[0]
        if key not in _OF_DATA:
            raise UserError(f"dpml.load takes no {key}: {nearest(key, _OF_DATA)}")
    return data.load(settings)


def rows(path: str | Path) -> "pd.DataFrame":
    """Return the rows that a run or a sweep wrote into a folder, or those of a figure, RESULTS/PAPER/FIGURE."""
    from dpml.reporting.tables import read_rows  # slow to load

    path = Path(path)
    return read_rows(path / "rows.csv" if path.is_dir() else path.with_name(f"{path.name}_rows.csv"))
