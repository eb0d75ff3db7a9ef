"""Run `dpml federate`, which trains one model on rows that parties keep on their own machines."""

import json
import os
import sys
import tempfile
from argparse import Namespace
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import redirect_stdout
from dataclasses import replace
from pathlib import Path
from typing import Any

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from dpml.cli.files import READING, refuse_replacing, written
from dpml.data.csv.column_bounds import ColumnBounds, load
from dpml.data.preprocess import check_ball
from dpml.errors import UserError, refuse_unknown
from dpml.federated.aggregator import Federated, Kept, aggregate, publish
from dpml.federated.agreed import Agreed, agreed_of
from dpml.federated.consortium import write_certificates, write_consortium
from dpml.federated.link import Callers, address_of, client_tls, listening, server_tls, take_part
from dpml.federated.party import Member, own_rows, signing_key
from dpml.federated.plan import FederationPlan, Seat, most_dropouts, read_card, read_plan, task_of
from dpml.files import check_writable, write_atomically
from dpml.optim.losses import for_task
from dpml.release.inference import expected
from dpml.release.ledger import Cap, default_ledger
from dpml.running.cell import limit_blas
from dpml.screen import Screen

_ROWS = 200  # rows of each party until the number is known: the guarantee does not depend on it


def run_card(arguments: Namespace) -> None:
    """Write a party's card: its number of rows and its public key."""
    refuse_replacing(arguments.output, arguments.data, arguments.key, arguments.bounds)
    seat = _seat(arguments, arguments.output.stem, arguments.data, signing_key(arguments.key), written(arguments))
    write_atomically(arguments.output, json.dumps({"rows": seat.rows, "key": seat.key.hex()}) + "\n")


def run_plan(arguments: Namespace) -> None:
    """Combine the cards (rows and public keys) of all parties into the plan of a release."""
    check_writable(arguments.output)
    plan = _agreed(arguments, [read_card(path) for path in arguments.cards])
    write_atomically(arguments.output, plan.text)
    _say(plan)


def run_sign(arguments: Namespace) -> None:
    """Sign the plan of a release, and add the signatures from other copies of the plan."""
    plan = read_plan(arguments.plan)
    for path in arguments.copies:
        other = read_plan(path)
        if other.digest != plan.digest:
            raise UserError(f"{path} and {arguments.plan} are different plans: all parties must sign the same plan.")
        plan = plan.with_signatures(other.signatures)
    if arguments.key is not None:
        plan = plan.signed(signing_key(arguments.key, make=False))
    _say(plan)
    write_atomically(arguments.plan, plan.text)


def run_tls(arguments: Namespace) -> None:
    """Write the aggregator's TLS certificate and the certificate's private key."""
    write_certificates(arguments.host, arguments.folder)


def run_party(arguments: Namespace) -> None:
    """Take part in a release as one party, and write the released model."""
    address = address_of(arguments.aggregator)
    context = client_tls(address, arguments.ca)
    check_writable(arguments.output)
    plan = read_plan(arguments.plan)
    ledger = arguments.ledger or default_ledger(arguments.data)
    signer = signing_key(arguments.key, make=False)
    cap = None if arguments.cap is None else Cap(arguments.cap, arguments.cap_delta)
    member = Member(plan, signer, arguments.data, ledger, cap=cap, reading=written(arguments))
    _say(plan)
    print(f"party {plan.seats[member.number].name} takes part; end it with Ctrl-C.", flush=True)
    with limit_blas():
        model = take_part(signer, plan, member.answer, address, arguments.wait, context)
    member.receive_model(model, arguments.output)
    print(arguments.output)


def run_aggregator(arguments: Namespace) -> None:
    """Wait for all parties of a release, and compute the model with them."""
    address = address_of(arguments.listen)
    context = server_tls(address, arguments.certificate, arguments.certificate_key)
    plan = read_plan(arguments.plan)
    plan.require_signatures()
    kept = Kept(arguments.output.with_name(f"{arguments.output.name}.sums"), plan)
    if kept.done < len(plan.sums.lengths):
        check_writable(arguments.output)
    _say(plan)
    if kept.done:
        print(f"{kept.folder} has the first {kept.done} sums of this release: it continues from there.", flush=True)
    with listening(plan, address, arguments.timeout, context) as (called, _):
        made = _aggregate(plan, called, arguments.wait, arguments.output, kept)
    kept.forget()
    _say_result(made, plan, arguments.output)


def _aggregate(plan: FederationPlan, called: Callers, wait: float, output: Path, kept: Kept | None = None) -> Federated:
    called.await_all(wait)

    def progress(done: int, parties: int) -> None:
        print(f"sum {done} of {len(plan.sums.lengths)}, of {parties} of {len(plan.seats)} parties", file=sys.stderr)

    with limit_blas():
        made = aggregate(plan, called.exchange, progress, kept)
    publish(made, output)
    called.end(made.model.text())
    for refusal in made.refused:
        print(f"refused: {refusal}", file=sys.stderr)
    return made


def _say_result(made: Federated, plan: FederationPlan, output: Path) -> None:
    names = ", ".join(plan.seats[party].name for party in made.survivors)
    print(f"{output} has a model of the rows of {names}.")
    if made.model.errors is not None:
        print(made.model.statement[-1])


def run_try(arguments: Namespace) -> None:
    """Make a joint release on this machine or, without --release, rehearse it and delete its model and ledgers."""
    files, output = arguments.files, arguments.output
    readings = _readings(arguments.reading, [data.stem for data in files])
    if arguments.release:
        check_writable(output)
    keys = {data: Ed25519PrivateKey.generate() for data in files}
    plan = _agreed(arguments, [_seat(arguments, data.stem, data, keys[data], readings[data.stem]) for data in files])
    for key in keys.values():
        plan = plan.signed(key)
    _say(plan)
    with tempfile.TemporaryDirectory(prefix="dpml") as temporary:
        folder, members = Path(temporary), []
        for data, key in keys.items():
            ledger = default_ledger(data) if arguments.release else folder / f"{data.stem}.ledger"
            members.append(Member(plan, key, data, ledger, reading=readings[data.stem]))
        with (
            limit_blas(),
            redirect_stdout(None),  # the parties' progress
            ThreadPoolExecutor(len(members)) as threads,
            listening(plan, ("127.0.0.1", 0), arguments.timeout, None) as (called, port),
        ):
            parts = zip(keys.values(), members, strict=True)
            models = [threads.submit(take_part, key, plan, member.answer, ("127.0.0.1", port), 0.0, None)
                      for key, member in parts]  # fmt: skip
            made = _aggregate(plan, called, arguments.wait, output if arguments.release else folder / "model.json")
        if arguments.release:
            _say_result(made, plan, output)
        else:  # no ledger has recorded the model, so nothing of it may be shown
            print("This was a rehearsal: no ledger was charged, and its model is deleted. To make it, add --release.")
        for data, member, model in zip(files, members, models, strict=True):
            member.receive_model(model.result(), folder / f"{data.stem}.json")


def _readings(options: Sequence[Sequence[str]], names: Sequence[str]) -> dict[str, dict[str, Any]]:
    readings: dict[str, dict[str, Any]] = {name: {} for name in names}
    for name, *words in options:
        refuse_unknown("file", [name], names, "--reading")
        for key, _, value in (word.partition("=") for word in words):
            refuse_unknown("key", [key], READING, "--reading")
            readings[name][key] = tuple(value.split(",")) if key == "na" else value
    return readings


def run_init(arguments: Namespace) -> None:
    """Write a folder for each party and for the aggregator, and print the guarantee of the planned release."""
    address = address_of(arguments.aggregator)
    names = arguments.parties
    if len(names) == 1 and names[0].isdecimal():
        names = [f"hospital-{k + 1}" for k in range(int(names[0]))]
    adversary = ["--colluders", str(arguments.colluders), *["--floating"] * arguments.floating]
    adversary += [] if arguments.dropouts is None else ["--dropouts", str(arguments.dropouts)]
    plan = _agreed(arguments, [Seat(name, _ROWS, os.urandom(32)) for name in names])  # nobody has keys yet
    write_consortium(names, address, load(arguments.bounds), ("--set", *_words(arguments)), adversary, arguments.folder)
    _say_what_is_agreed(plan)
    print(f"{arguments.folder} has a folder for each of {', '.join(names)}, and for the aggregator: send each its own.")
    print("In its folder, each party creates its signing key and keeps it secret. STEPS.md says how.")


def _seat(arguments: Namespace, name: str, data: Path, signer: Ed25519PrivateKey, reading: Mapping[str, Any]) -> Seat:
    stated, terms = _terms(arguments)
    check_ball(terms.dataset.steps, stated.columns)
    _, y = own_rows(replace(terms.dataset, **reading), stated, data)
    return Seat(name, len(y), signer.public_key().public_bytes_raw())


def _terms(arguments: Namespace) -> tuple[ColumnBounds, Agreed]:
    stated = load(arguments.bounds)
    return replace(stated, reading={}), agreed_of(_words(arguments), stated.reading)


def _words(arguments: Namespace) -> list[str]:
    return [*arguments.overrides, *([f"dataset.label={arguments.label}"] if arguments.label else [])]


def _agreed(arguments: Namespace, seats: Sequence[Seat]) -> FederationPlan:
    colluders = arguments.colluders
    dropouts = most_dropouts(len(seats), colluders) if arguments.dropouts is None else arguments.dropouts
    stated, terms = _terms(arguments)
    terms = terms.with_exact_noise(for_task(task_of(stated), terms.loss), arguments.floating)
    plan = FederationPlan(terms, stated, tuple(seats), colluders, dropouts)
    plan.facts.require_small_delta()
    return plan


def _say(plan: FederationPlan) -> None:
    unsigned = set(plan.unsigned)  # evaluated once, because it verifies every signature
    signed = {seat.name: "" if seat.name in unsigned else ", signed" for seat in plan.seats}
    seats = [f"{seat.name}: {seat.rows:,} rows, key {seat.fingerprint}{signed[seat.name]}" for seat in plan.seats]
    expectation = expected(plan.algorithm, plan.terms.budget, plan.problem)
    _say_what_is_agreed(plan, *expectation, f"Plan {plan.digest}", *seats)


def _say_what_is_agreed(plan: FederationPlan, *more: str) -> None:
    console = Screen()
    sums, errors = len(plan.sums.lengths), plan.terms.count_errors
    messages = f"Secure sums of the release: {sums}, with {5 * sums} messages to every party."
    if errors is not None:
        messages += f" The last sum counts the model's errors on its rows, for eps = {errors:g} of the guarantee."
    for sentence in (*plan.statement, messages, *more):
        console.print(sentence)
