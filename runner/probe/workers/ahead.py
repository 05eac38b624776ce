"""Builds that are begun while a case runs, for the commit that is probably run next.

They are made in a slot of their own, below the case's priority, and what is finished is taken from the cache by whoever
needs it next. One that is stopped leaves what the stack's compiler cache has kept of it.
"""

from collections.abc import Callable
from contextlib import AbstractContextManager, ExitStack
from dataclasses import replace
from typing import Protocol, Self

from ..records import ProbeRequest

_COMES_WITHIN = 10.0
"""Seconds that the worker has to come when it is first needed."""


class OneWorker(Protocol):
    """A pool of one worker."""

    def begin(self, request: ProbeRequest) -> int:
        """Hand a probe to it."""
        ...

    def cancel(self, number: int) -> None:
        """Stop a probe."""
        ...

    def catch_up(self, *, timeout: float = 0.0) -> None:
        """Take note of what has happened; wait as long as this for a first worker."""
        ...


class AheadBuilder(ExitStack):
    """Makes one build at a time; its slot is taken when it is first asked. Its end stops the build, and all of its
    processes. All methods are for one thread."""

    def __init__(self, open_pool: Callable[[], AbstractContextManager[OneWorker]]) -> None:
        """`open_pool` gives the worker, to be entered."""
        super().__init__()
        self._open_pool = open_pool
        self._pool: OneWorker | None = None
        self._number: int | None = None

    def __enter__(self) -> Self:
        return self

    def begin(self, request: ProbeRequest) -> None:
        """Begin a build, in place of the one before. Raises `UserError` where none can be made."""
        self.stop()
        if self._pool is None:
            self._pool = self.enter_context(self._open_pool())
        self._number = self._pool.begin(replace(request, build_only=True))
        self._pool.catch_up(timeout=_COMES_WITHIN)

    def stop(self) -> None:
        """Stop the build that is under way, if any."""
        if self._pool is not None and self._number is not None:
            self._pool.cancel(self._number)
            self._number = None

    def catch_up(self) -> None:
        """Take note of what has happened. Raises `UserError` where no build can be made."""
        if self._pool is not None:
            self._pool.catch_up()
