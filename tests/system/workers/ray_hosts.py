"""Hosts made of namespaces whose scheduler is ray: its head, which makes no probes, is beside the driver."""

import os
import secrets
import subprocess
import tempfile
import threading
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import ClassVar

from tests.runner.farm.ray_node import PATIENT, end_node, read_start, start_words
from tests.system.workers.namespaces import NETWORK, Farm, Namespace

_PORTS = range(9001, 9005)
"""Each host has its own."""
_HEAD = "the head"


@dataclass
class _Node:
    """A node that is to run, and is started again when it has ended."""

    where: Namespace
    words: list[str]
    process: "subprocess.Popen[str] | None" = None
    runs: threading.Event = field(default_factory=threading.Event)


@dataclass
class RayFarm(Farm):
    """A head of ray and hosts, one node each, which know a token."""

    backend: ClassVar[str] = "ray"
    token: str = field(default_factory=lambda: secrets.token_hex(32))
    _nodes: dict[str, _Node] = field(default_factory=dict[str, _Node])
    _change: threading.Condition = field(default_factory=threading.Condition)
    _closing: bool = False

    def __enter__(self) -> "RayFarm":
        # Its sockets have long names: not below pytest's folder.
        self._own = tempfile.TemporaryDirectory(prefix="ray-", ignore_cleanup_errors=True)
        self._keeper = threading.Thread(target=self._keep)
        self._keeper.start()
        try:
            super().__enter__()
            for name in self.names:
                self._nodes[name].runs.wait()
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        with self._change:
            self._closing = True
            self._change.notify_all()
        for name in [*self._nodes]:
            self._end(name)
        super().__exit__()
        self._keeper.join()
        self._own.cleanup()

    @property
    def address(self) -> str:
        """Where the head is."""
        return f"{NETWORK}.1:6379"

    @property
    def variables(self) -> Mapping[str, str]:
        """What a program here finds ray and the store of builds by."""
        own = {"ADDRESS": self.address, "AUTH_MODE": "token", "AUTH_TOKEN": self.token}
        return {**super().variables, **{f"RAY_{name}": text for name, text in own.items()}}

    def schedule(self) -> None:
        """Start the head."""
        head = ("--head", "--port=6379", "--include-dashboard=false", f"--temp-dir={self._own.name}")
        self._have(_HEAD, self.middle, f"{NETWORK}.1", *head, "--num-cpus=0")
        self._nodes[_HEAD].runs.wait()

    def kill_scheduler(self) -> None:
        """End the head, and all that ray has started beside it."""
        self._end(_HEAD)

    def work(self, name: str) -> None:
        """Have a host's node started."""
        there = (f"--address={self.address}", "--num-cpus=1")
        self._have(name, self.hosts[name], self.address_of(name), *there)

    def kill(self, name: str) -> None:
        """Take a host's wire away, and end all that runs there."""
        with self._change:
            del self._nodes[name]
        super().kill(name)

    def _have(self, name: str, where: Namespace, address: str, *options: str) -> None:
        words = [*start_words(_PORTS), f"--node-ip-address={address}", *options]
        with self._change:
            self._nodes[name] = _Node(where, words)
            self._change.notify_all()

    def _end(self, name: str) -> None:
        with self._change:
            node = self._nodes.pop(name)
            if node.process is not None:
                end_node(node.process)

    def _keep(self) -> None:
        """Start nodes one after the other, for one gives a part of its own 15 seconds to start; again where they have
        ended, as where a machine looks after its services."""
        while (node := self._next_to_start()) is not None:
            assert node.process is not None
            if read_start(node.process)[1]:
                node.runs.set()
                assert node.process.stdout is not None
                threading.Thread(target=node.process.stdout.read, daemon=True).start()

    def _startable(self) -> list[_Node]:
        """The head, and all others where it runs."""
        head = self._nodes.get(_HEAD)
        if head is None:
            return []
        runs = head.runs.is_set() and head.process is not None and head.process.poll() is None
        return [*self._nodes.values()] if runs else [head]

    def _next_to_start(self) -> _Node | None:
        """A node that has just been started; none at the farm's end."""
        home = {"PRECISION_BISECT_HOME": str(self.folder / "home-of-host")}
        with self._change:
            while not self._closing:
                for node in self._startable():
                    if node.process is None or node.process.poll() is not None:
                        node.runs.clear()
                        node.process = subprocess.Popen(
                            node.where.words(*node.words),
                            env={**os.environ, **self.variables, **PATIENT, **home},
                            stdin=subprocess.DEVNULL,
                            stdout=subprocess.PIPE,
                            stderr=subprocess.STDOUT,
                            text=True,
                        )
                        return node
                self._change.wait(1)
        return None
