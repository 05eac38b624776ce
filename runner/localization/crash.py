"""Where a build crashes, as `divergence.json` tells it."""

from .part import DocumentPart


class CrashedTask(DocumentPart):
    """The first task with which a build crashes: with those before it alone it does not."""

    position: int
    """In submission order, counting tasks that run a kernel, from 0."""
    kernel: str
    """Empty where the kernel list does not tell it."""
    kernel_sources: tuple[str, ...]
    orchestration_source: str
    orchestration_line: int
    """Of the statement that submits it."""
    tensor: str | None = None
    """What it was to write; null where that is not one tensor with a name."""
