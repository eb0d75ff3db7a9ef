"""`dpml completion`: commands and options in each shell; and words that are written otherwise than they must be."""

import shutil
import subprocess

import pytest

ASK = {
    "bash": 'source ./script; COMP_WORDS=(dpml {words}); COMP_CWORD={last}; _dpml; echo "${{COMPREPLY[@]}}"',
    "zsh": 'source ./script; COMP_WORDS=(dpml {words}); COMP_CWORD={last}; print "$_comps[dpml]"',
    "fish": 'source ./script; complete -C "dpml {words}"',
}


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
@pytest.mark.parametrize(
    ("words", "expected"),
    [("p", {"plot", "predict"}), ("data des", {"describe"}), ("release --ca", {"--cap", "--cap-delta", "--card"})],
)
def test_a_shell_completes(run_command, tmp_path, shell, words, expected) -> None:
    done = run_command("dpml", "completion", shell)
    assert (done.code, done.err) == (0, "")
    (tmp_path / "script").write_text(done.out)
    program = shutil.which(shell)
    if program is None:
        pytest.skip(f"{shell} is not installed")
    options = ["-f"] if shell == "zsh" else []
    text = ASK[shell].format(words=words, last=len(words.split()))
    found = subprocess.run([program, *options, "-c", text], cwd=tmp_path, capture_output=True, text=True, check=True)
    if shell == "zsh":  # bash's function, which zsh calls at the tabulator key only
        assert "_dpml" in found.stdout
        return
    assert {line.split("\t")[0] for line in found.stdout.replace(" ", "\n").split("\n") if line} == expected


@pytest.mark.parametrize(
    ("command", "said"),
    [
        ("dpml guarantee algo=capefm --eps 1", "dpml: error: --eps is a setting, not an option: write eps=1."),
        ("dpml-run algo=capefm --eps=2", "dpml-run: error: --eps=2 is a setting, not an option: write eps=2."),
        ("dpml-run -m --algo.shift 2", "--algo.shift is a setting, not an option: write algo.shift=2."),
        ("dpml release --delta", "--delta is a setting, not an option: write delta=VALUE."),
        ("dpml run algo=capefm", "runs and sweeps have a command of their own: write dpml-run, with a dash."),
    ],
)
def test_what_to_write_instead(run_command, command, said) -> None:
    done = run_command(*command.split())
    assert (done.code, done.out) == (2, "")
    assert said in done.err
    assert done.err.count("\n") == 1


def test_multirun_may_stand_anywhere(run_command) -> None:
    words = ["algo=constant", "draws=1", "run.dry=true", "M=2"]
    first = run_command("dpml-run", "-m", *words, "seed=0,1")
    late = run_command("dpml-run", *words, "-m", "seed=0,1")
    assert (late.code, late.out) == (0, first.out)
    assert "2 to run" in first.out or "2 cells" in first.out
