"""The page about packs: its small paper is written, run, judged and verified as it says."""

import json
import os
from pathlib import Path

import pytest
from pages import DOCS, blocks, words

from dpml import packs

PAGE = (DOCS / "howto" / "add_a_paper.md").read_text("utf-8")


@pytest.mark.slow
def test_the_page_is_followed_literally(tmp_path, run_command):
    """Its files are written, its commands run: figures, verdicts, and what they are verified with."""
    page = blocks(PAGE)
    for block in page:
        if block.file:
            (tmp_path / block.file).parent.mkdir(exist_ok=True)
            (tmp_path / block.file).write_text(block.body)
    (commands,) = (block.commands for block in page if block.language == "bash")
    (shown,) = (block.body.splitlines() for block in page if block.language == "text" and not block.file)
    printed = ""
    for line in commands:
        program, *rest = words(line)[1]
        done = run_command(program, *rest)
        assert done.code == 0, done.err
        printed += done.out
    assert all(line in printed for line in shown)
    verdicts = {one["id"]: one for one in json.loads(Path("results/smith2026/fig1.json").read_text())["claims"]}
    assert [one["decision"] for one in verdicts.values()] == [
        "reproduced", "undecided with these seeds", "undecided with these seeds", "not reproduced"
    ]  # fmt: skip
    assert (verdicts["S1.T"]["deciding"]["x"], verdicts["S1.T"]["deciding"]["effect"]) == ("10", "11.03")
    assert "(S1.T)" in Path("results/smith2026/claims.md").read_text()
    assert run_command("dpml", "cite", "smith2026").out.startswith("@misc{smith2026,")
    # whoever does not name the pack runs none of its code
    os.environ[packs.ENVIRONMENT] = ""
    done = run_command("dpml", "verify", "results")
    assert (done.code, done.err.count("a claim that no pack here has")) == (2, 1)
