"""Turn exceptions into one sentence and an exit status."""

import argparse
import errno
import os
import signal
import sys
from collections.abc import Callable, Mapping
from concurrent.futures import BrokenExecutor
from pathlib import Path
from types import FrameType
from typing import NoReturn

from dpml.errors import UserError
from dpml.printable import guarded, printable

_LONGEST = 2000


def exit_on_mistakes(program: str, main: Callable[[], None]) -> None:
    """Run `main`. A mistake prints one sentence on stderr and exits with 2; Ctrl-C exits with 130, silently.

    A bug in dpml stays an exception.
    """
    os.environ["MPLBACKEND"] = "agg"  # a notebook's shell names one of its own, which may not be installed here
    usual = signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))  # nothing is left half-written
    interrupted: list[int] = []

    def interrupt(number: int, frame: FrameType | None) -> NoReturn:
        interrupted.append(number)
        raise KeyboardInterrupt

    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:  # else it is ignored, or another handler is set
        signal.signal(signal.SIGINT, interrupt)
    try:
        try:
            with guarded():
                main()
        finally:
            sys.stdout.flush()  # an error here would otherwise appear when Python exits
    except KeyboardInterrupt:
        sys.exit(130)
    except BrokenPipeError:  # the reader of our output, such as head, has closed it
        _drop_output()
        sys.exit(1)
    except Exception as error:
        if interrupted:  # a library raised this after Ctrl-C while it restored its own state
            sys.exit(130)
        message = sentence(error)
        if message is not None and program == "dpml-run" and getattr(error, "filename", None):  # not stdout
            message = message.replace("write elsewhere", "write elsewhere with results_dir=DIR")
        if message is None:
            raise
        try:
            sys.stdout.flush()
        except OSError:
            _drop_output()
        fail(program, message)
    finally:
        signal.signal(signal.SIGTERM, usual or signal.SIG_DFL)  # while Python ends, an exception would be printed


def _drop_output() -> None:
    """What could not be written is not written when Python exits either, which would be an error of its own."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def fail(program: str, message: str) -> NoReturn:
    """Exit with 2 and one sentence on stderr."""
    short = message if len(message) <= _LONGEST else f"{message[:_LONGEST]} ..."  # what others wrote may be in it
    print(printable(f"{program}: error: {short}"), file=sys.stderr)
    sys.exit(2)


def sentence(error: Exception) -> str | None:
    """The meaning of an exception and the remedy, with the nearest valid name; None for a bug."""
    if isinstance(error, UserError):
        return str(error)
    if isinstance(error, OSError) and error.errno is not None:  # without errno it is not the system's error
        return _of_system(error, error.errno)
    if isinstance(error, MemoryError):
        detail = f" ({error})" if str(error) else ""
        return f"there is not enough memory{detail}: ask for fewer rows, draws, parties or workers."
    if isinstance(error, BrokenExecutor):
        return "a worker process was killed, most likely for want of memory: ask for fewer workers or draws."
    from dpml.config import override_errors  # here, as it loads Hydra and half of dpml, which `--help` does not need

    return override_errors.sentence(error, override_errors.Line(*_command_line()))


def _command_line() -> tuple[list[str], Path | None]:
    """The overrides that this process was started with, and the user's own folder of options."""
    parser = argparse.ArgumentParser(add_help=False, allow_abbrev=False)
    parser.add_argument("--config-dir", "-cd", type=Path)
    known, words = parser.parse_known_args(sys.argv[1:])
    # the words of a command, such as `data partition`, are not overrides
    return [word for word in words if "=" in word and not word.startswith("-")], known.config_dir


# ---- the system


_ADVICE: Mapping[int, str] = {
    errno.ENOSPC: "the disk is full: make room, or write elsewhere",
    errno.EDQUOT: "the disk quota is used up: make room, or write elsewhere",
    errno.EROFS: "the file system is read-only: write elsewhere",
    errno.EACCES: "permission denied: change the permissions, or choose another folder",
    errno.EPERM: "permission denied: change the permissions, or choose another folder",
    errno.ENOTDIR: "a part of this path is a file, not a folder: choose another folder",
    errno.EEXIST: "there is a file of this name: choose another folder",
    errno.EISDIR: "this is a folder, not a file: choose another path",
    errno.ENOENT: "there is no such file or folder, and none can be made: choose another",
    errno.ENAMETOOLONG: "the name is too long: choose a shorter one",
    errno.EMFILE: "too many files are open: raise the limit (ulimit -n), or use fewer workers",
    errno.ENOMEM: "there is not enough memory: ask for fewer rows, draws, parties or workers",
}


def _of_system(error: OSError, number: int) -> str:
    """The path and what is wrong with it."""
    path = f"{os.fsdecode(error.filename)}: " if isinstance(error.filename, str | bytes) else ""
    return f"{path}{_ADVICE.get(number, os.strerror(number).lower())}."
