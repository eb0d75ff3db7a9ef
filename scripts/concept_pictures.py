"""Draw the pictures of docs/start.md and docs/concepts.md, each by one function, computed with dpml.

To draw all or some pictures: python scripts/concept_pictures.py [NAME ...]
"""

import argparse
import io
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np
from matplotlib.axis import Axis
from matplotlib.figure import Figure
from PIL import Image
from scipy.special import ndtr, ndtri

import dpml
from dpml.api.run import Result
from dpml.files import write_atomically
from dpml.privacy import gdp
from dpml.privacy.accountant import Accountant
from dpml.privacy.safe import written
from dpml.protocols import Stage, secure_sum
from dpml.protocols.messages import unpack, unpack_masked
from dpml.protocols.server import Server
from dpml.reporting.figures import plot
from dpml.reporting.statistics import summarise
from dpml.reporting.style import base_look, in_style

FOLDER = Path(__file__).resolve().parents[1] / "docs" / "concepts"
DELTA = 1e-5
BLUE, ORANGE, GREEN, GREY = "#0072B2", "#D55E00", "#009E73", "#7F7F7F"
EPS = [0.1, 0.3, 1, 3, 10]
START = "dpml-run -m algo=capefm,conv,nonpriv calibration=tight delta=1e-5 eps=[0.1,0.3,1,3,10] seed=[0,1,2,3,4]"


def adjacency(figure: Figure) -> None:
    """Draw the eps of one noisy sum for two adjacencies: replacing a row has twice the sensitivity of adding one."""
    axes = figure.subplots()
    noise = np.geomspace(1, 20, 60)
    scale = 1 / gdp.mu_of(1.0, DELTA)
    for moves, colour, dashes, name in (
        (2.0, ORANGE, "-", "replace one: the sum moves by up to 2"),
        (1.0, BLUE, "--", "add or remove one: by up to 1"),
    ):
        *eps, here = (Accountant().gaussian(moves / each).eps(DELTA) for each in [*noise, scale])
        axes.plot(noise, eps, dashes, color=colour, label=name)
        axes.plot(scale, here, "o", color=colour)
        axes.annotate(f"ε = {written(here, 3)}", (scale, here), (8, 4), textcoords="offset points", color=colour)
    numbers(axes.xaxis, [1, 2, 5, 10, 20]), numbers(axes.yaxis, [0.2, 0.5, 1, 2, 5, 10])
    axes.set(xlabel="standard deviation of the noise on a sum of rows in the unit ball", ylabel="ε at δ = 1e-5")
    axes.legend()


def levels(figure: Figure) -> None:
    """Draw the error of a regression against the number of parties, if records or whole parties are protected."""
    axes = figure.subplots()
    keys = {"dataset": "synthetic", "N": 20_000, "M": [10, 30, 100, 300, 1000, 3000, 10_000], "delta": DELTA}
    rows = _run(**keys, algo="ssp", calibration="tight", seed=[0, 1, 2], **{"algo.unit": ["sample", "party"]}).rows
    floor = _run(**keys | {"M": 10}, algo="constant", seed=[0, 1, 2]).rows
    constant = floor.loc[floor["metric"] == "rmse", "value"].mean()
    summary = summarise(rows[rows["metric"] == "rmse"])
    for unit, colour, marker, name in (
        ("party", ORANGE, "s", "party level: all rows of a party"),
        ("sample", BLUE, "o", "record level: one row"),
    ):
        part = summary[summary["algo.unit"] == unit]
        axes.plot(part["M"], part["mean"], color=colour, marker=marker, label=name)
    axes.axhline(constant, color=GREY, linestyle=":", label="the mean for every row")
    numbers(axes.xaxis, [10, 100, 1000, 10_000]), numbers(axes.yaxis, [0.02, 0.05, 0.1, 0.2, 0.5])
    axes.set(xlabel="parties M, of 20,000 rows together", ylabel="test RMSE")
    axes.legend()


def views(figure: Figure) -> None:
    """Draw the proven eps of one release against every observer (view), next to the claimed eps."""
    axes = figure.subplots()
    proven = [g for g in dpml.guarantee(algo="capefm", eps=1) if g.basis == "proven"][::-1]
    places = range(len(proven))
    eps = [g.eps for g in proven]
    axes.hlines(places, 1, eps, color=GREY, linewidth=1)
    axes.plot(eps, places, "o", color=BLUE, label="proven")
    axes.axvline(1, color="black", linestyle=":", label="claimed by the paper, in every view")
    for place, each in zip(places, eps, strict=True):
        axes.annotate(written(each), (each, place), (0, 6), textcoords="offset points", ha="center", fontsize=8)
    axes.set_yticks(places, [g.view for g in proven])
    axes.set(xlabel="ε at δ = 1e-3", xlim=(0.7, 1.3), ylim=(-0.6, len(proven) - 0.2))
    axes.grid(visible=False, axis="y")
    figure.legend(loc="outside lower center", ncols=2)


def claims(figure: Figure) -> None:
    """Draw the proven eps against the claimed eps, for one algorithm of each of four papers."""
    axes = figure.subplots()
    papers = {"psgd": "Rajkumar & Agarwal 2012", "wddp": "Kang et al. 2019", "capefm": "Imtiaz et al. 2019"}
    for algo, paper in {**papers, "soft": "Hamm et al. 2016"}.items():
        also = {"partition.auxiliary": 0.1} if algo == "soft" else {}
        proven = [_worst_claimed(algo=algo, eps=eps, **also) for eps in EPS]
        colour, marker = base_look(algo)
        axes.plot(EPS, proven, color=colour, marker=marker)
        name = f"{algo} ({paper})"
        axes.annotate(name, (10, proven[-1]), (8, -3), textcoords="offset points", color=colour, fontsize=8)
    axes.plot(EPS, EPS, ":", color="black")
    axes.annotate("as claimed", (10, 10), (8, -3), textcoords="offset points", fontsize=8)
    numbers(axes.xaxis, EPS), numbers(axes.yaxis, [0.01, 0.1, 1, 10, 100, 1000])
    axes.set(xlabel="ε claimed", ylabel="ε proven", xlim=(0.08, 300))


def calibration(figure: Figure) -> None:
    """Draw the Gaussian noise of the textbook as a multiple of the least sufficient noise."""
    axes = figure.subplots()
    eps = np.geomspace(0.1, 30, 100)
    ratio = np.array([gdp.mu_of(each, DELTA) / gdp.classical_mu(each, DELTA) for each in eps])
    axes.plot(eps, ratio, color=BLUE, label="the textbook's noise (published)")
    axes.axhline(1, color="black", linestyle="--", label="the least that is proven to be enough (tight)")
    axes.fill_between(eps, ratio, 1, where=ratio > 1, color=BLUE, alpha=0.15, linewidth=0)
    axes.fill_between(eps, ratio, 1, where=ratio < 1, color=ORANGE, alpha=0.35, linewidth=0)
    at_one = gdp.mu_of(1.0, DELTA) / gdp.classical_mu(1.0, DELTA)
    axes.plot(1, at_one, "o", color=BLUE)
    axes.annotate(f"{at_one:.2f}", (1, at_one), (5, 5), textcoords="offset points", color=BLUE)
    axes.text(0.2, 1.15, "more noise than is needed", color=BLUE, fontsize=8)
    axes.text(14, 0.78, "too little noise:\nε does not hold", color=ORANGE, fontsize=8, ha="right")
    numbers(axes.xaxis, [0.1, 0.3, 1, 3, 10, 30])
    axes.set(xlabel="ε, at δ = 1e-5", ylabel="noise / least noise", ylim=(0.6, 1.8))
    axes.legend()


def secure_aggregation(figure: Figure) -> None:
    """Draw a party's vector, the masked vectors that the server receives (new masks each time), and the sum."""
    rng = np.random.default_rng(0)
    vectors = rng.uniform(-1, 1, (10, 8))
    received: dict[int, np.ndarray] = {}
    receive = Server.receive

    def watched(server: Server, message: bytes, sender: int) -> None:
        if server.stage is Stage.MASKED:
            session = server.session
            body = unpack(message, session.name).body
            received[sender], *_ = unpack_masked(body, session.length, session.beside, session.parties)
        receive(server, message, sender)

    with patch.object(Server, "receive", watched):
        result = secure_sum(vectors, bound=1.0, rng=rng)
    own, masked, total = figure.subplots(1, 3)
    places = np.arange(1, vectors.shape[1] + 1)
    own.bar(places, vectors[0], color=BLUE)
    masked.bar(places, received[0] / 2.0**64, color=GREY)
    total.bar(places, result.total, color=GREEN)
    total.plot(places, vectors.sum(axis=0), "_", color="black", markersize=9, label="true sum")
    total.set_ylim(-4, None)
    total.legend(loc="lower right", fontsize=8, handlelength=1)
    own.set(title="party 0 has", ylim=(-1.1, 1.1))
    masked.set(title="the server receives\n(in units of 2⁶⁴)", ylim=(0, 1))
    total.set(title="the server opens:\nthe sum of all ten")
    for axes in (own, masked, total):
        axes.set_xticks(places[::2])
        axes.title.set_fontsize(9)
    masked.set_xlabel("entry of the vector")


def gaussian_dp(figure: Figure) -> None:
    """Draw the trade-off curves of Gaussian DP, and the equivalent (eps, delta) curves."""
    rates, curve = figure.subplots(1, 2)
    fpr, eps = np.linspace(0, 1, 300), np.linspace(0, 8, 100)
    for mu, colour, dashes in ((0.5, GREEN, "-."), (1.0, BLUE, "-"), (2.0, ORANGE, "--")):
        rates.plot(fpr, ndtr(ndtri(fpr) + mu), dashes, color=colour, label=f"μ = {mu:g}")
        curve.plot(eps, [Accountant().gaussian(mu).delta(each) for each in eps], dashes, color=colour)
    rates.plot(fpr, fpr, ":", color="black", linewidth=1, label="a guess (μ = 0)")
    rates.set(xlabel="false positive rate", ylabel="true positive rate", aspect="equal")
    rates.set_title("the best test of an adversary", fontsize=9)
    curve.plot(4.3772, DELTA, "o", color=BLUE)
    curve.annotate("(4.38, 1e-5)", (4.38, DELTA), (6, 4), textcoords="offset points", color=BLUE, fontsize=8)
    curve.set(yscale="log", xlabel="ε", ylabel="δ", ylim=(1e-8, 1))
    curve.set_title("the same as (ε, δ)", fontsize=9)
    figure.legend(loc="outside lower center", ncols=4)


def accuracy(_: Figure) -> Figure:
    """Draw the optimality gap against eps, with intervals over seeds."""
    run = _run(algo=["dpgd", "capefm"], calibration="tight", delta=DELTA, eps=EPS, seed=[0, 1, 2, 3, 4])
    return run.plot("eps", ["optimality_gap"])


def numbers(axis: Axis, ticks: list[float]) -> None:
    """Label a logarithmic axis with plain numbers."""
    axis.axes.set(**{f"{axis.axis_name}scale": "log"})
    axis.set_ticks(ticks, [f"{tick:,g}" for tick in ticks])
    axis.set_ticks([], minor=True)


def _worst_claimed(**keys: Any) -> float:
    """Return the largest proven eps of the views that the paper's claim covers."""
    guarantees = dpml.guarantee(**keys)
    claimed = {g.view for g in guarantees if g.basis == "published"}
    return max(g.eps for g in guarantees if g.basis == "proven" and g.view in claimed)


def _run(**keys: Any) -> Result:
    """Return the results of settings, computed without a cache."""
    with tempfile.TemporaryDirectory() as folder:
        return dpml.run(results_dir=folder, **keys)


PICTURES: dict[str, Callable[[Figure], Figure | None]] = {
    draw.__name__: draw
    for draw in (adjacency, levels, views, claims, calibration, secure_aggregation, gaussian_dp, accuracy)
}


def write(name: str, folder: Path = FOLDER) -> Path:
    """Draw a picture into a folder."""
    picture = io.BytesIO()
    with in_style():
        figure = Figure(figsize=(5.6, 3.3), layout="constrained")
        figure = PICTURES[name](figure) or figure
        figure.savefig(picture)
    return _written(picture.getvalue(), folder / f"{name}.png")


def start(folder: Path = FOLDER.parent) -> Path:
    """Draw the figure of the sweep in docs/start.md."""
    run = _run(algo=["capefm", "conv", "nonpriv"], calibration="tight", delta=DELTA, eps=EPS, seed=[0, 1, 2, 3, 4])
    with tempfile.TemporaryDirectory() as scratch:
        return _written(plot(run.rows, Path(scratch))[0].read_bytes(), folder / "start.png")


def _written(picture: bytes, path: Path) -> Path:
    """Save a picture with only 64 colours, which makes the file a third as large."""
    small = io.BytesIO()
    Image.open(io.BytesIO(picture)).convert("RGB").quantize(64).save(small, "PNG", optimize=True)
    write_atomically(path, small.getvalue())
    return path


def main() -> None:
    """Draw the named pictures, or all."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"start {' '.join(PICTURES)}")
    for name in parser.parse_args().names or ["start", *PICTURES]:
        print(start() if name == "start" else write(name))


if __name__ == "__main__":
    main()
