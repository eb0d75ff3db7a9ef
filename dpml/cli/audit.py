"""`dpml audit`: what an attacker achieves against a release."""

import json
import math
import sys
from argparse import Namespace
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path

from rich.console import Console

from dpml.algorithms import Algorithm
from dpml.audit import DRAWS, ROUNDS, Finding, audit, default_rows
from dpml.audit.scores import CONFIDENCE
from dpml.cli.setting import one_setting
from dpml.cli.table import print_table, set_aside_common
from dpml.config.build import budget, build_adversary, build_algorithm, instantiate, whole
from dpml.privacy import Budget, Problem


def run(arguments: Namespace) -> None:
    """Print what the attacks achieve; exit with 1 if one exceeds the proven guarantee."""
    attacked = _described(arguments.overrides, arguments.config_dir)
    findings = attacked.findings()
    if arguments.json:
        print(json.dumps([_plain(finding) for finding in findings], indent=2).replace("Infinity", "1e999"))
    else:
        _show(findings, attacked.draws, attacked.problem)
    if arguments.figure is not None:
        from dpml.reporting.trade_off import draw  # Matplotlib takes a second to import

        title = f"dpml audit {' '.join(arguments.overrides)}"
        for path in draw(findings, title, arguments.figure.with_suffix("")):
            print(path, file=sys.stderr)
    if any(finding.verdict == "BUG" for finding in findings):
        sys.exit(1)


def findings_for(overrides: Iterable[str], config_dir: Path | None = None) -> list[Finding]:
    """The table that `dpml audit` prints, for the same overrides as on its command line."""
    return _described(overrides, config_dir).findings()


@dataclass(frozen=True)
class _Attacked:
    """The attacked release, on synthetic data, and the number of draws."""

    algorithm: Algorithm
    budget: Budget
    problem: Problem
    draws: int
    seed: int

    def findings(self) -> list[Finding]:
        return audit(self.algorithm, self.budget, self.problem, self.draws, self.seed)


def _described(overrides: Iterable[str], config_dir: Path | None) -> _Attacked:
    """The settings in the overrides, with the audit's own defaults.

    Raises:
        UserError: a setting is wrong, or has several values.
    """
    overrides = list(overrides)
    config, d = one_setting(overrides, "audit", config_dir)
    given = {word.partition("=")[0] for word in overrides}
    for key, few in ROUNDS.items():
        if key in config.algo and f"algo.{key}" not in given:
            config.algo[key] = few
    algorithm = build_algorithm(config, instantiate(config.dataset, "dataset"))
    M = whole(config.M, "M")
    N = whole(config.N, "N") if config.N is not None else default_rows(algorithm) * M
    colluders = build_adversary(config.adversary).count(M)
    problem = Problem(M, N, 2 if d is None else d, auxiliary=10, classes=2, colluders=colluders)
    draws = whole(config.draws, "draws") if "draws" in given else DRAWS
    return _Attacked(algorithm, budget(config.eps, config.delta), problem, draws, whole(config.seed, "seed"))


def _plain(finding: Finding) -> dict[str, object]:
    """The value for JSON: an unknown value is null."""
    rates = finding.rates and {key: value.tolist() for key, value in finding.rates._asdict().items()}
    known = asdict(replace(finding, rates=None)) | {"judgement": finding.judgement, "rates": rates}
    return {key: None if value != value else value for key, value in known.items()}


def _show(findings: Sequence[Finding], draws: int, problem: Problem) -> None:
    heads = ["view", "per", "delta", "claimed", "proven", "this pair", "attacked", "by", "verdict"]
    lines = []
    for f in findings:
        numbers = [("-" if math.isnan(eps) else f"{eps:.4g}") for eps in (f.claimed, f.proven, f.exact, f.attacked)]
        lines.append([f.view, f.unit, f"{f.delta:g}", *numbers, f.attack, f.judgement])
    heads, lines, common = set_aside_common(heads, lines, ("per", "delta"))
    console = Console()
    print_table(console, heads, lines, wrapped=("by", "verdict"))
    if any(finding.view == "colluders" for finding in findings):
        common["colluders"] = f"{problem.colluders} of {problem.M} parties"
    context = "".join(f"; {head} {value}" for head, value in common.items())
    bound = f"a lower bound at {CONFIDENCE:.0%} confidence from {draws:,} releases of either data set"
    console.print(f"eps{context}; attacked: {bound}", highlight=False)
