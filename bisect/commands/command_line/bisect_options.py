"""The options of `bisect-precision` itself. They import nothing heavy, so that `--help` answers at once."""

import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Literal

import click

from ....runner.process.option_types import NumberType, PathType
from ....runner.process.options import BUDGET, jobs_option
from ....runner.stack.options import DEVICE, PLATFORM, REPOSITORY, STACK
from ....store.option_groups import OptionGroup, option
from ....store.options import JSON, QUIET, STORE, VERBOSE
from .completion import bisections

_PATH = PathType()
_SECONDS = NumberType(min=0, min_open=True)
_CONFIDENCE = NumberType(0.5, 1, max_open=True)
_RUNS = click.IntRange(min=1)


@dataclass(frozen=True, kw_only=True)
class BisectOptions:
    """What the user asks of a bisection, as it was typed: nothing of it is checked against a stack yet."""

    good: Annotated[
        tuple[str, ...],
        option(
            "--good",
            group=OptionGroup.QUESTION,
            metavar="REV|DATE",
            multiple=True,
            help="Begin at this commit, where the case passes, or at the last one before this date (2026-06-01, "
            "@{2 weeks ago}); repeatable, all count; without it, a commit that passes is looked for behind --bad.",
        ),
    ]
    bad: Annotated[
        str | None,
        option(
            "--bad",
            group=OptionGroup.QUESTION,
            metavar="REV|DATE",
            help="End at this commit, a later one where the case fails.",
        ),
    ]
    skip: Annotated[
        tuple[str, ...],
        option(
            "--skip",
            group=OptionGroup.SEARCH,
            metavar="REV|A..B",
            multiple=True,
            help="Never run this commit, or those of A..B: they count as untestable; repeatable.",
        ),
    ]
    path: Annotated[
        tuple[str, ...],
        option(
            "--path",
            group=OptionGroup.SEARCH,
            metavar="DIR",
            multiple=True,
            help="Search only among commits that touch this file or folder of the searched repository; repeatable.",
        ),
    ]
    replay: Annotated[
        Path | None,
        option(
            "--replay",
            group=OptionGroup.SEARCH,
            metavar="FILE",
            type=_PATH,
            help="Take ends, skips and paths from this git bisect log (a report's bisect.log too); what it judged is "
            "not run again.",
        ),
    ]
    interactive: Annotated[
        bool,
        option(
            "--interactive",
            group=OptionGroup.QUESTION,
            is_flag=True,
            help="Build each commit and ask at the terminal whether it is good: nothing is run.",
        ),
    ]
    stack: Annotated[str | None, STACK]
    repository: Annotated[tuple[str, ...], REPOSITORY]
    repo: Annotated[
        str | None,
        option(
            "--repo",
            group=OptionGroup.QUESTION,
            metavar="NAME",
            help="Search this repository of the stack; the stack file says which one is the default.",
        ),
    ]
    freeze: Annotated[
        tuple[str, ...],
        option(
            "--freeze",
            group=OptionGroup.STACK,
            metavar="PIN",
            multiple=True,
            help="Hold this pin, at every commit, at what the bad end says; repeatable.",
        ),
    ]
    search: Annotated[
        tuple[str, ...],
        option(
            "--search",
            group=OptionGroup.STACK,
            metavar="PIN",
            multiple=True,
            help="Look into this pin where the culprit moves it; repeatable.",
        ),
    ]
    case: Annotated[
        str | None,
        option(
            "--case",
            group=OptionGroup.QUESTION,
            metavar="SCRIPT",
            help="Run this script of the case repository; its arguments may stand behind it, in the same word.",
        ),
    ]
    after: Annotated[
        tuple[str, ...],
        option(
            "--after",
            group=OptionGroup.QUESTION,
            metavar="CASE",
            multiple=True,
            help="Run this case before the case, in the same process, without judging it: for failures that need what "
            "another one leaves behind; repeatable, in order.",
        ),
    ]
    overlay: Annotated[
        tuple[str, ...],
        option(
            "--overlay",
            group=OptionGroup.QUESTION,
            metavar="PATH[@REV]",
            multiple=True,
            help="Lay this file or folder of a checkout, as on disk or as at REV, over every commit before it is "
            "built, such as a case that is younger than the range; repeatable.",
        ),
    ]
    adapt: Annotated[
        tuple[Path, ...],
        option(
            "--adapt",
            group=OptionGroup.QUESTION,
            metavar="FILE",
            type=_PATH,
            multiple=True,
            help="Write the case, and what is laid over, with each commit's own names, by the renames in this file, as "
            "`bisect-precision adapt REV` prints them; repeatable, the oldest renames first.",
        ),
    ]
    env: Annotated[
        tuple[str, ...],
        option(
            "--env",
            group=OptionGroup.QUESTION,
            metavar="NAME=VALUE",
            multiple=True,
            help="Set this variable for every run of the case, not for builds; repeatable.",
        ),
    ]
    platform: Annotated[str | None, PLATFORM]
    device: Annotated[int, DEVICE]
    bad_when: Annotated[
        str | None,
        option(
            "--bad-when",
            group=OptionGroup.QUESTION,
            metavar="WHAT",
            help="Count a run as bad if it shows this: a verdict such as stall, signature:TEXT, regex:PATTERN, or an "
            "error above a size, such as relative_l2:1e-4.  [default: mismatch]",
        ),
    ]
    golden_data: Annotated[
        Path | None,
        option(
            "--golden-data",
            group=OptionGroup.QUESTION,
            metavar="DIR",
            type=_PATH,
            help="Replay the frozen data in in/ and out/ of this folder; without it they are captured at the good "
            "end.",
        ),
    ]
    runtime_dir: Annotated[
        Path | None,
        option(
            "--runtime-dir",
            group=OptionGroup.QUESTION,
            metavar="BUILD",
            type=_PATH,
            help="With --repo, run this build directory, frozen, in place of compiling the case.",
        ),
    ]
    gallop: Annotated[
        Literal["commits", "days"] | None,
        option(
            "--gallop",
            group=OptionGroup.QUESTION,
            type=click.Choice(["commits", "days"]),
            required=False,  # dataclass-click does not see that `Literal[...] | None` is optional
            help="Without --good, look for it 1, 2, 4, ... commits or days before --bad, along first parents.  "
            "[default: commits]",
        ),
    ]
    find_fix: Annotated[
        bool,
        option(
            "--find-fix",
            group=OptionGroup.QUESTION,
            is_flag=True,
            help="Find the commit that made the case pass again: --bad is the older end, --good the later one.",
        ),
    ]
    cherry_pick: Annotated[
        tuple[str, ...],
        option(
            "--cherry-pick",
            group=OptionGroup.SEARCH,
            metavar="REV@A..B",
            multiple=True,
            help="Make the change of REV on top of the commits of A..B, which do not build without it; a commit to "
            "which it does not apply is skipped; repeatable.",
        ),
    ]
    first_parent: Annotated[
        bool,
        option(
            "--first-parent",
            group=OptionGroup.SEARCH,
            is_flag=True,
            help="Do not look into branches that were merged.",
        ),
    ]
    timeout: Annotated[
        float | None,
        option(
            "--timeout",
            group=OptionGroup.RESOURCES,
            metavar="SECONDS",
            type=_SECONDS,
            help="Stop a run after this many seconds; the default is ten times what the ends took, and 60 at least.",
        ),
    ]
    confidence: Annotated[
        float,
        option(
            "--confidence",
            group=OptionGroup.SEARCH,
            metavar="P",
            type=_CONFIDENCE,
            default=0.99,
            show_default=True,
            help="Name a culprit only when its probability reaches this.",
        ),
    ]
    end_runs: Annotated[
        int | None,
        option(
            "--end-runs",
            group=OptionGroup.SEARCH,
            metavar="N",
            type=_RUNS,
            help="Run each end this often before the search; the default is once, and then whenever that tells most.",
        ),
    ]
    output: Annotated[
        Path | None,
        option(
            "-o",
            "--output",
            group=OptionGroup.OUTPUT,
            metavar="DIR",
            type=_PATH,
            help="Write the report to this folder.",
        ),
    ]
    name: Annotated[
        str | None,
        option(
            "--name",
            group=OptionGroup.OUTPUT,
            metavar="NAME",
            help="Call the bisection this, which no other is called; the default is made of the time.",
        ),
    ]
    store: Annotated[str | None, STORE]
    resume: Annotated[
        str | None,
        option(
            "--resume",
            group=OptionGroup.SEARCH,
            metavar="[NAME]",
            is_flag=False,
            flag_value="",
            shell_complete=bisections(unfinished=True),
            help="Go on with the bisection of this name, which was stopped; without a name, with the newest of this "
            "checkout.",
        ),
    ]
    jobs: Annotated[int, jobs_option(default=1)]
    backend: Annotated[
        Literal["loky", "dask", "ray"],
        option(
            "--backend",
            group=OptionGroup.RESOURCES,
            type=click.Choice(["loky", "dask", "ray"]),
            default="loky",
            show_default=True,
            help="Take workers from here: processes of this machine, or a cluster ($DASK_SCHEDULER_ADDRESS, "
            "$RAY_ADDRESS).",
        ),
    ]
    build_store: Annotated[
        str | None,
        option(
            "--build-store",
            group=OptionGroup.RESOURCES,
            metavar="URL",
            help="Share what is built with other machines by way of this folder, s3:// URL, or http:// URL, which is "
            "only read.",
        ),
    ]
    budget: Annotated[float | None, BUDGET]
    budget_runs: Annotated[
        int | None,
        option(
            "--budget-runs",
            group=OptionGroup.RESOURCES,
            metavar="N",
            type=_RUNS,
            help="Start at most this many runs, then report what is known; the line that is printed then goes on with "
            "as many again.",
        ),
    ]
    no_localize: Annotated[
        bool,
        option(
            "--no-localize",
            group=OptionGroup.OUTPUT,
            is_flag=True,
            help="Do not look for the first wrong tensor at the end.",
        ),
    ]
    reduce: Annotated[
        bool,
        option(
            "--reduce",
            group=OptionGroup.OUTPUT,
            is_flag=True,
            help="At the end, reduce the culprit's build to what still fails, in reduced/ beside the report.",
        ),
    ]
    quiet: Annotated[bool, QUIET]
    verbose: Annotated[bool, VERBOSE]
    as_json: Annotated[bool, JSON]
    notify: Annotated[
        str | None,
        option(
            "--notify",
            group=OptionGroup.OUTPUT,
            metavar="COMMAND",
            help="At the end, run this program, without a shell, with the outcome in $PRECISION_BISECT_OUTCOME, "
            "_CULPRIT and the like, and as JSON on its standard input.",
        ),
    ]
    dry_run: Annotated[
        bool,
        option(
            "--dry-run",
            group=OptionGroup.OUTPUT,
            is_flag=True,
            help="Check everything and print the plan; run nothing.",
        ),
    ]
    predicate: tuple[str, ...] | None = None
    """The words behind `--`: a command that judges each commit, in place of a case."""
    typed: tuple[str, ...] = ()
    """All words of the command, as they were typed."""
    begun: float = field(default_factory=time.monotonic, compare=False)
    """When the command began, as `time.monotonic` tells it."""

    @property
    def deadline(self) -> float | None:
        """The moment of `time.monotonic` at which the budget is spent, of which all counts that the command does."""
        return None if self.budget is None else self.begun + self.budget

    @property
    def seconds_left(self) -> float | None:
        """What is left of the budget; negative where it is spent, None where there is none."""
        return None if self.deadline is None else self.deadline - time.monotonic()

    @property
    def asks_nothing(self) -> bool:
        """Whether there is neither an end, nor a bisection to go on with, nor a command to judge commits by."""
        asked = (self.bad, self.replay, self.resume, self.predicate)
        return not self.good and all(given is None for given in asked)
