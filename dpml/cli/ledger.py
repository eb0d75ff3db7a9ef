"""`dpml ledger`: the releases about a group of people, and their total privacy loss."""

from argparse import Namespace
from dataclasses import asdict
from typing import Any, get_args

from dpml.cli.columns import print_table
from dpml.errors import UserError
from dpml.plain import to_json
from dpml.privacy.guarantee import DECLARED, REAL
from dpml.privacy.safe import written
from dpml.release.facts import NOT_THESE_BITS
from dpml.release.ledger import Audience, Cap, Ledger, LedgerEntry, Unit, spent
from dpml.screen import Screen

_SEEN = {"release": "those who see what is published", "worst": "the worst view of every release"}
_CHOSEN = "These totals are proven if no release's algorithm or budget was chosen by what earlier ones had shown"
_NEVER = "not published, and counted: nobody can know what was seen of it"


def run(arguments: Namespace) -> None:
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
    _show(entries, totals, caps)


def _totals(entries: list[LedgerEntry], delta: float) -> list[dict[str, Any]]:
    """The total of all releases per unit and audience; eps is None where they have no total (`spent`)."""
    found = []
    for unit in get_args(Unit):
        if unit == "party" and not any(entry.unit == "party" for entry in entries):
            continue
        for audience in get_args(Audience):
            total = spent(entries, unit, audience)
            eps = None if total is None else total.eps(delta)
            found.append({"unit": unit, "audience": audience, "eps": eps, "delta": delta})
    return found


def _show(entries: list[LedgerEntry], totals: list[dict[str, Any]], caps: list[Cap]) -> None:
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
    for total in totals:
        sentence = f"All releases together, for one {total['unit']} and {_SEEN[total['audience']]}: "
        sentence += (
            "no total"
            if total["eps"] is None
            else f"eps = {written(total['eps'])} at delta = {written(total['delta'], 6)}"
        )
        sentence += ", as some protect samples only, or parties that may be others." if total["eps"] is None else "."
        console.print(sentence)
    gaussian = all(each.mu is not None for entry in entries for each in entry.guarantees)
    if len(entries) > 1:
        rest = "; that they stay below a cap is, also if it was" if gaussian and caps else ""
        console.print(f"{_CHOSEN}{rest}.")
    for cap in caps:
        sentence = f"Cap for one {cap.unit}: eps = {cap.eps:g} at delta = {cap.delta:g}."
        console.print(sentence)
    floating = [str(entry.number) for entry in entries if any(each.basis == REAL for each in entry.guarantees)]
    if floating:
        console.print(f"Release {', '.join(floating)}: {NOT_THESE_BITS}.")
    declared = [str(entry.number) for entry in entries if any(each.basis == DECLARED for each in entry.guarantees)]
    if declared:
        said = "declared by code that is not part of dpml, and not proven"
        console.print(f"Release {', '.join(declared)}: {said}.")
    lost = [str(entry.number) for entry in entries if entry.model is None]
    if lost:
        console.print(f"Release {', '.join(lost)}: {_NEVER}.")
