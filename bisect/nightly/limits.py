"""When a night has to stop: its budget, its window, the devices' quotas."""

from collections import Counter
from datetime import datetime, timedelta

from rich.console import Console

from ...store.schema import Phase
from ..progress import PlainProgress
from .config import NightlyConfig, duration


class OutOfTimeError(Exception):
    """No run may start any more tonight. What is stored stays; a bisection goes on in the next night."""


class QuotaSpentError(Exception):
    """A device has made its runs of this night; bisections on others may go on."""


class Limits:
    """Asked before each run."""

    def __init__(self, config: NightlyConfig, *, begun: datetime, budget: float | None) -> None:
        """`budget` is seconds for this start and replaces the file's."""
        seconds = budget if budget is not None else duration(config.budget) if config.budget else None
        ends = [begun + timedelta(seconds=seconds)] if seconds is not None else []
        if config.window is not None:
            closes = config.window.closes(begun)
            ends.append(begun if closes is None else closes)
        self._end = min(ends, default=None)
        self._quota = {name: target.runs for name, target in config.platforms.items()}
        self._used: Counter[str] = Counter()

    def check(self) -> None:
        """Raises `OutOfTimeError` where no run may start."""
        if self._end is not None and datetime.now().astimezone() >= self._end:
            raise OutOfTimeError

    def left(self) -> float | None:
        """Seconds that are left; None without an end."""
        if self._end is None:
            return None
        return max(0.0, (self._end - datetime.now().astimezone()).total_seconds())

    def count(self, platform: str) -> bool:
        """Count a run; False where the device's quota is used up."""
        quota = self._quota[platform]
        if quota is not None and self._used[platform] >= quota:
            return False
        self._used[platform] += 1
        return True


class LimitedProgress(PlainProgress):
    """Stops a bisection where no further run may start. The run that was noted as started is made by the next night."""

    def __init__(self, console: Console, limits: Limits, platform: str) -> None:
        super().__init__(console)
        self._limits = limits
        self._platform = platform

    def probe_started(self, ordinal: int, phase: Phase, repository: str, commit: str) -> None:
        """Raises `OutOfTimeError`, `QuotaSpentError`."""
        self._limits.check()
        if not self._limits.count(self._platform):
            raise QuotaSpentError
        super().probe_started(ordinal, phase, repository, commit)
