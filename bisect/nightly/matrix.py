"""The nightly file, the limits of a night, and single runs of the matrix.

`load_config` reads the nightly file. It says what is run, when, and which command is told of incidents. `Limits` holds
the budget, the window and the quotas of devices. `CaseRunner` makes single runs, and stores each as soon as it has
finished.
"""

import shlex
from collections import Counter
from collections.abc import Mapping, Sequence
from datetime import datetime, time, timedelta
from functools import cached_property
from pathlib import Path
from typing import Annotated, Literal

from pydantic import BeforeValidator, Field, ValidationError, field_validator

from ...runner.case.case import CaseName, RunOptions
from ...runner.cli_options import parse_duration
from ...runner.errors import UsageError, reason
from ...runner.pins import Revisions, fixed_revisions
from ...runner.probe.judge import JudgingRule
from ...runner.probe.probe import Prober, ProbeRequest
from ...runner.settings import TomlError, expand_home, first_error, is_file, load_stack, parse_toml
from ...runner.stack import Model, Stack, is_plain_name
from ...runner.verdict.classify import printed_cause
from ...runner.workspace.content import StackContent
from ...runner.workspace.environment import EnvironmentReader, fingerprint
from ...runner.workspace.slot import Workspace
from ...store.bisections import storable_text
from ...store.durable_files import read_text_file
from ...store.nights import CaseRun, JobJournal
from ...store.tables import CaseResultRow, CaseRunRow, CellRow, now
from ...store.vocabulary import BuildSource, CaseStatus, Evidence, Judgement, Phase, Verdict
from ..drive.loop import BudgetSpentError
from ..engine.runs import FinishedProbe, ProbeTimes

_Duration = Annotated[float, BeforeValidator(lambda text: parse_duration(str(text)))]
"""Seconds, which the file gives as a text such as `6h`."""


class NightTarget(Model):
    """A platform of the matrix."""

    device: int = Field(default=0, ge=0)
    runs: int | None = Field(default=None, ge=1)
    """The device's quota: how many runs it makes in one night, or in one opening of the window.

    Runs of bisections and of earlier starts count too. The default is no limit.
    """


class NightWindow(Model):
    """The hours of the day, in local time, in which runs may start. The window may cross midnight."""

    start: time
    end: time

    def opening_at(self, at: datetime) -> tuple[datetime, datetime] | None:
        """Return the begin and the end of the window that is open at this (aware) time; None where it is closed.

        >>> window = NightWindow(start=time(22), end=time(6))
        >>> window.opening_at(datetime(2026, 1, 1, 23)), window.opening_at(datetime(2026, 1, 1, 12))
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
    """A job, which runs cases x platforms x tolerances at the newest commit of each branch."""

    job: str
    """The name that its nights have in the store."""
    stack: str
    """The path of a stack file, relative to the folder of this file, or the name of one that comes with the tool."""
    repositories: Mapping[str, Path] = {}
    """The paths of repositories whose checkouts the stack file does not name."""
    branches: tuple[str, ...] = ("HEAD",)
    cases: tuple[str, ...] = Field(min_length=1)
    platforms: Mapping[str, NightTarget] = Field(min_length=1)
    tolerances: Mapping[str, tuple[str, ...]] = {"default": ()}
    """Arguments that are appended to the case, by the name of the tolerance."""
    reruns: int = Field(default=3, ge=1)
    """The number of runs after a new failure. One pass among them makes it flaky."""
    unchanged: Literal["reuse", "run"] = "reuse"
    """Whether a case takes the last result or runs again where neither content nor environment has changed."""
    budget: _Duration | None = None
    window: NightWindow | None = None
    timeout: _Duration | None = None
    """The time limit of one run. The default is the stack's limit."""
    confidence: float = Field(default=0.99, ge=0.5, lt=1)
    output: Path = Path("nightly")
    """The folder that holds a folder of the job's name, to which each night writes."""
    on_incident: tuple[str, ...] = ()
    """The command that reads each incident that opens or closes, as JSON on its standard input."""
    hooks_per_night: int = Field(default=10, ge=0)

    @field_validator("job")
    @classmethod
    def _check_job_name(cls, job: str) -> str:
        if not is_plain_name(job) or len(job) > 64:
            raise ValueError(f"expected a short name of letters, digits, - and _, found {job!r}")
        return job


def load_config(path: Path) -> tuple[NightlyConfig, Stack]:
    """Read a nightly file and its stack. Relative paths start at the folder of the file. Raises `UsageError`."""
    try:
        config = NightlyConfig.model_validate(parse_toml(read_text_file(path)))
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"{path}: expected a readable nightly file: {reason(error)}") from error
    except TomlError as error:
        raise UsageError(f"{path}: expected TOML: {error}") from error
    except ValidationError as error:
        raise UsageError(f"{path}: {first_error(error, NightlyConfig)}") from error
    base = path.absolute().parent
    file = base / config.stack
    stack = load_stack(
        str(file) if is_file(file) else config.stack,
        overrides={name: base / expand_home(where) for name, where in config.repositories.items()},
    )
    unknown = sorted(config.platforms.keys() - stack.platforms.keys())
    if unknown:
        raise UsageError(
            f"{path}: platforms.{unknown[0]}: expected one of {', '.join(sorted(stack.platforms))}"
        )
    for case in config.cases:
        CaseName.parse(case, stack, option=f"{path}: cases")
    return config.model_copy(update={"output": base / expand_home(config.output) / config.job}), stack


class OutOfTimeError(BudgetSpentError):
    """No further run may start tonight. Stored results stay, and bisections go on in the next night."""

    def __init__(self) -> None:
        super().__init__("the budget or the window of this night ended; the next night goes on")


class QuotaSpentError(BudgetSpentError):
    """A device has used up its runs of this night. Work on other devices may go on."""

    def __init__(self) -> None:
        super().__init__("the device's runs of this night are used up; the next night goes on")


class Limits:
    """The limits of a night, which are checked before each run."""

    def __init__(self, config: NightlyConfig, *, begun: datetime, budget: float | None) -> None:
        """`budget` is the time for this start in seconds. It replaces the budget of the file."""
        seconds = budget if budget is not None else config.budget
        ends = [begun + timedelta(seconds=seconds)] if seconds is not None else []
        self.opened: datetime | None = None
        """The time at which the window opened; None where there is no window, or it is closed."""
        if config.window is not None:
            self.opened, closes = config.window.opening_at(begun) or (None, begun)
            ends.append(closes)
        self._end = min(ends, default=None)
        self._quota = {name: target.runs for name, target in config.platforms.items()}
        self._used: Counter[str] = Counter()

    def count_earlier_runs(self, runs: Mapping[str, int]) -> None:
        """Count the runs of earlier starts, by platform."""
        self._used.update(runs)

    def check(self) -> None:
        """Check that the night's time is not over. Raises `OutOfTimeError`."""
        if self._end is not None and datetime.now().astimezone() >= self._end:
            raise OutOfTimeError

    def remaining_seconds(self) -> float | None:
        """Return the seconds that are left, or None where the night has no end."""
        if self._end is None:
            return None
        return max(0.0, (self._end - datetime.now().astimezone()).total_seconds())

    def count_run(self, platform: str) -> None:
        """Count a run that is about to start.

        Raises `OutOfTimeError`, `QuotaSpentError`, and `BudgetSpentError` where the job no longer has the platform.
        """
        self.check()
        if platform not in self._quota:
            raise BudgetSpentError(
                f"the job no longer has platform {platform}; a night of a job that has it goes on"
            )
        quota = self._quota[platform]
        if quota is not None and self._used[platform] >= quota:
            raise QuotaSpentError
        self._used[platform] += 1


_MAX_EVIDENCE_LINES = 20
"""A run of the matrix keeps at most this many lines of evidence, because a store holds years of nights."""


class CaseRunner:
    """Builds and runs cells at any commit of the searched repository."""

    def __init__(
        self,
        *,
        config: NightlyConfig,
        stack: Stack,
        workspace: Workspace,
        prober: Prober,
        content: StackContent,
        journal: JobJournal,
        limits: Limits,
        directory: Path,
    ) -> None:
        self._config = config
        self._stack = stack
        self._prober = prober
        self.content = content
        self.workspace = workspace
        self.revisions = Revisions(
            stack, workspace.clones, fixed_revisions(stack, workspace.repositories, searched=stack.searched)
        )
        self._environment = EnvironmentReader(stack)
        self._journal = journal
        self._limits = limits
        self._directory = directory

    def complete(self, commit: str) -> dict[str, str]:
        """Return the commits of all repositories for a commit of the searched repository."""
        return self.revisions.complete({self._stack.searched: commit})

    def content_at(self, commit: str) -> str:
        """Return the key of all content that can change a result at a commit."""
        return self.content.revisions_key(self.complete(commit))

    def environment(self, cell: CellRow) -> str:
        """Return the fingerprint of the environment of a cell, as it was when this was first asked for."""
        return fingerprint(self._extend_surroundings(self._surroundings, cell))

    @cached_property
    def _surroundings(self) -> Mapping[str, str]:
        return self._environment.read(packages_path=self._prober.slot.packages_path())

    def _extend_surroundings(self, surroundings: Mapping[str, str], cell: CellRow) -> dict[str, str]:
        """Return surroundings with what else decides a run: the command, and variables that the stack file sets."""
        command = [*self._stack.case.command, *self._config.tolerances[cell.tolerance]]
        variables = self._stack.environment.variables
        return {
            **surroundings,
            "command of the case": shlex.join(command),
            **{f"stack file's {name}": value for name, value in variables.items()},
        }

    def run(self, night: int, cell: CellRow, commit: str) -> CaseRunRow:
        """Run a cell once and store the run. Raises `OutOfTimeError`, and `QuotaSpentError`."""
        self._limits.count_run(cell.platform)
        revisions: Mapping[str, str] = self.complete(commit)
        started = now()
        directory = self._directory / f"{cell.id}-{commit[:12]}-{started:%H%M%S%f}"
        result = self._prober.probe(
            ProbeRequest(
                revisions=revisions,
                case=CaseName.parse(question_case(self._config, cell), self._stack),
                platform=cell.platform,
                device=self._config.platforms[cell.platform].device,
                golden=None,
                judging_rule=JudgingRule.parse(Verdict.MISMATCH),
                options=RunOptions(),
                timeout=self._config.timeout or self._stack.limits.run_timeout,
                directory=directory,
            )
        )
        found = result.classification
        surroundings = self._extend_surroundings(result.surroundings, cell)
        return self._journal.runs.add(
            night,
            cell.id,
            CaseRun(
                started=started,
                commit=commit,
                revisions=revisions,
                content=self.content.revisions_key(revisions),
                verdict=found.verdict,
                signature=found.signature,
                metrics=found.metrics,
                evidence=[storable_text(text)[:1000] for text in evidence_texts(found.evidence)],
                device=self._config.platforms[cell.platform].device,
                host=result.host,
                build_source=result.build_source,
                build_seconds=result.build_seconds,
                run_seconds=result.run_seconds,
                fingerprint=fingerprint(surroundings),
                environment=surroundings,
                log=str(result.log),
            ),
        )


def evidence_texts(evidence: Sequence[Evidence]) -> list[str]:
    """Return the lines of evidence that a run of the matrix keeps.

    Where only the ending of the run decided, the first line also quotes the printed line that names a cause.
    """
    texts = [line.text for line in evidence[:_MAX_EVIDENCE_LINES]]
    if (cause := printed_cause(evidence)) is not None:
        texts[0] = f"{texts[0]}, it printed: {cause}"
    return texts


def result_log(result: CaseResultRow, runs: Sequence[CaseRunRow]) -> str | None:
    """Return the log of the run from which a cell's result of a night is taken. None where it passed or was not run.

    runs: the runs of the cell in that night.
    """
    if result.status is CaseStatus.PASSED:
        return None
    logs = [run.log for run in runs if run.commit == result.commit and run.verdict is result.verdict]
    return logs[-1] if logs else None


def judge_matrix_run(verdict: Verdict) -> Judgement:
    """Return the judgement of a run of the matrix. A run that reached no result is a skip.

    >>> judge_matrix_run(Verdict.UNKNOWN)
    <Judgement.SKIP: 'skip'>
    """
    if verdict is Verdict.PASS:
        return Judgement.GOOD
    return Judgement.BAD if verdict.traits.is_failure else Judgement.SKIP


def judged_run(run: CaseRunRow, bad_when: str) -> FinishedProbe:
    """Return a run of the matrix as a probe of the engine, judged for a regression that verdict `bad_when` opened."""
    judgement = judge_matrix_run(run.verdict)
    if run.verdict.traits.may_be_device and run.verdict != bad_when:
        judgement = Judgement.SKIP
    return FinishedProbe(
        number=run.id,
        content=run.content,
        phase=Phase.ENDPOINT,
        judgement=judgement,
        verdict=run.verdict,
        signature=run.signature,
        metrics=run.metrics,
        times=probe_times(run),
    )


def probe_times(run: CaseRunRow) -> ProbeTimes:
    """Return the times of a run of the matrix."""
    return ProbeTimes(
        build_source=BuildSource(run.build_source),
        build_seconds=run.build_seconds,
        run_seconds=run.run_seconds,
    )


def question_case(config: NightlyConfig, cell: CellRow) -> str:
    """Return the case with the arguments of its tolerance, as `--case` takes it."""
    arguments = shlex.join(config.tolerances[cell.tolerance])
    return f"{cell.case} {arguments}".strip()
