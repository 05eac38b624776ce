"""What is done before the first line of a bisection, told where it takes long: on a busy machine loading the modules
alone may, and a large repository is read for a while."""

import sys
import threading
from types import TracebackType
from typing import Self

_PATIENCE = 2.0
"""Seconds in which nobody wonders."""


class SlowStart:
    """Says nothing for a while, then what is being done, and from then on each step as it begins."""

    def __init__(self, *, quiet: bool) -> None:
        self._step = "loading the program"
        self._tells = False
        self._over = quiet
        self._lock = threading.Lock()
        self._timer = threading.Timer(_PATIENCE, self.tell)
        self._timer.daemon = True

    def __enter__(self) -> Self:
        self._timer.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.end()

    def tell(self) -> None:
        """Tell what is being done, and each step from now on."""
        with self._lock:
            self._tells = True
            self._tell()

    def step(self, text: str) -> None:
        """Note what is begun now."""
        with self._lock:
            self._step = text
            self._tell()

    def end(self) -> None:
        """Say nothing any more: what follows is told by others. A second call does nothing."""
        with self._lock:
            self._over = True
        self._timer.cancel()

    def _tell(self) -> None:
        if self._tells and not self._over:
            print(f"{self._step} ...", file=sys.stderr, flush=True)
