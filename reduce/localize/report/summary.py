"""The result on the terminal."""

from __future__ import annotations

from ....runner.compare.report.summary_lines import SummaryLines
from ....runner.localization.divergence import Divergence, Generated, ReferenceUsed
from ....runner.localization.orders import Race, UnorderedTasks
from ....runner.localization.stall import Stall
from ....runner.localization.tensors import FirstDivergent
from ....store.words import percent, plural
from .cause_lines import print_causes

_SHOWN = 8


def print_summary(divergence: Divergence, line: SummaryLines) -> None:
    """Print what was found, and what it rests on."""
    print_causes(divergence, line)
    _print_first_divergences(divergence, line)
    for below in divergence.downstream:
        line(f"below: task {below.position} {below.kernel}: {below.task_class}, {below.reason}")
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
            line("no task was seen to leave other values than it should", "bold yellow")
        unordered = any(edge.ordered_in_reference is not False for edge in divergence.missing_edges)
        if unordered and not divergence.causes:
            line("candidates, should it fail in some orders only, are the tasks that do not wait:", "yellow")
    alike: dict[tuple[int | None, str, int, str], list[FirstDivergent]] = {}
    for entry in divergence.first_divergent:
        key = entry.cause, entry.kernel, entry.argument, entry.task_class
        alike.setdefault(key, []).append(entry)
    for group in line.first(list(alike.values()), _SHOWN):
        _print_first(group[0], line)
        if others := group[1:]:
            tasks = ", ".join(str(entry.position) for entry in line.first(others, _SHOWN))
            more = _and_more(line.left_out(others, _SHOWN))
            line(f"  the same in {plural(len(others), 'more task')} of {group[0].kernel}: {tasks}{more}")
    if left_out := line.left_out(list(alike), _SHOWN):
        line(f"... and {left_out} more kinds of divergent tensors, see divergence.json")


def _print_orders(divergence: Divergence, line: SummaryLines) -> None:
    """Which tasks do not wait for each other, and what the trials of other orders told."""
    new = [edge for edge in divergence.missing_edges if edge.ordered_in_reference is not False]
    for edge in line.first(new, _SHOWN):
        line(f"missing edge: {_edge(edge)}", "bold yellow")
    if left_out := line.left_out(new, _SHOWN):
        line(f"... and {left_out} more missing edges, see divergence.json")
    if divergence.schedule is not None:
        line(
            f"dumped under schedule {divergence.schedule}, in which the outputs are wrong; in another they are right"
        )
    if divergence.race is not None:
        _print_race(divergence.race, line)


def _print_other_tasks(divergence: Divergence, line: SummaryLines) -> None:
    """Tasks of which less is known than of the divergent ones."""
    for tasks, what in (
        (
            divergence.candidates,
            "before them with results of which no value is known, where the error may be",
        ),
        (divergence.not_shown, "first divergent too, which --dump-budget does not hold beside those shown"),
        (divergence.rounding, "different without making it fail"),
        (divergence.vanished, "divergent only in some runs (a race?)"),
        (divergence.unaligned, "of the failing build without a counterpart, not compared"),
        (divergence.unaligned_reference, "of the reference without a counterpart"),
        (divergence.unvisited, "not looked at, where a further first divergence may be"),
    ):
        if tasks:
            names = ", ".join(line.first(sorted({task.kernel for task in tasks}), _SHOWN))
            line(f"{plural(len(tasks), 'task')} {what}: {names}", "yellow")


def _print_first(entry: FirstDivergent, line: SummaryLines) -> None:
    lines = ", ".join(str(number) for number in entry.orchestration_lines) or "?"
    line(
        f"first divergent: {entry.tensor or f'argument {entry.argument}'} of task {entry.position} {entry.kernel} "
        f"({entry.task_id})",
        "bold red",
    )
    line(f"  {entry.task_class}: {entry.reason}")
    line(f"  {', '.join(entry.kernel_sources)}, submitted at {entry.orchestration_source}:{lines}")
    if (statistics := entry.statistics) is not None:
        line(
            f"  {statistics.different} of {plural(statistics.elements, 'element')} in {statistics.rows_different} of "
            f"{plural(statistics.rows, 'row')}, {statistics.worst}, at most {statistics.max_ulps} ulp"
        )
    if entry.pattern is not None:
        line(f"  {entry.pattern.name} ({percent(entry.pattern.confidence)}): {entry.pattern.evidence}")


def _print_stall(stall: Stall, line: SummaryLines) -> None:
    line(
        f"{'a stall' if stall.believed else 'a stall that is not believed'}: {stall.reason}; "
        f"{stall.completed} of {plural(stall.total, 'task')} done",
        "bold red",
    )
    for task in stall.tasks if line.whole else stall.tasks[-_SHOWN:]:
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


def _print_generated(generated: Generated, line: SummaryLines) -> None:
    line(f"{generated.origin or 'compiler or runtime: open'}: {generated.shown}")
    changed = [*generated.differing, *generated.only_failing, *generated.only_reference]
    if changed:
        shown = ", ".join(line.first(changed, _SHOWN))
        line(f"the compiler made differently: {shown}{_and_more(line.left_out(changed, _SHOWN))}")
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
