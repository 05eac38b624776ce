"""How a process ended."""

import signal as signals
from dataclasses import dataclass
from typing import Literal

EndingKind = Literal["exit", "signal", "timeout"]

_SENT_FROM_OUTSIDE = frozenset({signals.SIGKILL, signals.SIGTERM, signals.SIGINT, signals.SIGHUP})


@dataclass(frozen=True, kw_only=True)
class Ending:
    """The end of one process: its exit code, or the number of the signal that killed it.

    `timed_out` and `cancelled` say that the runner put an end to it; code and signal then tell nothing.
    """

    exit_code: int | None
    signal: int | None
    timed_out: bool
    cancelled: bool

    @property
    def kind(self) -> EndingKind:
        """How it ended: by itself, by a signal, or by its time running out."""
        if self.timed_out:
            return "timeout"
        return "exit" if self.signal is None else "signal"

    @property
    def is_clean(self) -> bool:
        """Whether the process ended by itself with exit code 0."""
        return self.kind == "exit" and self.exit_code == 0

    @property
    def was_killed_from_outside(self) -> bool:
        """Whether others send such a signal: an out-of-memory killer, a batch system, an operator."""
        return self.kind == "signal" and self.signal in _SENT_FROM_OUTSIDE

    @property
    def signal_name(self) -> str | None:
        """Such as `SIGSEGV`; None where no signal ended the process."""
        if self.kind != "signal" or self.signal is None:
            return None
        try:
            return signals.Signals(self.signal).name
        except ValueError:
            return f"signal {self.signal}"

    def __str__(self) -> str:
        match self.kind:
            case "timeout":
                return "stopped at the time limit"
            case "signal":
                return f"killed by {self.signal_name}"
            case "exit":
                return f"exit code {self.exit_code}"
