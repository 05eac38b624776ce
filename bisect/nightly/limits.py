"""When a night has to stop: its budget, its window, the devices' quotas."""

from collections import Counter
from collections.abc import Mapping
from datetime import datetime, timedelta

from ..run.budget import BudgetSpentError
from .config import NightlyConfig


class OutOfTimeError(BudgetSpentError):
    """No run may start any more tonight. What is stored stays; bisections go on in the next night."""

    def __init__(self) -> None:
        super().__init__("the budget or the window of this night ended; the next night goes on")


class QuotaSpentError(BudgetSpentError):
    """A device has made its runs of this night; work on others may go on."""

    def __init__(self) -> None:
        super().__init__("the device's runs of this night are used up; the next night goes on")


class Limits:
    """Asked before each run."""

    def __init__(self, config: NightlyConfig, *, begun: datetime, budget: float | None) -> None:
        """`budget` is seconds for this start and replaces the file's."""
        seconds = budget if budget is not None else config.budget
        ends = [begun + timedelta(seconds=seconds)] if seconds is not None else []
        self.opened: datetime | None = None
        """When the window did, where there is one and it is open."""
        if config.window is not None:
            self.opened, closes = config.window.around(begun) or (None, begun)
            ends.append(closes)
        self._end = min(ends, default=None)
        self._quota = {name: target.runs for name, target in config.platforms.items()}
        self._used: Counter[str] = Counter()

    def count_earlier(self, runs: Mapping[str, int]) -> None:
        """Count what earlier starts ran, by platform."""
        self._used.update(runs)

    def check(self) -> None:
        """Raises `OutOfTimeError` where no run may start."""
        if self._end is not None and datetime.now().astimezone() >= self._end:
            raise OutOfTimeError

    def left(self) -> float | None:
        """Seconds that are left; None without an end."""
        if self._end is None:
            return None
        return max(0.0, (self._end - datetime.now().astimezone()).total_seconds())

    def permit(self, platform: str) -> None:
        """Count a run that is about to start. Raises `OutOfTimeError`, `QuotaSpentError`."""
        self.check()
        quota = self._quota[platform]
        if quota is not None and self._used[platform] >= quota:
            raise QuotaSpentError
        self._used[platform] += 1
