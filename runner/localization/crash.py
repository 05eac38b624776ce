"""Where a build crashes, as `divergence.json` tells it."""

from .part import DocumentPart


class NearBuffer(DocumentPart):
    """A buffer of a task, and where the address of a crash lies by it."""

    tensor: str | None
    """As the task that crashes calls it, else the first of `tasks`; null where the text does not tell."""
    size: int
    """Bytes."""
    offset: int
    """Bytes from its first one; below 0: before it."""
    tasks: tuple[int, ...]
    """Those that use the buffer, of the tasks up to the one that crashes, by position."""


class Fault(DocumentPart):
    """The address that a task touched, and that crashed it."""

    address: str
    """Hexadecimal."""
    buffers: tuple[NearBuffer, ...]
    """Those that hold it; where none does, those of the task that crashes, the nearest first; none far from all."""


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
    fault: Fault | None = None
    """Null where the run did not tell the address, as on a board, and in documents that do not tell."""
