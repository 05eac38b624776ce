"""The command line of `reduce`.

The command parses the options into `ReduceOptions` and calls one function, which prints.
"""

from __future__ import annotations

import sys
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
    JSON,
    PLATFORM,
    QUIET,
    REPOSITORY,
    STACK,
    Completion,
    ConfiguredCommand,
    CountType,
    DurationType,
    NumberType,
    OptionGroup,
    PathType,
    jobs_option,
    option,
    version_option,
)

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
            help="In place of FAILING_BUILD, reduce the culprit's build of this bisection, with its parent's as the "
            "reference, on the recorded data, stack and interpreters.",
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
            help="Without any reference, run each task by itself in poisoned, guarded buffers and report undeclared "
            "reads and writes.",
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
            help="Run the failing build with this interpreter, in which the build's stack is installed; the default "
            "is the one that runs this command.",
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
    device: Annotated[
        int | None,
        option(
            "-d",
            "--device",
            group=OptionGroup.QUESTION,
            metavar="N",
            type=CountType(min=0),
            help="Run on the device of this number; the default is 0, or the bisection's own.",
        ),
    ]
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
            help="Judge the outputs by this relative tolerance; the default is the case's own, where it is known.",
        ),
    ]
    atol: Annotated[
        float | None,
        option(
            "--atol",
            group=OptionGroup.QUESTION,
            metavar="A",
            type=_TOLERANCE,
            help="Judge the outputs by this absolute tolerance; the default is the case's own, where it is known.",
        ),
    ]
    timeout: Annotated[
        float | None,
        option(
            "--timeout",
            group=OptionGroup.RESOURCES,
            metavar="TIME",
            type=DurationType(),
            help="Stop a run after this time, such as 5m; the default is 10m, or the bisection's own limit.",
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
            help="Have this script judge candidates in place of the failure that was seen. Exit 0: interesting; 1: "
            "not; 125: undecided; 101: not, but save a copy. The current folder is the candidate; ./run.sh runs it; "
            "../passing is the same candidate cut from the good build, if there is one.",
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
            help="Print every finding, not only the first of each kind; for a reduction also list its contents.",
        ),
    ]
    as_json: Annotated[bool, JSON]

    @property
    def reference_count(self) -> int:
        """Return how many options name something to compare with. At most one may."""
        named = (self.reference, self.against_schedule, self.reference_data, self.bisection)
        return sum(value is not None for value in named)

    @property
    def has_reference_run(self) -> bool:
        """Return whether a second run tells what is right: of another build, or of the same one under other
        conditions."""
        return self.reference_count > 0 and self.reference_data is None

    @property
    def options_set_by_bisection(self) -> tuple[str, ...]:
        """Return the options that were given although the bisection determines them."""
        given = {
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
            "--device": self.device,
            "--golden-data": self.golden_data,
        }
        return tuple(name for name, value in given.items() if value is not None)

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

    A smaller build counts only if it fails as the whole does, and the same tasks of the good build pass. The same
    tensor must be wrong, with an error within a factor of 100 of the original. The kernels that are kept must also
    break the whole good build when put into it. A crash, stall or compile error must be the same. Without a good build,
    the golden data alone judge it. No task's result can be replaced then, and what the failing outputs are made of
    stays. The builds are copied, run again on frozen data, and never changed. In place of a build directory, the script
    of a scene test is taken, and written as one beside the output folder. Exit code: 0 found, 1 error, 2 usage, 3 the
    case passes, nothing differs, or the build is not to blame, 6 stopped by its budget, 130 interrupted.
    """
    from .reduce_command import reduce

    sys.exit(reduce(options))
