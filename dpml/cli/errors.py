"""Turn an exception of a command into one printed sentence and an exit status."""

import os
import signal
import sys
from collections.abc import Callable, Sequence

from dpml.errors import UserError
from dpml.screen import guarded, printable


def exit_on_mistakes(program: str, main: Callable[[], None]) -> None:
    """Run `main`; after a user's mistake, print a sentence on stderr and exit with 2; after Ctrl-C, exit with 130."""
    os.environ["MPLBACKEND"] = "agg"  # a notebook sets its own backend, which is perhaps not installed here
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))  # nothing is left half-written
    try:
        with guarded():
            try:
                main()
            finally:
                sys.stdout.flush()  # an error here would otherwise appear when Python exits
    except KeyboardInterrupt:
        sys.exit(130)
    except BrokenPipeError:  # the reader of our output, such as head, has closed it
        _drop_output()
        sys.exit(1)
    except Exception as error:
        if _follows_ctrl_c(error):
            sys.exit(130)
        message = sentence(error)
        if message is None:
            raise
        try:
            sys.stdout.flush()
        except OSError:
            _drop_output()
        print(printable(f"{program}: error: {message[:2000]}"), file=sys.stderr)  # it can quote the text of a file
        sys.exit(2)


def _follows_ctrl_c(error: BaseException | None) -> bool:
    while error is not None and not isinstance(error, KeyboardInterrupt):
        error = error.__context__
    return error is not None


def _drop_output() -> None:
    """Discard output that could not be written, because Python would try to write it again at exit."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def sentence(error: Exception) -> str | None:
    """Return the sentence to print for an exception, or None if the exception is a bug."""
    if isinstance(error, UserError):
        return str(error)
    if isinstance(error, OSError) and error.errno is not None:  # errno: raised by the operating system
        path = f"{os.fsdecode(error.filename)}: " if isinstance(error.filename, str | bytes) else ""
        return f"{path}{os.strerror(error.errno).lower()}."
    if isinstance(error, MemoryError):
        return "there is not enough memory: ask for fewer rows, draws, parties or workers."
    return None


def refuse_dashed_keys(words: Sequence[str], unknown: Sequence[str]) -> None:
    """Raise UserError if one of the `unknown` words is a setting written as an option, such as `--eps 1`."""
    dashed = [word for word in unknown if word.startswith("--")]
    if not dashed:
        return
    from dpml.config.build import KEYS  # slow to load

    for word in dashed:
        name, _, value = word.removeprefix("--").partition("=")
        if name.split(".")[0] in KEYS:
            after = words[words.index(word) + 1 :]
            value = value or next((text for text in after[:1] if not text.startswith("-") and "=" not in text), "VALUE")
            raise UserError(f"{word} is a setting, not an option: write {name}={value}.")
