"""A driver of an engine, as the tests of each engine need one."""

import queue
from collections.abc import Callable

from precision_bisect.runner.probe.farm.delivery import Delivery
from precision_bisect.runner.probe.farm.engine import Lacks, Told
from precision_bisect.runner.probe.farm.farm import OpenEngine
from precision_bisect.runner.probe.farm.parcel import ParcelMaker
from tests.runner.small_stack import SmallStack


class EngineDriver:
    """An engine, and what it has told."""

    def __init__(self, open_engine: OpenEngine, small: SmallStack) -> None:
        self.told: queue.SimpleQueue[Told] = queue.SimpleQueue()
        self.engine = open_engine(self.told.put)
        self.parcels = ParcelMaker(small.stack(), small.workspace(), small.folder / "packed")

    def start(self, small: SmallStack, key: str, **resources: float) -> None:
        """Have a probe made."""
        parcel = self.parcels.parcel(small.request())
        self.engine.start(key, parcel, resources=resources, avoid=frozenset())

    def until(self, wanted: Callable[[Told], bool]) -> Told:
        """The next that is wanted of what is told."""
        while not wanted(told := self.told.get(timeout=120)):
            pass
        return told

    def deliver(self, small: SmallStack) -> str:
        """Send what the host lacks; its place."""
        lacks = self.until(lambda told: isinstance(told, Lacks))
        assert isinstance(lacks, Lacks)
        Delivery(self.engine, self.parcels).send(self.parcels.parcel(small.request()), lacks.place)
        return lacks.place
