"""A student: a paper's figure with an algorithm of their own beside its own, a sweep and a picture."""

import pytest
from harness import written_from_page


@pytest.mark.slow
def test_a_student_makes_a_figure_with_an_algorithm_of_their_own(typed, tmp_path) -> None:
    written_from_page("tutorials/algorithm.md", tmp_path)
    first = typed("dpml-run algo=capefm eps=0.1")
    assert "calibration=tight" in first
    typed("dpml-run experiment=imtiaz2019/fig3 algo=[capefm,fm,nonpriv] seed=[0,1] draws=2")
    (folder,) = (tmp_path / "results" / "trials" / "imtiaz2019" / "fig3").iterdir()
    assert {path.suffix for path in folder.iterdir()} >= {".csv", ".md", ".png", ".svg"}
    assert "capefm" in (folder / "fig3.csv").read_text()
    # words in any order
    swept = "eps=[0.1,1] delta=1e-5 M=10 calibration=tight hydra.sweep.dir=sweep"
    assert "centroid" in typed(f"dpml-run --config-dir conf algo=capefm,dpgd,centroid -m {swept}")
    assert (tmp_path / "sweep" / "figure.png").stat().st_size > 10_000
    typed("dpml plot sweep --x eps --y accuracy -o accuracy.pdf --width 3.3in")
    typed("dpml-run experiment=imtiaz2019/fig5")
    typed("dpml report results")
    assert (tmp_path / "results" / "report" / "index.html").exists()
    assert "write eps=1" in typed("dpml guarantee algo=capefm --eps 1", code=2)
