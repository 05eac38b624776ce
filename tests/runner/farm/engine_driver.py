"""A driver of an engine, as the tests of each engine need one."""

import queue
from collections.abc import Callable

from precision_bisect.runner.farm.farm import Delivery, EngineEvent, MissingContents, OpenEngine
from precision_bisect.runner.farm.host import ParcelMaker
from tests.runner.small_stack import SmallStack


class EngineDriver:
    """An engine, and what it has told."""

    def __init__(self, open_engine: OpenEngine, small: SmallStack) -> None:
        self.told: queue.SimpleQueue[EngineEvent] = queue.SimpleQueue()
        self.engine = open_engine(self.told.put)
        self.parcels = ParcelMaker(small.stack(), small.workspace(), small.folder / "packed")

    def start(
        self, small: SmallStack, key: str, *, avoid: frozenset[str] = frozenset(), **resources: float
    ) -> None:
        """Have a probe made."""
        parcel = self.parcels.parcel(small.request())
        self.engine.start(key, parcel, resources=resources, avoid=avoid)

    def until(self, wanted: Callable[[EngineEvent], bool]) -> EngineEvent:
        """The next that is wanted of what is told."""
        while not wanted(told := self.told.get(timeout=120)):
            pass
        return told

    def deliver(self, small: SmallStack) -> str:
        """Send what the host lacks; its place."""
        lacks = self.until(lambda told: isinstance(told, MissingContents))
        assert isinstance(lacks, MissingContents)
        Delivery(self.engine, self.parcels).send(self.parcels.parcel(small.request()), lacks.place)
        return lacks.place
