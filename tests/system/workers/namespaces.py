"""Hosts made of Linux namespaces: each has its own network, processes, name and file system, and shares but a wire.

All of it is inside of one more network namespace, so that nothing of the machine's own network changes. What is
installed can be read everywhere; the test's own folder is another, empty one at each host.
"""

import os
import shlex
import subprocess
import sys
import threading
from collections.abc import Mapping
from dataclasses import dataclass, field
from importlib.util import find_spec
from pathlib import Path
from typing import ClassVar

from tests.support.interrupts import obey_interrupts
from tests.support.program import PROGRAM
from tests.system.slow_line import SlowLine

NETWORK = "10.77.0"
_PROGRAM = (sys.executable, "-m")
_SETTLE = "mount --make-rprivate / && ip link set lo up"


def absent(package: str) -> str | None:
    """Why no hosts can be made here whose scheduler is of a package. Ray is not imported: it would take no token then
    from the tests of its engine, which come later in this process.
    """
    if find_spec(package) is None:
        return f"{package} is not installed"
    try:
        made = subprocess.run(
            [
                "unshare",
                "--net",
                "--mount",
                "--uts",
                "--pid",
                "--fork",
                "--mount-proc",
                "ip",
                "link",
                "set",
                "lo",
                "up",
            ],
            capture_output=True,
            check=False,
        )
    except OSError as error:
        return f"namespaces cannot be made: {error}"
    return None if made.returncode == 0 else f"namespaces cannot be made: {made.stderr.decode()[:100]}"


@dataclass
class Namespace:
    """A process that holds namespaces, and waits."""

    process: "subprocess.Popen[str]"
    kinds: tuple[str, ...]

    @classmethod
    def of(cls, script: str, *kinds: str) -> "Namespace":
        """Run a script in new namespaces, and wait until it has ended well."""
        words = ["unshare", *kinds, "--fork", "--kill-child", "sh", "-ec", f"{script}\necho ready; read -r _"]
        process = subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
        return cls(process, kinds)

    @property
    def pid(self) -> int:
        """The process inside, which the namespaces belong to."""
        return int(Path(f"/proc/{self.process.pid}/task/{self.process.pid}/children").read_text())

    def words(self, *words: str) -> list[str]:
        """A command inside."""
        kinds = (kind for kind in self.kinds if kind != "--mount-proc")
        return ["nsenter", f"--target={self.pid}", *kinds, "--", *words]

    def run(self, *words: str) -> str:
        """Run a command inside."""
        return subprocess.run(self.words(*words), check=True, capture_output=True, text=True).stdout

    def end(self) -> None:
        """Let go of the namespaces: where processes are among them, all of them end."""
        self.process.kill()
        self.process.communicate()


@dataclass
class Farm:
    """A scheduler of dask and hosts, one worker each. `folder` is empty at each host when it begins, and the worker's
    home in it a disk of its own. Where it `stores` builds, a server of S3 is beside the scheduler. `settings` are
    variables of scheduler, workers and drivers."""

    backend: ClassVar[str] = "dask"
    folder: Path
    names: tuple[str, ...]
    stores: bool = False
    settings: Mapping[str, str] = field(default_factory=dict[str, str])
    middle: Namespace = field(init=False)
    scheduler: "subprocess.Popen[bytes]" = field(init=False)
    hosts: dict[str, Namespace] = field(default_factory=dict[str, Namespace])
    started: "list[subprocess.Popen[bytes]]" = field(default_factory=list["subprocess.Popen[bytes]"])

    def __enter__(self) -> "Farm":
        self.middle = Namespace.of(
            "ip link set lo up; ip link add wire type bridge; ip link set wire up; "
            f"ip address add {NETWORK}.1/24 dev wire",
            "--net",
        )
        if self.stores:
            self._store()
        self.schedule()
        for name in self.names:
            self.add(name)
        return self

    def __exit__(self, *_: object) -> None:
        for host in self.hosts.values():
            host.end()
        for process in self.started:
            process.terminate()
            process.wait()
        self.middle.end()

    @property
    def address(self) -> str:
        """Where the scheduler is."""
        return f"tcp://{NETWORK}.1:8786"

    @property
    def variables(self) -> Mapping[str, str]:
        """What a program here finds the scheduler and the store of builds by."""
        own = {"ENDPOINT_URL": f"http://{NETWORK}.1:5000", "DEFAULT_REGION": "us-east-1"}
        keys = {"ACCESS_KEY_ID": "key", "SECRET_ACCESS_KEY": "secret"}
        store = {f"AWS_{name}": text for name, text in {**own, **keys}.items()}
        return {**store, **self.settings, "DASK_SCHEDULER_ADDRESS": self.address}

    def drive(self, line: SlowLine, *words: str) -> "subprocess.Popen[str]":
        """Start a driver beside the scheduler."""
        return subprocess.Popen(
            self.middle.words(*PROGRAM, *words, "--jobs", "3", "--backend", self.backend),
            cwd=line.folder,
            env={**line.variables, **self.variables},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            preexec_fn=obey_interrupts,
        )

    def _store(self) -> None:
        """Start a server of S3 with a bucket `team`."""
        words = self.middle.words(sys.executable, "-m", "moto.server", "-H", f"{NETWORK}.1", "-p", "5000")
        server = subprocess.Popen(words, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
        self.started.append(server)
        assert server.stderr is not None
        assert any(b"Running on" in line for line in server.stderr)
        threading.Thread(target=server.stderr.read, daemon=True).start()
        make = "import urllib.request as u, sys; u.urlopen(u.Request(sys.argv[1], method='PUT'))"
        self.middle.run(sys.executable, "-c", make, f"{self.variables['AWS_ENDPOINT_URL']}/team")

    def schedule(self) -> None:
        """Start the scheduler."""
        options = ("--host", f"{NETWORK}.1", "--port", "8786", "--no-dashboard")
        self.scheduler = self._start(self.middle.words(*_PROGRAM, "distributed.cli.dask_scheduler", *options))

    def kill_scheduler(self) -> None:
        """End the scheduler as a kernel without memory does."""
        self.scheduler.kill()
        self.scheduler.wait()

    def add(self, name: str) -> None:
        """Start a host, one of `names`, with a worker. As where a machine looks after its services, the worker is
        started again when it has ended, as it does when it loses the scheduler."""
        home = self.folder / "home-of-host"
        empty = f"mount -t tmpfs -o size=64m none /tmp; mkdir -p {self.folder}"
        if not self.folder.is_relative_to("/tmp"):
            empty += f"; mount -t tmpfs -o size=64m none {self.folder}"
        empty += f"; mkdir {home}; mount -t tmpfs -o size=64m,mode=700 none {home}"
        settle = f"{_SETTLE}; hostname {name}; {empty}"
        kinds = ("--net", "--mount", "--uts", "--pid", "--mount-proc")
        host = self.hosts[name] = Namespace.of(settle, *kinds)
        wire = ("ip", "link", "add", "name", f"to-{name}", "type", "veth", "peer", "name", "eth0")
        self.middle.run(*wire, "netns", str(host.pid))
        self.middle.run("ip", "link", "set", "dev", f"to-{name}", "master", "wire", "up")
        host.run("ip", "address", "add", f"{self.address_of(name)}/24", "dev", "eth0")
        host.run("ip", "link", "set", "eth0", "up")
        self.work(name)

    def address_of(self, name: str) -> str:
        """A host's address in the network."""
        return f"{NETWORK}.{11 + self.names.index(name)}"

    def work(self, name: str) -> None:
        """Start a host's worker."""
        one = ("--nworkers", "1", "--nthreads", "1", "--no-dashboard")
        folder = ("--local-directory", str(self.folder / "dask"))
        worker = shlex.join([*_PROGRAM, "distributed.cli.dask_worker", self.address, *one, *folder])
        self._start(self.hosts[name].words("sh", "-c", f"while :; do {worker}; done"))

    def _start(self, words: list[str]) -> "subprocess.Popen[bytes]":
        variables = {
            **os.environ,
            **self.variables,
            "DASK_DISTRIBUTED__LOGGING__DISTRIBUTED": "error",
            "PRECISION_BISECT_HOME": str(self.folder / "home-of-host"),
        }
        process = subprocess.Popen(words, stderr=subprocess.DEVNULL, env=variables)
        self.started.append(process)
        return process

    def kill(self, name: str) -> None:
        """Take a host's wire away, as where its power is gone, and end all that runs there."""
        self.middle.run("ip", "link", "delete", "dev", f"to-{name}")
        self.hosts.pop(name).end()

    def cut(self, name: str) -> None:
        """Cut a host's wire."""
        self.middle.run("ip", "link", "set", "dev", f"to-{name}", "down")

    def restore(self, name: str) -> None:
        """Mend a host's wire."""
        self.middle.run("ip", "link", "set", "dev", f"to-{name}", "up")

    def folder_of(self, name: str) -> Path:
        """The folder as a host sees it."""
        return Path(f"/proc/{self.hosts[name].pid}/root") / str(self.folder).lstrip("/")

    def read(self, name: str, file: str) -> list[str]:
        """The words of a file in a host's folder; none where it is not there."""
        path = self.folder_of(name) / file
        return path.read_text().split() if path.is_file() else []
