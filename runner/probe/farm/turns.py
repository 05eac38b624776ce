"""Whose turn it is where several probes need the same build: one has it made, then all others find it shared."""

from collections import defaultdict


class BuildTurns:
    """Probes by number, builds by key."""

    def __init__(self) -> None:
        self._builders: dict[str, int] = {}
        self._waiting: defaultdict[str, list[int]] = defaultdict(list)
        self._made: set[str] = set()

    def may_begin(self, number: int, build: str) -> bool:
        """Whether a new probe begins now; else it waits for another one's build."""
        if build in self._made or self._builders.setdefault(build, number) == number:
            return True
        self._waiting[build].append(number)
        return False

    def built(self, number: int) -> list[int]:
        """A probe has its build, or has found that it cannot be had: those that begin now."""
        build = self._built_by(number)
        if build is None:
            return []
        del self._builders[build]
        self._made.add(build)
        return self._waiting.pop(build, [])

    def gone(self, number: int) -> list[int]:
        """A probe will not be made: those that begin now."""
        for waiting in self._waiting.values():
            if number in waiting:
                waiting.remove(number)
        build = self._built_by(number)
        if build is None:
            return []
        del self._builders[build]
        if not self._waiting[build]:
            return []
        following = self._waiting[build].pop(0)
        self._builders[build] = following
        return [following]

    def _built_by(self, number: int) -> str | None:
        return next((build for build, builder in self._builders.items() if builder == number), None)
