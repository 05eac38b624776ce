"""`reduce`: parse, call one library function, print."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import click

from ..runner.process.options import Duration as DurationOption


class _Bytes(click.ParamType[int]):
    name = "size"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:
        from pydantic import ByteSize, TypeAdapter

        try:
            return TypeAdapter(ByteSize).validate_python(value)
        except ValueError:
            self.fail(f"expected a size such as 256MiB, found {value!r}", param, ctx)


@click.command(context_settings={"help_option_names": ["-h", "--help"]})
@click.argument("failing_build", type=click.Path(path_type=Path))
@click.option("--localize-only", is_flag=True, help="Find the first divergent tensor, and stop there.")
@click.option(
    "--wrap-only",
    is_flag=True,
    help="Write test_reduced.py into the build, which runs it as a scene test, and stop there.",
)
@click.option(
    "--reference",
    metavar="DIR|SCRIPT",
    type=click.Path(path_type=Path),
    help="A good build of the same case: the best reference. Like FAILING_BUILD, a scene test's script will do.",
)
@click.option(
    "--reference-data",
    metavar="DIR",
    type=click.Path(path_type=Path),
    help="Recorded values instead, <tensor>.pt by the names of the orchestration; the golden outputs count too.",
)
@click.option(
    "--against", metavar="PLATFORM", help="Compare with the same build on another target of the stack."
)
@click.option(
    "--against-schedule",
    metavar="NAME",
    help="Compare with the same build under a schedule of the stack file, serial for instance.",
)
@click.option(
    "--scene-case",
    metavar="[CLASS::]NAME",
    help="Which case, where FAILING_BUILD is the script of a scene test that has several.",
)
@click.option("--stack", metavar="NAME|FILE", help="Stack file, or the name of one.")
@click.option(
    "--repository",
    "overrides",
    metavar="NAME=PATH",
    multiple=True,
    help="Where a checkout of the stack lies.",
)
@click.option(
    "--python",
    metavar="FILE",
    type=click.Path(path_type=Path),
    help="Interpreter with the failing build's stack; this one by default.",
)
@click.option("--reference-stack", metavar="NAME|FILE", help="Stack of the reference, where it is another.")
@click.option(
    "--reference-python",
    metavar="FILE",
    type=click.Path(path_type=Path),
    help="Interpreter with the reference's stack; --python by default.",
)
@click.option("-p", "--platform", metavar="NAME", help="Target; the stack's first one by default.")
@click.option("-d", "--device", type=int, default=0, show_default=True, help="Device number.")
@click.option(
    "--golden-data",
    metavar="DIR",
    type=click.Path(path_type=Path),
    help="Frozen data; the failing build's own by default.",
)
@click.option(
    "--dump-budget", type=_Bytes(), default="256MiB", show_default=True, help="What one run may dump."
)
@click.option(
    "--rtol",
    type=click.FloatRange(min=0),
    help="Relative tolerance; against a reference any difference counts by default.",
)
@click.option("--atol", type=click.FloatRange(min=0), help="Absolute tolerance; alike.")
@click.option(
    "--attempts",
    type=click.IntRange(min=1),
    default=8,
    show_default=True,
    help="Searches while nothing diverges.",
)
@click.option(
    "--timeout",
    type=click.FloatRange(min=0, min_open=True),
    default=600.0,
    show_default=True,
    help="Seconds for one run.",
)
@click.option("--jobs", type=click.IntRange(min=1), default=2, show_default=True, help="Tests run at once.")
@click.option(
    "--budget",
    type=DurationOption(),
    help="Stop after this time with the best so far: 90s, 20m, 2h.",
    metavar="TIME",
)
@click.option(
    "--max-tests", type=click.IntRange(min=1), help="Stop after this many tests with the best so far."
)
@click.option(
    "--interesting",
    metavar="SCRIPT",
    type=click.Path(path_type=Path),
    help="Judges candidates in place of the failure seen: it is run in the candidate's folder, a build directory "
    "(./run.sh runs it; ../passing is its twin), and exits with 0 interesting, 1 not, 125 cannot tell, 101 keep a "
    "copy but go on.",
)
@click.option("--fail-regex", metavar="PATTERN", help="It failed if it prints a line with this in it.")
@click.option(
    "--fail-code",
    metavar="N",
    type=click.IntRange(1, 255),
    help="It failed if it exits with this code (128 + n: killed by signal n).",
)
@click.option(
    "--with",
    "external",
    metavar="CMD",
    help="Hand the text of each kernel that is left to a reducer of texts, shrinkray or cvise for instance: CMD is run "
    "with a script and a file behind it, and makes the file smaller while the script exits with 0.",
)
@click.option(
    "--resume", is_flag=True, help="Go on with the reduction in the output folder; repeats no test."
)
@click.option(
    "-o",
    "--output",
    metavar="DIR",
    type=click.Path(path_type=Path),
    default=Path("reduced"),
    show_default=True,
    help="Folder for the result.",
)
def main(**options: Any) -> None:
    """Shrink FAILING_BUILD to the fewest tasks and kernels that still fail where a good build passes, or (with
    --localize-only) find the tensor, task and kernel at which it leaves the good build's path.

    A smaller build counts only if it fails as the whole does (in a tensor that was wrong before; with the same signal,
    stall or compile error), and the same tasks of the good build pass. Without a good build, the golden data alone
    judge it: no task's result can be replaced then, and what the failing outputs are made of stays. The builds are
    copied, run again on frozen data, and never changed. In place of a build directory, the script of a scene test is
    taken, and written as one beside the output folder. Exit code: 0 found, 1 error, 2 usage, 3 nothing diverges, 6
    stopped by its budget, 130 interrupted.
    """
    from .command import run_cli_job

    sys.exit(run_cli_job(**options))
