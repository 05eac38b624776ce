"""An orchestration that submits its first tasks and ends."""

from __future__ import annotations

from collections.abc import Collection

from ...runner.build_output.orchestration.model import BlockKind, Submit, SubmitKind
from ...runner.build_output.orchestration.orchestration import Orchestration
from ...runner.errors import UserError

SUBMITTED = "precision_bisect_submitted"
"""The variable of the entry function that counts its tasks."""


class FirstSubmitsError(UserError):
    """The tasks of an orchestration cannot be counted by editing its text."""


def submits_of_kernels(orchestration: Orchestration) -> tuple[Submit, ...]:
    """The statements that submit tasks which run something."""
    return tuple(submit for submit in orchestration.submits if submit.kind is not SubmitKind.DUMMY)


def with_first_submits(
    orchestration: Orchestration, count: int, *, one_less: Collection[Submit] = ()
) -> bytes:
    """The source with an entry function that returns before it submits one more than `count` tasks of kernels; where
    one of the statements `one_less` would submit the last of these, before that.

    Raises:
        FirstSubmitsError: a task is not submitted by a statement of its own in the entry function.
    """
    if orchestration.entry is None:
        raise FirstSubmitsError("orchestration: expected an entry function, found none")
    submits = submits_of_kernels(orchestration)
    for submit in submits:
        if not _is_countable(orchestration, submit):
            line = orchestration.source.count(b"\n", 0, submit.statement.start) + 1
            raise FirstSubmitsError(
                f"orchestration, line {line}: expected a task submitted by a statement of the entry function, found "
                f"{orchestration.text(submit.statement)[:80]!r} elsewhere"
            )
    places = [
        (submit.statement.start, f"if ({SUBMITTED}++ >= {count - (submit in one_less)}) return; ".encode())
        for submit in submits
    ]
    places.append((orchestration.entry.start + 1, f" int {SUBMITTED} = 0;".encode()))
    source = orchestration.source
    for place, text in sorted(places, reverse=True):
        source = source[:place] + text + source[place:]
    return source


def _is_countable(orchestration: Orchestration, submit: Submit) -> bool:
    """Whether a statement before it runs as often, and may return."""
    entry = orchestration.entry
    before = orchestration.source[: submit.statement.start].rstrip()
    return (
        entry is not None
        and submit.kind is not SubmitKind.GRAPH
        and entry.start < submit.statement.start < entry.end
        and all(block.kind is not BlockKind.LAMBDA for block in submit.blocks)
        and (before.endswith((b"{", b"}", b";")) or _ends_in_comment(before))
    )


def _ends_in_comment(before: bytes) -> bool:
    code, mark, _ = before.rpartition(b"\n")[2].partition(b"//")
    return bool(mark) and code.rstrip().endswith((b"{", b"}", b";"))
