"""The options of `bisect-precision` and of its subcommands, one model for each.

`BisectOptions` are those of a bisection. `bisections` lets a shell complete the names of bisections. Nothing heavy is
imported, so that `--help` answers at once.
"""

import os
import time
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Literal

import click
from dataclass_click import argument

from ..runner.cli_options import (
    BUDGET,
    DEVICE,
    JSON,
    PLATFORM,
    QUIET,
    REPOSITORY,
    STACK,
    STORE,
    STORE_VARIABLE,
    Completion,
    CountType,
    DurationType,
    NumberType,
    OptionGroup,
    PathType,
    jobs_option,
    option,
)
from ..store.vocabulary import MAX_PRIORITY, SQLITE_PREFIX

_MAX_NAMES = 100
"""Completion reads at most this many names, the newest ones, so that a press of Tab stays quick."""
_LOCK_TIMEOUT = 0.2
"""Completion waits at most this many seconds for a store that another process is writing."""

_ALL = "SELECT name FROM bisections ORDER BY id DESC LIMIT ?"
_UNFINISHED = (
    "SELECT name FROM bisections WHERE outcome IS NULL OR outcome = 'budget' ORDER BY id DESC LIMIT ?"
)


def bisections(*, unfinished: bool = False) -> Completion:
    """Return a completion with the names of bisections, the newest first. `unfinished` ones can be resumed."""
    query = _UNFINISHED if unfinished else _ALL
    return Completion(lambda ctx: _names(_store_file(ctx), query))


def _names(file: Path, query: str) -> Iterator[str]:
    import sqlite3  # imported here because `--help` does not need it

    with closing(sqlite3.connect(f"{file.as_uri()}?mode=ro", uri=True, timeout=_LOCK_TIMEOUT)) as store:
        yield from (name for (name,) in store.execute(query, (_MAX_NAMES,)))


def _store_file(ctx: click.Context) -> Path:
    """Return the file of the store that the command would use. Raises `ValueError` where the store is no file."""
    url = ctx.params.get("store") or os.environ.get(STORE_VARIABLE) or _checkout_store()
    if url is None:
        from ..runner.workspace.home import user_home

        return user_home().store
    if not url.startswith(SQLITE_PREFIX):
        raise ValueError(url)
    return Path(url.removeprefix(SQLITE_PREFIX).partition("?")[0]).absolute()


def _checkout_store() -> str | None:
    """Return the store that the checkout around the current folder names."""
    from ..runner.settings import read_defaults

    return read_defaults(Path.cwd()).store


_PATH = PathType()
_CONFIDENCE = NumberType(0.5, 1, max_open=True)
_TOLERANCE = NumberType(min=0)


@dataclass(frozen=True, kw_only=True)
class BisectOptions:
    """The options of a bisection, as they were typed. They are not checked against a stack yet."""

    good: Annotated[
        tuple[str, ...],
        option(
            "--good",
            group=OptionGroup.QUESTION,
            metavar="REV|DATE",
            multiple=True,
            help="Begin at this commit, where the case passes, or at the last one before this date (2026-06-01, "
            "@{2 weeks ago}). Repeatable: all count. Without it, a commit that passes is looked for behind --bad.",
        ),
    ]
    bad: Annotated[
        str | None,
        option(
            "--bad",
            group=OptionGroup.QUESTION,
            metavar="REV|DATE",
            help="End at this later commit, where the case fails, or at the last one before this date.",
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
            metavar="PATH",
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
            help="Read ends, skips and paths from this git bisect log, or from a report's bisect.log. Commits that it "
            "judges are not run again.",
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
            help="At every commit, use the bad end's value of this pin; repeatable.",
        ),
    ]
    search: Annotated[
        tuple[str, ...],
        option(
            "--search",
            group=OptionGroup.STACK,
            metavar="PIN",
            multiple=True,
            help="If the culprit moves this pin, continue the search in the pinned repository; repeatable.",
        ),
    ]
    case: Annotated[
        str | None,
        option(
            "--case",
            group=OptionGroup.QUESTION,
            metavar="SCRIPT",
            help="Run this script of the case repository. Quote the script and its arguments as one word.",
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
            "built. It may be a case that is younger than the range. Repeatable.",
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
            help="Rename identifiers in the case and overlays to fit each commit. FILE lists the renames, as "
            "`bisect-precision adapt REV` prints them; repeatable, the oldest first.",
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
            help="Count a run as bad if it shows this: regex:PATTERN, not-regex:PATTERN, exception:TYPE, test:ID, "
            "exit:CODE, or a printed number, such as 'log:/error: (\\S+)/ > 0.002'. For a stack's case also: a "
            "verdict (stall), signature:TEXT, or an error bound (relative_l2:1e-4).  [default: mismatch; without "
            "a stack, the command fails as the bad end does]",
        ),
    ]
    good_when: Annotated[
        str | None,
        option(
            "--good-when",
            group=OptionGroup.QUESTION,
            metavar="WHAT",
            help="Count a run as good only if it shows this, in the forms of --bad-when. A run that is neither good "
            "nor bad is a skip.  [default: a validated pass; for a command, exit code 0]",
        ),
    ]
    crash: Annotated[
        Literal["skip", "bad", "stop"] | None,
        option(
            "--crash",
            group=OptionGroup.QUESTION,
            type=click.Choice(["skip", "bad", "stop"]),
            required=False,  # dataclass-click does not see that `Literal[...] | None` is optional
            help="Judge a command that a signal kills as this. With skip, it still counts as bad if the bad end "
            "crashed the same way.  [default: skip]",
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
            help="With --repo, run this existing build directory unchanged instead of compiling the case.",
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
            help="Cherry-pick REV onto each commit of A..B before building it. A commit to which it does not apply is "
            "a skip; repeatable.",
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
            metavar="TIME",
            type=DurationType(),
            help="Stop a run after this time, such as 5m; the default is ten times the longest run so far, and "
            "60 s at least.",
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
            help="Name the bisection. No other may have the name; the default is derived from the current time.",
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
    fresh: Annotated[
        bool,
        option(
            "--fresh",
            group=OptionGroup.SEARCH,
            is_flag=True,
            help="Ignore stored runs. By default, the runs of an earlier bisection with the same question count again.",
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
    no_localize: Annotated[
        bool,
        option(
            "--no-localize",
            group=OptionGroup.OUTPUT,
            is_flag=True,
            help="Skip the final search for the first wrong tensor.",
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
    quiet: Annotated[
        bool,
        option(
            "-q",
            "--quiet",
            group=OptionGroup.OUTPUT,
            is_flag=True,
            help="Print the answer in one line, and errors, no progress.",
        ),
    ]
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
    start_time: float = field(default_factory=time.monotonic, compare=False)
    """The time of `time.monotonic` at which the command began."""

    @property
    def deadline(self) -> float | None:
        """Return the time of `time.monotonic` at which the budget is spent. It begins with the command."""
        return None if self.budget is None else self.start_time + self.budget

    @property
    def seconds_left(self) -> float | None:
        """Return the seconds that are left of the budget, negative where it is spent. Return None without one."""
        return None if self.deadline is None else self.deadline - time.monotonic()

    @property
    def lacks_question(self) -> bool:
        """Return whether the user gave no end, replay log, bisection to resume, or command."""
        asked = (self.bad, self.replay, self.resume, self.predicate)
        return not self.good and all(given is None for given in asked)


@dataclass(frozen=True, kw_only=True)
class DemoOptions:
    """The demo stack to make, with its planted regression."""

    directory: Annotated[Path, argument(type=_PATH)]
    scenario: Annotated[
        str,
        option(
            "--scenario",
            group=OptionGroup.QUESTION,
            metavar="NAME",
            default="rounding",
            show_default=True,
            help="Plant this regression: rounding, accumulate, reuse, tail, dropped-dep, runtime-bump, "
            "runtime-rollback, stall, crash, quiet or fixed-and-broken.",
        ),
    ]
    commits: Annotated[
        int,
        option(
            "--commits",
            group=OptionGroup.QUESTION,
            metavar="N",
            type=CountType(min=24),
            default=60,
            show_default=True,
            help="Make this many commits between the good end and the bad one.",
        ),
    ]
    seed: Annotated[
        int,
        option(
            "--seed",
            group=OptionGroup.QUESTION,
            metavar="N",
            default=0,
            show_default=True,
            help="Draw the histories from this seed.",
        ),
    ]
    as_json: Annotated[bool, JSON]


@dataclass(frozen=True, kw_only=True)
class HistoryOptions:
    """The past bisection to show. Without a name, all are listed."""

    name: Annotated[str | None, argument(required=False, shell_complete=bisections())]
    store: Annotated[str | None, STORE]
    as_json: Annotated[bool, JSON]


@dataclass(frozen=True, kw_only=True)
class ReportOptions:
    """The report to write from the store, or the pages of everything."""

    name: Annotated[str | None, argument(required=False, shell_complete=bisections())]
    output: Annotated[
        Path | None,
        option(
            "-o",
            "--output",
            group=OptionGroup.OUTPUT,
            metavar="DIR",
            type=_PATH,
            help="Write the report to this folder; the default is where the bisection wrote it.",
        ),
    ]
    html: Annotated[
        Path | None,
        option(
            "--html",
            group=OptionGroup.OUTPUT,
            metavar="DIR",
            type=PathType(file_okay=False),
            help="Write pages of all that the store holds to this folder, in place of one report.",
        ),
    ]
    issue: Annotated[
        bool,
        option(
            "--issue",
            group=OptionGroup.OUTPUT,
            is_flag=True,
            help="Print the text of an issue about it, in Markdown, in place of writing the report.",
        ),
    ]
    store: Annotated[str | None, STORE]
    as_json: Annotated[bool, JSON]


@dataclass(frozen=True, kw_only=True)
class ServeOptions:
    """The address of the server, and whether it takes submissions."""

    host: Annotated[
        str,
        option(
            "--host",
            group=OptionGroup.OUTPUT,
            metavar="ADDRESS",
            default="127.0.0.1",
            show_default=True,
            help="Listen on this address.",
        ),
    ]
    port: Annotated[
        int,
        option(
            "--port",
            group=OptionGroup.OUTPUT,
            metavar="N",
            type=click.IntRange(0, 65535),
            default=8000,
            show_default=True,
            help="Listen on this port; 0 takes a free one.",
        ),
    ]
    work: Annotated[
        bool,
        option(
            "--work",
            group=OptionGroup.RESOURCES,
            is_flag=True,
            help="Take submissions too, of whoever has a token (bisect-precision token USER), and run those that "
            "need no board.",
        ),
    ]
    store: Annotated[str | None, STORE]


@dataclass(frozen=True, kw_only=True)
class AdaptOptions:
    """The commit whose renames are printed."""

    revision: Annotated[str, argument(metavar="REV")]
    repo: Annotated[
        str | None,
        option(
            "--repo",
            group=OptionGroup.QUESTION,
            metavar="NAME",
            help="Take REV from this repository of the stack; the stack file says which one is the default.",
        ),
    ]
    stack: Annotated[str | None, STACK]
    repository: Annotated[tuple[str, ...], REPOSITORY]


@dataclass(frozen=True, kw_only=True)
class ExplainOptions:
    """The dumps to execute, their data, and the tolerance of the check."""

    build: Annotated[Path, argument(metavar="BUILD", type=_PATH)]
    inputs: Annotated[
        Path | None,
        option(
            "--inputs",
            group=OptionGroup.QUESTION,
            metavar="DIR",
            type=_PATH,
            help="Take the inputs, one NAME.pt each, from this folder; the default is BUILD/data/in.",
        ),
    ]
    expected: Annotated[
        Path | None,
        option(
            "--expected",
            group=OptionGroup.QUESTION,
            metavar="DIR",
            type=_PATH,
            help="Take the expected outputs, one NAME.pt each, from this folder; the default is BUILD/data/out.",
        ),
    ]
    rtol: Annotated[
        float | None,
        option(
            "--rtol",
            group=OptionGroup.QUESTION,
            metavar="R",
            type=_TOLERANCE,
            help="The case's own relative tolerance; the default is the harness's.",
        ),
    ]
    atol: Annotated[
        float | None,
        option(
            "--atol",
            group=OptionGroup.QUESTION,
            metavar="A",
            type=_TOLERANCE,
            help="The case's own absolute tolerance; the default is the harness's.",
        ),
    ]
    check: Annotated[
        bool,
        option(
            "--check",
            group=OptionGroup.QUESTION,
            is_flag=True,
            help="Print one line, and exit as a check script does: 0 if the IR is right, 1 if it is wrong, 125 if that "
            "is not decided.",
        ),
    ]
    as_json: Annotated[bool, JSON]


@dataclass(frozen=True, kw_only=True)
class DoctorOptions:
    """The stack that this machine is examined for, and the case, if one is named."""

    stack: Annotated[str | None, STACK]
    repository: Annotated[tuple[str, ...], REPOSITORY]
    case: Annotated[
        str | None,
        option(
            "--case",
            group=OptionGroup.QUESTION,
            metavar="SCRIPT",
            help="Look for what this script imports, too, as the slots have it.",
        ),
    ]
    at: Annotated[
        tuple[str, ...],
        option(
            "--at",
            group=OptionGroup.QUESTION,
            metavar="REV",
            multiple=True,
            help="With --case, look at this commit, an end of a range for instance; repeatable; the default is HEAD.",
        ),
    ]
    quiet: Annotated[bool, QUIET]
    as_json: Annotated[bool, JSON]


@dataclass(frozen=True, kw_only=True)
class TrustOptions:
    """The file to trust. Without one, all that count in this folder are trusted."""

    file: Annotated[Path | None, argument(required=False, type=_PATH)]


@dataclass(frozen=True, kw_only=True)
class NightlyOptions:
    """The night to run, and its limits."""

    file: Annotated[Path, argument(type=_PATH)]
    store: Annotated[str | None, STORE]
    budget: Annotated[float | None, BUDGET]
    jobs: Annotated[int, jobs_option(default=1)]
    submit: Annotated[
        bool,
        option(
            "--submit",
            group=OptionGroup.RESOURCES,
            is_flag=True,
            help="Leave bisections to the queue's workers, who call --keep when one has ended.",
        ),
    ]
    keep: Annotated[
        bool,
        option(
            "--keep",
            group=OptionGroup.RESOURCES,
            is_flag=True,
            help="Begin no night and run nothing: keep what workers have found since, and tell of it.",
        ),
    ]
    fail_on: Annotated[
        str,
        option(
            "--fail-on",
            group=OptionGroup.OUTPUT,
            type=click.Choice(["new", "any"]),
            default="any",
            show_default=True,
            help="Fail for new failures alone, or for known ones too, by another exit code.",
        ),
    ]
    quiet: Annotated[bool, QUIET]
    as_json: Annotated[bool, JSON]


TOKEN_VARIABLE = "PRECISION_BISECT_TOKEN"
"""This environment variable holds the token for a server. Other users could see the token in an option."""
_SERVICE_OPTION = option(
    "--service",
    group=OptionGroup.RESOURCES,
    metavar="URL",
    envvar="PRECISION_BISECT_SERVICE",
    help=f"Ask a server (bisect-precision serve --work) in place of a store, with the token in ${TOKEN_VARIABLE}.",
)


@dataclass(frozen=True, kw_only=True)
class SubmitOptions:
    """The submission of a bisection, whose own options are `words`."""

    words: Annotated[
        tuple[str, ...], argument(nargs=-1, type=click.UNPROCESSED, metavar="OPTIONS OF A BISECTION")
    ]
    priority: Annotated[
        int,
        option(
            "--priority",
            group=OptionGroup.RESOURCES,
            metavar="N",
            type=click.IntRange(-MAX_PRIORITY, MAX_PRIORITY),
            default=0,
            show_default=True,
            help="Go before all submissions of a lower number.",
        ),
    ]
    service: Annotated[str | None, _SERVICE_OPTION]
    store: Annotated[str | None, STORE]
    as_json: Annotated[bool, JSON]


@dataclass(frozen=True, kw_only=True)
class StatusOptions:
    """The submission to show. Without a number, the queue is listed."""

    number: Annotated[int | None, argument(required=False, type=CountType(min=1), metavar="[ID]")]
    follow: Annotated[
        bool,
        option(
            "-f",
            "--follow",
            group=OptionGroup.OUTPUT,
            is_flag=True,
            help="Print what happens to the submission ID until it is over, and exit as its bisection does.",
        ),
    ]
    service: Annotated[str | None, _SERVICE_OPTION]
    store: Annotated[str | None, STORE]
    as_json: Annotated[bool, JSON]


@dataclass(frozen=True, kw_only=True)
class CancelOptions:
    """The submission to cancel."""

    number: Annotated[int, argument(type=CountType(min=1), metavar="ID")]
    service: Annotated[str | None, _SERVICE_OPTION]
    store: Annotated[str | None, STORE]


@dataclass(frozen=True, kw_only=True)
class TokenOptions:
    """The user whose token is made, or whose tokens are revoked."""

    user: Annotated[str, argument()]
    revoke: Annotated[
        bool,
        option(
            "--revoke",
            group=OptionGroup.QUESTION,
            is_flag=True,
            help="Have no token of this user count any more, in place of making one.",
        ),
    ]
    store: Annotated[str | None, STORE]


@dataclass(frozen=True, kw_only=True)
class WorkerOptions:
    """The boards of a worker, and its limit for each user."""

    board: Annotated[
        tuple[str, ...],
        option(
            "--board",
            group=OptionGroup.RESOURCES,
            metavar="PLATFORM=N",
            multiple=True,
            help="Run what needs a board of this platform on the device N of this machine; repeatable. Without it, "
            "only what runs on simulators is taken.",
        ),
    ]
    quota: Annotated[
        int | None,
        option(
            "--quota",
            group=OptionGroup.RESOURCES,
            metavar="N",
            type=CountType(min=1),
            help="Take nothing of a user who has this many running already, with all workers together.",
        ),
    ]
    store: Annotated[str | None, STORE]
