"""Hosts made of Linux namespaces: each has its own network, processes, name and file system, and shares but a wire.

All of it is inside of one more network namespace, so that nothing of the machine's own network changes. What is
installed can be read everywhere; the test's own folder is another, empty one at each host.
"""

import os
import subprocess
import sys
import threading
from dataclasses import dataclass, field
from pathlib import Path

NETWORK = "10.77.0"
_SETTLE = "mount --make-rprivate / && ip link set lo up"


def absent() -> str | None:
    """Why namespaces cannot be made here."""
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
    """A scheduler of dask and hosts, one worker each. `folder` is empty at each host when it begins. Where it `stores`
    builds, a server of S3 is beside the scheduler."""

    folder: Path
    names: tuple[str, ...]
    stores: bool = False
    middle: Namespace = field(init=False)
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
        for number, name in enumerate(self.names, 11):
            self.add(name, number)
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
    def variables(self) -> dict[str, str]:
        """What a program here finds the store of builds by."""
        own = {"ENDPOINT_URL": f"http://{NETWORK}.1:5000", "DEFAULT_REGION": "us-east-1"}
        keys = {"ACCESS_KEY_ID": "key", "SECRET_ACCESS_KEY": "secret"}
        return {f"AWS_{name}": text for name, text in {**own, **keys}.items()}

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

    def schedule(self) -> "subprocess.Popen[bytes]":
        """Start a scheduler."""
        return self._start(
            self.middle, "scheduler", "--host", f"{NETWORK}.1", "--port", "8786", "--no-dashboard"
        )

    def add(self, name: str, number: int) -> None:
        """Start a host with a worker."""
        empty = f"mount -t tmpfs -o size=64m none /tmp; mkdir -p {self.folder}"
        if not self.folder.is_relative_to("/tmp"):
            empty += f"; mount -t tmpfs -o size=64m none {self.folder}"
        settle = f"{_SETTLE}; hostname {name}; {empty}"
        kinds = ("--net", "--mount", "--uts", "--pid", "--mount-proc")
        host = self.hosts[name] = Namespace.of(settle, *kinds)
        wire = ("ip", "link", "add", "name", f"to-{name}", "type", "veth", "peer", "name", "eth0")
        self.middle.run(*wire, "netns", str(host.pid))
        self.middle.run("ip", "link", "set", "dev", f"to-{name}", "master", "wire", "up")
        host.run("ip", "address", "add", f"{NETWORK}.{number}/24", "dev", "eth0")
        host.run("ip", "link", "set", "eth0", "up")
        options = (
            "--nworkers",
            "1",
            "--nthreads",
            "1",
            "--no-dashboard",
            "--local-directory",
            str(self.folder / "dask"),
        )
        self._start(host, "worker", self.address, *options)

    def _start(self, where: Namespace, program: str, *options: str) -> "subprocess.Popen[bytes]":
        variables = {
            **os.environ,
            **self.variables,
            "DASK_DISTRIBUTED__LOGGING__DISTRIBUTED": "error",
            "PRECISION_BISECT_HOME": str(self.folder / "home-of-host"),
        }
        words = where.words(sys.executable, "-m", f"distributed.cli.dask_{program}", *options)
        process = subprocess.Popen(words, stderr=subprocess.DEVNULL, env=variables)
        self.started.append(process)
        return process

    def kill(self, name: str) -> None:
        """Cut a host's wire, as where its power is gone, and end all that runs there."""
        self.cut(name)
        self.hosts.pop(name).end()

    def cut(self, name: str) -> None:
        """Cut a host's wire."""
        self.middle.run("ip", "link", "set", "dev", f"to-{name}", "down")

    def restore(self, name: str) -> None:
        """Mend a host's wire."""
        self.middle.run("ip", "link", "set", "dev", f"to-{name}", "up")

    def read(self, name: str, file: str) -> list[str]:
        """The words of a file in a host's folder; none where it is not there."""
        path = Path(f"/proc/{self.hosts[name].pid}/root") / str(self.folder / file).lstrip("/")
        return path.read_text().split() if path.is_file() else []
