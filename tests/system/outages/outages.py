"""Kills, full disks, clocks that jump and locks that are lost, at drawn moments of a job."""

from __future__ import annotations

import contextlib
import random
import shutil
import signal
import struct
import subprocess
from collections.abc import Callable, Iterable
from enum import StrEnum
from pathlib import Path

import psutil

from tests.system.outages.jobs import Job, Started
from tests.system.outages.power import compile_preload

_DISK = "160m"
_JUMPS = [sign * seconds for seconds in (90, 3600, 86400, 400 * 86400) for sign in (-1, 1)]


class Outage(StrEnum):
    """What happens to a job."""

    KILL = "a process is killed"
    DISK = "the disk is full"
    CLOCK = "the clock jumps"
    LOCK = "locks are lost"


class Scene:
    """A job on a disk of its own, with a clock of its own. `is_small`: whether the disk is one that can be filled."""

    def __init__(self, kind: Callable[..., Job], folder: Path, chance: random.Random) -> None:
        self.chance = chance
        self.disk = folder / "disk"
        self.disk.mkdir()
        self.is_small = _mounted(self.disk)
        self._clock = folder / "clock"
        self._move_clock(0)
        preload = {"LD_PRELOAD": str(compile_preload("clock", folder)), "CLOCK_MOVED_BY": str(self._clock)}
        self.job = kind(self.disk / "line", chance, beside=folder, **preload)

    def close(self) -> None:
        """Nothing of it is left."""
        if self.is_small:
            subprocess.run(["umount", "--lazy", str(self.disk)], check=True)
        shutil.rmtree(self.disk, ignore_errors=True)

    def meet(self, outage: Outage) -> None:
        """Begin or go on, meet an outage at a drawn moment, and see that no run is lost."""
        counted = self.job.counted()
        self.job.expire()
        started = self.job.start()
        if self.chance.random() < 0.3:
            started.lasts(self.chance.uniform(0, 4))
        else:
            runs = self.job.runs() + self.chance.randint(1, 3)
            while self.job.runs() < runs and not self.job.is_over() and started.lasts(0.05):
                pass
            started.lasts(self.chance.uniform(0, 0.5))
        match outage:
            case Outage.KILL:
                self._kill(started)
            case Outage.DISK:
                self._fill_disk(started)
            case Outage.CLOCK:
                self._move_clock(self.chance.choice(_JUMPS))
                started.lasts(self.chance.uniform(0, 2))
                started.process.kill()
            case Outage.LOCK:
                self._lose_locks(started)
        said = started.end()
        assert "Traceback" not in said, said
        assert counted.items() <= self.job.counted().items(), "a run that was kept is lost"

    def _kill(self, started: Started) -> None:
        """The driver, or one that it has started. What runs the case is left: its end would be the case's own."""
        victims = [started.process.pid]
        if self.chance.random() < 0.3:
            victims = [each.pid for each in self.job.line.processes() if _is_ours(each)] or victims
        with contextlib.suppress(psutil.NoSuchProcess):
            psutil.Process(self.chance.choice(victims)).kill()
        started.lasts(self.chance.uniform(0, 1))
        started.process.kill()

    def _fill_disk(self, started: Started) -> None:
        """Until a while later, or the end of what runs."""
        filler = self.disk / "filler"
        with filler.open("wb", buffering=0) as file, contextlib.suppress(OSError):
            while True:
                file.write(bytes(1 << 16))
        started.lasts(self.chance.uniform(0.2, 4))
        filler.unlink()
        started.lasts(self.chance.uniform(0, 2))
        started.process.kill()

    def _lose_locks(self, started: Started) -> None:
        """All files of locks are removed while they are held, and another start is made, beside the first one or while
        that one is stopped."""
        stops = self.chance.random() < 0.5
        if stops:
            started.process.send_signal(signal.SIGSTOP)
        for lock in self.job.line.folder.rglob("*.lock"):
            lock.unlink(missing_ok=True)
        self.job.expire()
        rival = self.job.start()
        rival.lasts(self.chance.uniform(0, 5))
        if stops:
            started.process.send_signal(signal.SIGCONT)
        rival.lasts(self.chance.uniform(0, 3))
        for each in (started, rival):
            each.process.kill()
        said = rival.end()
        assert "Traceback" not in said, said

    def _move_clock(self, seconds: int) -> None:
        self._clock.write_bytes(struct.pack("l", seconds))


def _is_ours(process: psutil.Process) -> bool:
    try:
        return Path(process.exe()).name.startswith(("python", "git"))
    except psutil.Error:
        return False


def _mounted(folder: Path) -> bool:
    """Whether a small disk is mounted there, which root may do alone."""
    words = ["mount", "-t", "tmpfs", "-o", f"size={_DISK}", "none", str(folder)]
    return subprocess.run(words, check=False, capture_output=True).returncode == 0


def meet_all(kind: Callable[..., Job], outages: Iterable[Outage], folder: Path, chance: random.Random) -> int:
    """Meet outages in turn, in one job, and in others where it is over before; how many jobs came to the answer."""
    left, jobs = [*outages], 0
    while left:
        jobs += 1
        place = folder / str(jobs)
        place.mkdir()
        scene = Scene(kind, place, chance)
        try:
            while left and not scene.job.is_over():
                scene.meet(left.pop())
            scene.job.finish()
            scene.job.check()
        finally:
            scene.close()
    return jobs
