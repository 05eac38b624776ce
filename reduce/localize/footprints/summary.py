"""Footprints on the terminal."""

from __future__ import annotations

from collections.abc import Iterator

from ....runner.compare.report.summary_lines import SummaryLines
from ....runner.localization.footprints import Footprints, TaskFootprint
from ....store.words import plural

_MOST_SHOWN = 8


def footprint_lines(footprint: TaskFootprint) -> Iterator[str]:
    """What one task touches, a line each."""
    task = f"task {footprint.position} {footprint.kernel}"
    for write in footprint.writes:
        yield (
            f"{task}: argument {write.argument} ({write.tensor}): writes {plural(write.bytes, 'byte')} {write.where}, "
            f"up to {plural(write.reach, 'byte')} from there: into {write.into}"
        )
    for read in footprint.reads:
        place = {
            "held before": "what it held before, though it is declared as an output alone",
            "around the tensor": "what lies around it in its buffer",
            "past the end of the buffer": "what lies past the end of its buffer",
            "before the buffer": "what lies before its buffer",
        }[read.what]
        yield f"{task}: argument {read.argument} ({read.tensor}): its results depend on {place}: {read.whose}"
    if footprint.wants_offset_zero:
        yield f"{task}: it leaves something else where its tensors lie farther from the start of their buffers"


def print_footprints(footprints: Footprints, line: SummaryLines) -> None:
    """Print what was found, and of how many tasks."""
    for footprint in footprints.found:
        for text in footprint_lines(footprint):
            line(text, "bold red")
        for source in footprint.kernel_sources:
            line(f"  {source}")
    if not footprints.found:
        line("no task touches what it was not declared to", "bold green" if footprints.examined else "yellow")
    for each in line.first(footprints.not_examined, _MOST_SHOWN):
        line(f"not examined: task {each.position} {each.kernel}: {each.why}", "yellow")
    if more := line.left_out(footprints.not_examined, _MOST_SHOWN):
        line(f"and {more} more", "yellow")
    line(f"run alone: {footprints.examined} of {plural(footprints.tasks, 'task')}", "dim")
