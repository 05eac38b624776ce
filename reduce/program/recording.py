"""One full run of a build, kept: its tasks, and every value that they read and wrote."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import numpy as np

from ...runner.build_output.args_dump import ArgsDump
from ...runner.build_output.golden_data import GoldenData
from ...runner.build_output.task_graph import TaskGraph
from ..comparison import TaskValues, values_of
from ..entry_arguments import EntryArgument, entry_arguments
from ..replay import Replayer
from ..task_list import TaskList
from ..toolchain import Toolchain
from ..working_copy import WorkingCopy
from .extract import extract
from .model import NotReducibleError, Program


@dataclass(frozen=True, kw_only=True)
class Recording:
    """`copy` is the build's copy, unedited; `dump` and `tasks` are of the same run."""

    copy: WorkingCopy
    toolchain: Toolchain
    arguments: tuple[EntryArgument, ...]
    dump: ArgsDump
    tasks: TaskList
    data: GoldenData

    @cached_property
    def program(self) -> Program:
        """Its program model."""
        parts = self.copy.build()
        return extract(parts.orchestration(), parts.kernel_config(), self.tasks, self.dump, self.arguments)

    @cached_property
    def _values(self) -> dict[int, TaskValues]:
        return {}

    def values(self, ordinal: int) -> TaskValues:
        """All tensors of a task; `NotWholeError` where one was not dumped whole."""
        if ordinal not in self._values:
            self._values[ordinal] = values_of(self.dump, self.tasks.tasks[ordinal])
        return self._values[ordinal]


@dataclass(frozen=True, kw_only=True)
class Recorder:
    """Records one build; what was recorded before in the same folder is opened again and not run twice."""

    build: Path
    data: Path
    toolchain: Toolchain
    folder: Path
    timeout: float

    def record(self, attempt: int = 0) -> Recording:
        """Run number `attempt`.

        Raises:
            UserError: the build cannot be run.
            BuildOutputError: it, or what it recorded, cannot be read.
        """
        copy_path = self.folder / "build"
        done = self.folder / f"recorded-{attempt}"
        if not copy_path.exists():
            partial = self.folder / "partial"
            WorkingCopy(partial).discard()
            WorkingCopy.of(self.build, partial).path.rename(copy_path)
        copy = WorkingCopy(copy_path)
        parts = copy.build()
        data = GoldenData.open(self.data)
        arguments = entry_arguments(parts, data)
        if not done.exists():
            runs = self.folder / f"run-{attempt}"
            WorkingCopy(runs).discard()
            replayer = Replayer(copy=copy, toolchain=self.toolchain, folder=runs, timeout=self.timeout)
            replayer.run(arguments, data=self.data, dump_level=2, dep_gen=True)
            (runs / "001").rename(done)
        kept = WorkingCopy(done).build()
        return Recording(
            copy=copy,
            toolchain=self.toolchain,
            arguments=arguments,
            dump=kept.args_dump(),
            tasks=TaskList.of(_annotated(kept.task_graph(), self.build), parts.kernel_config()),
            data=data,
        )


def _annotated(graph: TaskGraph, build: Path) -> TaskGraph:
    if not graph.annotated:
        raise NotReducibleError(f"{build}: expected a task graph with arguments, found pairs of tasks only")
    return graph


def same_bits(first: TaskValues, second: TaskValues) -> bool:
    """Whether two tasks left the same."""
    return first.after.keys() == second.after.keys() and all(
        np.array_equal(view.contiguous(), second.after[index].contiguous())
        for index, view in first.after.items()
    )
