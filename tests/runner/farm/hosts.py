"""An engine whose hosts are folders of this machine: each has a home of its own, and runs one task at a time."""

import contextlib
import os
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from precision_bisect.runner.errors import UserError
from precision_bisect.runner.farm.farm import (
    EngineEvent,
    LostWorkerError,
    MissingContents,
    TaskActivity,
    TaskBegin,
    TaskEnd,
)
from precision_bisect.runner.farm.host import HostMachine, HostProbeResult, ProbeParcel
from precision_bisect.runner.process.run import Interrupt, InterruptedWorkError
from precision_bisect.runner.workspace.home import Home


@dataclass
class Hosts:
    """`Engine` of the hosts whose homes are in `folder`. Those in `gone` do not answer; without `names` tasks wait."""

    folder: Path
    names: tuple[str, ...] = ("a", "b")
    gone: set[str] = field(default_factory=set[str])
    started: list[tuple[str, str]] = field(default_factory=list[tuple[str, str]])
    """Key and place of each task."""
    sent: list[str] = field(default_factory=list[str])
    """The names of the functions that were called at hosts."""
    pieces: dict[str, int] = field(default_factory=dict[str, int])
    """Bytes that each host was sent."""
    on_start: Callable[[str, str], None] = lambda key, place: None
    stopped: set[str] = field(default_factory=set[str])
    stops: dict[str, int] = field(default_factory=dict[str, int])
    threads: list[threading.Thread] = field(default_factory=list[threading.Thread])
    tell: Callable[[EngineEvent], None] = lambda told: None

    def open(self, tell: Callable[[EngineEvent], None]) -> "Hosts":
        self.tell = tell
        self.busy = {name: threading.Lock() for name in self.names}
        return self

    def home(self, place: str) -> Home:
        return Home(cache=self.folder / place / "cache", state=self.folder / place / "state")

    def start(
        self,
        key: str,
        parcel: ProbeParcel,
        *,
        resources: Mapping[str, float],
        avoid: frozenset[str],
    ) -> None:
        if not self.names:
            return
        there = [name for name in self.names if name not in self.gone]
        free = [name for name in there if name not in avoid and not self.busy[name].locked()]
        place = (free or [name for name in there if name not in avoid] or there)[0]
        self.started.append((key, place))
        source, self.stops[key] = os.pipe()
        thread = threading.Thread(target=self._run, args=(key, parcel, place, source))
        self.threads.append(thread)
        thread.start()

    def _run(self, key: str, parcel: ProbeParcel, place: str, source: int) -> None:
        made: HostProbeResult | Exception | None
        with self.busy[place], os.fdopen(source, "rb") as stopped:
            self.tell(TaskBegin(key, place, f"host {place}"))
            self.on_start(key, place)
            try:
                made = HostMachine(home=self.home(place), variables=dict(os.environ), max_probes=1).make(
                    key,
                    parcel,
                    on_missing=lambda: self.tell(MissingContents(key, place)),
                    on_activity=lambda slot, text: self.tell(TaskActivity(key, place, slot, text)),
                    interrupt=Interrupt(stopped),
                )
            except InterruptedWorkError:
                made = None
            except UserError as error:
                made = error
        if place not in self.gone and key not in self.stopped:
            self.tell(TaskEnd(key, place, made))

    def lose(self, key: str, place: str) -> None:
        """A host is gone in the middle of a task: the engine gives it up."""
        self.gone.add(place)
        os.write(self.stops[key], b".")
        self.tell(TaskEnd(key, place, None))

    def existing_tasks(self, prefix: str) -> list[str]:
        return [key for key in self.stops if key.startswith(prefix) and key not in self.stopped]

    def stop(self, key: str) -> None:
        self.stopped.add(key)
        with contextlib.suppress(OSError, KeyError):  # it has ended, or never began
            os.write(self.stops[key], b".")

    def release(self, key: str) -> None:
        pass

    def ask(self, place: str, function: Callable[..., Any], *arguments: Any, **named: Any) -> Any:
        if place in self.gone:
            raise LostWorkerError(place)
        self.sent.append(function.__name__)
        for argument in arguments:
            if isinstance(argument, bytes):
                self.pieces[place] = self.pieces.get(place, 0) + len(argument)
        return function(self.home(place), *arguments, **named)

    def no_worker_notice(self) -> str | None:
        return None if self.names else "no host has joined"

    def close(self) -> None:
        for thread in self.threads:
            thread.join()
