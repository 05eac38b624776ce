"""`bisect-precision status`, `cancel` and `watch`: what becomes of what was submitted."""

import shlex
import time
from collections.abc import Iterator, Sequence

from pydantic import TypeAdapter

from ....runner.errors import UserError
from ....store.journals.queue.entries import QueueEntry
from ...report.plain_text import one_line
from ...site.views.queue import state_text
from ..command_line.queue_options import CancelOptions, StatusOptions, WatchOptions
from ..errors import ERROR, run_command
from .access import Queue, open_queue

_SHOWN_OVER = 20
_LOOK = 1.0
"""Seconds between two looks at what is followed."""


def status(options: StatusOptions) -> int:
    """Print the queue, or one submission with the end of its log; the exit code."""

    def body() -> int:
        queue = open_queue(options)
        if options.number is not None:
            entry = found(queue, options.number)
            if options.as_json:
                print(TypeAdapter(QueueEntry).dump_json(entry, indent=2).decode())
                return 0
            print("\n".join([*entry_lines(entry), *map(one_line, entry.tail.splitlines())]))
            return 0
        entries = queue.entries(most_over=_SHOWN_OVER)
        if options.as_json:
            print(TypeAdapter(list[QueueEntry]).dump_json(entries, indent=2).decode())
            return 0
        lines = [line for entry in entries for line in entry_lines(entry)]
        print("\n".join(lines or ["nothing was submitted yet: bisect-precision submit --good A --bad B ..."]))
        return 0

    return run_command(body)


def cancel(options: CancelOptions) -> int:
    """Cancel a submission; the exit code."""

    def body() -> int:
        queue = open_queue(options)
        entry = found(queue, options.number)
        if entry.is_over:
            raise UserError(f"{entry.id}: expected a submission that is not over, found {state_text(entry)}")
        queue.cancel(entry.id)
        print(f"{entry.id}: {state_text(found(queue, entry.id))}")
        return 0

    return run_command(body)


def watch(options: WatchOptions) -> int:
    """Print what becomes of a submission until it is over; the exit code of its bisection."""

    def body() -> int:
        queue = open_queue(options)
        entry = found(queue, options.number)
        state, tail = "", list[str]()
        while True:
            if state_text(entry) != state:
                state = state_text(entry)
                print(f"{entry.id}: {state}", flush=True)
            lines = entry.tail.splitlines()
            for line in new_lines(tail, lines):
                print(f"    {one_line(line)}", flush=True)
            tail = lines
            if entry.is_over:
                return ERROR if entry.exit_code is None else entry.exit_code
            time.sleep(_LOOK)
            entry = found(queue, options.number)

    return run_command(body)


def found(queue: Queue, number: int) -> QueueEntry:
    """The submission of this number. Raises `UserError` where there is none."""
    entry = queue.entry(number)
    if entry is None:
        raise UserError(
            f"{number}: expected the number of a submission, found none; see bisect-precision status"
        )
    return entry


def entry_lines(entry: QueueEntry) -> Iterator[str]:
    """A submission in two lines."""
    yield f"{entry.id}  {state_text(entry)}"
    asked = [f"{entry.created:%Y-%m-%d %H:%M} UTC", one_line(entry.user)]
    if entry.priority:
        asked.append(f"priority {entry.priority}")
    yield "    " + "  ".join([*asked, entry.bisection, one_line(shlex.join(entry.words))])


def new_lines(before: Sequence[str], now: Sequence[str]) -> Sequence[str]:
    """What stands at the end of a text that `before` was the end of, and was not there then.

    >>> new_lines(["a", "b", "c"], ["b", "c", "d"])
    ['d']
    """
    for shared in range(min(len(before), len(now)), 0, -1):
        if list(before[-shared:]) == list(now[:shared]):
            return list(now[shared:])
    return list(now)
