"""Start the two commands: `dpml-run` for runs, sweeps and experiments, and `dpml` for everything else."""

import gc
import os
import signal
import sys
from importlib import import_module
from types import ModuleType

from dpml.version import __version__


def dpml_run() -> None:
    """Run the command `dpml-run`, or print the version of dpml."""
    if "--version" in sys.argv[1:]:  # Hydra would print its own version
        print(f"dpml {__version__}")
        return
    load("run").main()


def dpml() -> None:
    """Run `dpml`."""
    load("main").main()


def load(name: str) -> ModuleType:
    """Import a module of `dpml.cli`; Ctrl-C during the import ends the process at once, without a traceback."""
    usual = signal.getsignal(signal.SIGINT)
    gc.disable()  # the garbage collector would scan the growing modules again and again
    if callable(usual):
        signal.signal(signal.SIGINT, lambda *_: os._exit(130))
    try:
        return import_module(f"{__name__}.{name}")
    finally:
        gc.freeze()
        gc.enable()
        signal.signal(signal.SIGINT, usual)
