"""Watches whether the surroundings of the probes stay what they were, on each host."""

from collections.abc import Iterable, Mapping

from ...runner.workspace.environment import moved


class EnvironmentWatch:
    """Remembers the last surroundings on each host."""

    def __init__(self, earlier: Iterable[tuple[str | None, Mapping[str, str]]] = ()) -> None:
        """`earlier` gives host and surroundings of the probes of earlier starts, in order."""
        self._last: dict[str | None, Mapping[str, str]] = {}
        for host, surroundings in earlier:
            self._last.setdefault(host, surroundings)

    def changes(self, host: str | None, surroundings: Mapping[str, str]) -> list[str]:
        """What has changed on a host since its last probe, a sentence each."""
        before = self._last.get(host, surroundings)
        self._last[host] = surroundings
        return [
            f"the environment moved within the bisection: {change}" for change in moved(before, surroundings)
        ]
