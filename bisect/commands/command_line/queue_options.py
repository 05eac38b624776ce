"""The options of the subcommands about the queue, one model for each."""

from dataclasses import dataclass
from typing import Annotated

import click
from dataclass_click import argument

from ....store.option_groups import OptionGroup, option
from ....store.options import JSON, STORE

TOKEN_VARIABLE = "PRECISION_BISECT_TOKEN"
"""The environment variable of the token that a server is shown; words of a command are seen by all users."""
_SERVICE = option(
    "--service",
    group=OptionGroup.RESOURCES,
    metavar="URL",
    envvar="PRECISION_BISECT_SERVICE",
    help=f"Ask a server (bisect-precision serve --work) in place of a store, with the token in ${TOKEN_VARIABLE}.",
)
_NUMBER = argument(type=click.IntRange(min=1), metavar="ID")


@dataclass(frozen=True, kw_only=True)
class SubmitOptions:
    """How to put a bisection on the queue; all other words are those of the bisection."""

    words: Annotated[
        tuple[str, ...], argument(nargs=-1, type=click.UNPROCESSED, metavar="OPTIONS OF A BISECTION")
    ]
    priority: Annotated[
        int,
        option(
            "--priority",
            group=OptionGroup.RESOURCES,
            metavar="N",
            default=0,
            show_default=True,
            help="Go before all submissions of a lower number.",
        ),
    ]
    service: Annotated[str | None, _SERVICE]
    store: Annotated[str | None, STORE]
    as_json: Annotated[bool, JSON]


@dataclass(frozen=True, kw_only=True)
class StatusOptions:
    """What of the queue to show."""

    number: Annotated[int | None, argument(required=False, type=click.IntRange(min=1), metavar="[ID]")]
    service: Annotated[str | None, _SERVICE]
    store: Annotated[str | None, STORE]
    as_json: Annotated[bool, JSON]


@dataclass(frozen=True, kw_only=True)
class CancelOptions:
    """What to take off the queue."""

    number: Annotated[int, _NUMBER]
    service: Annotated[str | None, _SERVICE]
    store: Annotated[str | None, STORE]


@dataclass(frozen=True, kw_only=True)
class WatchOptions:
    """What to follow."""

    number: Annotated[int, _NUMBER]
    service: Annotated[str | None, _SERVICE]
    store: Annotated[str | None, STORE]


@dataclass(frozen=True, kw_only=True)
class TokenOptions:
    """Who may write by way of a server."""

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
    """What a worker may use."""

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
            type=click.IntRange(min=1),
            help="Take nothing of a user who has this many running already, with all workers together.",
        ),
    ]
    store: Annotated[str | None, STORE]
