"""`dpml audit`: what an attacker achieves against a release."""

import json
import math
import sys
from argparse import Namespace
from dataclasses import asdict

from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table

from dpml.audit import CONFIDENCE, DRAWS, ROUNDS, ROWS, audit
from dpml.cli.setting import one_setting
from dpml.config.build import budget, build_algorithm, instantiate, whole
from dpml.privacy import Problem


def run(arguments: Namespace) -> None:
    """Print what attacks achieve; exit with 1 when one exceeds what is proven."""
    config, d = one_setting(arguments.overrides, "audit", arguments.config_dir)
    given = {word.partition("=")[0] for word in arguments.overrides}
    for key in ("rounds", "epochs"):  # few say as much as many, and sooner
        if key in config.algo and f"algo.{key}" not in given:
            config.algo[key] = ROUNDS
    algorithm = build_algorithm(config, instantiate(config.dataset, "dataset"))
    M = whole(config.M, "M")
    N = whole(config.N, "N") if config.N is not None else ROWS * M
    problem = Problem(M, N, 2 if d is None else d, auxiliary=10, classes=2)
    draws = whole(config.draws, "draws") if "draws" in given else DRAWS
    findings = audit(algorithm, budget(config.eps, config.delta), problem, draws, whole(config.seed, "seed"))
    if arguments.json:
        print(json.dumps([asdict(finding) for finding in findings], indent=2).replace("Infinity", "1e999"))
    else:
        table = Table(
            "view", "per", "delta", "claimed", "proven", "this pair", "attacked", "by", "verdict", box=SIMPLE_HEAD
        )
        for f in findings:
            numbers = [("-" if math.isnan(eps) else f"{eps:.4g}") for eps in (f.claimed, f.proven, f.exact, f.attacked)]
            table.add_row(f.view, f.unit, f"{f.delta:g}", *numbers, f.attack, f.verdict)
        Console().print(table)
        print(f"eps; attacked: a lower bound at {CONFIDENCE:.0%} confidence from {draws:,} releases of either data set")
    if any(finding.verdict == "BUG" for finding in findings):
        sys.exit(1)
