"""Words of a command line that are written otherwise than they must be, and their completion in a shell."""

import subprocess

import pytest


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        ("p", {"plot", "predict"}),
        ("data des", {"describe"}),
        ("release --ca", {"--cap", "--cap-delta"}),
        ("guarantee algo = cap", {"capefm"}),
        ("release ep", {"eps="}),
    ],
)
def test_bash_completes(run_command, words, expected) -> None:
    done = run_command("dpml", "completion", "bash")
    assert (done.code, done.err) == (0, "")
    ask = f'COMP_WORDS=(dpml {words}); COMP_CWORD={len(words.split())}; _shtab_dpml; echo "${{COMPREPLY[@]}}"'
    found = subprocess.run(["bash", "-c", done.out + ask], capture_output=True, text=True, check=True)
    assert set(found.stdout.split()) == expected


@pytest.mark.parametrize(
    ("command", "said"),
    [
        ("dpml guarantee algo=capefm --eps 1", "write eps=1"),
        ("dpml-run -m --algo.shift 2", "write algo.shift=2"),
        ("dpml release --delta", "write delta=VALUE"),
        ("dpml gaurantee algo=capefm", "did you mean 'guarantee'"),
        ("dpml data lst", "did you mean 'list'"),
        ("dpml run algo=capefm", "write dpml-run"),
    ],
)
def test_what_to_write_instead(run_command, command, said) -> None:
    done = run_command(*command.split())
    assert (done.code, done.out) == (2, "")
    assert said in done.err
    assert done.err.count("\n") == 1


@pytest.mark.slow
def test_multirun_may_stand_anywhere(run_command) -> None:
    words = ["algo=constant", "draws=1", "run.dry=true", "M=2"]
    first = run_command("dpml-run", "-m", *words, "seed=0,1")
    late = run_command("dpml-run", *words, "-m", "seed=0,1")
    assert (late.code, late.out) == (0, first.out)
    assert "2 to run" in first.out or "2 cells" in first.out
