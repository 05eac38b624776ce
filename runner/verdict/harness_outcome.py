"""Reads the JSON that `shim.py` leaves: what each call of the golden harness returned.

The file is written by a process that runs the code under test, so nothing in it is believed before it
is checked.
"""

import os
import stat
from pathlib import Path
from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from ..errors import UserError

MAX_BYTES = 16 << 20

Text = Annotated[str, Field(max_length=1 << 16)]
Name = Annotated[str, Field(max_length=256)]
Setting = bool | int | Text


class HarnessOutcomeError(UserError):
    """The file is not what the shim writes."""


class _Record(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", strict=True, allow_inf_nan=False)


class HarnessException(_Record):
    """An exception that left the harness."""

    type: Name
    message: Text


class HarnessCall(_Record):
    """One call of `golden.run` or `golden.run_jit`."""

    function: Literal["run", "run_jit"]
    finished: bool
    """False if the process ended inside the call."""
    passed: bool | None
    """What the result says; None without a result."""
    validated: bool
    """Whether the call was given something to compare with, and was not only to compile."""
    error: Text | None
    work_dir: Text | None
    execution_time: float | None
    """Seconds."""
    exception: HarnessException | None
    applied: Annotated[dict[Name, Setting], Field(max_length=32)]
    """Settings that the shim put into the call."""
    replaced: Annotated[dict[Name, Text], Field(max_length=32)]
    """What the case itself had passed where the shim put something else."""
    not_applied: Annotated[dict[Name, Text], Field(max_length=32)]
    """Settings that this revision of the harness cannot take, and why."""
    measures: Annotated[dict[Name, dict[Name, float]], Field(max_length=64)] = {}
    """The errors of outputs that were compared: `relative_l2`, `beyond_tolerance` and `not_finite` (shares of the
    elements), `times_tolerance` (of the worst element), as far as they are defined."""


class Interpreter(_Record):
    """The Python that ran the case."""

    executable: Text
    version: Name
    implementation: Name


class HarnessOutcome(_Record):
    """All calls of one run of a case, in the order in which they began."""

    schema_version: Literal[1]
    interpreter: Interpreter
    began: int | None = None
    """When the case began, in nanoseconds as files have it, if other scripts ran before it."""
    calls: Annotated[tuple[HarnessCall, ...], Field(strict=False, max_length=10_000)]


def read_harness_outcome(path: Path) -> HarnessOutcome | None:
    """Read the file at `path`; None if there is none.

    Raises:
        HarnessOutcomeError: not a regular file, over `MAX_BYTES`, not JSON, or not of the shim's schema.
    """
    try:
        # A link could lead anywhere, and opening a pipe that the case left there would wait for ever.
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except FileNotFoundError:
        return None
    except OSError as error:
        raise _unusable(path, error.strerror or str(error)) from error
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise _unusable(path, "something else than a regular file")
    with os.fdopen(descriptor, "rb") as file:
        data = file.read(MAX_BYTES + 1)
    if len(data) > MAX_BYTES:
        raise _unusable(path, f"more than {MAX_BYTES} bytes")
    try:
        return HarnessOutcome.model_validate_json(data)
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False, include_context=False)[0]
        where = ".".join(str(part)[:40] for part in first["loc"])
        raise _unusable(path, f"{where}: {first['msg']}" if where else first["msg"]) from error


def _unusable(path: Path, found: str) -> HarnessOutcomeError:
    plain = " ".join(found.split())[:300].encode("unicode_escape").decode()
    return HarnessOutcomeError(
        f"{path}: expected the harness outcome that shim.py writes, found {plain}; run the case again"
    )
