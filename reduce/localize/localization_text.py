"""The result of a localization for people: a summary on the terminal, and the task graph as an HTML page.

`headline` is the finding in one line. `print_summary` prints the causes and the wrong outputs first, then the divergent
tensors and what is known about other tasks. `page` fills one HTML page that needs no network: it draws the tasks in
layers, coloured by their error.
"""

from __future__ import annotations

import json
import math
from collections.abc import Collection, Container, Mapping, Sequence, Set
from datetime import UTC, datetime
from importlib import resources

from ...runner.build_output.args_dump import format_task_id
from ...runner.compare.diff_report import SummaryLines, escape_unprintable, style
from ...runner.localization import (
    DEFAULT_SCHEDULE,
    BuildChange,
    CaseFailure,
    ColumnRun,
    Divergence,
    FailureCause,
    FirstDivergent,
    GeneratedSources,
    OrderTrial,
    Race,
    ReferenceUsed,
    RowRun,
    Stall,
    UnorderedTasks,
)
from ...store.vocabulary import percent, plural
from ..graph.tasks import TaskList

_MAX_ITEMS = 4
"""The terminal shows at most this many causes, and this many outputs of a failure, so that they fit on a screen."""
_MAX_LINES = 6
"""The terminal shows at most this many lines of a cause. The document holds all of them."""


def print_causes(divergence: Divergence, line: SummaryLines) -> None:
    """Print the causes, the first one first, and what fails because of them; nothing where neither is known."""
    for number, cause in enumerate(line.first(divergence.causes, _MAX_ITEMS), start=1):
        _print_cause(number, cause, divergence.run_evidence(cause), line)
    if more := line.omitted_count(divergence.causes, _MAX_ITEMS):
        line(f"... and {more} more causes, see divergence.json")
    if divergence.ended is not None:
        line(f"it does not get to its outputs: {divergence.ended}")
    if divergence.failure is not None:
        _print_failure(divergence, divergence.failure, line)


def _print_failure(divergence: Divergence, failure: CaseFailure, line: SummaryLines) -> None:
    """Print how the outputs exceed the case's tolerance, or that they do not."""
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
    # Without an absolute tolerance, no error is allowed at an expected 0.
    unbounded = (
        "NaN, Inf or missing" if failure.atol else "NaN, Inf, missing, or an error where the tolerance is 0"
    )
    for output in line.first(failure.outputs, _MAX_ITEMS):
        worst = unbounded if output.worst is None else f"{output.worst:.3g} times the tolerance"
        line(
            f"fails in {output.name}: {output.wrong} of {plural(output.elements, 'element')}, "
            f"rows {_rows(output.rows, line)}, up to {worst}"
        )
    for each in failure.unwritten:
        by = (
            f"; in the good build {', '.join(line.first(each.written_by, _MAX_ITEMS))} did"
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
        line(f"differ too, and do not make it fail: {', '.join(line.first([*names], _MAX_ITEMS))}", "dim")


def _print_tried(tried: Sequence[OrderTrial], line: SummaryLines) -> None:
    """Print in which other orders of its tasks a build passes."""
    if not tried:
        line("in the order in which its tasks ran: the stack file names no schedules to try others", "dim")
    in_order = [trial for trial in tried if trial.schedule != DEFAULT_SCHEDULE]
    if right := [trial.schedule for trial in in_order if trial.passed_runs and not trial.failed]:
        line(f"so are they under schedule {', '.join(right)}", "dim")
    for trial in tried:
        if trial.schedule == DEFAULT_SCHEDULE and trial.passed_runs == trial.runs:
            line(
                f"and in {plural(trial.runs, 'further run')} as it is, for tasks do not wait for each other: a failure "
                f"in {trial.min_rate_shown:.0%} of its runs would have shown with 99%",
                "dim",
            )
    for trial in in_order:
        if trial.failed:
            line(f"under schedule {trial.schedule} they are not{_good_build_note(trial)}", "yellow")
        if trial.stopped:
            line(f"under schedule {trial.schedule} it does not get to its outputs", "yellow")


def _good_build_note(trial: OrderTrial) -> str:
    """Return what runs of the good build under the same schedule say about a build that passes."""
    if trial.reference_fails:
        return ", and neither are the good build's"
    if not trial.reference_runs:
        return ""
    return (
        f" in {trial.failed} of {plural(trial.runs, 'run')}; {plural(trial.reference_runs, 'run')} of the good build "
        "cannot tell whether its are: nobody is blamed for it"
    )


def _print_in_turns(trial: OrderTrial, line: SummaryLines) -> None:
    """Print how often the failing build fails, and what the good one does in the same order."""
    order = "as it is" if trial.schedule == DEFAULT_SCHEDULE else f"under schedule {trial.schedule}"
    fails = f"{order} it fails in {trial.failed} of {plural(trial.runs, 'run')}"
    if trial.reference_fails is False:
        line(f"{fails}, and the good build in none of {trial.reference_runs}", "dim")
    elif trial.reference_fails:
        line(
            f"{fails}, and the good build in 1 of {trial.reference_runs}: it is flaky too, so nothing in which "
            "they differ is blamed",
            "bold yellow",
        )
    else:
        line(
            f"{fails}; {plural(trial.reference_runs, 'run')} of the good build cannot tell whether it does: nothing in "
            "which they differ is blamed",
            "bold yellow",
        )


def _print_cause(number: int, cause: FailureCause, shown: str, line: SummaryLines) -> None:
    line(f"cause {number}, {cause.kind}: {cause.what}", "bold red")
    line(f"  {shown}")
    # A change without a file and lines is fully described by the kind.
    for change in line.first([each for each in cause.changes if each.file or each.diff], _MAX_ITEMS):
        moved = "" if change.moved_from is None else f": moved here from line {change.moved_from}"
        line(f"  {_name(change)}{'' if change.line is None else f':{change.line}'}{moved}")
        # Lines that were only moved are the same with both signs.
        moved_lines = dict.fromkeys(f">{text[1:]}" for text in change.diff)
        texts = change.diff if change.moved_from is None else tuple(moved_lines)
        for text in line.first(texts, _MAX_LINES):
            line(f"    {text}", "dim")
        if line.omitted_count(texts, _MAX_LINES):
            line("    ... more in divergence.json", "dim")
    for text in line.first(cause.differences, _MAX_ITEMS):
        if text != cause.what:
            line(f"  {text}")
    if more := line.omitted_count(cause.differences, _MAX_ITEMS):
        line(f"  ... and {more} more differences of tasks, see divergence.json")


def _cleared_name(change: BuildChange, blamed: Collection[str]) -> str:
    """The name of a change that is no cause, with its place if its file also has a change that is one."""
    if change.file not in blamed:
        return _name(change)
    kernel = f" ({change.kernel})" if change.kernel else ""
    return f"{_name(change)}{'' if change.line is None else f':{change.line}'}{kernel}"


def _name(change: BuildChange) -> str:
    if change.part == "runtime":
        names = ", ".join(dict.fromkeys(text.split()[1] for text in change.diff))
        return f"the toolchain that runs it ({names or 'in another folder'})"
    return change.file or change.part


def _rows(rows: Sequence[RowRun | ColumnRun], line: SummaryLines) -> str:
    shown = ", ".join(f"{run.first}:{run.last + 1}" for run in line.first(rows, _MAX_ITEMS))
    return shown + ("..." if line.omitted_count(rows, _MAX_ITEMS) else "")


def _tolerance(failure: CaseFailure) -> str:
    own = (
        "the case's own tolerance" if failure.told else "the harness's default, or what the good build needs"
    )
    return f"rtol={failure.rtol:g} atol={failure.atol:g}, {own}"


_PLACE, _STYLE, _TIME = "/*GRAPH*/null", "/*STYLE*/", "<!--WHEN-->"


def page(tasks: TaskList, *, firsts: Set[int], seen: Mapping[int, float], compared: Container[int]) -> str:
    """The page of a task graph, from the arguments of `graph`."""
    template = (
        resources.files("precision_bisect.reduce.localize").joinpath("task_graph.html").read_text("utf-8")
    )
    # Inside of a script element, only "<" could end it or open a comment.
    text = json.dumps(graph(tasks, firsts, seen, compared), allow_nan=False, separators=(",", ":")).replace(
        "<", "\\u003c"
    )
    generated = f"Generated {datetime.now(UTC):%Y-%m-%d %H:%M} UTC"
    return template.replace(_STYLE, style()).replace(_TIME, generated).replace(_PLACE, text)


def graph(
    tasks: TaskList, firsts: Set[int], seen: Mapping[int, float], compared: Container[int]
) -> Mapping[str, object]:
    """Nodes in submission order, and edges between their numbers.

    `firsts` are the ordinals of the first divergent tasks. `seen` holds the errors of the tasks that were looked at,
    and `compared` the ordinals of those that could be.

    A node has its layer, its state, and its relative L2 error. The layer is the longest path from a task that reads no
    other's results. The error is null where it is infinite or the task was not looked at. The states are:

    - `first`: a first divergence.
    - `divergent` and `clean`: a task that was looked at.
    - `downstream`: after a first divergence, and not looked at.
    - `unaligned`: without a counterpart.
    - `unseen`: any other task.
    """
    layers: list[int] = []
    reached: set[int] = set()
    for task, above in enumerate(tasks.predecessors):
        layers.append(1 + max((layers[before] for before in above), default=-1))
        if task in firsts or reached & above:
            reached.add(task)
    return {
        "nodes": [
            {
                "name": escape_unprintable(task.name),
                "id": format_task_id(task.task.task_id),
                "layer": layers[task.ordinal],
                "state": _state(task.ordinal, firsts, seen, compared, reached),
                "error": _error(seen.get(task.ordinal)),
            }
            for task in tasks.tasks
        ],
        "edges": [
            [before, task] for task, above in enumerate(tasks.predecessors) for before in sorted(above)
        ],
    }


def _state(
    ordinal: int, firsts: Set[int], seen: Mapping[int, float], compared: Container[int], reached: Set[int]
) -> str:
    if ordinal in firsts:
        return "first"
    if ordinal in seen:
        return "divergent" if seen[ordinal] else "clean"
    if ordinal not in compared:
        return "unaligned"
    return "downstream" if ordinal in reached else "unseen"


def _error(error: float | None) -> float | None:
    return error if error is not None and math.isfinite(error) else None


def headline(divergence: Divergence) -> str:
    """Return the most important finding in one line, or that there is none."""
    if divergence.causes:
        cause = divergence.causes[0]
        more = f"; {plural(len(divergence.causes) - 1, 'more cause')}" if len(divergence.causes) > 1 else ""
        return f"{'cause' if cause.confirmed else 'candidate'}: {cause.what} ({divergence.run_evidence(cause)}){more}"
    if divergence.stall is not None:
        return f"stall: {divergence.stall.reason}"
    if divergence.crash is not None:
        return f"crash: {divergence.ended or divergence.crash.kernel}"
    if divergence.first_divergent:
        return f"first divergent: {_tensor_name(divergence.first_divergent[0])}"
    return "the case passes" if divergence.passes else _NO_DIVERGENCE


_NO_DIVERGENCE = "no task was seen to leave other values than it should"
_MAX_GROUPS = 8
"""The terminal shows at most this many groups of first divergences, and this many positions in each."""


def print_summary(divergence: Divergence, line: SummaryLines) -> None:
    """Print what was found, and what it is based on."""
    print_causes(divergence, line)
    _print_first_divergences(divergence, line)
    for below in divergence.downstream:
        line(f"after it: task {below.position} {below.kernel}, {below.task_class}: {below.reason}")
    _print_orders(divergence, line)
    if divergence.generated is not None:
        _print_generated(divergence.generated, line)
    _print_other_tasks(divergence, line)
    for text in divergence.not_compared:
        line(f"not compared: {text}", "yellow")
    line(
        f"{plural(divergence.tasks, 'task')}, {plural(divergence.runs, 'run')} of the failing build and "
        f"{divergence.reference_runs} of the reference, {plural(divergence.bytes_dumped, 'byte')} dumped; "
        f"reference: {_reference(divergence.reference)}",
        "dim",
    )


def _print_first_divergences(divergence: Divergence, line: SummaryLines) -> None:
    if divergence.stall is not None:
        _print_stall(divergence.stall, line)
    elif not divergence.first_divergent:
        if not divergence.passes and not divergence.causes and divergence.crash is None:
            line(_NO_DIVERGENCE, "bold yellow")
        unordered = any(edge.ordered_in_reference is not False for edge in divergence.missing_edges)
        if unordered and not divergence.causes:
            line("candidates, should it fail in some orders only, are the tasks that do not wait:", "yellow")
    alike: dict[tuple[int | None, str, int, str], list[FirstDivergent]] = {}
    for entry in divergence.first_divergent:
        key = entry.cause, entry.kernel, entry.argument, entry.task_class
        alike.setdefault(key, []).append(entry)
    for group in line.first(list(alike.values()), _MAX_GROUPS):
        shown = line.first(group, 1)
        for entry in shown:
            _print_first(entry, line)
        if others := group[len(shown) :]:
            tasks = ", ".join(str(entry.position) for entry in others[:_MAX_GROUPS])
            more = _and_more(len(others[_MAX_GROUPS:]))
            number = "task" if len(others) == 1 else "tasks"
            line(f"  the same in {plural(len(others), 'more task')} of this kernel: {number} {tasks}{more}")
    if left_out := line.omitted_count(list(alike), _MAX_GROUPS):
        line(f"... and {left_out} more kinds of divergent tensors, see divergence.json")


def _print_orders(divergence: Divergence, line: SummaryLines) -> None:
    """Print which tasks do not wait for each other, and the results of trials of other orders."""
    new = [edge for edge in divergence.missing_edges if edge.ordered_in_reference is not False]
    for edge in line.first(new, _MAX_GROUPS):
        line(f"missing edge: {_edge(edge)}", "bold yellow")
    if left_out := line.omitted_count(new, _MAX_GROUPS):
        line(f"... and {left_out} more missing edges, see divergence.json")
    if divergence.schedule is not None:
        line(
            f"dumped under schedule {divergence.schedule}, in which the outputs are wrong; in another they are right"
        )
    if divergence.race is not None:
        _print_race(divergence.race, line)


def _print_other_tasks(divergence: Divergence, line: SummaryLines) -> None:
    """Print tasks about which less is known than about the divergent ones."""
    for tasks, what in (
        (
            divergence.candidates,
            "before them with results of which no value is known, where the error may be",
        ),
        (
            divergence.not_shown,
            "first divergent too, which do not fit into one run's dump beside those shown",
        ),
        (divergence.rounding, "different without making it fail"),
        (divergence.vanished, "divergent only in some runs (a race?)"),
        (divergence.unaligned, "of the failing build without a counterpart, not compared"),
        (divergence.unaligned_reference, "of the reference without a counterpart"),
        (divergence.unvisited, "not looked at, where a further first divergence may be"),
    ):
        if tasks:
            names = ", ".join(line.first(sorted({task.kernel for task in tasks}), _MAX_GROUPS))
            line(f"{plural(len(tasks), 'task')} {what}: {names}", "yellow")


def _print_first(entry: FirstDivergent, line: SummaryLines) -> None:
    lines = ", ".join(str(number) for number in entry.orchestration_lines) or "?"
    line(f"first divergent: {_tensor_name(entry)}", "bold red")
    line(f"  {entry.task_class}: {entry.reason}")
    line(f"  {', '.join(entry.kernel_sources)}, submitted at {entry.orchestration_source}:{lines}")
    if (statistics := entry.statistics) is not None:
        line(
            f"  {statistics.different} of {plural(statistics.elements, 'element')} in {statistics.rows_different} of "
            f"{plural(statistics.rows, 'row')}, {statistics.worst}, at most {statistics.max_ulps} ulp"
        )
    if entry.pattern is not None:
        line(f"  {entry.pattern.name} ({percent(entry.pattern.confidence)}): {entry.pattern.evidence}")


def _tensor_name(entry: FirstDivergent) -> str:
    """Return the tensor of a task, with the task's position, kernel and id."""
    tensor = entry.tensor or f"argument {entry.argument}"
    return f"{tensor} of task {entry.position} {entry.kernel} ({entry.task_id})"


def _print_stall(stall: Stall, line: SummaryLines) -> None:
    line(
        f"{'a stall' if stall.believed else 'a stall that is not believed'}: {stall.reason}; "
        f"{stall.completed} of {plural(stall.total, 'task')} done",
        "bold red",
    )
    for task in stall.tasks if line.whole else stall.tasks[-_MAX_GROUPS:]:
        cores = f" on core {', '.join(map(str, task.cores))}" if task.cores else ""
        lines = ", ".join(map(str, task.orchestration_lines)) or "?"
        line(
            f"  {task.state}{cores}: {task.kernel or 'a task without kernel'} ({task.task_id}), "
            f"{task.dependencies_met} of {task.dependencies} dependencies met"
        )
        line(f"    {', '.join(task.kernel_sources)}, submitted at {task.orchestration_source}:{lines}")


def _print_race(race: Race, line: SummaryLines) -> None:
    if race.confirmed and race.confirmation is not None:
        bad, good = race.confirmation.failing, race.confirmation.passing
        line(
            f"a race: {bad.schedule} failed in {bad.failed} of {bad.runs} fresh runs, {good.schedule} passed in "
            f"{good.runs} of {good.runs}, on the same data",
            "bold yellow",
        )
    elif any(trial.failed for trial in race.trials):
        line("no race shown: no order fails always while another passes always")
    else:
        line("it did not fail again: no race shown")
    for trial in race.trials:
        knobs = " ".join(f"{name}={value}" for name, value in trial.variables.items())
        stopped = f", {trial.stopped} stopped" if trial.stopped else ""
        line(f"  {trial.schedule:12} {trial.failed} of {trial.runs} fail{stopped}  {knobs}")


def _reference(reference: ReferenceUsed | None) -> str:
    if reference is None:
        return "not told"
    match reference.kind:
        case "good build":
            return f"good build {reference.path}"
        case "other target":
            return f"the same build on {reference.platform}"
        case "other schedule":
            return f"the same build under schedule {reference.schedule}"
        case "recorded values":
            return f"values recorded in {reference.path}, and the golden outputs"
        case "golden data":
            return f"the golden outputs in {reference.path} alone"


def _print_generated(generated: GeneratedSources, line: SummaryLines) -> None:
    line(generated.verdict)
    named = generated.verdict.replace(",", " ").split()
    changed = [*generated.differing, *generated.only_failing, *generated.only_reference]
    if others := [file for file in changed if file not in named]:
        shown = ", ".join(line.first(others, _MAX_GROUPS))
        too = " too" if len(others) < len(changed) else ""
        left_out = _and_more(line.omitted_count(others, _MAX_GROUPS))
        line(f"generated sources that differ{too}: {shown}{left_out}")
    if generated.first_pass is not None:
        line(f"first pass that differs: {generated.first_pass.number:02} {generated.first_pass.name}")
        for text in generated.first_pass.diff.splitlines():
            line(f"  {text}", "dim")


def _edge(edge: UnorderedTasks) -> str:
    return (
        f"{edge.after_kernel} ({edge.after_task_id}, argument {edge.after_argument}) does not wait for "
        f"{edge.before_kernel} ({edge.before_task_id}): {edge.hazard}; {edge.cause}"
    )


def _and_more(left_out: int) -> str:
    return f" and {left_out} more" if left_out else ""
