"""`dpml audit`: what an attacker achieves against a release."""

import math
import sys
from argparse import Namespace
from collections.abc import Sequence
from dataclasses import asdict, replace

from dpml.audit import Finding
from dpml.audit.scores import CONFIDENCE
from dpml.cli.columns import print_table, set_aside_common
from dpml.cli.files import stem
from dpml.commands.audit import AttackRequest
from dpml.commands.settings import Settings
from dpml.plain import to_json
from dpml.privacy import Problem
from dpml.privacy.safe import written, written_below
from dpml.screen import Screen


def run(arguments: Namespace) -> None:
    """Print what the attacks achieve; exit with 1 if one exceeds the proven guarantee."""
    figure = None if arguments.figure is None else stem(arguments.figure)
    attack = AttackRequest.of(Settings(arguments.overrides, config_dir=arguments.config_dir))
    findings = attack.findings()
    if arguments.json:
        print(to_json([_plain(finding) for finding in findings]))
    else:
        _show(findings, attack.draws, attack.problem)
    if figure is not None and all(finding.rates is None for finding in findings):
        print("No figure: no view was attacked.", file=sys.stderr)
    elif figure is not None:
        from dpml.reporting.trade_off import draw  # Matplotlib takes a second to import

        title = f"dpml audit {' '.join(arguments.overrides)}"
        for path in draw(findings, title, figure):
            print(path, file=sys.stderr)
    if any(finding.verdict == "BUG" for finding in findings):
        sys.exit(1)


def _plain(finding: Finding) -> dict[str, object]:
    """The value for JSON: an unknown value is null."""
    rates = finding.rates and {key: value.tolist() for key, value in finding.rates._asdict().items()}
    known = asdict(replace(finding, rates=None)) | {"judgement": finding.judgement, "rates": rates}
    return {key: None if value != value else value for key, value in known.items()}


def _show(findings: Sequence[Finding], draws: int, problem: Problem) -> None:
    held = "proven" if math.isnan(findings[0].declared) else "declared"
    heads = ["view", "per", "delta", "claimed", held, "this pair", "attacked", "by", "verdict"]
    lines = []
    for f in findings:
        numbers = [f"{f.claimed:.4g}", written(f.held), *(written_below(eps) for eps in (f.exact, f.attacked))]
        numbers = ["-" if number == "nan" else number for number in numbers]
        lines.append([f.view, f.unit, f"{f.delta:g}", *numbers, f.attack, f.judgement])
    heads, lines, common = set_aside_common(heads, lines, ("per", "delta"))
    console = Screen()
    print_table(console, heads, lines)
    if any(finding.view == "colluders" for finding in findings):
        common["colluders"] = f"{problem.colluders} of {problem.M} parties"
    context = "".join(f"; {head} {value}" for head, value in common.items())
    bound = f"a lower bound at {CONFIDENCE:.0%} confidence from {draws:,} releases of either data set"
    if all(math.isnan(finding.attacked) for finding in findings):
        bound = "no view was"
    sums = "" if math.isnan(findings[0].moved) else f"; sums move by {findings[0].moved:.9g} of what is counted"
    console.print(f"eps{context}; attacked: {bound}{sums}")
    for note in findings[0].notes:
        console.print(f"Look at it: {note}.", style="yellow")
