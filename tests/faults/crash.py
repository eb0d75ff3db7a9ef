"""A program: kill a command at a step of writing, for every place in dpml that writes, and give it again each time.

    python crash.py FOLDER COMMAND

Each attempt is a fork of this process, which has given the command and loaded everything: so that there can be
hundreds. What was found is printed as JSON: how many steps it was killed at, and what was wrong after which of them.
"""

import gc
import io
import json
import os
import shutil
import sys
from pathlib import Path

import mini
from failing import BEFORE, COMMANDS, PROGRAMS, Disk, die, failing, go, light, made, prepare, temporary


def attempt(folder: Path, words: list[str], disk: Disk | None = None) -> tuple[int, str]:
    """Run a command in a fork: its exit status (negative: the signal that killed it), and what it said."""
    said = folder.with_name("said")
    child = os.fork()
    if not child:
        status = 1
        try:
            os.chdir(folder)
            sys.argv = words
            sys.stdout, sys.stderr = io.StringIO(), said.open("w")
            if disk:
                with failing(disk):
                    PROGRAMS[words[0]]()
                folder.with_name("moments").write_text(json.dumps(disk.moments))
            else:
                PROGRAMS[words[0]]()
            status = 0
        except SystemExit as stop:
            status = stop.code if isinstance(stop.code, int) else 1
        finally:
            sys.stderr.flush()
            os._exit(status)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), said.read_text()


def main(folder: Path, name: str) -> None:
    words, before = COMMANDS[name], folder.with_name("before")
    prepare(folder)
    for loading in (*BEFORE.get(name, ()), words):
        assert go(folder, loading)[0] == 0
    gc.freeze()
    prepare(folder)
    for first in BEFORE.get(name, ()):
        assert attempt(folder, first)[0] == 0
    shutil.rmtree(before, ignore_errors=True)
    shutil.copytree(folder, before)

    def ready() -> None:
        shutil.rmtree(folder)
        shutil.copytree(before, folder)

    status, said = attempt(folder, words, Disk(folder))
    assert status == 0, said
    expected, problems = made(folder), {}
    moments = json.loads(folder.with_name("moments").read_text())
    for step in moments:
        ready()
        status, _ = attempt(folder, words, Disk(folder, step, fail=die))
        assert status < 0, step
        half = [path for path, content in made(folder).items() if "/." not in path and content != expected.get(path)]
        status, said = attempt(folder, words)
        wrong = {"status": status} if status else {}
        wrong |= {"said": said} if "Traceback" in said or status else {}
        wrong |= {"half": half} if half and name not in ("plot",) else {}
        different = sorted(path for path in expected if made(folder).get(path) != expected[path])
        wrong |= {"different": different} if different else {}
        wrong |= {"left": temporary(folder)} if temporary(folder) else {}
        if wrong:
            problems[step] = wrong
            print(step, wrong, file=sys.stderr, flush=True)
    print(json.dumps({"steps": len(moments), "problems": problems}))


if __name__ == "__main__":
    with mini.serving() as address, light():
        os.environ |= {mini.URL: address, "DPML_OFFLINE": "0", "NO_PROXY": "127.0.0.1"}
        main(Path(sys.argv[1]).absolute(), sys.argv[2])
