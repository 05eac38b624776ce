"""A worker of the pool: a loop that makes probes in a slot of its own, one after the other, as its driver asks.

It remembers nothing: results go to the driver, who alone writes to the store. Whatever comes while a probe is made,
the end of the connection included, puts an end to that probe and to all its processes.
"""

import contextlib
import os
import signal
import threading
import time
import traceback
from collections.abc import Mapping
from dataclasses import dataclass
from multiprocessing import AuthenticationError
from multiprocessing.connection import Client, Connection
from typing import Any, cast

from ...errors import UserError
from ...process.interrupt import Interrupt, InterruptedWorkError
from ...stack.stack import Stack
from ...workspace.content import StackContent
from ...workspace.home import Home
from ...workspace.workspace import Workspace
from ..probe import Prober
from ..records import ProbeRequest, ProbeResult

_WATCH = 0.5
"""Seconds between two looks whether the driver lives."""


@dataclass(frozen=True, kw_only=True)
class Setup:
    """What a worker is told first. `share` is how many workers the machine's cores are for, `build_store` the URL of
    builds that machines share."""

    stack: Stack
    home: Home
    variables: Mapping[str, str]
    share: int
    build_store: str | None = None


@dataclass(frozen=True)
class Make:
    """Asks the worker to make a probe, which the driver knows by its number."""

    number: int
    request: ProbeRequest


@dataclass(frozen=True)
class Cancel:
    """Asks the worker to stop a probe, where it is still being made."""

    number: int


@dataclass(frozen=True)
class Stop:
    """Tells the worker that no more probes will come."""


@dataclass(frozen=True)
class Activity:
    """Tells the driver what is done now for a probe, and where, in words."""

    number: int
    where: str
    text: str


@dataclass(frozen=True)
class Done:
    """Tells the driver the result of a probe; None where the probe was stopped."""

    number: int
    result: ProbeResult | None


@dataclass(frozen=True)
class Failed:
    """Tells the driver that no probe can be made here. `expected`: the fault is the user's, not one of this program."""

    text: str
    expected: bool


def belong_to(driver: int) -> None:
    """Make this process one of the driver's own: Ctrl-C is for the driver to hear, and their ends are one."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)

    def watch() -> None:
        while os.getppid() == driver:
            time.sleep(_WATCH)
        os._exit(1)

    threading.Thread(target=watch, daemon=True).start()


def work(address: str, key: bytes) -> None:
    """Connect to the driver and serve it until it says so, or is gone."""
    try:
        connection = Client(address, authkey=key)
    except (OSError, EOFError, AuthenticationError):
        return  # the driver is gone already
    with connection, contextlib.suppress(EOFError, ConnectionError):
        _serve(connection)


def _serve(connection: "Connection[Any, Any]") -> None:
    setup = cast(Setup, connection.recv())
    number = 0

    def tell(text: str) -> None:
        connection.send(Activity(number, f"slot {prober.slot.index}", text))

    try:
        workspace = Workspace(setup.stack, setup.home)
        with Prober(
            workspace,
            StackContent(setup.stack, workspace),
            setup.home,
            on_activity=tell,
            variables=setup.variables,
            share=setup.share,
            interrupt=Interrupt(connection),
            build_store=setup.build_store,
        ) as prober:
            while True:
                match connection.recv():
                    case Make(number=number, request=request):
                        try:
                            connection.send(Done(number, prober.probe(request)))
                        except InterruptedWorkError:
                            connection.send(Done(number, None))
                    case Stop():
                        return
                    case _:
                        pass  # a probe that ended before its cancellation came
    except (EOFError, ConnectionError):
        raise
    except UserError as error:
        connection.send(Failed(str(error), expected=True))
    except Exception:
        connection.send(Failed(traceback.format_exc(), expected=False))
