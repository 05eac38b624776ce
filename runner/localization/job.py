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
    """Of a scene test its script, in `slot`."""
    stack: Stack
    python: Path
    slot: Path


class SceneCase(Model):
    """A scene test of the runtime: its script stands in the place of a build directory."""

    arguments: tuple[str, ...]
    """Those of the script, as it was run."""
    failed: str | None
    """`CLASS::NAME` of the case that failed; None: the run did not name one."""


class LocalizationJob(Document):
    """What is to be found out, as JSON in a file.

    `timeout` is seconds for one run; `rtol` and `atol` are the case's own closeness, None where its run did not tell.
    """

    schema_version: Literal[1] = 1
    failing: BuildToRun
    reference: BuildToRun
    platform: str
    device: int
    golden_data: Path | None
    """None: a scene test draws its data, from a fixed seed."""
    scene: SceneCase | None = None
    """What both scripts are run with; None: there are build directories."""
    timeout: float
    rtol: float | None
    atol: float | None
    output: Path
    reduce_to: Path | None
    """Where a reduction goes; None: none is made."""
