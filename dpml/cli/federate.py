"""`dpml federate`: train one model on the rows of parties that keep them on their own machines."""

import json
import os
import sys
import tempfile
from argparse import Namespace
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from pathlib import Path
from subprocess import DEVNULL, Popen

from dpml.cli.files import refuse_replacing
from dpml.data.csv.column_bounds import ColumnBounds, load
from dpml.errors import UserError
from dpml.federated.aggregator import Kept, aggregate, publish
from dpml.federated.agreed import Agreed, agreed_of
from dpml.federated.consortium import write_certificates, write_consortium
from dpml.federated.link import Callers, address_of, client_tls, listening, server_tls, take_part
from dpml.federated.party import Member, own_rows, signing_key
from dpml.federated.plan import (
    FederationPlan,
    Seat,
    check_columns,
    most_dropouts,
    read_card,
    read_plan,
    task_of,
)
from dpml.files import check_writable, write_atomically
from dpml.optim.losses import for_task
from dpml.release.ledger import Cap, beside
from dpml.running.cell import limit_blas
from dpml.screen import Screen

_MOST_FOLDERS = 1000
_ROWS = 200  # of each party while the number is unknown: the guarantee does not depend on it
_LONGEST = 1_000_000  # seconds, 11 days: sockets take no more than 24


def run_federate(arguments: Namespace) -> None:
    """Carry out the action."""
    for name in ("wait", "timeout"):
        seconds = getattr(arguments, name, 1.0)
        if not 0 < seconds <= _LONGEST:
            raise UserError(f"--{name} must be above 0 and at most {_LONGEST:,} seconds, got {seconds:g}.")
    actions = {
        "card": _card,
        "plan": _plan,
        "sign": _sign,
        "tls": _tls,
        "party": _party,
        "aggregator": _aggregator,
        "try": _try,
        "init": _init,
    }  # fmt: skip
    actions[arguments.action](arguments)


def _card(arguments: Namespace) -> None:
    refuse_replacing(arguments.output, arguments.data, arguments.key, arguments.bounds)
    seat = _seat(arguments, arguments.output.stem, arguments.data, arguments.key)
    _write(arguments.output, json.dumps({"rows": seat.rows, "key": seat.key.hex()}) + "\n")


def _plan(arguments: Namespace) -> None:
    check_writable(arguments.output)
    plan = _agreed(arguments, [read_card(path) for path in arguments.cards])
    _write(arguments.output, plan.text)
    _say(plan)


def _sign(arguments: Namespace) -> None:
    """Add the signature of a key, and those in other copies, to the plan's file."""
    plan = read_plan(arguments.plan)
    for path in arguments.copies:
        other = read_plan(path)
        if other.digest != plan.digest:
            raise UserError(f"{path} is another plan than {arguments.plan}: sign one and the same.")
        plan = plan.with_signatures(other.signatures)
    if arguments.key is not None:
        plan = plan.signed(signing_key(arguments.key, make=False))
    _say(plan)
    _write(arguments.plan, plan.text)


def _tls(arguments: Namespace) -> None:
    write_certificates(arguments.host, arguments.folder)


def _party(arguments: Namespace) -> None:
    address = address_of(arguments.aggregator)
    context = client_tls(address, arguments.ca)
    check_writable(arguments.output)
    plan = read_plan(arguments.plan)
    ledger = arguments.ledger or beside(arguments.data)
    signer = signing_key(arguments.key, make=False)
    cap = None if arguments.cap is None else Cap(arguments.cap, arguments.cap_delta)
    member = Member(plan, signer, arguments.data, ledger, cap=cap)
    _say(plan)
    print(f"party {plan.seats[member.number].name} takes part; end it with Ctrl-C.", flush=True)
    with limit_blas():
        model = take_part(signer, plan, member.answer, address, arguments.wait, context)
    member.receive_model(model, arguments.output)
    print(arguments.output)


def _aggregator(arguments: Namespace) -> None:
    address = address_of(arguments.listen)
    context = server_tls(address, arguments.certificate, arguments.certificate_key)
    plan = read_plan(arguments.plan)
    plan.require_signatures()
    kept = Kept(arguments.output.with_name(f"{arguments.output.name}.sums"), plan)
    if kept.done < len(plan.sums.lengths):
        check_writable(arguments.output)
    _say(plan)
    if kept.done:
        print(f"{kept.folder} has the first {kept.done} sums of this release, which goes on from there.", flush=True)
    with listening(plan, address, arguments.timeout, context) as (called, _):
        _aggregate(plan, called, arguments, kept)
    kept.forget()


def _aggregate(plan: FederationPlan, called: Callers, arguments: Namespace, kept: Kept | None = None) -> None:
    called.await_all(arguments.wait)

    def progress(done: int, parties: int) -> None:
        print(f"sum {done} of {len(plan.sums.lengths)}, of {parties} of {len(plan.seats)} parties", file=sys.stderr)

    with limit_blas():
        made = aggregate(plan, range(len(plan.seats)), called.exchange, progress, kept)
    publish(made, arguments.output)
    called.end(made.model.text())
    for refusal in made.refused:
        print(f"refused: {refusal}", file=sys.stderr)
    names = ", ".join(plan.seats[party].name for party in made.survivors)
    print(f"{arguments.output} has a model of the rows of {names}.")
    if made.model.errors is not None:
        print(made.model.statement[-1])


def _try(arguments: Namespace) -> None:
    """The whole federation on this machine: keys, a plan that all sign, a process for each party, one release."""
    check_writable(arguments.output)
    with tempfile.TemporaryDirectory(prefix="dpml") as temporary, ExitStack() as stack:
        folder = Path(temporary)
        keys = [folder / f"{k}.key" for k in range(len(arguments.files))]
        seats = [_seat(arguments, data.stem, data, key) for data, key in zip(arguments.files, keys, strict=True)]
        plan = _agreed(arguments, seats)
        for key in keys:
            plan = plan.signed(signing_key(key))
        place = folder / "plan.json"
        _write(place, plan.text)
        _say(plan)
        called, port = stack.enter_context(listening(plan, ("127.0.0.1", 0), arguments.timeout, None))
        running = [
            stack.enter_context(_started(data, place, key, folder / f"{k}.json", port, arguments.wait))
            for k, (data, key) in enumerate(zip(arguments.files, keys, strict=True))
        ]
        _aggregate(plan, called, arguments)
        for process in running:
            process.wait()


def _init(arguments: Namespace) -> None:
    """Write a folder for each party and the aggregator, and print what would be guaranteed."""
    address = address_of(arguments.aggregator)
    names = arguments.parties
    if len(names) == 1 and names[0].isdecimal() and int(names[0]) <= _MOST_FOLDERS:
        names = [f"hospital-{k + 1}" for k in range(int(names[0]))]
    adversary = ["--colluders", str(arguments.colluders)]
    adversary += [] if arguments.dropouts is None else ["--dropouts", str(arguments.dropouts)]
    adversary += ["--floating"] if arguments.floating else []
    adversary += ["--delta-anyway"] if arguments.delta_anyway else []
    plan = _agreed(arguments, [Seat(name, _ROWS, os.urandom(32)) for name in names])  # nobody has keys yet
    write_consortium(names, address, plan.stated, ("--set", *arguments.overrides), adversary, arguments.folder)
    _say_what_is_agreed(plan)
    print(f"{arguments.folder} has a folder for each of {', '.join(names)}, and for the aggregator: send each its own.")
    print("Each makes its signing key there, and keeps it. STEPS.md says how.")


@contextmanager
def _started(data: Path, plan: Path, key: Path, model: Path, port: int, wait: float) -> Iterator[Popen[bytes]]:
    words = [sys.executable, "-c", "from dpml.cli import dpml; dpml()", "federate", "party", str(data), "--plan", plan]
    words += ["--key", key, "--aggregator", f"127.0.0.1:{port}", "--wait", str(wait), "-o", model]
    process = Popen([str(word) for word in words], stdin=DEVNULL, stdout=DEVNULL)
    try:
        yield process
    finally:
        process.terminate()
        process.wait()


def _seat(arguments: Namespace, name: str, data: Path, key: Path) -> Seat:
    """A party of this plan, with its number of rows; creates its key if it has none."""
    stated, terms = _terms(arguments)
    dataset = terms.dataset
    check_columns(dataset, stated)
    _, y = own_rows(dataset, stated, data)
    return Seat(name, len(y), signing_key(key).public_key().public_bytes_raw())


def _terms(arguments: Namespace) -> tuple[ColumnBounds, Agreed]:
    """Return what is stated of the columns, and the terms, which have what the bounds file says of the reading."""
    stated = load(arguments.bounds)
    return replace(stated, reading={}), agreed_of(arguments.overrides, stated.reading)


def _agreed(arguments: Namespace, seats: list[Seat]) -> FederationPlan:
    colluders = arguments.colluders
    dropouts = most_dropouts(len(seats), colluders) if arguments.dropouts is None else arguments.dropouts
    stated, terms = _terms(arguments)
    terms = terms.with_exact_noise(for_task(task_of(stated), terms.loss), arguments.floating)
    plan = FederationPlan(terms, stated, tuple(seats), colluders, dropouts)
    check_columns(plan.dataset, plan.stated)
    if not arguments.delta_anyway:
        plan.facts.require_small_delta()
    return plan


def _say(plan: FederationPlan) -> None:
    unsigned = set(plan.unsigned)  # once: every signature is verified for it
    seats = [
        f"{seat.name}: {seat.rows:,} rows, key {seat.fingerprint}{'' if seat.name in unsigned else ', signed'}"
        for seat in plan.seats
    ]
    _say_what_is_agreed(plan, f"Plan {plan.digest}", *seats)


def _say_what_is_agreed(plan: FederationPlan, *more: str) -> None:
    console = Screen()
    sums, errors = len(plan.sums.lengths), plan.terms.count_errors
    rounds = f"{sums} secure sums, one after the other" if sums > 1 else "one secure sum"
    messages = f"The release is {rounds}: {5 * sums} messages to every party."
    if errors is not None:
        messages += (
            f" The last sum counts the model's errors on the rows it is made of, for eps = {errors:g} of its own, "
        )
        messages += "which is in the guarantee."
    for sentence in (*plan.statement, messages, *more):
        console.print(sentence)


def _write(path: Path, text: str) -> None:
    try:
        write_atomically(path, text)
    except OSError as error:
        raise UserError(f"{path} cannot be written: {error.strerror}.") from None
