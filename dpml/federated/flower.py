"""Flower's side: its nodes relay between the aggregator and the parties, and know neither rows nor keys.

Tried with Flower 1.41. The app that `flwr run` sends to the nodes (`write_app`) is two lines that call this module.
"""

import sys
import time
from collections.abc import Mapping
from importlib import import_module
from pathlib import Path
from typing import Any

from dpml.atomic import write_atomically
from dpml.errors import UserError
from dpml.federated.aggregator import aggregate, check_free, publish
from dpml.federated.party import REFUSED, ask
from dpml.federated.plan import read_plan

_RECORD, _BYTES = "dpml", "bytes"
_POLL = 0.5  # seconds between two looks for nodes

_PYPROJECT = """\
[project]
name = "dpml-federation"
version = "1.0.0"
description = "One secure sum between the parties of a dpml plan"
dependencies = []

[tool.flwr.app]
publisher = "dpml"

[tool.flwr.app.components]
serverapp = "dpml_apps:server"
clientapp = "dpml_apps:client"

[tool.flwr.app.config]
plan = "plan.yaml"
output = "model.json"
wait = 60.0
timeout = 60.0
"""
_APPS = """\
from dpml.federated.flower import client_app, server_app

client = client_app()
server = server_app()
"""


def flower(module: str) -> Any:
    """A module of Flower, which is no part of a plain installation.

    Raises:
        UserError: it is not installed.
    """
    try:
        return import_module(module)
    except ModuleNotFoundError as error:
        if str(error.name).partition(".")[0] != "flwr":
            raise
        raise UserError(
            "parties on machines of their own need Flower, which is not installed: "
            "pip install 'multiparty-dp[federated]'."
        ) from None


def write_app(folder: Path) -> None:
    """Write the app for `flwr run FOLDER`.

    Raises:
        UserError: the folder cannot be written.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
        write_atomically(folder / "pyproject.toml", _PYPROJECT)
        write_atomically(folder / "dpml_apps.py", _APPS)
    except OSError as error:
        raise UserError(f"{folder} cannot be written: {error.strerror}.") from None


def client_app() -> Any:
    """A node's app: it asks the party behind the socket that the node's configuration names."""
    app = flower("flwr.clientapp").ClientApp()

    def relay(message: Any, context: Any) -> Any:
        try:
            answer = ask(Path(str(context.node_config["socket"])), _content(message))
        except (KeyError, OSError, EOFError) as error:
            print(f"dpml: no party answers: {error!r}", file=sys.stderr)
            answer = REFUSED + b"a node has no party behind it."
        return flower("flwr.app").Message(_records(answer), reply_to=message)

    app.query()(relay)
    return app


def server_app() -> Any:
    """The aggregator's app. `plan`, `output`, and the seconds to `wait` for nodes and for answers, are its options."""
    app = flower("flwr.serverapp").ServerApp()

    def main(grid: Any, context: Any) -> None:
        options = context.run_config
        place = Path(str(options["output"]))
        try:
            check_free(place)
            plan = read_plan(Path(str(options["plan"])))
            nodes = _nodes(grid, len(plan.seats), float(options["wait"]))
            made = aggregate(plan, nodes, lambda mail: _exchange(grid, mail, float(options["timeout"])))
            publish(made, place)
        except UserError as error:
            print(f"dpml: {error}", file=sys.stderr, flush=True)
            raise
        names = ", ".join(plan.seats[party].name for party in made.survivors)
        print(f"dpml: {place} has a model of the rows of {names}.", flush=True)
        for refusal in made.refused:
            print(f"dpml: refused: {refusal}", file=sys.stderr, flush=True)

    app.main()(main)
    return app


def _nodes(grid: Any, parties: int, wait: float) -> list[int]:
    """The nodes that there are: when there is one for every party, or when nobody else is waited for."""
    end = time.monotonic() + wait
    while len(nodes := list(grid.get_node_ids())) < parties and time.monotonic() < end:
        time.sleep(_POLL)
    return nodes


def _exchange(grid: Any, mail: Mapping[int, bytes], timeout: float) -> dict[int, bytes]:
    message = flower("flwr.app").Message
    outgoing = [message(_records(said), dst_node_id=node, message_type="query") for node, said in mail.items()]
    replies = grid.send_and_receive(outgoing, timeout=timeout)
    return {reply.metadata.src_node_id: _content(reply) for reply in replies if not reply.has_error()}


def _records(said: bytes) -> Any:
    app = flower("flwr.app")
    return app.RecordDict({_RECORD: app.ConfigRecord({_BYTES: said})})


def _content(message: Any) -> bytes:
    return bytes(message.content[_RECORD][_BYTES])
