"""Where a build stops that does not end, as `divergence.json` tells it."""

from .part import DocumentPart


class StalledTask(DocumentPart):
    """A task that was not done when the runtime gave up."""

    task_id: str
    kernel: str
    kernel_sources: tuple[str, ...]
    orchestration_source: str
    orchestration_lines: tuple[int, ...]
    """Lines of the submits that may have made the task."""
    state: str
    """In the runtime's words: RUNNING, READY or WAIT."""
    cores: tuple[int, ...]
    """That it sat on, by the runtime's numbers."""
    dependencies_met: int = 0
    dependencies: int = 0


class Stall(DocumentPart):
    """Where the failing build stops. `completed` of `total` tasks, allocations included, were done."""

    believed: bool
    reason: str
    completed: int
    total: int
    tasks: tuple[StalledTask, ...]
    """Those that ran, the last one dispatched at the end; where none ran, those that waited."""
