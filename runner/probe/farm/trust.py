"""Whose failed builds are believed: a host that lacks a compiler, or room, fails at commits that others build."""

from collections import defaultdict
from collections.abc import Callable


class BuildingHosts:
    """What hosts could build, so far; hosts by their places, of which `name` says what people call them, builds by
    key."""

    def __init__(self, name: Callable[[str], str]) -> None:
        self._name = name
        self._hosts: set[str] = set()
        """Those that have built anything."""
        self._had: defaultdict[str, set[str]] = defaultdict(set)
        """Who had each build, built there or not."""
        self._failed: set[str] = set()
        """Builds that failed before."""

    def had(self, build: str, place: str, *, was_built: bool) -> None:
        """A host has a build: `was_built` there, or it had it already."""
        self._had[build].add(place)
        if was_built:
            self._hosts.add(place)

    def doubt(self, build: str, place: str, *, is_environment: bool) -> str | None:
        """Why another host is to try a build that failed at this one; None where the failure is believed.

        It is not where another host has the build. The first failure of a build is not either, if the host has never
        built anything, or if its error is one of machines rather than of commits (`is_environment`).
        """
        others = sorted(self._had[build] - {place})
        first = build not in self._failed
        self._failed.add(build)
        if others:
            return f"{self._name(others[0])} has that build"
        if first and is_environment:
            return "the error is one of machines, not of commits"
        if first and place not in self._hosts:
            return "nothing was ever built there"
        return None
