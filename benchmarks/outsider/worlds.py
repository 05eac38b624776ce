"""All worlds, by name, and by the outsider who made them. None of these had read the search."""

from collections.abc import Callable
from random import Random

from benchmarks.outsider.first.worlds import FIRST
from benchmarks.outsider.second.worlds import SECOND
from benchmarks.outsider.world import World

OUTSIDERS = {"first": FIRST, "second": SECOND}
WORLDS: dict[str, Callable[[Random], World]] = FIRST | SECOND
