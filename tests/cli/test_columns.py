"""Tables fit the terminal, and nothing in them is cut."""

import pytest
from rich.cells import cell_len

from dpml.cli.console import print_table
from dpml.screen import Screen

HEADS = ("view", "proven ε", "source")
LINES = [("release", "0.826578", "Gaussian DP of the joint view"), ("colluders", "1.20233", "[red]")]


@pytest.mark.parametrize("width", [40, 80])
def test_words_and_numbers_are_not_broken_where_there_is_room(width, capsys) -> None:
    print_table(Screen(width=width), HEADS, LINES)
    out = capsys.readouterr().out
    assert max(map(cell_len, out.splitlines())) <= width
    assert {word for line in (HEADS, *LINES) for cell in line for word in cell.split()} <= set(out.split())


def test_nothing_is_cut_on_a_narrow_terminal(capsys) -> None:
    print_table(Screen(width=14), HEADS, LINES)
    lines = capsys.readouterr().out.splitlines()
    assert max(map(cell_len, lines)) <= 14
    texts = "".join(cell for line in (HEADS, *LINES) for cell in line)
    assert sorted("".join(lines).replace(" ", "").replace("─", "")) == sorted(texts.replace(" ", ""))


def test_a_screen_shows_texts_as_they_are(capsys) -> None:
    Screen().print("label [red]:key: 1")
    assert capsys.readouterr().out == "label [red]:key: 1\n"
