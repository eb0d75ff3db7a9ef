"""A data set that is fetched, two files of an archive and one that is compressed; and who serves it."""

import gzip
import hashlib
import io
import os
import threading
import zipfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import IO

import numpy as np

from dpml.data import Info, Raw
from dpml.data.sources.files import open_raw
from dpml.data.table import RandomSplit, Table

PARTS = {f"{name}.csv": "".join(f"{i},{i * k},{(-1) ** i}\n" for i in range(40)) for k, name in enumerate("abc", 2)}
URL = "MINI_URL"
"""The environment variable that has the address of the server."""


def served() -> dict[str, bytes]:
    """What the server has."""
    box = io.BytesIO()
    with zipfile.ZipFile(box, "w") as archive:
        for name in ("a.csv", "b.csv"):
            archive.writestr(name, PARTS[name])
    return {"/two.zip": box.getvalue(), "/c.csv.gz": gzip.compress(PARTS["c.csv"].encode(), mtime=0)}


def _raw(name: str, address: str) -> Raw:
    return Raw(name, (f"{os.environ.get(URL, '')}/{address}",), (hashlib.sha256(PARTS[name].encode()).hexdigest(),))


@dataclass(frozen=True)
class Mini(RandomSplit):
    """120 rows of three files."""

    steps: tuple[str, ...] = ("min_max", "max_norm")

    @property
    def info(self) -> Info:  # type: ignore[override]
        """Its files have the addresses of the server that is there now."""
        return Info(
            name="mini",
            title="Mini",
            task="binary",
            citation="none",
            files=(_raw("a.csv", "two.zip!a.csv"), _raw("b.csv", "two.zip!b.csv"), _raw("c.csv", "c.csv.gz")),
            rows=120,
            features=2,
            classes={-1: 60, +1: 60},
        )

    def parse(self, paths: Mapping[str, Path]) -> Table:
        rows = []
        for name in PARTS:
            with open_raw(paths[name]) as file:
                rows.append(np.loadtxt(file, delimiter=","))
        whole = np.concatenate(rows)
        return Table(whole[:, :2], whole[:, 2])


def send(path: str, answer: IO[bytes]) -> None:
    """All of it."""
    answer.write(served()[path])


@contextmanager
def serving(send: Callable[[str, IO[bytes]], None] = send) -> Iterator[str]:
    """A loopback server, whose address it gives; ``send(path, answer)`` writes what is asked for."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200)
            self.send_header("Content-Length", str(len(served()[self.path])))
            self.end_headers()
            send(self.path, self.wfile)

        def log_message(self, *arguments: object) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_address[1]}"
        finally:
            server.shutdown()
            thread.join()
