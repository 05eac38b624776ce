"""The command line of `reduce`: its options and its output folder.

The command parses the options into `ReduceOptions` and calls one function, which prints. The output folder holds the
results and the page of the task graph. While a localization runs, it also holds `work/` with logs and dumps.
"""

from __future__ import annotations

import shutil
import sys
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import click
from dataclass_click import (
    argument,
    dataclass_click,  # pyright: ignore[reportUnknownVariableType]
)

from ..runner.cli_options import (
    BUDGET,
    DEVICE,
    JSON,
    PLATFORM,
    QUIET,
    REPOSITORY,
    STACK,
    Completion,
    ConfiguredCommand,
    NumberType,
    OptionGroup,
    PathType,
    jobs_option,
    option,
    version_option,
)
from ..runner.errors import UsageError
from ..runner.localization import DIVERGENCE, TASK_GRAPH, Divergence
from ..store.durable_files import IGNORE, is_writable, make_ignored_folder, nearest_existing

_PATH = PathType()
_TOLERANCE = NumberType(min=0)


def _reducible_bisections(_ctx: click.Context) -> list[str]:
    """The bisections whose culprit's build can be reduced."""
    from ..runner.workspace.home import user_home

    return user_home().bisections_with_builds()


@dataclass(frozen=True, kw_only=True)
class ReduceOptions:
    """What the user asks of a localization or a reduction, as it was typed."""

    failing_build: Annotated[Path | None, argument(type=_PATH, required=False)]
    bisection: Annotated[
        str | None,
        option(
            "--bisection",
            group=OptionGroup.QUESTION,
            metavar="NAME",
            shell_complete=Completion(_reducible_bisections),
            help="In place of FAILING_BUILD, take the culprit's build of this bisection, beside that of its parent, "
            "with the frozen data, the stack and the interpreters that they ran with.",
        ),
    ]
    localize_only: Annotated[
        bool,
        option(
            "--localize-only",
            group=OptionGroup.QUESTION,
            is_flag=True,
            help="Find what makes the build fail, and the first wrong tensor, and stop there.",
        ),
    ]
    footprints: Annotated[
        bool,
        option(
            "--footprints",
            group=OptionGroup.QUESTION,
            is_flag=True,
            help="Without any reference, run the build's tasks alone in poisoned and guarded buffers, and name those "
            "that write or read what they were not declared to.",
        ),
    ]
    reference: Annotated[
        Path | None,
        option(
            "--reference",
            group=OptionGroup.QUESTION,
            metavar="DIR|SCRIPT",
            type=_PATH,
            help="Compare with this good build of the same case, which is the best reference; a scene test's script "
            "will do, as for FAILING_BUILD.",
        ),
    ]
    reference_data: Annotated[
        Path | None,
        option(
            "--reference-data",
            group=OptionGroup.QUESTION,
            metavar="DIR",
            type=_PATH,
            help="Compare with recorded values, a file NAME.pt for each tensor of the orchestration, and with the "
            "golden outputs.",
        ),
    ]
    against_schedule: Annotated[
        str | None,
        option(
            "--against-schedule",
            group=OptionGroup.QUESTION,
            metavar="NAME",
            help="Compare with the same build under this schedule of the stack file, for instance serial.",
        ),
    ]
    scene_case: Annotated[
        str | None,
        option(
            "--scene-case",
            group=OptionGroup.QUESTION,
            metavar="[CLASS::]NAME",
            help="Take this case, where FAILING_BUILD is the script of a scene test that has several.",
        ),
    ]
    stack: Annotated[str | None, STACK]
    repository: Annotated[tuple[str, ...], REPOSITORY]
    python: Annotated[
        Path | None,
        option(
            "--python",
            group=OptionGroup.STACK,
            metavar="FILE",
            type=_PATH,
            help="Run the failing build with this interpreter, which has its stack; the default is the one that runs "
            "this command.",
        ),
    ]
    reference_stack: Annotated[
        str | None,
        option(
            "--reference-stack",
            group=OptionGroup.STACK,
            metavar="NAME|FILE",
            help="Take the reference's stack from here; the default is --stack.",
        ),
    ]
    reference_python: Annotated[
        Path | None,
        option(
            "--reference-python",
            group=OptionGroup.STACK,
            metavar="FILE",
            type=_PATH,
            help="Run the reference with this interpreter; the default is --python.",
        ),
    ]
    platform: Annotated[str | None, PLATFORM]
    device: Annotated[int, DEVICE]
    golden_data: Annotated[
        Path | None,
        option(
            "--golden-data",
            group=OptionGroup.QUESTION,
            metavar="DIR",
            type=_PATH,
            help="Replay the frozen data of this folder; the default is the failing build's own.",
        ),
    ]
    rtol: Annotated[
        float | None,
        option(
            "--rtol",
            group=OptionGroup.QUESTION,
            metavar="R",
            type=_TOLERANCE,
            help="The case's own relative tolerance, by which its outputs are judged.",
        ),
    ]
    atol: Annotated[
        float | None,
        option(
            "--atol",
            group=OptionGroup.QUESTION,
            metavar="A",
            type=_TOLERANCE,
            help="The case's own absolute tolerance, by which its outputs are judged.",
        ),
    ]
    timeout: Annotated[
        float | None,
        option(
            "--timeout",
            group=OptionGroup.RESOURCES,
            metavar="SECONDS",
            type=NumberType(min=0, min_open=True),
            help="Stop a run after this many seconds; the default is 600, or the bisection's own limit.",
        ),
    ]
    jobs: Annotated[int, jobs_option(default=2)]
    budget: Annotated[float | None, BUDGET]
    interesting: Annotated[
        Path | None,
        option(
            "--interesting",
            group=OptionGroup.SEARCH,
            metavar="SCRIPT",
            type=_PATH,
            help="Have this script judge candidates in place of the failure that was seen. It is run in the "
            "candidate's folder, a build directory (./run.sh runs it; ../passing is its twin), and exits with 0 "
            "interesting, 1 not, 125 cannot tell, 101 keep a copy but go on.",
        ),
    ]
    resume: Annotated[
        bool,
        option(
            "--resume",
            group=OptionGroup.SEARCH,
            is_flag=True,
            help="Go on with the reduction in the output folder; no test is repeated.",
        ),
    ]
    output: Annotated[
        Path,
        option(
            "-o",
            "--output",
            group=OptionGroup.OUTPUT,
            metavar="DIR",
            type=_PATH,
            default=Path("reduced"),
            show_default=True,
            help="Write the result to this folder.",
        ),
    ]
    quiet: Annotated[bool, QUIET]
    verbose: Annotated[
        bool,
        option(
            "-v",
            "--verbose",
            group=OptionGroup.OUTPUT,
            is_flag=True,
            help="Print all that was found, not the first of each kind; of a reduction, what it is made of too.",
        ),
    ]
    as_json: Annotated[bool, JSON]

    @property
    def references(self) -> int:
        """Return how many options name something to compare with. At most one may."""
        named = (self.reference, self.against_schedule, self.reference_data, self.bisection)
        return sum(option is not None for option in named)

    @property
    def has_reference_run(self) -> bool:
        """Return whether a second run tells what is right: of another build, or of the same one under other
        conditions."""
        return self.references > 0 and self.reference_data is None

    @property
    def bisection_conflicts(self) -> tuple[str, ...]:
        """Return the options that were given although the bisection determines them."""
        said = {
            "FAILING_BUILD": self.failing_build,
            "--reference": self.reference,
            "--reference-data": self.reference_data,
            "--against-schedule": self.against_schedule,
            "--scene-case": self.scene_case,
            "--stack": self.stack,
            "--repository": self.repository or None,
            "--python": self.python,
            "--reference-stack": self.reference_stack,
            "--reference-python": self.reference_python,
            "--platform": self.platform,
            "--golden-data": self.golden_data,
        }
        return tuple(name for name, value in said.items() if value is not None)

    @property
    def has_tolerance(self) -> bool:
        """Return whether the case's own tolerance is given."""
        return self.rtol is not None or self.atol is not None


@click.command(cls=ConfiguredCommand, context_settings={"help_option_names": ["-h", "--help"]})
@version_option()
@dataclass_click(ReduceOptions)
def main(options: ReduceOptions) -> None:
    """Shrink FAILING_BUILD to the fewest tasks and kernels that still fail where a good build passes. With
    --localize-only, find what makes it fail: the change, the task and kernel, and the tensor that shows it.

    A smaller build counts only if it fails as the whole does, and the same tasks of the good build pass. It must be
    wrong in a tensor that was wrong before, by as much within a factor of 100. It must be so in kernels that make the
    whole good build fail so, too. A crash, stall or compile error must be the same. Without a good build, the golden
    data alone judge it. No task's result can be replaced then, and what the failing outputs are made of stays. The
    builds are copied, run again on frozen data, and never changed. In place of a build directory, the script of a scene
    test is taken, and written as one beside the output folder. Exit code: 0 found, 1 error, 2 usage, 3 the case passes,
    or nothing differs, 6 stopped by its budget, 130 interrupted.
    """
    from .reduce_command import reduce

    sys.exit(reduce(options))


_WORK = "work"
MARK = "reduce-of"
"""This file in the output folder says which reduction the folder belongs to."""


@contextmanager
def work_folder(work: Path) -> Generator[None]:
    """Remove the folder at the end. It stays after an error that left a log in it, because the message may name the
    log."""
    failed = False
    try:
        yield
    except Exception:
        failed = True
        raise
    finally:
        if not failed or next(work.rglob("*.log.gz"), None) is None:
            shutil.rmtree(work, ignore_errors=True)
            _remove_unused(work.parent)


def _remove_unused(output: Path) -> None:
    """Remove the folder if it holds nothing but the marks of its use, as after a reduction that never began."""
    if {path.name for path in output.iterdir()} <= {MARK, IGNORE}:
        shutil.rmtree(output)


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


@dataclass(frozen=True)
class OutputFolder:
    """A folder that may hold the results of an earlier localization."""

    path: Path

    @contextmanager
    def open(self, *, apart_from: Sequence[Path]) -> Generator[Path]:
        """An empty work folder below it. `work_folder` removes the folder at the end of the block.

        Raises:
            UsageError: the work folder would lie in one of the `apart_from` folders, or around it.
        """
        for other in apart_from:
            inside = self.path.resolve().is_relative_to(other.resolve())
            if inside or other.resolve().is_relative_to(self.path.resolve() / _WORK):
                raise UsageError(f"-o {self.path}: expected a folder outside of {other}")
        work = self.path / _WORK
        shutil.rmtree(work, ignore_errors=True)
        make_ignored_folder(self.path)
        work.mkdir()
        with work_folder(work):
            yield work

    def write(self, document: Divergence, page: str | None) -> None:
        """Write the document, and the page of the task graph where one was recorded."""
        if page is not None:
            (self.path / TASK_GRAPH).write_text(page, encoding="utf-8")
        text = document.model_dump_json(indent=2, by_alias=True)
        (self.path / DIVERGENCE).write_text(f"{text}\n", encoding="utf-8")
