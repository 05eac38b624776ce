"""The options of `reduce`."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import click
from dataclass_click import argument
from pydantic import ByteSize, TypeAdapter, ValidationError

from ..runner.process.option_types import NumberType, PathType
from ..runner.process.options import BUDGET, jobs_option
from ..runner.stack.options import DEVICE, PLATFORM, REPOSITORY, STACK
from ..store.option_groups import Completion, OptionGroup, option
from ..store.options import JSON, QUIET

_PATH = PathType()
_TOLERANCE = NumberType(min=0)
_BYTES: TypeAdapter[ByteSize] = TypeAdapter(ByteSize)


class SizeType(click.ParamType[int]):
    """An option's value that is a number of bytes such as `256MiB`, `20kB` or `4096`."""

    name = "size"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:
        """The number of bytes; a usage error where the text is no size."""
        try:
            return int(_BYTES.validate_python(value))
        except ValidationError:
            self.fail(f"expected a size such as 256MiB, found {value!r}", param, ctx)


def _reducible(_ctx: click.Context) -> list[str]:
    """The bisections whose culprit's build can be reduced."""
    from ..runner.workspace.home import user_home

    return user_home().with_compared_builds()


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
            shell_complete=Completion(_reducible),
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
    wrap_only: Annotated[
        bool,
        option(
            "--wrap-only",
            group=OptionGroup.QUESTION,
            is_flag=True,
            help="Write test_reduced.py into the build, which runs it as a scene test, and stop there.",
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
    against: Annotated[
        str | None,
        option(
            "--against",
            group=OptionGroup.QUESTION,
            metavar="PLATFORM",
            help="Compare with the same build on this other target of the stack.",
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
    dump_budget: Annotated[
        int,
        option(
            "--dump-budget",
            group=OptionGroup.RESOURCES,
            metavar="SIZE",
            type=SizeType(),
            default="256MiB",
            show_default=True,
            help="Let one run dump this much.",
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
    attempts: Annotated[
        int,
        option(
            "--attempts",
            group=OptionGroup.SEARCH,
            metavar="N",
            type=click.IntRange(min=1),
            default=8,
            show_default=True,
            help="Search this often while nothing diverges.",
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
    max_tests: Annotated[
        int | None,
        option(
            "--max-tests",
            group=OptionGroup.RESOURCES,
            metavar="N",
            type=click.IntRange(min=1),
            help="Stop after this many tests with the best that is known by then.",
        ),
    ]
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
    fail_regex: Annotated[
        str | None,
        option(
            "--fail-regex",
            group=OptionGroup.SEARCH,
            metavar="PATTERN",
            help="Count a run as failed if this is found in a line that it prints.",
        ),
    ]
    fail_code: Annotated[
        int | None,
        option(
            "--fail-code",
            group=OptionGroup.SEARCH,
            metavar="N",
            type=click.IntRange(1, 255),
            help="Count a run as failed if it exits with this code (128 + n: killed by signal n).",
        ),
    ]
    external: Annotated[
        str | None,
        option(
            "--with",
            group=OptionGroup.SEARCH,
            metavar="CMD",
            help="Hand the text of each kernel that is left to a reducer of texts, for instance shrinkray or cvise: "
            "CMD is run with a script and a file behind it, and makes the file smaller while the script exits with 0.",
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
        """How many options name something to compare with: at most one may."""
        named = (self.reference, self.against, self.against_schedule, self.reference_data, self.bisection)
        return sum(option is not None for option in named)

    @property
    def has_twin(self) -> bool:
        """Whether a second build, or the same one run otherwise, tells what is right."""
        return self.references > 0 and self.reference_data is None

    @property
    def given_beside_bisection(self) -> tuple[str, ...]:
        """What was named although a bisection says it."""
        said = {
            "FAILING_BUILD": self.failing_build,
            "--reference": self.reference,
            "--reference-data": self.reference_data,
            "--against": self.against,
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
        """Whether the case's own tolerance is given."""
        return self.rtol is not None or self.atol is not None
