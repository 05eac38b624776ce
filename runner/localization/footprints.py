"""What tasks read and write outside of what they were declared to, as `footprints.json` and `divergence.json` tell it.

python -m precision_bisect.runner.localization.footprints prints the schema.
"""

from typing import Literal

from ...store.documents.document import Document
from ...store.documents.json_schema import published_schema
from .part import DocumentPart

FOOTPRINTS = "footprints.json"
"""The file in the output folder of `reduce --footprints`."""


class UndeclaredWrite(DocumentPart):
    """Bytes that a task changed outside of the tensors that it was declared to write."""

    argument: int
    tensor: str
    """The argument that lies nearest, by its index and its name in the orchestration."""
    bytes: int
    where: Literal[
        "past the end of the buffer",
        "before the start of the buffer",
        "past the end of the tensor",
        "before the start of the tensor",
        "between the rows of the tensor",
    ]
    reach: int
    """Bytes from that edge to the farthest one changed; between rows, from the tensor's first element."""
    into: str
    """Whose memory that is in the run."""


class UndeclaredRead(DocumentPart):
    """Memory outside of what a task was declared to read, on which its results depend."""

    argument: int
    tensor: str
    what: Literal["held before", "around the tensor", "past the end of the buffer", "before the buffer"]
    """Of an output, its old contents; of others, where from the argument."""
    whose: str
    """Who left what is there in the run."""


class TaskFootprint(DocumentPart):
    """A task that touches what it was not declared to."""

    task_id: str
    position: int
    """Among the tasks that run kernels, from 0, in submission order."""
    kernel: str
    kernel_sources: tuple[str, ...]
    writes: tuple[UndeclaredWrite, ...]
    reads: tuple[UndeclaredRead, ...]
    wants_offset_zero: bool = False
    """It leaves something else where its tensors lie farther from the start of their buffers."""


class NotExamined(DocumentPart):
    """Tasks of which nothing could be said, and why."""

    position: int
    kernel: str
    why: str


class Footprints(Document):
    """What a build's tasks touch. `examined` of `tasks` were run alone: of many that are alike, a few."""

    schema_version: Literal[1] = 1
    build: str
    tasks: int
    examined: int
    found: tuple[TaskFootprint, ...]
    not_examined: tuple[NotExamined, ...]


def schema_text() -> str:
    """The schema of `footprints.json`."""
    return published_schema(Footprints)


if __name__ == "__main__":
    print(schema_text(), end="")
