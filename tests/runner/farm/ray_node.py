"""A cluster of ray with one node, for as long as a test needs it."""

import socket
import subprocess
import sys
import tempfile
from collections.abc import Generator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass

import psutil

PATIENT = {
    "RAY_raylet_start_wait_time_s": "100",
    "RAY_agent_register_timeout_ms": "300000",
    "RAY_worker_register_timeout_seconds": "300",
}
"""Variables of a node on a machine that has much else to do."""


def start_words(ports: Sequence[int]) -> list[str]:
    """What starts a node. Ray gives processes that choose one of these ports themselves but 15 seconds to do so."""
    names = ("dashboard-agent-listen", "dashboard-agent-grpc", "metrics-export", "runtime-env-agent")
    chosen = [f"--{name}-port={port}" for name, port in zip(names, ports, strict=True)]
    start = (sys.executable, "-m", "ray.scripts.scripts", "start", "--block")
    return [*start, "--object-store-memory=80000000", "--include-log-monitor=false", *chosen]


def until_started(node: "subprocess.Popen[str]") -> str:
    """Read what a node says until it runs; all of that."""
    said, runs = read_start(node)
    assert runs, said
    return said


def read_start(node: "subprocess.Popen[str]") -> tuple[str, bool]:
    """What a node says until it runs, or has ended; and whether it runs."""
    assert node.stdout is not None
    said = ""
    for line in node.stdout:
        said += line
        if "To terminate the Ray runtime" in line:
            return said, True
    return said, False


def end_node(node: "subprocess.Popen[str]") -> None:
    """End a node and all that it has started, which would outlive it."""
    with suppress(psutil.NoSuchProcess):
        for process in psutil.Process(node.pid).children(recursive=True):
            with suppress(psutil.NoSuchProcess):
                process.kill()
    node.kill()
    node.wait()


@contextmanager
def ray_node(variables: Mapping[str, str], *, processors: int) -> "Generator[StartedNode]":
    """Start it with these variables of the environment."""
    # Its sockets have long names: not below pytest's folder.
    with tempfile.TemporaryDirectory(prefix="ray-", ignore_cleanup_errors=True) as folder:
        words = [*start_words(_free_ports(4)), "--head", "--port=0", "--include-dashboard=false"]
        with subprocess.Popen(
            [*words, f"--temp-dir={folder}", f"--num-cpus={processors}"],
            env={**variables, **PATIENT},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        ) as node:
            try:
                said = until_started(node)
                yield StartedNode(node, said.partition("--address='")[2].partition("'")[0])
            finally:
                end_node(node)


@dataclass(frozen=True)
class StartedNode:
    """A head, which is a whole cluster, and its address."""

    process: "subprocess.Popen[str]"
    address: str


def _free_ports(count: int) -> list[int]:
    with ExitStack() as held:
        sockets = [held.enter_context(socket.create_server(("", 0))) for _ in range(count)]
        return [each.getsockname()[1] for each in sockets]
