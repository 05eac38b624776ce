"""Hosts made of namespaces whose scheduler is ray: its head, which makes no probes, is beside the driver."""

import os
import secrets
import subprocess
import tempfile
from dataclasses import dataclass, field

from tests.runner.probe.farm.ray_node import PATIENT, end_node, start_words, until_started
from tests.system.workers.namespaces import NETWORK, Farm, Namespace

_PORTS = range(9001, 9005)
"""Each host has its own."""


@dataclass
class RayFarm(Farm):
    """A head of ray and hosts, one node each, which know a token."""

    token: str = field(default_factory=lambda: secrets.token_hex(32))

    def __enter__(self) -> "RayFarm":
        # Its sockets have long names: not below pytest's folder.
        self.own = tempfile.TemporaryDirectory(prefix="ray-", ignore_cleanup_errors=True)
        self.nodes: list[subprocess.Popen[str]] = []
        try:
            super().__enter__()
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        super().__exit__()
        for node in self.nodes:
            end_node(node)
        self.own.cleanup()

    @property
    def address(self) -> str:
        """Where the head is."""
        return f"{NETWORK}.1:6379"

    @property
    def variables(self) -> dict[str, str]:
        """What a program here finds ray and the store of builds by."""
        own = {"ADDRESS": self.address, "AUTH_MODE": "token", "AUTH_TOKEN": self.token}
        return {**super().variables, **{f"RAY_{name}": text for name, text in own.items()}}

    def schedule(self) -> None:
        """Start the head."""
        head = ("--head", "--port=6379", "--include-dashboard=false", f"--temp-dir={self.own.name}")
        self._node(self.middle, f"{NETWORK}.1", *head, "--num-cpus=0")

    def work(self, name: str) -> None:
        """Start a host's node."""
        self._node(self.hosts[name], self.address_of(name), f"--address={self.address}", "--num-cpus=1")

    def _node(self, where: Namespace, address: str, *options: str) -> None:
        words = where.words(*start_words(_PORTS), f"--node-ip-address={address}", *options)
        home = {"PRECISION_BISECT_HOME": str(self.folder / "home-of-host")}
        node = subprocess.Popen(
            words,
            env={**os.environ, **self.variables, **PATIENT, **home},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        self.nodes.append(node)
        # One after the other: a node gives a part of its own 15 seconds to start.
        until_started(node)
