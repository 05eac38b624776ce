"""Faults of a farm, and what its hosts and its driver tell meanwhile: the moments at which faults come."""

import contextlib
import os
import random
import select
import subprocess
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path

from tests.system.slow_line import SlowLine
from tests.system.workers.namespaces import Farm

_QUIET = 5.0
"""Seconds without news after which all is mended that is not whole."""
_STUCK = 300.0
"""Seconds without news, though all is whole, after which nothing will come."""
_MAX_ENDINGS = 5
_MAX_PEACE = 14
"""Moments between two faults; a bisection has some ninety."""


def telling_step(folder: Path) -> str:
    """A build in shell that tells what it does by the pipes in a folder."""
    building, built = _tell("building", folder), _tell("built", folder)
    return f"set -e; token=-; number=$(cat number); {building}; cp number out; {built}"


def telling_case(folder: Path, *, culprit: int) -> str:
    """A case in shell that does so too, and fails from a commit on."""
    return f"""
token=$(cat /proc/sys/kernel/random/uuid)
number=$(cat out)
{_tell("running", folder)}
echo "run $token"
if [ "$number" -ge {culprit} ]; then echo WRONG; else echo RIGHT; fi
{_tell("ran", folder)}
[ "$number" -lt {culprit} ]
"""


def _tell(what: str, folder: Path) -> str:
    """Tell it, and wait until this may go on, so that a fault comes at that very moment."""
    told = f"echo {what} $number $token > {folder}/told; read -r _ < {folder}/go"
    return f"if [ -p {folder}/told ]; then {told}; fi"


class Fault(StrEnum):
    """What happens to a farm."""

    HOST = "a host is killed"
    SCHEDULER = "the scheduler is killed"
    LINK = "a link is cut"
    DISK = "a disk is full"
    DRIVER = "the driver is killed"


@dataclass(frozen=True)
class Told:
    """What a host does: `building`, `built`, `running` or `ran`, which commit, and in which run."""

    host: str
    what: str
    number: int
    token: str


class Pipes:
    """The two pipes by which a host tells what it does, and waits until it may go on."""

    def __init__(self, folder: Path) -> None:
        os.mkfifo(folder / "go")
        # Open for both, so that neither end waits for the other. What was told outlives the host.
        self._go = os.open(folder / "go", os.O_RDWR)
        os.mkfifo(folder / "told")
        self.told = os.open(folder / "told", os.O_RDWR)

    def go_on(self) -> None:
        """What has told something goes on."""
        os.write(self._go, b"\n")

    def close(self) -> None:
        """Nobody waits for these any more."""
        os.close(self._go)
        os.close(self.told)


@dataclass
class FaultyFarm:
    """A farm with a driver of one bisection, and `faults` that come at moments that `chance` draws."""

    farm: Farm
    line: SlowLine
    chance: random.Random
    faults: list[Fault]
    told: list[Told] = field(default_factory=list[Told])
    printed: list[str] = field(default_factory=list[str])
    """What the drivers printed."""
    endings: list[int] = field(default_factory=list[int])
    """Codes by which drivers ended that nobody had killed."""
    _pipes: dict[str, Pipes] = field(default_factory=dict[str, Pipes])
    _mends: list[tuple[int, str, Callable[[], None]]] = field(
        default_factory=list[tuple[int, str, Callable[[], None]]]
    )
    """What is not whole: after which moment it is mended, how that is told, and how it is done."""
    _broken: set[str] = field(default_factory=set[str])
    """Hosts that are not whole."""
    _moments: int = 0
    _due: int = field(init=False)
    """The moment of the next fault."""

    def __post_init__(self) -> None:
        self._due = self.chance.randint(1, _MAX_PEACE)
        self._began = time.monotonic()

    def run(self) -> None:
        """Have the bisection come to its end."""
        for name in self.farm.names:
            self._pipes[name] = Pipes(self.farm.folder_of(name))
        self._driver = self._start(*self.line.arguments)
        silence = 0.0
        while self._driver is None or self._driver.poll() != 0:
            if self._driver is not None and self._driver.poll() is not None:
                self._go_on_after_an_end()
            elif (source := self._news()) is not None:
                silence = 0.0
                self._hear(source)
            else:
                silence = 0.0 if self._mends else silence + _QUIET
                assert silence < _STUCK
                self._mend(everything=True)
        self._mend(everything=True)

    def _start(self, *words: str) -> "subprocess.Popen[str]":
        return self.farm.drive(self.line, *words)

    def close(self) -> None:
        """Nothing is told any more."""
        if self._driver is not None:
            _kill(self._driver)
        for pipes in self._pipes.values():
            pipes.close()

    def _news(self) -> str | None:
        """Wait until there is news: the host that tells it, "" for the driver; None where all is quiet."""
        sources = {pipes.told: name for name, pipes in self._pipes.items()}
        if self._driver is not None:
            assert self._driver.stderr is not None
            sources[self._driver.stderr.fileno()] = ""
        ready, _, _ = select.select([*sources], [], [], _QUIET)
        return sources[self.chance.choice(sorted(ready))] if ready else None

    def _hear(self, source: str) -> None:
        """Hear a line of a host, or of the driver."""
        if source:
            what, number, token = _line_of(self._pipes[source].told).split()
            self.told.append(Told(source, what, int(number), token))
            self._note(f"{source}: {what} {number}")
            self._pass_moment()
            if source in self._pipes:
                self._pipes[source].go_on()
            return
        assert self._driver is not None
        assert self._driver.stderr is not None
        line = _line_of(self._driver.stderr.fileno())
        self._note_printed(line)
        if not line:
            self._driver.wait()
        line = line.rstrip()
        if line.startswith("run ") and not line.endswith("so far"):
            self._pass_moment()

    def _note_printed(self, line: str) -> None:
        self.printed.append(line.rstrip())
        if line:
            self._note(f"driver: {line.rstrip()}")

    def _pass_moment(self) -> None:
        """Break and mend what is due at this moment."""
        self._moments += 1
        self._mend()
        if self.faults and self._moments >= self._due:
            self._break(self.faults.pop(0))
            self._due = self._moments + self.chance.randint(1, _MAX_PEACE)

    def _note(self, text: str) -> None:
        """A line of the table that the test's output shows."""
        print(f"{time.monotonic() - self._began:6.1f} s {self._moments:4}  {text}", flush=True)

    def _go_on_after_an_end(self) -> None:
        """The driver has ended without an answer: it is to say what is missing, and is resumed once that is there."""
        assert self._driver is not None
        assert self._driver.stderr is not None
        while line := _line_of(self._driver.stderr.fileno()):
            self._note_printed(line)
        self.endings.append(self._driver.returncode)
        assert "resume" in "\n".join(self.printed[-20:])
        assert len(self.endings) <= _MAX_ENDINGS
        self._mend(everything=True)
        self._note(f"driver ended ({self._driver.returncode}) and is resumed")
        self._driver = self._start("--resume")

    def _break(self, fault: Fault) -> None:
        host = ""
        if fault in (Fault.HOST, Fault.LINK, Fault.DISK):
            # One host at least is whole, or nothing would happen any more.
            if len(self._broken) == len(self.farm.names) - 1:
                self._mend(everything=True)
            host = self.chance.choice([name for name in self.farm.names if name not in self._broken])
            self._broken.add(host)
        if fault is Fault.DRIVER and self._driver is None:
            self._mend(everything=True)
        self._note(f"*** {fault.value} {host}".rstrip())
        match fault:
            case Fault.HOST:
                self.farm.kill(host)
                self._pipes.pop(host).close()
                self._mend_later(f"{host} is there again, empty", lambda: self._add(host))
            case Fault.SCHEDULER:
                self.farm.kill_scheduler()
                self._mend_later("the scheduler is started again", self.farm.schedule)
            case Fault.LINK:
                self.farm.cut(host)
                self._mend_later(f"the link of {host} is restored", lambda: self._restore(host))
            case Fault.DISK:
                filler = self.farm.folder_of(host) / "home-of-host" / "filler"
                _fill(filler)
                self._mend_later(f"the disk of {host} has room again", lambda: self._free(host, filler))
            case Fault.DRIVER:
                assert self._driver is not None
                _kill(self._driver)
                self._driver = None
                self._mend_later("the driver is resumed", self._resume)

    def _mend_later(self, text: str, mend: Callable[[], None]) -> None:
        self._mends.append((self._moments + self.chance.randint(0, 6), text, mend))

    def _mend(self, *, everything: bool = False) -> None:
        due = [each for each in self._mends if everything or each[0] < self._moments]
        for each in due:
            self._mends.remove(each)
            self._note(f"... {each[1]}")
            each[2]()

    def _add(self, host: str) -> None:
        self.farm.add(host)
        self._pipes[host] = Pipes(self.farm.folder_of(host))
        self._broken.remove(host)

    def _resume(self) -> None:
        self._driver = self._start("--resume")

    def _restore(self, host: str) -> None:
        self.farm.restore(host)
        self._broken.remove(host)

    def _free(self, host: str, filler: Path) -> None:
        filler.unlink()
        self._broken.remove(host)


def _kill(driver: "subprocess.Popen[str]") -> None:
    driver.kill()
    driver.communicate()


def _line_of(pipe: int) -> str:
    """The next line of a pipe with its end, of which no more is read; nothing at the pipe's end."""
    text = b""
    while not text.endswith(b"\n") and (character := os.read(pipe, 1)):
        text += character
    return text.decode()


def _fill(filler: Path) -> None:
    """Write until there is no more room."""
    with filler.open("wb", buffering=0) as file, contextlib.suppress(OSError):
        while True:
            file.write(bytes(1 << 16))
