"""`dpml release` and `dpml ledger`: one model for publication, and what was released about the same people."""

from argparse import Namespace
from dataclasses import asdict
from typing import Any, get_args

from dpml.cli.columns import print_table
from dpml.cli.files import own_file
from dpml.errors import UserError
from dpml.files import to_json
from dpml.privacy.guarantee import DECLARED, REAL
from dpml.privacy.safe import written
from dpml.release.facts import NOT_THESE_BITS
from dpml.release.ledger import Audience, Cap, Ledger, LedgerEntry, Unit, spent
from dpml.screen import Screen

_SEEN = {"release": "those who see what is published", "worst": "the worst view of every release"}
_CHOSEN = "These totals are proven if no release's algorithm or budget was chosen by what earlier ones had shown"
_NEVER = "not published, and counted: nobody can know what was seen of it"


def run_release(arguments: Namespace) -> None:
    """Release one model, recorded in a ledger before its noise is drawn, and print its guarantees."""
    from dpml.api.release import request_of  # loads Hydra and pandas
    from dpml.api.settings import Settings
    from dpml.release.release import release

    settings = Settings(own_file(arguments, arguments.overrides), config_dir=arguments.config_dir)
    allowed = {"floating": arguments.floating, "any_delta": arguments.delta_anyway, "declared": arguments.declared}
    request, path = request_of(settings, arguments.ledger, **allowed)
    ledger = Ledger(path)
    cap = None if arguments.cap is None else Cap(arguments.cap, arguments.cap_delta, request.unit)
    model, entry = release(request, ledger, cap, arguments.output)
    console = Screen()
    for sentence in (*model.statement, ""):
        console.print(sentence)
    console.print(f"{arguments.output}\n{ledger.path}: release {entry.number}")


def run_ledger(arguments: Namespace) -> None:
    """Print a ledger's releases, their total, and the budget that its cap leaves."""
    ledger = Ledger(arguments.ledger)
    if not arguments.ledger.is_file():
        raise UserError(f"there is no ledger {arguments.ledger}: `dpml release` makes one beside the data.")
    if not 0 < arguments.delta < 1:
        raise UserError(f"--delta must lie strictly between 0 and 1, got {arguments.delta:g}.")
    entries, caps = ledger.entries(), ledger.caps()
    totals = _totals(entries, arguments.delta)
    if arguments.json:
        releases = [asdict(entry) for entry in entries]
        print(to_json({"releases": releases, "totals": totals, "caps": [asdict(cap) for cap in caps]}))
        return
    _show_releases(entries)
    console = Screen()
    for total in totals:
        eps = (
            f"eps = {written(total['eps'])} at delta = {written(total['delta'], 6)}."
            if total["eps"] is not None
            else ("no total, as some protect samples only, or parties that may be others.")
        )
        console.print(f"All releases together, for one {total['unit']} and {_SEEN[total['audience']]}: {eps}")
    if len(entries) > 1:
        gaussian = all(each.mu is not None for entry in entries for each in entry.guarantees)
        rest = "; that they stay below a cap is, also if it was" if gaussian and caps else ""
        console.print(f"{_CHOSEN}{rest}.")
    for cap in caps:
        console.print(f"Cap for one {cap.unit}: eps = {cap.eps:g} at delta = {cap.delta:g}.")
    notes = {
        NOT_THESE_BITS: [entry for entry in entries if any(each.basis == REAL for each in entry.guarantees)],
        "declared by code that is not part of dpml, and not proven": [
            entry for entry in entries if any(each.basis == DECLARED for each in entry.guarantees)
        ],
        _NEVER: [entry for entry in entries if entry.model is None],
    }
    for note, concerned in notes.items():
        if concerned:
            console.print(f"Release {', '.join(str(entry.number) for entry in concerned)}: {note}.")


def _totals(entries: list[LedgerEntry], delta: float) -> list[dict[str, Any]]:
    """Compute the total of all releases per unit and audience; eps is None where they have no total (`spent`)."""
    totals = []
    for unit in get_args(Unit):
        if unit == "party" and not any(entry.unit == "party" for entry in entries):
            continue
        for audience in get_args(Audience):
            total = spent(entries, unit, audience)
            eps = None if total is None else total.eps(delta)
            totals.append({"unit": unit, "audience": audience, "eps": eps, "delta": delta})
    return totals


def _show_releases(entries: list[LedgerEntry]) -> None:
    console = Screen()
    heads = ["release", "time (UTC)", "unit", "eps published", "eps worst view", "delta", "model"]
    lines = []
    for entry in entries:
        public, worst = entry.seen_by("release"), entry.seen_by("worst")
        model = entry.model[:12] if entry.model else "-"
        shown = [str(entry.number), entry.time[:19].replace("T", " "), entry.unit, written(public.eps)]
        lines.append([*shown, written(worst.eps), written(worst.delta, 6), model])
    print_table(console, heads, lines)
    for entry in entries:
        console.print(f"Setting of release {entry.number}: {entry.setting}")
