"""Secure aggregation here beside Flower's SecAgg+ on the same vectors: bytes, CPU seconds and error, in one run.

python scripts/secagg_flower.py -M 10 100 -d 1000 10000, in an environment that has both (``pip install -e
'.[federated]'`` in a clone: its packages are other versions than those of dpml alone). Flower's side is its own: the
stages of `SecAggPlusWorkflow` at the server, `secaggplus_mod` at every client, and between them messages made and read
as the bytes of its protocol buffers, without network and without ray. Both have everybody as everybody's neighbour,
and the same threshold. All parties of both are in this process; here the X25519 secret of a pair is agreed on once.
"""

import argparse
import logging
import time
from collections.abc import Iterable
from types import SimpleNamespace
from typing import Any

import numpy as np
from flwr.app import ArrayRecord, ConfigRecord, Context, Message, RecordDict
from flwr.client.mod import secaggplus_mod
from flwr.common import Code, FitIns, FitRes, Parameters, Status, ndarrays_to_parameters, parameters_to_ndarrays
from flwr.common.serde import recorddict_from_proto, recorddict_to_proto
from flwr.compat.common import recorddict_compat
from flwr.proto.recorddict_pb2 import RecordDict as Proto
from flwr.server.compat.legacy_context import LegacyContext
from flwr.server.workflow import SecAggPlusWorkflow
from flwr.server.workflow.constant import MAIN_CONFIGS_RECORD, MAIN_PARAMS_RECORD, Key
from flwr.supercore.task_identity import TaskIdentity

from dpml.arrays import Array
from dpml.protocols import complete, secure_sum


class Grid:
    """Carries messages to clients in this process, and counts their bytes."""

    def __init__(self, vectors: Array) -> None:
        self.bytes = 0
        self.apps = {k + 1: self._client(k + 1, vector) for k, vector in enumerate(vectors)}

    def send_and_receive(self, messages: Iterable[Message], *, timeout: float | None = None) -> list[Message]:
        """The clients' answers."""
        replies = []
        for message in messages:
            number = message.metadata.dst_node_id
            arrived = Message(self._carried(message.content), dst_node_id=number, message_type="train")
            reply = self.apps[number](arrived)
            replies.append(Message(self._carried(reply.content), reply_to=arrived))
        return replies

    def _carried(self, content: RecordDict) -> RecordDict:
        sent = recorddict_to_proto(content).SerializeToString()
        self.bytes += len(sent)
        return recorddict_from_proto(Proto.FromString(sent))

    @staticmethod
    def _client(number: int, vector: Array) -> Any:
        context = Context(run_id=0, node_id=number, node_config={}, state=RecordDict(), run_config={})
        result = FitRes(Status(Code.OK, ""), ndarrays_to_parameters([vector]), 1, {})

        def fit(message: Message, _: Context) -> Message:
            return Message(recorddict_compat.fitres_to_recorddict(result, keep_input=True), reply_to=message)

        return lambda message: secaggplus_mod(message, context, fit)


class Strategy:
    """Asks every client, and keeps the mean."""

    def __init__(self, parties: int) -> None:
        self.proxies = [SimpleNamespace(node_id=k + 1) for k in range(parties)]
        self.mean = np.empty(0)

    def configure_fit(self, *_: Any) -> list[tuple[Any, FitIns]]:
        """Nobody needs a model."""
        return [(proxy, FitIns(Parameters([], ""), {})) for proxy in self.proxies]

    def aggregate_fit(
        self, _: int, results: list[tuple[Any, FitRes]], failures: list[Any]
    ) -> tuple[None, dict[str, Any]]:
        """All results have the mean by now."""
        assert not failures
        (self.mean,) = parameters_to_ndarrays(results[0][1].parameters)
        return None, {}


def flower(vectors: Array, threshold: int) -> tuple[Array, int]:
    """The sum by Flower's SecAgg+, and the bytes of all messages."""
    parties = len(vectors)
    TaskIdentity.run_id = TaskIdentity.node_id = TaskIdentity.task_id = 0  # of whoever makes messages: the server
    state = RecordDict({MAIN_CONFIGS_RECORD: ConfigRecord({Key.CURRENT_ROUND: 1}), MAIN_PARAMS_RECORD: ArrayRecord()})
    context = Context(run_id=0, node_id=0, node_config={}, state=state, run_config={})
    strategy, grid = Strategy(parties), Grid(vectors)
    legacy = LegacyContext(context, strategy=strategy)  # type: ignore[arg-type]
    SecAggPlusWorkflow(1.0, threshold, max_weight=1.0, clipping_range=1.0)(grid, legacy)  # type: ignore[arg-type]
    return parties * strategy.mean, grid.bytes


def main() -> None:
    """Print a row for each number of parties and entries."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("-M", type=int, nargs="+", default=[10, 100])
    parser.add_argument("-d", type=int, nargs="+", default=[1_000, 10_000])
    arguments = parser.parse_args()
    logging.getLogger("flwr").setLevel(logging.ERROR)
    flower(np.zeros((3, 1)), 2)  # loads what is loaded once
    secure_sum(np.zeros((3, 1)), 1.0, np.random.default_rng(0))
    print("| M, t | d | by | CPU seconds | bytes of a party (mean) | largest error |")
    print("| --- | --- | --- | --- | --- | --- |")
    for parties in arguments.M:
        topology = complete(parties)
        for d in arguments.d:
            rng = np.random.default_rng(0)
            vectors = rng.uniform(-1, 1, (parties, d))
            start = time.process_time()
            ours = secure_sum(vectors, 1.0, rng, topology=topology)
            between = time.process_time()
            theirs, moved = flower(vectors, topology.threshold)
            end = time.process_time()
            for name, seconds, total, size in (
                ("dpml", between - start, ours.total, ours.traffic.server),
                ("Flower SecAgg+", end - between, theirs, moved),
            ):
                error = np.abs(total - vectors.sum(axis=0)).max()
                print(
                    f"| {parties}, {topology.threshold} | {d:,} | {name} | {seconds:.2g} | {size // parties:,} | "
                    f"{error:.1g} |",
                    flush=True,
                )


if __name__ == "__main__":
    main()
