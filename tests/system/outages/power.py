"""A disk that loses at a power cut what was not synced: all of it, or what chance draws of it.

Processes that run with `power.c` preloaded note what they sync, and nothing is synced really. A cut kills them, and
makes the folder anew from the notes: a file has the content with which it was synced last, a folder its entries. Of
what came later a real disk may keep any part. That is drawn by file in pages, and by folder.
"""

from __future__ import annotations

import contextlib
import os
import random
import re
import shutil
import stat
import subprocess
import uuid
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

import psutil

from tests.system.outages.jobs import Job, Started

_PAGE = 4096
_SAID_RUN = re.compile(r"^ *run (\d+)")
_SAID_JUDGEMENT = re.compile(r"(?:^ +|^ *run \d+ +)(good|bad): ")


class Loss(StrEnum):
    """What a cut takes of that which was not synced."""

    ALL = "all"
    CONTENT = "content"
    """Names stay, as in a journal of metadata: a file whose content was never synced is empty."""
    SOME = "some"


@dataclass(frozen=True)
class _Entry:
    """What a folder has under a name: `key` calls the notes of it, `target` is where a link leads."""

    key: str
    mode: int
    target: str


def compile_preload(name: str, folder: Path) -> Path:
    """A library of this folder to be preloaded, compiled."""
    library = folder / f"{name}.so"
    source = Path(__file__).with_name(f"{name}.c")
    subprocess.run(["cc", "-shared", "-fPIC", "-O1", "-o", str(library), str(source), "-ldl"], check=True)
    return library


class Disk:
    """A folder whose unsynced writes a power cut takes, with the notes of what was synced beside it."""

    def __init__(self, folder: Path, library: Path) -> None:
        self.folder = folder
        self._notes = folder.with_name(f"{folder.name}-notes")
        self._keys = dict[Path, str]()
        """What the notes of each file and folder are called."""
        self.variables = {
            "LD_PRELOAD": str(library),
            "POWER_ROOT": str(folder),
            "POWER_NOTES": str(self._notes),
        }

    def sync(self) -> None:
        """All that is in the folder now is synced, and the machine has started anew."""
        shutil.rmtree(self._notes, ignore_errors=True)
        self._notes.mkdir()
        (self._notes / "boot_id").write_text(f"{uuid.uuid4()}\n")
        self._keys = _keys_below(self.folder)
        for path, key in self._keys.items():
            if path.is_symlink():
                continue
            if path.is_dir():
                self._note_folder(path)
            elif path.is_file():
                shutil.copyfile(path, self._notes / key)

    def cut(self, loss: Loss, chance: random.Random) -> None:
        """The power is gone: the folder has what a disk may have. Nothing may run in it any more."""
        gone = self.folder.with_name(f"{self.folder.name}-gone")
        self.folder.rename(gone)
        self._keys = _keys_below(gone)
        self._restore_folder(gone, self._keys[gone], self.folder, _Draw(loss, chance))
        shutil.rmtree(gone)
        self.sync()

    def _note_folder(self, folder: Path) -> None:
        fields = [
            text
            for name, entry in self._entries(folder).items()
            for text in (entry.key, f"{entry.mode:o}", name, entry.target)
        ]
        (self._notes / self._keys[folder]).write_text("".join(f"{text}\0" for text in fields))

    def _entries(self, folder: Path) -> dict[str, _Entry]:
        return {
            path.name: _Entry(
                self._keys[path], path.lstat().st_mode, str(path.readlink()) if path.is_symlink() else ""
            )
            for path in folder.iterdir()
        }

    def _noted_entries(self, key: str) -> dict[str, _Entry]:
        note = self._notes / key
        fields = note.read_text().split("\0")[:-1] if note.exists() else []
        groups = zip(*(fields[index::4] for index in range(4)), strict=True)
        return {name: _Entry(key, int(mode, 8), target) for key, mode, name, target in groups}

    def _restore_folder(self, now: Path | None, key: str, target: Path, draw: _Draw) -> None:
        target.mkdir()
        entries = self._noted_entries(key)
        present = {} if now is None else self._entries(now)
        if now is not None and draw.keeps_entries():
            entries = present
        for name, entry in entries.items():
            made, found = target / name, self._found(now, name, entry, present)
            if stat.S_ISLNK(entry.mode):
                made.symlink_to(entry.target)
            elif stat.S_ISDIR(entry.mode):
                self._restore_folder(found, entry.key, made, draw)
            elif stat.S_ISFIFO(entry.mode):
                os.mkfifo(made)
            elif stat.S_ISREG(entry.mode):
                note = self._notes / entry.key
                synced = note.read_bytes() if note.exists() else b""
                made.write_bytes(draw.content(synced, synced if found is None else found.read_bytes()))
                made.chmod(stat.S_IMODE(entry.mode))

    def _found(self, now: Path | None, name: str, entry: _Entry, present: dict[str, _Entry]) -> Path | None:
        """The file or folder of an entry as it was when the power went; None where it is elsewhere by then."""
        same = name in present and present[name].key == entry.key
        return now / name if now is not None and same else None


@dataclass(frozen=True)
class _Draw:
    loss: Loss
    chance: random.Random

    def keeps_entries(self) -> bool:
        """Whether a folder has all its entries, also those that were not synced."""
        return self.loss is Loss.CONTENT or (self.loss is Loss.SOME and self.chance.random() < 0.5)

    def content(self, synced: bytes, found: bytes) -> bytes:
        """What a file has that had other content when it was synced than when the power went."""
        if self.loss is not Loss.SOME or synced == found:
            return synced
        size = self.chance.choice((len(synced), len(found)))
        pages = [self.chance.choice((synced, found))[at : at + _PAGE] for at in range(0, size, _PAGE)]
        return b"".join(page.ljust(_PAGE, b"\0") for page in pages)[:size]


def _keys_below(folder: Path) -> dict[Path, str]:
    """What `power.c` calls a folder and all that is in it: Python tells no times of birth."""
    words = ["find", str(folder), "-exec", "stat", "--printf", r"%i %.9W %n\0", "{}", "+"]
    told = subprocess.run(words, check=True, capture_output=True, text=True).stdout
    keys = dict[Path, str]()
    for line in told.split("\0")[:-1]:
        inode, born, path = line.split(" ", 2)
        seconds, _, rest = born.partition(".")
        keys[Path(path)] = f"{inode}-{seconds}-{int(rest)}"
    return keys


def _kill_all(job: Job, started: Started) -> None:
    """The machine has no power: all processes of a job end at once."""
    started.process.kill()
    while processes := job.line.processes():
        for process in processes:
            with contextlib.suppress(psutil.NoSuchProcess):
                process.kill()
        psutil.wait_procs(processes, timeout=10)
    started.end()


def _said_runs(lines: list[str]) -> set[tuple[int, str]]:
    """The runs of a bisection whose judgement was printed: ordinal and judgement."""
    said, ordinal = set[tuple[int, str]](), 0
    for line in lines:
        if (run := _SAID_RUN.match(line)) is not None:
            ordinal = int(run[1])
        if (judgement := _SAID_JUDGEMENT.match(line)) is not None:
            said.add((ordinal, judgement[1]))
    return said


def meet_cuts(kind: Callable[..., Job], losses: Iterable[Loss], folder: Path, chance: random.Random) -> int:
    """Cut the power of a job at drawn moments, each time with such a loss, and of others where it is over before; last,
    behind its answer. How many jobs came to the answer."""
    left, jobs = [*losses], 0
    while left:
        jobs += 1
        place = folder / str(jobs)
        place.mkdir()
        disk = Disk(place / "line", compile_preload("power", place))
        job = kind(disk.folder, chance, beside=place, **disk.variables)
        disk.sync()
        while left and not job.is_over():
            _cut_at_random(job, disk, left.pop(), chance)
        _finish_and_cut(job, disk, chance)
        shutil.rmtree(place)
    return jobs


def _cut_at_random(job: Job, disk: Disk, loss: Loss, chance: random.Random) -> None:
    """Begin or go on, and cut the power at a drawn moment: what was printed until then is in the store."""
    before, runs = job.counted(), job.runs()
    awaited = runs + chance.randint(0, 3)
    started = job.start()
    while job.runs() < awaited and not job.is_over() and started.lasts(0.05):
        pass
    started.lasts(chance.uniform(0, 3 if awaited == runs else 0.5))
    _kill_all(job, started)
    _cut(job, disk, loss, chance, started.said)
    assert before.items() <= job.counted().items(), "a run that was kept is lost"


def _finish_and_cut(job: Job, disk: Disk, chance: random.Random) -> None:
    """Go on to the answer, and cut the power as soon as it was printed: it is there, and so is the report."""
    said = job.finish()
    _cut(job, disk, Loss.ALL, chance, said.splitlines())
    job.check()


def _cut(job: Job, disk: Disk, loss: Loss, chance: random.Random, said: list[str]) -> None:
    logs = {log.stem: log.read_text().splitlines() for log in disk.folder.glob("home/state/queue/*.log")}
    disk.cut(loss, chance)
    assert job.rows("PRAGMA integrity_check") in ([], [("ok",)])
    finished = job.rows(
        "SELECT b.name, p.ordinal, p.judgement FROM probes p JOIN bisections b ON b.id = p.bisection_id "
        "WHERE p.state = 'finished'"
    )
    kept = {(ordinal, judgement) for _, ordinal, judgement in finished}
    assert _said_runs(said) <= kept, "a run that was printed is lost"
    job.expire()
    disk.sync()
    for bisection, lines in logs.items():
        kept = {(ordinal, judgement) for name, ordinal, judgement in finished if name == bisection}
        assert _said_runs(lines) <= kept, f"a run of {bisection} that was printed is lost"
