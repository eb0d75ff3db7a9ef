"""`dpml federate`: train one model on the rows of parties that keep them on their own machines."""

import json
import tempfile
from argparse import Namespace
from contextlib import ExitStack
from pathlib import Path

from rich.console import Console

from dpml.atomic import write_atomically
from dpml.config.build import instantiate
from dpml.data.csv.column_bounds import load
from dpml.errors import UserError
from dpml.federated.aggregator import check_free
from dpml.federated.flower import write_app
from dpml.federated.local import federation, parties
from dpml.federated.party import Member, serve, signing_key
from dpml.federated.party_rows import own_rows
from dpml.federated.plan import (
    FederationPlan,
    Seat,
    check_columns,
    check_setting,
    compose_setting,
    most_dropouts,
    read_card,
    read_plan,
    with_exact_noise,
)


def run(arguments: Namespace) -> None:
    """Carry out the action."""
    actions = {"card": _card, "plan": _plan, "party": _party, "app": _app, "try": _try}
    actions[arguments.action](arguments)


def _card(arguments: Namespace) -> None:
    seat = _seat(arguments, arguments.data, arguments.key)
    _write(arguments.output, json.dumps({"rows": seat.rows, "key": seat.key.hex()}) + "\n")


def _plan(arguments: Namespace) -> None:
    check_free(arguments.output)
    plan = _agreed(arguments, [read_card(path) for path in arguments.cards])
    _write(arguments.output, plan.text)
    _say(plan)


def _party(arguments: Namespace) -> None:
    plan = read_plan(arguments.plan)
    ledger = arguments.ledger or arguments.data.with_name(f"{arguments.data.name}.ledger")
    member = Member(plan, signing_key(arguments.key), arguments.data, ledger)
    _say(plan)
    print(f"party {plan.seats[member.number].name} answers on {arguments.socket}; end it with Ctrl-C.", flush=True)
    try:
        serve(member, arguments.socket)
    except KeyboardInterrupt:
        arguments.socket.unlink(missing_ok=True)


def _app(arguments: Namespace) -> None:
    write_app(arguments.folder)


def _try(arguments: Namespace) -> None:
    """The whole federation on this machine: keys, plan, parties, Flower, and one release."""
    check_free(arguments.output)
    with tempfile.TemporaryDirectory(prefix="dpml") as temporary, ExitStack() as stack:
        folder = Path(temporary)
        keys = [folder / f"{k}.key" for k in range(len(arguments.files))]
        seats = [_seat(arguments, data, key) for data, key in zip(arguments.files, keys, strict=True)]
        plan = _agreed(arguments, seats)
        place = folder / "plan.yaml"
        _write(place, plan.text)
        _say(plan)
        sockets = stack.enter_context(parties(place, arguments.files, keys, folder))
        flower = stack.enter_context(federation(sockets, folder / "run"))
        said = flower.run(place, arguments.output)
    if not arguments.output.exists():
        ours = [line for line in said.splitlines() if line.startswith("dpml: ")] or said.splitlines()[-1:] or [""]
        raise UserError(f"there is no model: {' '.join(ours).removeprefix('dpml: ')}")
    print(arguments.output)


def _seat(arguments: Namespace, data: Path, key: Path) -> Seat:
    """A party of this plan, with its number of rows; creates its key if it has none."""
    check_setting(arguments.overrides)
    stated = load(arguments.bounds)
    dataset = instantiate(compose_setting(arguments.overrides).dataset, "dataset")
    check_columns(dataset, stated)
    _, y = own_rows(dataset, stated, data)
    return Seat(data.stem, len(y), signing_key(key).public_key().public_bytes_raw())


def _agreed(arguments: Namespace, seats: list[Seat]) -> FederationPlan:
    colluders = arguments.colluders
    dropouts = most_dropouts(len(seats), colluders) if arguments.dropouts is None else arguments.dropouts
    stated = load(arguments.bounds)
    setting = with_exact_noise(arguments.overrides, stated, arguments.floating)
    plan = FederationPlan(setting, stated, tuple(seats), colluders, dropouts)
    check_columns(plan.dataset, plan.stated)
    return plan


def _say(plan: FederationPlan) -> None:
    console = Console()
    sums = len(plan.sums.lengths)
    rounds = f"{sums} secure sums, one after the other" if sums > 1 else "one secure sum"
    messages = f"The release is {rounds}: {5 * sums} messages to every party."
    for sentence in (*plan.statement, messages):
        console.print(sentence, highlight=False, markup=False)


def _write(path: Path, text: str) -> None:
    try:
        write_atomically(path, text)
    except OSError as error:
        raise UserError(f"{path} cannot be written: {error.strerror}.") from None
