"""The queue as people read it."""

import re

from ....store.journals.queue.entries import QueueEntry
from ....store.vocabulary import SubmissionState
from ....store.words import plural
from ...report.plain_text import one_line

_WHOLE_COMMIT = re.compile(r"\b([0-9a-f]{10})[0-9a-f]{30}\b")

MOST_OVER = 30
"""Of the submissions that are over, how many the page shows."""


def state_text(entry: QueueEntry) -> str:
    """What has become of a submission, in words."""
    runs = f", {plural(entry.runs, 'run')} made" if entry.runs else ""
    needs = _board_text(entry)
    if entry.state is SubmissionState.QUEUED:
        lacking = f"; {one_line(entry.lacking)}" if entry.lacking else ""
        return f"waits{f' for {needs}' if needs else ''}{runs}{lacking}"
    if entry.state is SubmissionState.RUNNING:
        what = "is being cancelled" if entry.cancelling else "runs"
        return f"{what} on {one_line(entry.host or '')}{f', {needs}' if needs else ''}"
    if entry.state is SubmissionState.CANCELLED:
        return f"was cancelled{runs}"
    outcome = f": {entry.outcome.value.replace('_', ' ')}" if entry.outcome else ""
    return f"ended with exit code {entry.exit_code}{outcome}{runs}"


def command_text(entry: QueueEntry) -> str:
    """What was submitted, its commits by as many digits as elsewhere on the site."""
    return _WHOLE_COMMIT.sub(r"\1", entry.command)


def _board_text(entry: QueueEntry) -> str:
    if entry.platform is None:
        return ""
    return f"board {entry.platform}{'' if entry.device is None else f' {entry.device}'}"


def submission_tone(entry: QueueEntry) -> str:
    """How a submission's state looks."""
    if entry.state is SubmissionState.ENDED:
        return "good" if entry.exit_code == 0 else "skip"
    return "none"
