"""Why a case fails, on the terminal: its wrong outputs, then what makes them wrong."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from ....runner.compare.report.summary_lines import SummaryLines
from ....runner.localization.causes import BuildChange, CaseFailure, ColumnRun, FailureCause, RowRun
from ....runner.localization.divergence import Divergence
from ....runner.localization.orders import AS_IT_IS, OrderTrial
from ....store.words import percent, plural

_MOST = 4
_MOST_LINES = 6


def print_causes(divergence: Divergence, line: SummaryLines) -> None:
    """Print the causes, the first one first, and what fails by them; nothing where neither is known."""
    for number, cause in enumerate(line.first(divergence.causes, _MOST), start=1):
        _print_cause(number, cause, line)
    if more := line.left_out(divergence.causes, _MOST):
        line(f"... and {more} more causes, see divergence.json")
    if divergence.ended is not None:
        line(f"it does not get to its outputs: {divergence.ended}")
    if divergence.failure is not None:
        _print_failure(divergence, divergence.failure, line)


def _print_failure(divergence: Divergence, failure: CaseFailure, line: SummaryLines) -> None:
    if failure.by_good_build:
        line(
            "the good build's outputs are over it too: the golden ones, or the tolerance, are not its own",
            "yellow",
        )
    if divergence.passes:
        line(f"the case passes: its outputs are within {_tolerance(failure)}", "bold green")
        _print_tried(divergence.tried, line)
        if not failure.told:
            line("if it fails by a tolerance of its own, give that: --rtol R --atol A", "yellow")
        return
    for output in line.first(failure.outputs, _MOST):
        worst = "NaN, Inf or missing" if output.worst is None else f"{output.worst:.3g} times the tolerance"
        line(
            f"fails in {output.name}: {output.wrong} of {plural(output.elements, 'element')}, "
            f"rows {_rows(output.rows, line)}, up to {worst}"
        )
    for each in failure.unwritten:
        by = (
            f"; in the good build {', '.join(line.first(each.written_by, _MOST))} did"
            if each.written_by
            else ""
        )
        columns = f", columns {_rows(each.columns, line)}" if each.columns else ""
        line(
            f"rows {_rows(each.rows, line)}{columns} of {each.output} are wrong and no task writes them{by}",
            "bold yellow",
        )
    line(f"judged by {_tolerance(failure)}", "dim")
    if divergence.in_turns is not None and divergence.in_turns.reference_runs:
        _print_in_turns(divergence.in_turns, line)
    if divergence.cleared:
        blamed = {change.file for cause in divergence.causes for change in cause.changes}
        names = dict.fromkeys(_cleared_name(change, blamed) for change in divergence.cleared)
        line(f"differ too, and do not make it fail: {', '.join(line.first([*names], _MOST))}", "dim")


def _print_tried(tried: Sequence[OrderTrial], line: SummaryLines) -> None:
    """In which other orders of its tasks a build passes."""
    if not tried:
        line("in the order in which its tasks ran: the stack file names no schedules to try others", "dim")
    in_order = [trial for trial in tried if trial.schedule != AS_IT_IS]
    if right := [trial.schedule for trial in in_order if trial.passed and not trial.failed]:
        line(f"so are they under schedule {', '.join(right)}", "dim")
    for trial in tried:
        if trial.schedule == AS_IT_IS and trial.passed == trial.runs:
            line(
                f"and in {plural(trial.runs, 'further run')} as it is, for tasks do not wait for each other: a failure "
                f"in {trial.least_rate_shown:.0%} of its runs would have shown with 99%",
                "dim",
            )
    for trial in in_order:
        if trial.failed:
            line(f"under schedule {trial.schedule} they are not{_beside_the_good_build(trial)}", "yellow")
        if trial.stopped:
            line(f"under schedule {trial.schedule} it does not get to its outputs", "yellow")


def _beside_the_good_build(trial: OrderTrial) -> str:
    """What runs of the good build under the same schedule told of a build that passes."""
    if trial.reference_fails:
        return ", and neither are the good build's"
    if not trial.reference_runs:
        return ""
    return (
        f" in {trial.failed} of {plural(trial.runs, 'run')}; {plural(trial.reference_runs, 'run')} of the good build "
        "cannot tell whether its are: nobody is blamed for it"
    )


def _print_in_turns(trial: OrderTrial, line: SummaryLines) -> None:
    """How often the failing build fails, and what the good one does in the same order."""
    order = "as it is" if trial.schedule == AS_IT_IS else f"under schedule {trial.schedule}"
    fails = f"{order} it fails in {trial.failed} of {plural(trial.runs, 'run')}"
    if trial.reference_fails is False:
        line(f"{fails}, and the good build in none of {trial.reference_runs}", "dim")
    elif trial.reference_fails:
        line(
            f"{fails}, and the good build in 1 of {trial.reference_runs}: it has a failure that comes and goes too, so "
            "that nothing in which they differ is blamed",
            "bold yellow",
        )
    else:
        line(
            f"{fails}; {plural(trial.reference_runs, 'run')} of the good build cannot tell whether it does: nothing in "
            "which they differ is blamed",
            "bold yellow",
        )


def _print_cause(number: int, cause: FailureCause, line: SummaryLines) -> None:
    line(f"cause {number}, {cause.kind}: {cause.what}", "bold red")
    line(f"  {_shown(cause)}")
    # A change without a file, such as that of the runtime, is all told by the kind.
    for change in line.first([each for each in cause.changes if each.file], _MOST):
        moved = "" if change.moved_from is None else f": moved here from line {change.moved_from}"
        line(f"  {_name(change)}{'' if change.line is None else f':{change.line}'}{moved}")
        # What only stands elsewhere is the same with both signs.
        moved_lines = dict.fromkeys(f">{text[1:]}" for text in change.diff)
        texts = change.diff if change.moved_from is None else tuple(moved_lines)
        for text in line.first(texts, _MOST_LINES):
            line(f"    {text}", "dim")
    for text in line.first(cause.differences, _MOST):
        if text != cause.what:
            line(f"  {text}")
    if more := line.left_out(cause.differences, _MOST):
        line(f"  ... and {more} more differences of tasks, see divergence.json")


def _shown(cause: FailureCause) -> str:
    """What runs say of a cause."""
    if not cause.confirmed:
        return "a candidate: runs do not tell it apart"
    if len(cause.changes) > 1:
        return (
            f"in the good build, these {len(cause.changes)} changes together make {percent(cause.effect)} of what is "
            "wrong; fewer of them do not make it fail"
        )
    return f"alone in the good build, it makes {percent(cause.effect)} of what is wrong"


def _cleared_name(change: BuildChange, blamed: Collection[str]) -> str:
    """A change that is no cause; in a file that has one too, with its place."""
    if change.file not in blamed:
        return _name(change)
    kernel = f" ({change.kernel})" if change.kernel else ""
    return f"{_name(change)}{'' if change.line is None else f':{change.line}'}{kernel}"


def _name(change: BuildChange) -> str:
    return change.file or change.part


def _rows(rows: Sequence[RowRun | ColumnRun], line: SummaryLines) -> str:
    shown = ", ".join(f"{run.first}:{run.last + 1}" for run in line.first(rows, _MOST))
    return shown + ("..." if line.left_out(rows, _MOST) else "")


def _tolerance(failure: CaseFailure) -> str:
    own = (
        "the case's own tolerance" if failure.told else "the harness's default, or what the good build needs"
    )
    return f"rtol={failure.rtol:g} atol={failure.atol:g}, {own}"
