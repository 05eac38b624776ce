"""What a farm needs of whatever runs its tasks: dask.distributed, or another scheduler behind the same few methods.

The engine chooses a worker that has the resources, runs a task again whose worker was lost, and carries what driver and
hosts say to each other. The driver connects to it and is never connected to.
"""

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from typing import Concatenate, ParamSpec, Protocol, TypeVar

from ...errors import UserError
from ...workspace.home import Home
from .making import MadeProbe
from .parcel import ProbeParcel

_Result = TypeVar("_Result")
_Arguments = ParamSpec("_Arguments")


@dataclass(frozen=True)
class Began:
    """A worker has begun a task. `place` names the worker, `host` its machine, as that calls itself."""

    key: str
    place: str
    host: str


@dataclass(frozen=True)
class Lacks:
    """A task waits for what its host lacks. It is told again until that has come."""

    key: str
    place: str


@dataclass(frozen=True)
class Says:
    """What a task does now, and in which slot."""

    key: str
    place: str
    slot: int
    text: str


@dataclass(frozen=True)
class Ended:
    """A task has ended: with a probe; with None, where it was stopped or lost for good; or with why it cannot be made
    there."""

    key: str
    place: str
    made: MadeProbe | Exception | None


Told = Began | Lacks | Says | Ended


class Engine(Protocol):
    """Runs tasks at hosts. What it tells of them goes to the function that it was made with, from any thread."""

    def start(
        self,
        key: str,
        parcel: ProbeParcel,
        *,
        resources: Mapping[str, float],
        avoid: frozenset[str],
    ) -> None:
        """Have a probe made by a worker that has such resources, at none of the places `avoid` if there is another. A
        task of the same key that is there already is taken up."""
        ...

    def left(self, prefix: str) -> Collection[str]:
        """The keys of tasks that are there and begin so, whichever driver started them."""
        ...

    def stop(self, key: str) -> None:
        """Stop a task, wherever it is and whoever started it. Nothing more is told of it."""
        ...

    def release(self, key: str) -> None:
        """What came of a task is kept elsewhere."""
        ...

    def ask(
        self,
        place: str,
        function: Callable[Concatenate[Home, _Arguments], _Result],
        *arguments: _Arguments.args,
        **named: _Arguments.kwargs,
    ) -> _Result:
        """Call a function at a host, beside the tasks that run there, with the host's home as its first argument.

        Raises what the function raises.
        """
        ...

    def nobody(self) -> str | None:
        """That there is no worker, and how one is started; None where there is one, or where nobody can tell."""
        ...

    def close(self) -> None:
        """Let go of the engine. Tasks that were not stopped go on."""
        ...


class LostPlaceError(Exception):
    """A worker that was asked something is gone."""


class LostEngineError(UserError):
    """The engine is gone, and all that it ran: no other worker can make a probe."""


class PlaceNames:
    """What people call places: by their hosts, and by the place as well where several have one host's name."""

    def __init__(self) -> None:
        self._hosts: dict[str, str] = {}

    def note(self, place: str, host: str) -> None:
        """A place is at a host."""
        self._hosts[place] = host

    def of(self, place: str) -> str:
        """What people call a place; itself where its host is not known."""
        host = self._hosts.get(place)
        if host is None:
            return place
        return host if [*self._hosts.values()].count(host) == 1 else f"{host} ({place})"
