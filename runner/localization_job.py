"""The files through which `bisect` and `reduce` exchange a localization.

`bisect` and `reduce` are separate programs that do not import each other; both import this module. `LocalizationJob` is
the request that `bisect` hands to a process of `reduce`. `ComparedBuilds` are the two builds behind a bisection's
answer, kept for `reduce --bisection`. `Footprints` is the document of `reduce --footprints`: what tasks read and write
outside of their declared tensors. The module prints its schema:

    python -m precision_bisect.runner.localization_job
"""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Literal

from ..store.durable_files import Document, DocumentError, published_schema, read_document, write_whole
from .case.case import FrozenGolden, RunOptions
from .errors import UserError
from .localization import DocumentPart
from .probe.judge import BadWhen
from .probe.probe import Prober, ProbeRequest
from .stack import Model, Stack
from .workspace.home import Home


class BuildToRun(Model):
    """A build directory and the environment that runs it.

    The repositories of `stack` lie where the build's own commits are checked out and built, in `slot`, for `python`.
    """

    build: Path
    """The build directory. For a scene test, its script in `slot`."""
    stack: Stack
    python: Path
    slot: Path


class SceneCase(Model):
    """A scene test of the runtime. Its script stands in the place of a build directory."""

    arguments: tuple[str, ...]
    """The script's arguments in the original run."""
    failed: str | None
    """`CLASS::NAME` of the case that failed; None where the run did not name one."""


class LocalizationJob(Document):
    """What is to be localized, as JSON in a file.

    `timeout` is the seconds for one run. `rtol` and `atol` are the case's own tolerance, None where its run did not
    report them.
    """

    schema_version: Literal[1] = 1
    failing: BuildToRun
    reference: BuildToRun
    platform: str
    device: int
    golden_data: Path | None
    """The folder of the golden data. None for a scene test, which draws its data from a fixed seed."""
    scene: SceneCase | None = None
    """How both scripts are run; None where there are build directories."""
    timeout: float
    rtol: float | None
    atol: float | None
    output: Path
    reduce_to: Path | None
    """The folder for a reduction; None where none is made."""


class ComparedBuild(Model):
    """A build directory that a probe left. `role` names it on the screen; `revisions` are those of all repositories."""

    role: str
    repository: str
    commit: str
    revisions: Mapping[str, str]
    build: Path


class ComparedBuilds(Document):
    """The culprit's build and the build of a commit that passes, on the same frozen data.

    `golden` is the digest of the data. `timeout` is the seconds for one run. `rtol` and `atol` are the case's own
    tolerance, None where its run did not report them.
    """

    schema_version: Literal[1] = 1
    stack: Stack
    platform: str
    device: int
    golden: str
    timeout: float
    rtol: float | None
    atol: float | None
    failing: ComparedBuild
    reference: ComparedBuild

    def prepare(
        self, compared: ComparedBuild, prober: Prober, *, golden: FrozenGolden, logs: Path
    ) -> BuildToRun:
        """Check out and build the toolchain of the commit that made a build, in the prober's slot.

        Raises `UserError` where a step fails.
        """
        request = ProbeRequest(
            revisions=compared.revisions,
            case=None,
            platform=self.platform,
            device=self.device,
            golden=golden,
            bad_when=BadWhen(command=True),
            options=RunOptions(golden_data=golden.directory),
            timeout=self.timeout,
            directory=logs,
        )
        toolchain = prober.prepare(request, of=f"{compared.role} {compared.commit[:12]}")
        slot = prober.slot
        return BuildToRun(build=compared.build, stack=toolchain, python=slot.python, slot=slot.directory)


def write_compared_builds(builds: ComparedBuilds, name: str, home: Home) -> None:
    """Save the compared builds with the bisection of this name."""
    file = home.compared_builds_file(name)
    file.parent.mkdir(parents=True, exist_ok=True)
    write_whole(file, builds.model_dump_json(indent=2))


def read_compared_builds(name: str, home: Home) -> ComparedBuilds:
    """Read the compared builds of a bisection. Raises `UserError` where it has none, or its builds are gone."""
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


FOOTPRINTS = "footprints.json"
"""The name of the file in the output folder of `reduce --footprints`."""


class UndeclaredWrite(DocumentPart):
    """Bytes that a task changed outside of the tensors that it was declared to write."""

    argument: int
    tensor: str
    """The nearest argument, by its index and its name in the orchestration."""
    bytes: int
    where: Literal[
        "past the end of the buffer",
        "before the start of the buffer",
        "past the end of the tensor",
        "before the start of the tensor",
        "between the rows of the tensor",
    ]
    reach: int
    """Bytes from that edge to the farthest changed byte; between rows, from the tensor's first element."""
    into: str
    """The owner of that memory in the run, in words."""
    into_tasks: tuple[int, ...] = ()
    """The positions of the other tasks whose tensors lie in that memory. Documents of earlier versions have none."""


class UndeclaredRead(DocumentPart):
    """Memory outside of what a task was declared to read, on which its results depend."""

    argument: int
    tensor: str
    what: Literal["held before", "around the tensor", "past the end of the buffer", "before the buffer"]
    """Says where the memory lies: for an output, its old contents; for others, its place relative to the argument."""
    whose: str
    """The task that left the contents of that memory in the run."""


class TaskFootprint(DocumentPart):
    """A task that touches memory that it was not declared to touch."""

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
    """What a build's tasks touch.

    `examined` of `tasks` were run alone: of many similar tasks, a few are run.
    """

    schema_version: Literal[1] = 1
    build: str
    tasks: int
    examined: int
    found: tuple[TaskFootprint, ...]
    not_examined: tuple[NotExamined, ...]


def footprints_schema_text() -> str:
    """Return the schema of `footprints.json`."""
    return published_schema(Footprints)


if __name__ == "__main__":
    print(footprints_schema_text(), end="")
