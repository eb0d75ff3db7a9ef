"""The ends of sentences about unknown names."""

from dpml.errors import nearest


def test_the_nearest_name_or_all_of_them_or_none() -> None:
    assert nearest("esp", ["eps", "delta"]) == "did you mean 'eps'?"
    assert nearest("x", ["eps", "delta"]) == "choose one of delta, eps."
    assert nearest("x", []) == "there is none."
    assert nearest("Cape-FM", ["capefm", "fm"]) == "did you mean 'capefm'?"
