"""One of the builds that are compared: its copy, the tasks it runs, and dumps of chosen ones."""

from __future__ import annotations

from collections.abc import Set
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from ...runner.build_output.args.dump import ArgsDump
from ...runner.build_output.golden_data import GoldenData, TensorFolder
from ...runner.build_output.kernel_config import KernelConfig
from ...runner.build_output.orchestration.orchestration import Orchestration
from ...runner.case.entry_arguments import EntryArgument, entry_arguments
from ...runner.compare.statistics.statistics import Tolerance
from ...runner.errors import UserError
from ..graph.races import MissingEdge, missing_edges
from ..graph.task_list import TaskList
from ..rewrite.tagging import tagged
from .compiled_objects import CompiledObjects
from .replay import Replay, Replayer
from .toolchain import Toolchain
from .working_copy import WorkingCopy


@dataclass(frozen=True, kw_only=True)
class RecordedBuild:
    """A build that was copied, run once for its task graph, and can be run again with markers."""

    build: Path
    data: Path
    copy: WorkingCopy
    replayer: Replayer
    config: KernelConfig
    orchestration: Orchestration
    arguments: tuple[EntryArgument, ...]
    tasks: TaskList
    outputs: TensorFolder | None
    """What the run that recorded the graph put out; None where the harness does not tell."""
    tolerance: Tolerance | None
    """With which the harness compared it; None where it does not tell."""

    @classmethod
    def open(
        cls,
        build: Path,
        *,
        data: Path,
        toolchain: Toolchain,
        folder: Path,
        timeout: float,
        objects: CompiledObjects | None = None,
    ) -> RecordedBuild:
        """Copies `build` below `folder` and records its graph on the frozen `data`. `objects` are a `Replayer`'s.

        Raises:
            UserError: it cannot be run.
            BuildOutputError: a part of it cannot be read.
        """
        copy = WorkingCopy.of(build, folder / "build")
        replayer = Replayer(
            copy=copy, toolchain=toolchain, folder=folder / "runs", timeout=timeout, objects=objects
        )
        parts = copy.build()
        config = parts.kernel_config()
        arguments = entry_arguments(parts, GoldenData.open(data))
        first = replayer.run(arguments, data=data, dep_gen=True)
        graph = first.graph
        assert graph is not None
        if not graph.annotated or any(task.kernels is None for task in graph.tasks.values()):
            raise UserError(
                f"{build}: expected a task graph with kernels and arguments, found one of a runtime before June 2026; "
                "replay the build with a later runtime"
            )
        tasks = TaskList.of(graph, config)
        if not tasks.tasks:
            raise UserError(f"{build}: expected a task graph with kernels, found one without")
        return cls(
            build=build,
            data=data,
            copy=copy,
            replayer=replayer,
            config=config,
            orchestration=parts.orchestration(),
            arguments=arguments,
            tasks=tasks,
            outputs=first.outputs,
            tolerance=first.tolerance,
        )

    def dump(self, *, results: Set[int], whole: Set[int], schedule: str | None = None) -> ArgsDump:
        """Run again with markers at tasks by their ordinal: at what they write, and at all of the `whole` ones.

        `schedule` is one of the stack file, None: as the toolchain has it. Raises as `Replayer.run`.
        """
        self.copy.write_orchestration(tagged(self.orchestration, results=results, whole=whole))
        return self._run(dump_level=1, schedule=schedule)

    def dump_everything(self, *, schedule: str | None = None) -> ArgsDump:
        """Run again, unedited, and dump all arguments of all tasks. `schedule` and errors are those of `dump`."""
        self.restore()
        return self._run(dump_level=2, schedule=schedule)

    @cached_property
    def missing_edges(self) -> tuple[MissingEdge, ...]:
        """Tasks that touch the same elements and do not wait for each other."""
        return missing_edges(self.tasks)

    def restore(self) -> None:
        """Take all markers out of the copy again."""
        self.copy.write_orchestration(self.orchestration.source)

    def run(self, *, schedule: str | None) -> Replay:
        """Run the copy as it stands, under a schedule of the stack file if one is named, and dump nothing.

        Raises `ReplayError`.
        """
        return self.replayer.run(self.arguments, data=self.data, schedule=schedule)

    def _run(self, *, dump_level: int, schedule: str | None) -> ArgsDump:
        ran = self.replayer.run(self.arguments, data=self.data, dump_level=dump_level, schedule=schedule)
        assert ran.dump is not None
        return ran.dump
