"""`dpml verify`: the guarantees of a published model, computed anew from its certificate.

The computation is a file of its own, `dpml/release/verify.py`, which needs nothing of dpml and may be copied anywhere.
"""

import sys
from argparse import Namespace

from dpml.release import verify


def run(arguments: Namespace) -> None:
    """Print what holds; the exit status is 0 only where every stated eps does."""
    code = verify.main(str(arguments.file))
    if code:
        sys.exit(code)
