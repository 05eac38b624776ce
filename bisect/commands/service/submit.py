"""`bisect-precision submit`: a bisection is checked as before its first run, and put on the queue."""

import getpass
import json
import sys
from collections.abc import Mapping
from pathlib import Path

import click

from ....runner.errors import UsageError
from ....runner.workspace.home import user_home
from ....store.journals.queue.submissions import Submission
from ...plan.prepare import prepare
from ...report.plain_text import one_line
from ..bisect import check_ending, check_name, question_of
from ..command_line.parsed_words import ParsedWords, parsed_words
from ..command_line.queue_options import SubmitOptions
from ..errors import run_command
from .access import open_queue

_NOT_LATER = {
    "interactive": "--interactive, which asks a person at a terminal",
    "dry_run": "--dry-run, which runs nothing",
    "resume": "--resume, which goes on here and now",
}
_NOT_FROM_ELSEWHERE = {
    **_NOT_LATER,
    "name": "--name, which the queue gives",
    "store": "--store, which is the queue's",
}


def submit(options: SubmitOptions) -> int:
    """Put a bisection on the queue and print its number; the exit code."""

    def body() -> int:
        submission = submission_of(options)
        queue = open_queue(options)
        for each in queue.entries(most_over=1):
            if not each.is_over and (each.words, each.folder) == (list(submission.words), submission.folder):
                _note(f"submission {each.id} of {one_line(each.user)} asks the same, and is not over")
        number = queue.submit(submission)
        if options.as_json:
            print(json.dumps({"id": number, "bisection": submission.bisection}))
        else:
            print(
                f"{number}: submitted as {submission.bisection}; bisect-precision watch {number} follows it"
            )
        return 0

    return run_command(body)


def submission_of(options: SubmitOptions) -> Submission:
    """What is submitted; what is to be minded is printed. Raises `UserError` where the question cannot be asked."""
    try:
        parsed = parsed_words(options.words, with_defaults=True)
    except click.UsageError as error:
        raise UsageError(error.format_message()) from error
    _check(parsed, _NOT_LATER)
    # A scheduler and a store of builds are found by the worker's own variables.
    check_ending(parsed.options)
    plan = prepare(question_of(parsed.options), user_home())
    for notice in plan.notices:
        _note(notice)
    request = plan.request
    # A cluster's scheduler gives boards by itself.
    needs_board = request.stack.platforms[request.platform].board and parsed.options.backend == "loky"
    return Submission(
        bisection=plan.name,
        user=getpass.getuser(),
        words=request.typed,
        folder=str(Path.cwd()),
        priority=options.priority,
        board=request.platform if needs_board else None,
        device=request.device if needs_board and "device" in parsed.typed else None,
    )


def check_submission(submission: Submission) -> None:
    """Raises `UserError` where a submission of somebody else, by way of a server, could be run by no worker."""
    check_name(submission.bisection)
    if not Path(submission.folder).is_absolute():
        raise UsageError(f"folder {submission.folder}: expected the full path of a folder")
    try:
        _check(parsed_words(submission.words), _NOT_FROM_ELSEWHERE)
    except click.UsageError as error:
        raise UsageError(error.format_message()) from error


def _check(parsed: ParsedWords, refused: Mapping[str, str]) -> None:
    """Raises `UsageError` where something is asked that a worker cannot do later."""
    for name, what in refused.items():
        if name in parsed.typed:
            raise UsageError(f"submit: expected what a worker can do later, found {what}; leave it out")
    if parsed.options.asks_nothing:
        raise UsageError("submit: expected the options of a bisection, found none: name at least --bad")


def _note(text: str) -> None:
    print(f"note: {text}", file=sys.stderr)
