"""What lies around an argument dump: names of its kernels, and the order in which its tasks are executed."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from ..build_output.args.records import ArgRecord, DumpStage
from ..build_output.files.errors import BuildOutputError
from ..build_output.graph.task_graph import TaskGraph
from ..build_output.kernel_config import FILE_NAME as KERNEL_LIST
from ..build_output.kernel_config import KernelConfig
from ..build_output.name_map import NameMap

_GRAPH, _RECORDINGS = "deps.json", "dfx_outputs"


@dataclass(frozen=True, kw_only=True)
class DumpSurroundings:
    """What lies around a dump and says more of its records: kernels' names by function id, places of tasks."""

    names: Mapping[int, str]
    places: Mapping[int, int]
    unread: tuple[str, ...]

    @classmethod
    def of(cls, dump: Path) -> DumpSurroundings:
        """Looks in the folder around the dump's, and behind `dfx_outputs` in the build directory too."""
        names: dict[int, str] = {}
        places: dict[int, int] = {}
        unread: list[str] = []
        around = dump.parent
        for folder in (around.parent, around) if around.name == _RECORDINGS else (around,):
            try:
                if (folder / KERNEL_LIST).is_file():
                    kernels = KernelConfig.open(folder).kernels
                    names |= {number: kernel.name for number, kernel in kernels.items()}
                for file in sorted(folder.glob("name_map*.json")):
                    names |= NameMap.open(file).names
                if (folder / _GRAPH).is_file():
                    graph = TaskGraph.open(folder / _GRAPH)
                    places = {task: place for place, task in enumerate(graph.topological_order)}
            except BuildOutputError as error:
                unread.append(str(error))
        return cls(names=names, places=places, unread=tuple(unread))

    def kernels_of(self, record: ArgRecord) -> str:
        """Names of the kernels of a record's task; empty where none is known."""
        return "+".join(self.names[number] for number in record.kernels if number in self.names)

    def order(self, record: ArgRecord) -> tuple[int, int, bool, int, int]:
        """A key that sorts records as they are executed: threads append them to the file in any order.

        Tasks follow the graph's order, those that it does not list their ids; inputs come before outputs.
        """
        place = self.places.get(record.task_id, len(self.places))
        after = record.stage is DumpStage.AFTER_COMPLETION
        return place, record.task_id, after, record.arg_index, record.index
