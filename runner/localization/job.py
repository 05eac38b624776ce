"""A localization as `bisect` asks it of a process of `reduce`: the two do not know each other, but both this file."""

from pathlib import Path
from typing import Literal

from ...store.documents.document import Document
from ..stack.parts import Model
from ..stack.stack import Stack


class BuildToRun(Model):
    """A build directory and what runs it: the repositories of `stack` lie where the build's own commits are checked
    out and built, in `slot`, for `python`."""

    build: Path
    stack: Stack
    python: Path
    slot: Path


class LocalizationJob(Document):
    """What is to be found out, as JSON in a file.

    `timeout` is seconds for one run; `rtol` and `atol` are the case's own closeness, None where its run did not tell.
    """

    schema_version: Literal[1] = 1
    failing: BuildToRun
    reference: BuildToRun
    platform: str
    device: int
    golden_data: Path
    timeout: float
    rtol: float | None
    atol: float | None
    output: Path
    reduce_to: Path | None
    """Where a reduction goes; None: none is made."""
