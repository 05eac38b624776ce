"""What an investigation asks for. Its steps are generators, which run nothing: they yield an experiment, and are sent
what came of it.

    dumped = yield from Dump(failing=build, expected=reference, results={3})

`Executor` alone makes experiments.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping, Set
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Generic, Protocol, TypeVar

from ....runner.build_output.args.dump import ArgsDump
from ....runner.build_output.golden_data import TensorFolder
from ....runner.tensor.view import TensorView
from ...replay.comparison import TaskValues
from ...replay.recorded_build import RecordedBuild
from ...replay.replay import Ran
from ...replay.runnable_build import RunnableBuild
from ...replay.task_replay import GivenTask, LoneResult

T = TypeVar("T")


class Experiment(Generic[T]):
    """Something to be done that has a T for its result. It may fail with a `UserError` or a `BuildOutputError`."""

    def __iter__(self) -> Generator[Experiment[Any], Any, T]:
        """`yield from` an experiment asks for it, and is its result."""
        return (yield self)


Steps = Generator[Experiment[Any], Any, T]
"""Steps that ask for experiments, and return a T in the end."""


class Expectation(Protocol):
    """What some tasks should leave, by their ordinal in the failing build."""

    def results_of(self, ordinal: int) -> Mapping[int, TensorView]:
        """What the task should leave, by argument index, as far as it is known.

        Raises `NotWholeError` where it was dumped, and not whole.
        """
        ...

    def values_of(self, ordinal: int) -> TaskValues:
        """What the task should read as well, as far as it is compared. Raises as `results_of`."""
        ...

    def inputs_of(self, ordinal: int) -> Mapping[int, TensorView] | None:
        """All tensors that the task should read; None where one of them is not known. Raises as `results_of`."""
        ...


@dataclass(frozen=True, kw_only=True)
class Dumped:
    """What the tasks of the failing build held in one run, and what they should have."""

    actual: ArgsDump
    expected: Expectation


class DumpSource(Protocol):
    """What tells what tasks should leave: by a run, where it is a build."""

    def dump(self, *, results: Set[int], whole: Set[int]) -> Expectation:
        """What some tasks should leave, and what the `whole` ones should read."""
        ...

    def dump_everything(self) -> Expectation:
        """What all tasks should read and leave."""
        ...


@dataclass(frozen=True, kw_only=True)
class Record(Experiment[RecordedBuild]):
    """Copy a build, and run it once for its task graph. It may fail with a `ReplayError`."""

    build: RunnableBuild
    name: str
    """Of the folder for it."""


@dataclass(frozen=True, kw_only=True)
class MakeBuild(Experiment[RunnableBuild]):
    """Make a build directory; nothing is run."""

    make: Callable[[Path], RunnableBuild]
    """Takes a folder that is not there yet."""
    name: str
    """Of the folder for it."""


@dataclass(frozen=True, kw_only=True)
class RunOnce(Experiment[Ran]):
    """Copy a build and run it, however that ends."""

    build: RunnableBuild
    name: str
    """Of the folder for it."""


@dataclass(frozen=True, kw_only=True)
class Dump(Experiment[Dumped]):
    """Run the failing build, and the reference where that is a build. Of tasks by their ordinal in the failing build,
    what the `results` ones write is dumped, and all arguments of the `whole` ones."""

    failing: RecordedBuild
    expected: DumpSource
    results: Set[int] = frozenset()
    whole: Set[int] = frozenset()
    schedule: str | None = None
    """Of the stack file, for the failing build; None: as its toolchain has it."""


@dataclass(frozen=True, kw_only=True)
class DumpEverything(Experiment[Dumped]):
    """Run the failing build and dump all arguments of all tasks. Only where the reference tells of all of them."""

    failing: RecordedBuild
    expected: DumpSource
    known: Expectation | None = None
    """What an earlier run of the reference has dumped; None: it is run too."""
    schedule: str | None = None


@dataclass(frozen=True, kw_only=True)
class RunInOrder(Experiment[tuple[TensorFolder | None, ...]]):
    """Run a build a few times under a schedule of the stack file, None for none, and dump nothing. The result is what
    each run put out; None for one that crashed, stalled, ran out of time, or did not tell."""

    build: RecordedBuild
    schedule: str | None
    runs: int
    under_load: bool = False
    """While other processes keep the machine busy."""


@dataclass(frozen=True, kw_only=True)
class RunAlone(Experiment[tuple[LoneResult, ...]]):
    """Run some tasks of one build in turn, and no other; the result is what each leaves. It may fail with a
    `NotWholeError`."""

    tasks: tuple[GivenTask, ...]


@dataclass(frozen=True, kw_only=True)
class DumpWhole(Experiment[ArgsDump]):
    """Run a build, and dump all arguments of some of its tasks, by their ordinal."""

    build: RecordedBuild
    tasks: Set[int]


@dataclass(frozen=True)
class Tell(Experiment[None]):
    """Let the user know what is done next, or why."""

    text: str
