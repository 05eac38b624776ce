"""The files through which `bisect` and `reduce` exchange a localization. The two programs do not import each other.

`LocalizationJob` is the request of `bisect` to a process of `reduce`. `ComparedBuilds` are the two builds behind a
bisection's answer, kept for `reduce --bisection`. `OutputFolder` holds the results, and while `reduce` runs also
`work/` with logs and dumps. `Footprints` is the document of `reduce --footprints`. Its schema is printed by:

    python -m precision_bisect.runner.localization_job
"""

import json
from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from ..store.durable_files import (
    IGNORE,
    Document,
    DocumentError,
    entries_below,
    is_writable,
    make_ignored_folder,
    nearest_existing,
    published_schema,
    read_document,
    try_remove_tree,
    write_whole,
)
from .case.case import FrozenGolden, RunOptions
from .errors import UsageError, UserError
from .localization import DIVERGENCE, TASK_GRAPH, Divergence, DocumentPart
from .probe.judge import JudgingRule
from .probe.probe import Prober, ProbeRequest
from .stack import Model, Stack
from .workspace.home import Home


class BuildToRun(Model):
    """A build directory, and the slot in which its commits are checked out and built."""

    build: Path
    """The build directory; for a scene test, its script in the slot."""
    stack: Stack
    """The stack, with the paths of its repositories in the slot."""
    python: Path
    """The interpreter of the slot."""
    slot: Path
    """The folder of the slot."""


class SceneCase(Model):
    """The run of a scene test, whose script takes the place of a build directory."""

    arguments: tuple[str, ...]
    """The script's arguments in the original run."""
    failed: str | None
    """`CLASS::NAME` of the case that failed; None where the run did not name one."""


class LocalizationJob(Document):
    """The request to localize a failure, as JSON in a file."""

    schema_version: Literal[1] = 1
    failing: BuildToRun
    reference: BuildToRun
    platform: str
    device: int
    golden_data: Path | None
    """The folder of the golden data; None for a scene test, which draws its data from a fixed seed."""
    scene: SceneCase | None = None
    """The run of the scene test; None where there are build directories."""
    timeout: float
    """The timeout of one run, in seconds."""
    rtol: float | None
    """The case's own tolerance, with `atol`; both are None where its run did not report it."""
    atol: float | None
    output: Path
    reduce_to: Path | None
    """The folder for a reduction; None where none is made."""


class ComparedBuild(Model):
    """A build directory that a probe left."""

    role: str
    """The name of the build on the screen."""
    repository: str
    commit: str
    revisions: Mapping[str, str]
    """The revisions of all repositories."""
    build: Path


class ComparedBuilds(Document):
    """The culprit's build and the build of a commit that passes, made on the same golden data."""

    schema_version: Literal[1] = 1
    stack: Stack
    platform: str
    device: int
    golden: str
    """The digest of the golden data."""
    timeout: float
    """The timeout of one run, in seconds."""
    rtol: float | None
    """The case's own tolerance, with `atol`; both are None where its run did not report it."""
    atol: float | None
    failing: ComparedBuild
    reference: ComparedBuild

    def prepare(
        self, compared: ComparedBuild, prober: Prober, *, golden: FrozenGolden, logs: Path
    ) -> BuildToRun:
        """Check out and build the toolchain of a build's commit in the prober's slot. Raises `UserError`."""
        request = ProbeRequest(
            revisions=compared.revisions,
            case=None,
            platform=self.platform,
            device=self.device,
            golden=golden,
            judging_rule=JudgingRule(command=True),
            options=RunOptions(golden_data=golden.directory),
            timeout=self.timeout,
            directory=logs,
        )
        toolchain = prober.prepare(request, name=f"{compared.role} {compared.commit[:12]}")
        slot = prober.slot
        return BuildToRun(build=compared.build, stack=toolchain, python=slot.python, slot=slot.directory)


def write_compared_builds(builds: ComparedBuilds, name: str, home: Home) -> None:
    """Save the compared builds of a bisection."""
    file = home.compared_builds_file(name)
    file.parent.mkdir(parents=True, exist_ok=True)
    write_whole(file, builds.model_dump_json(indent=2))


def read_compared_builds(name: str, home: Home) -> ComparedBuilds:
    """Read the compared builds of a bisection. Raises `UserError` where it has none, or they were removed."""
    file = home.compared_builds_file(name)
    if not file.is_file():
        known = (
            ""
            if (home.bisections / name).is_dir()
            else f", and no bisection of that name in {home.bisections}"
        )
        raise UserError(
            f"--bisection {name}: expected the builds of a culprit and of a commit that passes, found none{known}: "
            "a bisection keeps them where it names a culprit, and a command behind -- makes none; see "
            f"bisect-precision report {name}"
        )
    try:
        builds = read_document(ComparedBuilds, json.loads(file.read_bytes()))
    except (DocumentError, ValueError) as error:
        raise UserError(f"{file}: {error}") from error
    for build in (builds.failing.build, builds.reference.build):
        if not build.is_dir():
            raise UserError(f"--bisection {name}: expected the build directory {build}, found it removed")
    return builds


_WORK = "work"
OWNER_FILE = "reduce-of"
"""This file says what a folder belongs to: in an output folder, to which reduction, and in `work/`, that it is ours."""


def check_output(output: Path) -> None:
    """Check that a folder for results can be made. Call this before anything is built or run for them.

    Raises:
        UsageError: the place cannot be written.
    """
    there = nearest_existing(output.absolute())
    if not is_writable(there):
        raise UsageError(
            f"-o {output}: expected a place for the results, found {there}, which is no folder that can be written; "
            "name another one"
        )


@contextmanager
def work_folder(output: Path) -> Generator[Path]:
    """Make the output folder and `work/` below it, and yield the latter. Remove it at the end of the block.

    After an error it stays if a log is in it, because the message may name the log. No message names one after Ctrl-C.
    If the block added no result to the output folder, what else was made is removed too.
    """
    work = output / _WORK
    is_new = not output.exists()
    earlier = set[str]() if is_new else {path.name for path in output.iterdir()}
    keeps_logs = False
    try:
        make_ignored_folder(output)
        work.mkdir(exist_ok=True)
        yield work
    except Exception:
        keeps_logs = work.is_dir() and any(path.name.endswith(".log.gz") for path in entries_below(work))
        raise
    finally:
        if not keeps_logs:
            try_remove_tree(work)
            _remove_unused(output, earlier=earlier, is_new=is_new)


def _remove_unused(output: Path, *, earlier: set[str], is_new: bool) -> None:
    """Remove what a block made in an output folder that has no results of it. `earlier` entries are the user's."""
    if not output.is_dir():
        return
    made = {path.name for path in output.iterdir()} - earlier
    if made <= {OWNER_FILE, IGNORE}:
        for name in made:
            (output / name).unlink()
        if is_new:
            output.rmdir()


@dataclass(frozen=True)
class OutputFolder:
    """A folder that may hold the results of an earlier localization, and files of the user."""

    path: Path

    @contextmanager
    def make_work_folder(self, *, apart_from: Sequence[Path]) -> Generator[Path]:
        """Make a new `work/` below it, and yield that. `work_folder` says when it is removed.

        Raises:
            UsageError: the output folder is in one of the `apart_from` folders, or `work/` is around one of them, or
                there is a `work/` that no localization made.
        """
        work = self.path / _WORK
        for other in apart_from:
            if self.path.resolve().is_relative_to(other.resolve()):
                raise UsageError(f"-o {self.path}: expected a folder outside of {other}")
            if other.resolve().is_relative_to(work.resolve()):
                raise UsageError(
                    f"-o {self.path}: expected nothing to read in {work}, where logs and dumps go, found {other}; "
                    "name another folder"
                )
        if work.is_symlink() or (work.exists() and not (work / OWNER_FILE).is_file()):
            raise UsageError(
                f"-o {self.path}: expected no {work}, where logs and dumps go, found one that no localization made; "
                "name another folder, or move it away"
            )
        try_remove_tree(work)
        with work_folder(self.path):
            write_whole(work / OWNER_FILE, "localization\n")
            yield work

    def write(self, document: Divergence, page: str | None) -> None:
        """Write the document, and the page of the task graph where one was recorded, in place of earlier ones."""
        page_file = self.path / TASK_GRAPH
        if page is not None:
            page_file.write_text(page, encoding="utf-8")
        elif (self.path / DIVERGENCE).exists():
            page_file.unlink(missing_ok=True)  # It belongs to the earlier document.
        self.replace_document(document)

    def replace_document(self, document: Divergence) -> None:
        """Write the document. The page of the same localization stays."""
        text = document.model_dump_json(indent=2, by_alias=True)
        (self.path / DIVERGENCE).write_text(f"{text}\n", encoding="utf-8")


FOOTPRINTS = "footprints.json"
"""The name of the file in the output folder of `reduce --footprints`."""


class UndeclaredWrite(DocumentPart):
    """Bytes that a task changed outside of the tensors that it declares to write."""

    argument: int
    """The index of the argument that is nearest to the bytes."""
    tensor: str
    """The name of that argument in the orchestration."""
    bytes: int
    where: Literal[
        "past the end of the buffer",
        "before the start of the buffer",
        "past the end of the tensor",
        "before the start of the tensor",
        "between the rows of the tensor",
    ]
    reach: int
    """The bytes from the edge in `where` to the farthest changed byte; between rows, from the first element."""
    into: str
    """The owner of the changed memory in the run, in words."""
    into_tasks: tuple[int, ...] = ()
    """The positions of the other tasks with tensors in the changed memory. Older documents have none."""


class UndeclaredRead(DocumentPart):
    """Memory on which a task's results depend, outside of the tensors that it declares to read."""

    argument: int
    tensor: str
    what: Literal["held before", "around the tensor", "past the end of the buffer", "before the buffer"]
    """The place of the memory: the old contents of an output, or a place relative to another argument."""
    whose: str
    """The task that wrote the memory in the run."""


class TaskFootprint(DocumentPart):
    """A task that accesses memory without declaring that."""

    task_id: str
    position: int
    """The position among the tasks that run kernels, from 0, in submission order."""
    kernel: str
    kernel_sources: tuple[str, ...]
    writes: tuple[UndeclaredWrite, ...]
    reads: tuple[UndeclaredRead, ...]
    wants_offset_zero: bool = False
    """Whether the task's results change where its tensors lie farther from the start of their buffers."""


class NotExamined(DocumentPart):
    """A task that could not be examined, and why."""

    position: int
    kernel: str
    why: str


class Footprints(Document):
    """The memory that a build's tasks access without declaring that: the document of `reduce --footprints`."""

    schema_version: Literal[1] = 1
    build: str
    tasks: int
    """The number of all tasks."""
    examined: int
    """The number of tasks that were run alone. Of many similar tasks, only a few are run."""
    found: tuple[TaskFootprint, ...]
    not_examined: tuple[NotExamined, ...]


def footprints_schema_text() -> str:
    """Return the schema of `footprints.json`."""
    return published_schema(Footprints)


if __name__ == "__main__":
    print(footprints_schema_text(), end="")
