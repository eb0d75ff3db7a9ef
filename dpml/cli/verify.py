"""`dpml verify`: compute anew what is said, from what it was said of.

Of a results folder: its verdicts and tables, from its rows. Of a published model: its guarantees, from its certificate;
that computation is a file of its own, `dpml/release/verify.py`, which needs nothing of dpml and may be copied anywhere.
"""

import sys
from argparse import Namespace
from pathlib import Path

from dpml.errors import UserError


def run(arguments: Namespace) -> None:
    """Print what holds.

    Raises:
        UserError: a statement of the folder does not follow from its rows, or a file was cut or edited.
        SystemExit: with status 1 or 2, where the certificate does not give a stated eps.
    """
    if arguments.path.is_dir():
        _folder(arguments.path)
    else:
        from dpml.release import verify

        if code := verify.main(str(arguments.path)):
            sys.exit(code)


def _folder(folder: Path) -> None:
    from dpml.reporting.evidence import verify

    wrong = 0
    for one in verify(folder):
        counts = f"{one.verdicts} verdicts, {one.values} values of tables"
        print(f"{one.experiment}: {counts}: {'not so' if one.wrong else 'ok'}")
        for line in one.wrong:
            print(f"  {line}")
        wrong += len(one.wrong)
    if wrong:
        raise UserError(f"{wrong} statements of {folder} do not follow from its rows.")
