"""Tables fit the terminal, and nothing in them is cut."""

import pytest
from rich.cells import cell_len

from dpml.cli.columns import packed, print_table
from dpml.screen import Screen

HEADS = ("view", "proven ε", "source")
LINES = [("release", "0.826578", "Gaussian DP of the joint view"), ("colluders", "1.20233", "-")]


def printed(width: int, capsys: pytest.CaptureFixture[str], **options: object) -> list[str]:
    print_table(Screen(width=width), HEADS, LINES, **options)  # type: ignore[arg-type]
    lines = capsys.readouterr().out.splitlines()
    assert max(map(cell_len, lines)) <= width
    return lines


def test_a_line_for_each_where_there_is_room(capsys) -> None:
    lines = [line.strip() for line in printed(80, capsys)]
    assert "release    0.826578  Gaussian DP of the joint view" in lines
    assert "colluders  1.20233   -" in lines


def test_a_terminal_of_no_width_is_one_of_the_usual_width(capsys, monkeypatch) -> None:
    monkeypatch.setenv("COLUMNS", "0")
    print_table(Screen(), HEADS, LINES)
    assert capsys.readouterr().out.splitlines() == printed(80, capsys)


def test_a_column_of_words_is_broken_between_words(capsys) -> None:
    lines = printed(40, capsys, wrapped=("source",))
    assert "0.826578" in "\n".join(lines)
    assert " ".join(line[22:].strip() for line in lines[3:6]).strip().startswith("Gaussian DP of the joint")


def test_a_key_that_is_to_be_typed_stays_in_one_piece(capsys) -> None:
    key, words = "dataset.drop=[PatientNr]", ("values", "note")
    for width in range(28, 60):
        print_table(Screen(width=width), words, [("100000 to 102999", f"numbers of rows? {key}")], wrapped=words)
        assert key in capsys.readouterr().out


def test_paragraphs_where_there_is_none(capsys) -> None:
    lines = printed(40, capsys)
    assert lines == [
        "",
        "view=release",
        "  proven ε=0.826578",
        "  source=Gaussian DP of the joint view",
        "",
        "view=colluders",
        "  proven ε=1.20233",  # what is absent is left out
        "",
    ]


def test_brackets_are_text(capsys) -> None:
    for width in (14, 80):
        print_table(Screen(width=width), ("key", "algo"), [("a", "[red]")])
        assert "[red]" in capsys.readouterr().out


def test_a_screen_shows_texts_as_they_are(capsys) -> None:
    Screen().print("label [red]:key: 1")
    assert capsys.readouterr().out == "label [red]:key: 1\n"


def test_items_are_packed_without_breaking_one() -> None:
    assert packed(["eps=1", "", "M=5", "N=100"], 11) == "eps=1  M=5\nN=100"
    assert packed(["a-long-item", "b"], 4) == "a-long-item\nb"
    assert packed([], 10) == ""
