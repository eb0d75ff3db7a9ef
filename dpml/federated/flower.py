"""The aggregator as a Flower app: its messages reach the parties through Flower's nodes (`dpml.federated.relay`).

Tried with Flower 1.41. `write_app` makes the folder that `flwr run` sends to the nodes.
"""

import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from dpml.atomic import write_atomically
from dpml.errors import UserError
from dpml.federated.aggregator import aggregate, check_free, publish
from dpml.federated.plan import read_plan
from dpml.federated.relay import content, flower, records

_POLL = 0.5  # seconds between two searches for nodes

_PYPROJECT = """\
[project]
name = "dpml-federation"
version = "1.0.0"
license = "MIT"
description = "Secure sums between the parties of a dpml plan"
dependencies = []

[tool.flwr.app]
publisher = "dpml"

[tool.flwr.app.components]
serverapp = "dpml_server:app"
clientapp = "dpml_client:app"

[tool.flwr.app.config]
plan = "plan.yaml"
output = "model.json"
wait = 60.0
timeout = 60.0
"""
_APPS = {
    "pyproject.toml": _PYPROJECT,
    "dpml_client.py": "from dpml.federated.relay import client_app\n\napp = client_app()\n",
    "dpml_server.py": "from dpml.federated.flower import server_app\n\napp = server_app()\n",
}


def write_app(folder: Path) -> None:
    """Write the app for `flwr run FOLDER`.

    Raises:
        UserError: the folder cannot be written.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for name, text in _APPS.items():
            write_atomically(folder / name, text)
    except OSError as error:
        raise UserError(f"{folder} cannot be written: {error.strerror}.") from None


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
    """The connected nodes, as soon as there is one for every party or the time to wait for others is over."""
    end = time.monotonic() + wait
    while len(nodes := list(grid.get_node_ids())) < parties and time.monotonic() < end:
        time.sleep(_POLL)
    return nodes


def _exchange(grid: Any, mail: Mapping[int, bytes], timeout: float) -> dict[int, bytes]:
    message = flower("flwr.app").Message
    outgoing = [message(records(said), dst_node_id=node, message_type="query") for node, said in mail.items()]
    replies = grid.send_and_receive(outgoing, timeout=timeout)
    return {reply.metadata.src_node_id: content(reply) for reply in replies if not reply.has_error()}
