"""A cache of its own for every test, real data where they are at hand, and a server that can misbehave."""

import math
import sys
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from dpml import code
from dpml.data import Files


@pytest.fixture(autouse=True)
def _own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DPML_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    for name in ("DPML_DATA", "DPML_MIRROR", "DPML_OFFLINE"):
        monkeypatch.delenv(name, raising=False)


@pytest.fixture
def write(tmp_path: Path) -> Callable[..., str]:
    def write(content: str | bytes, name: str = "f.csv") -> str:
        path = tmp_path / name
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
        return str(path)

    return write


MODULE = """
from dataclasses import dataclass
from typing import ClassVar
import numpy as np
from dpml.data import Info, Raw
from dpml.data.table import RandomSplit, Table

PARSED = []

@dataclass(frozen=True)
class Cubes(RandomSplit):
    info: ClassVar[Info] = Info(
        "cubes", "Cubes", "regression", "nobody", "Make it.", files=(Raw("cubes.csv", lines=9),), rows=9, features=2
    )
    steps: tuple[str, ...] = ("max_norm",)
    column: int = 2

    def parse(self, paths):
        PARSED.append(self.column)
        table = np.loadtxt(paths["cubes.csv"], delimiter=",")
        return Table(table[:, :2], table[:, self.column])
"""


@pytest.fixture
def own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A folder for --config-dir with the data set `cubes`, whose class is on the path and whose file is at hand."""
    folder = tmp_path / "my own"
    (folder / "dataset").mkdir(parents=True)
    (folder / "dataset" / "cubes.yaml").write_text("_target_: my_cubes.Cubes\ntest_fraction: 0.5\nsteps: [max_norm]\n")
    (folder / "my_cubes.py").write_text(MODULE)
    monkeypatch.syspath_prepend(str(folder))
    monkeypatch.setattr(code, "_BEGUN", math.inf)  # this process has written the module itself
    (Files().target / "cubes").mkdir(parents=True)
    (Files().target / "cubes" / "cubes.csv").write_text("".join(f"{i},{-i},{i**3}\n" for i in range(9)))
    yield folder
    sys.modules.pop("my_cubes", None)
    code._checksum.cache_clear()


@pytest.fixture(scope="session")
def parsed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A cache that tests on real data share, so that each set is parsed once."""
    return tmp_path_factory.mktemp("parsed")


@pytest.fixture
def files(raw: Path, parsed: Path, monkeypatch: pytest.MonkeyPatch) -> Files:
    """Real data, parsed once."""
    monkeypatch.setenv("DPML_CACHE", str(parsed))
    return Files(str(raw), offline=True)


@dataclass
class Server:
    folder: Path
    url: str = ""
    faults: dict[str, str] = field(default_factory=dict)  # of the next request of a path: a status, or "truncated"
    hits: list[str] = field(default_factory=list)
    delay: float = 0.0


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Server]:
    state = Server(tmp_path / "served")
    state.folder.mkdir()

    class Handler(SimpleHTTPRequestHandler):
        def translate_path(self, path: str) -> str:
            return str(state.folder / path.lstrip("/"))

        def do_GET(self) -> None:
            state.hits.append(self.path)
            time.sleep(state.delay)
            fault = state.faults.pop(self.path, None)
            if fault is None:
                super().do_GET()
            elif fault == "truncated":
                self.send_response(200)
                self.send_header("Content-Length", "1000")
                self.end_headers()
                self.wfile.write(b"0,0\n")
            else:
                self.send_error(int(fault))

        def log_message(self, *args: object) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as running:
        state.url = f"http://127.0.0.1:{running.server_address[1]}"
        thread = threading.Thread(target=running.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        yield state
        running.shutdown()
        thread.join()
