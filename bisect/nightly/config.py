"""The nightly file: what is run, when, and who is told. Every key is checked."""

import tomllib
from collections.abc import Mapping
from datetime import datetime, time, timedelta
from pathlib import Path
from typing import Annotated, Literal

from pydantic import BeforeValidator, Field, ValidationError, field_validator

from ...runner.errors import UsageError, reason
from ...runner.process.duration import parse_duration
from ...runner.stack.complaints import first_error
from ...runner.stack.file import load_stack
from ...runner.stack.parts import Model
from ...runner.stack.stack import Stack, is_plain_name

_Duration = Annotated[float, BeforeValidator(lambda text: parse_duration(str(text)))]
"""In the file a text such as `6h`; seconds."""


class NightTarget(Model):
    """A platform of the matrix."""

    device: int = Field(default=0, ge=0)
    runs: int | None = Field(default=None, ge=1)
    """Device quota: runs on it in one night (or one opening of the window), those of bisections and of earlier starts
    included; unlimited by default."""


class NightWindow(Model):
    """Hours of the day, local time, in which runs may start; it may cross midnight."""

    start: time
    end: time

    def around(self, at: datetime) -> tuple[datetime, datetime] | None:
        """From when to when the window is open that is open at this (aware) time; None outside of it.

        >>> window = NightWindow(start=time(22), end=time(6))
        >>> window.around(datetime(2026, 1, 1, 23)), window.around(datetime(2026, 1, 1, 12))
        ((datetime.datetime(2026, 1, 1, 22, 0), datetime.datetime(2026, 1, 2, 6, 0)), None)
        """
        for day in (-1, 0):
            date = at.date() + timedelta(days=day)
            begins = datetime.combine(date, self.start, at.tzinfo)
            ends = datetime.combine(date, self.end, at.tzinfo)
            if ends <= begins:
                ends = datetime.combine(date + timedelta(days=1), self.end, at.tzinfo)
            if begins <= at < ends:
                return begins, ends
        return None


class NightlyConfig(Model):
    """A job: cases x platforms x tolerances at the newest commit of each branch."""

    job: str
    """The name that its nights have in the store."""
    stack: str
    """Stack file, counted from the folder of this file, or the name of one that comes with the tool."""
    repositories: Mapping[str, Path] = {}
    """Where checkouts of the stack lie, where the stack file does not say so."""
    branches: tuple[str, ...] = ("HEAD",)
    cases: tuple[str, ...] = Field(min_length=1)
    platforms: Mapping[str, NightTarget] = Field(min_length=1)
    tolerances: Mapping[str, tuple[str, ...]] = {"default": ()}
    """Arguments that are put behind the case, by a name."""
    reruns: int = Field(default=3, ge=1)
    """Runs after a new failure: one pass among them makes it flaky."""
    unchanged: Literal["reuse", "run"] = "reuse"
    """Where neither the content nor the environment has changed since the last run: take its result, or run again."""
    budget: _Duration | None = None
    window: NightWindow | None = None
    timeout: _Duration | None = None
    """Of one run; the stack's own by default."""
    confidence: float = Field(default=0.99, ge=0.5, lt=1)
    output: Path = Path("nightly")
    """Folder for what each night writes, in a folder of the job's name."""
    on_incident: tuple[str, ...] = ()
    """A command that gets each incident that opens or closes as JSON on its standard input."""
    hooks_per_night: int = Field(default=10, ge=0)

    @field_validator("job")
    @classmethod
    def _plain(cls, job: str) -> str:
        if not is_plain_name(job) or len(job) > 64:
            raise ValueError("expected a short name of letters, digits, - and _")
        return job


def load_config(path: Path) -> tuple[NightlyConfig, Stack]:
    """Read a nightly file and its stack. Relative paths count from its folder. Raises `UsageError`."""
    try:
        config = NightlyConfig.model_validate(tomllib.loads(path.read_text(encoding="utf-8")))
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"{path}: expected a readable nightly file: {reason(error)}") from error
    except tomllib.TOMLDecodeError as error:
        raise UsageError(f"{path}: expected TOML: {error}") from error
    except ValidationError as error:
        raise UsageError(f"{path}: {first_error(error, NightlyConfig)}") from error
    base = path.absolute().parent
    file = base / config.stack
    stack = load_stack(
        str(file) if file.is_file() else config.stack,
        overrides={name: base / where.expanduser() for name, where in config.repositories.items()},
    )
    unknown = sorted(config.platforms.keys() - stack.platforms.keys())
    if unknown:
        raise UsageError(
            f"{path}: platforms.{unknown[0]}: expected one of {', '.join(sorted(stack.platforms))}"
        )
    return config.model_copy(update={"output": base / config.output.expanduser() / config.job}), stack
