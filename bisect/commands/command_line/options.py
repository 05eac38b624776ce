"""The options of the subcommands of `bisect-precision`, one model for each."""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import click
from dataclass_click import argument

from ....runner.process.option_types import PathType
from ....runner.process.options import BUDGET, jobs_option
from ....runner.stack.options import REPOSITORY, STACK
from ....store.option_groups import OptionGroup, option
from ....store.options import JSON, QUIET, STORE
from .completion import bisections

_PATH = PathType()


@dataclass(frozen=True, kw_only=True)
class DemoOptions:
    """A stack to make, with a planted regression."""

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
            type=click.IntRange(min=24),
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
    """Which past bisections to show: one by its name, or all."""

    name: Annotated[str | None, argument(required=False, shell_complete=bisections())]
    store: Annotated[str | None, STORE]
    as_json: Annotated[bool, JSON]


@dataclass(frozen=True, kw_only=True)
class ReportOptions:
    """What to write from the store: the report of one bisection, or pages of everything."""

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
    """Where to show the pages."""

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
class DoctorOptions:
    """The stack, and perhaps the case, that this machine is examined for."""

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
class NightlyOptions:
    """The night to run, and what it may spend."""

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
