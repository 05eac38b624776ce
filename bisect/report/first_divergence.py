"""Where in the culprit's build the failure begins, in words: the same on the terminal and in report.md."""

from collections.abc import Iterator

from ...runner.localization.answer import Localization
from ...runner.localization.causes import FailureCause
from ...runner.localization.divergence import Divergence
from ...runner.localization.stall import Stall
from ...runner.localization.tensors import FirstDivergent
from ...store.words import percent, plural

_MOST = 4
"""Tensors, and missing edges, that are told of; divergence.json has all."""

_MOST_LINES = 4
"""Of a change that is shown."""


def localization_lines(found: Localization) -> Iterator[tuple[str, str]]:
    """A label and what stands beside it, line by line."""
    if found.status == "left out":
        yield "not known", found.message
    elif found.divergence is not None:
        yield from _divergence(found.divergence)
    if found.reduction is not None:
        tasks, kernels = found.reduction.tasks, found.reduction.kernels
        yield (
            "reduced",
            f"{plural(tasks.before, 'task')} to {tasks.after}, {plural(kernels.before, 'kernel')} to {kernels.after}: "
            f"{found.reduced}",
        )
    if found.status != "left out":
        yield "compared", found.message


def _divergence(found: Divergence) -> Iterator[tuple[str, str]]:
    for cause in found.causes[:_MOST]:
        yield from _cause(cause)
    if found.stall is not None:
        yield from _stall(found.stall)
    elif found.crash is not None:
        yield "crash", found.ended or found.crash.kernel
    elif not found.explained:
        yield (
            "none",
            "the outputs of the culprit's build are within the tolerance: what differs is rounding"
            if found.passes
            else "no task of the culprit's build was seen to leave other values than its parent's",
        )
    yield from _tensors(found)
    for edge in [edge for edge in found.missing_edges if edge.ordered_in_reference is not False][:_MOST]:
        yield (
            "no edge",
            f"{edge.after_kernel} does not wait for {edge.before_kernel}: {edge.hazard}; {edge.cause}",
        )
    yield from _orders(found)
    if found.generated is not None:
        yield "due to", f"{found.generated.origin or 'compiler or runtime: open'}: {found.generated.shown}"
        if (first := found.generated.first_pass) is not None:
            yield "pass", f"{first.name} ({first.number}), the first after which the program differs"


def _tensors(found: Divergence) -> Iterator[tuple[str, str]]:
    """The first divergent tensors, one a kernel and argument."""
    alike: dict[tuple[str, int], list[FirstDivergent]] = {}
    for each in found.first_divergent:
        alike.setdefault((each.kernel, each.argument), []).append(each)
    for group in list(alike.values())[:_MOST]:
        yield from _tensor(group[0], others=len(group) - 1)
    if len(alike) > _MOST:
        yield "", f"and {len(alike) - _MOST} more first divergent tensors in divergence.json"


def _cause(cause: FailureCause) -> Iterator[tuple[str, str]]:
    """What changed, and the lines of the first place."""
    share = f"; alone it makes {percent(cause.effect)} of the wrong elements wrong" if cause.confirmed else ""
    yield "cause" if cause.confirmed else "candidate", f"{cause.what}{share}"
    for change in cause.changes[:1]:
        place = f"{change.file or change.part}{'' if change.line is None else f':{change.line}'}"
        yield "changed", f"{place}  {'  '.join(change.diff[:_MOST_LINES])}".rstrip()


def _orders(found: Divergence) -> Iterator[tuple[str, str]]:
    """What the order of the tasks has to do with it."""
    if found.schedule is not None:
        yield (
            "order",
            f"compared under schedule {found.schedule}, in which it fails while it passes under another",
        )
    if found.in_turns is not None and found.in_turns.may_be_of_both:
        tells = "fails too" if found.in_turns.reference_fails else "was not shown to pass"
        yield (
            "blamed",
            f"nothing in which the builds differ: in the order in which it fails, the parent's {tells}",
        )
    if found.race is not None:
        yield (
            "race",
            "confirmed: one order fails and another passes on the same data"
            if found.race.confirmed
            else "not shown",
        )


def _stall(found: Stall) -> Iterator[tuple[str, str]]:
    yield (
        "stall",
        f"{'' if found.believed else 'not believed: '}{found.reason}; "
        f"{found.completed} of {plural(found.total, 'task')} done",
    )
    for each in found.tasks[-_MOST:]:
        cores = f" on core {', '.join(map(str, each.cores))}" if each.cores else ""
        lines = ", ".join(map(str, each.orchestration_lines)) or "?"
        yield (
            "task",
            f"{each.kernel or 'no kernel'} ({each.task_id}) {each.state}{cores}, {', '.join(each.kernel_sources)}, "
            f"submitted at {each.orchestration_source}:{lines}",
        )


def _tensor(each: FirstDivergent, *, others: int) -> Iterator[tuple[str, str]]:
    tensor = each.tensor or f"argument {each.argument}"
    more = f", and of {plural(others, 'more task')} of it, in divergence.json" if others else ""
    yield "tensor", f"{tensor} of task {each.task_id}, kernel {each.kernel}{more}"
    if each.kernel_sources:
        lines = ", ".join(map(str, each.orchestration_lines)) or "?"
        yield (
            "source",
            f"{', '.join(each.kernel_sources)}, submitted at {each.orchestration_source}:{lines}",
        )
    yield "class", f"{each.task_class}: {each.reason}"
    if each.pattern is not None:
        yield "pattern", f"{each.pattern.name} ({percent(each.pattern.confidence)}): {each.pattern.evidence}"
    if (found := each.statistics) is not None:
        ulps = f", by at most {found.max_ulps} ulp" if found.max_ulps else ""
        differ = "differs" if found.elements == 1 else "differ"
        yield (
            "worst",
            f"{found.worst}; {found.different} of {plural(found.elements, 'element')} {differ}{ulps}",
        )
