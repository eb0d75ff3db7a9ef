"""A federation on one machine, for trials and for tests: starts and stops Flower's processes on loopback."""

import os
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from urllib.error import URLError
from urllib.request import urlopen

from dpml.errors import UserError
from dpml.federated.flower import write_app
from dpml.federated.relay import flower

_PATIENCE = 60.0  # seconds for a process to start
_GRACE = 10.0  # seconds for one to end
_TRY = 0.2
_CONNECTION = "federation"


@dataclass(frozen=True)
class Federation:
    """Flower on loopback: `nodes` are the processes that relay, one for each party."""

    folder: Path
    environment: dict[str, str]
    nodes: tuple[subprocess.Popen[bytes], ...]

    def run(self, plan: Path, output: Path, timeout: float = 60.0) -> str:
        """Run one release to its end; returns Flower's log of it."""
        write_app(self.folder / "app")
        config = f'plan="{plan.absolute()}" output="{output.absolute()}" timeout={timeout}'
        done = subprocess.run(
            [_command("flwr"), "run", str(self.folder / "app"), _CONNECTION, "--stream", "--run-config", config],
            env=self.environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        return done.stdout


@contextmanager
def federation(sockets: Sequence[Path], folder: Path) -> Iterator[Federation]:
    """Start Flower with a node for every party's socket, and stop all of it at the end. Logs are in `folder`.

    Raises:
        UserError: Flower is not installed, or does not start.
    """
    flower("flwr.app")
    port, *others = free_ports(1 + len(sockets))
    home = folder / "flower"
    home.mkdir(parents=True)
    (home / "config.toml").write_text(
        f'[superlink]\ndefault = "{_CONNECTION}"\n\n[superlink.{_CONNECTION}]\naddress = "127.0.0.1:{port}"\n'
        "insecure = true\n"
    )
    environment = {
        **os.environ,
        "FLWR_HOME": str(home),
        "FLWR_TELEMETRY_ENABLED": "0",
        "FLWR_DISABLE_UPDATE_CHECK": "1",
        "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ.get('PATH', '')}",
        "OMP_NUM_THREADS": "1",
    }
    with ExitStack() as stack:
        link = ["--insecure", "--host", "127.0.0.1", "--port", str(port), "--disable-runtime-dependency-installation"]
        server = stack.enter_context(started(["flower-superlink", *link], environment, folder / "superlink.log"))
        _await(lambda: _answers(f"http://127.0.0.1:{port}/health"), server, folder / "superlink.log")
        nodes = []
        for number, (own, path) in enumerate(zip(others, sockets, strict=True)):
            words = ["flower-supernode", "--insecure", "--superlink", f"127.0.0.1:{port}", "--port", str(own)]
            words += ["--node-config", f'socket="{path}"']
            nodes.append(stack.enter_context(started(words, environment, folder / f"node{number}.log")))
        try:
            yield Federation(folder, environment, tuple(nodes))
        finally:
            for node in nodes:  # all at once: each takes seconds to shut down
                node.terminate()


@contextmanager
def parties(plan: Path, files: Sequence[Path], keys: Sequence[Path], folder: Path) -> Iterator[tuple[Path, ...]]:
    """Start a process for every party; yields the sockets on which they answer. Logs are in `folder`.

    Raises:
        UserError: one does not start; the message has the end of its log.
    """
    sockets = tuple(folder / f"{k}.socket" for k in range(len(files)))
    with ExitStack() as stack:
        for k, (data, key) in enumerate(zip(files, keys, strict=True)):
            words = [sys.executable, "-c", "from dpml.cli import dpml; dpml()", "federate", "party", str(data)]
            words += ["--plan", str(plan), "--key", str(key), "--socket", str(sockets[k])]
            process = stack.enter_context(started(words, dict(os.environ), folder / f"{k}.log"))
            _await(sockets[k].exists, process, folder / f"{k}.log")
        yield sockets


@contextmanager
def started(words: Sequence[str], environment: dict[str, str], log: Path) -> Iterator[subprocess.Popen[bytes]]:
    """A process and all its children, which end with the context."""
    with log.open("wb") as file:
        process = subprocess.Popen(
            [_command(words[0]), *words[1:]],
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=file,
            stderr=subprocess.STDOUT,
        )
    try:
        yield process
    finally:
        process.terminate()
        try:
            process.wait(_GRACE)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def _command(name: str) -> str:
    own = Path(sys.executable).parent / name
    return str(own) if own.exists() else name


def _await(ready: Callable[[], bool], process: subprocess.Popen[bytes], log: Path) -> None:
    """Wait until a started process is ready.

    Raises:
        UserError: it ended, or takes too long.
    """
    end = time.monotonic() + _PATIENCE
    while not ready():
        if process.poll() is not None or time.monotonic() > end:
            last = log.read_text(errors="replace").strip().splitlines()[-1:] or ["it says nothing."]
            raise UserError(f"a process of the federation does not start: {last[0].removeprefix('dpml: ')}")
        time.sleep(_TRY)


def _answers(url: str) -> bool:
    try:
        with urlopen(url, timeout=1):
            return True
    except (URLError, OSError):
        return False


def free_ports(number: int) -> list[int]:
    """Ports of loopback that no process listens on."""
    with ExitStack() as stack:
        sockets = [stack.enter_context(socket.socket()) for _ in range(number)]
        for each in sockets:
            each.bind(("127.0.0.1", 0))
        return [each.getsockname()[1] for each in sockets]
