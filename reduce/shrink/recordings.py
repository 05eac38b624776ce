"""Records the two builds that are reduced together, and says what the failure is that is looked for."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from ...runner.case.golden import FrozenGolden
from ...runner.compare.statistics.statistics import Tolerance
from ...runner.errors import UserError
from ..replay.toolchain import Toolchain
from ..replay.working_copy import WorkingCopy
from .oracle.failure import BROKEN, Broken, Failure, Printed, WrongValues
from .program.extract.recording import Attempt, Recorder, Recording
from .program.made_build import take_kernel
from .program.pair import BuildPair
from .shrinker import MOST_RUNS

_LEAST_TIMEOUT, _TIMES_THE_GOOD_RUN = 60.0, 10
"""Seconds for a failing run, and how often the time that the good build took: beyond both a kernel never returns."""


@dataclass(frozen=True, kw_only=True)
class RecordedPair:
    """`first_wrong` is the first task of the failing run that went wrong, where that is known."""

    pair: BuildPair
    failure: Failure
    first_wrong: int | None
    reason: str


@dataclass(frozen=True, kw_only=True)
class PairRecorder:
    """Below `folder`; `printed` replaces the verdict as what counts as the failure, `any_failure` says that a script
    decides. `timeout` is seconds a run."""

    failing: Path
    reference: Path | None
    failing_toolchain: Toolchain
    reference_toolchain: Toolchain
    golden: FrozenGolden
    folder: Path
    timeout: float
    tolerance: Tolerance
    printed: Printed | None
    any_failure: bool
    on_progress: Callable[[str], None]

    def record(self) -> RecordedPair:
        """Runs both builds, the failing one until it fails.

        Raises:
            UserError: a build cannot be run, or the failing one does not fail.
            BuildOutputError: a part of a build, or what it recorded, cannot be read.
        """
        if self.reference is None:
            return self._golden_alone()
        self.on_progress("recording the reference")
        reference = self._recorder(self.reference, "reference").record()
        limit = min(self.timeout, max(_LEAST_TIMEOUT, _TIMES_THE_GOOD_RUN * reference.seconds))
        for attempt, copy in self._attempts(limit):
            if not attempt.compared or self.printed is not None:
                return self._broken(attempt, reference, copy)
            assert attempt.recording is not None
            pair = BuildPair(failing=attempt.recording, reference=reference)
            if pair.diverged or self.any_failure:
                return _values(pair, "the good build's")
        raise UserError(
            f"{self.failing}: expected a run in which a task leaves other values than in the reference, found "
            f"{self._tried} in which none does"
        )

    def _golden_alone(self) -> RecordedPair:
        for attempt, _ in self._attempts(self.timeout):
            if attempt.recording is None or not attempt.compared:
                raise UserError(
                    f"{self.failing}: expected its outputs compared, found {attempt.verdict.value}: "
                    f"{attempt.why[:200]}; such a failure is reduced against a good build only (--reference)"
                )
            pair = BuildPair(failing=attempt.recording, reference=attempt.recording, golden=self.tolerance)
            if pair.diverged or self.any_failure or self.printed is not None:
                recorded = _values(pair, "the golden data")
                return recorded if self.printed is None else replace(recorded, failure=self.printed)
        raise UserError(
            f"{self.failing}: expected a run whose outputs miss the golden data, found {self._tried} that do not"
        )

    def _attempts(self, timeout: float) -> Iterator[tuple[Attempt, WorkingCopy]]:
        """Runs of the failing build as it is; then, should none of them fail, one under each schedule of the stack,
        unless one was asked for. Each with the build's copy: what is recorded under a schedule is reduced under it."""
        failing = replace(self._recorder(self.failing, "failing"), timeout=timeout)
        for number in range(MOST_RUNS):
            self.on_progress(f"recording the failing build (attempt {number + 1})")
            yield failing.attempt(number), failing.copy
        for number, schedule in enumerate(self._schedules, start=MOST_RUNS):
            self.on_progress(f"recording the failing build under schedule {schedule}")
            ordered = replace(failing, toolchain=failing.toolchain.under(schedule))
            yield ordered.attempt(number), ordered.copy

    @property
    def _schedules(self) -> Sequence[str]:
        """In which else the failing build is tried."""
        asked = self.failing_toolchain.schedule is not None
        return () if asked else tuple(self.failing_toolchain.stack.schedules)

    @property
    def _tried(self) -> str:
        """The runs that were made, in words."""
        ordered = f", and one under each of {', '.join(self._schedules)}," if self._schedules else ""
        return f"{MOST_RUNS}{ordered}"

    def _broken(self, attempt: Attempt, reference: Recording, copy: WorkingCopy) -> RecordedPair:
        if self.printed is None and not self.any_failure and attempt.verdict not in BROKEN:
            raise UserError(
                f"{self.failing}: expected a failure of the build, found {attempt.verdict.value}: "
                f"{attempt.why[:200]}; say what counts with --fail-regex or --fail-code"
            )
        failure = self.printed or Broken(attempt.verdict, attempt.signature)
        if attempt.recording is not None:
            pair = BuildPair(failing=attempt.recording, reference=reference)
            first = pair.first_unfinished
            where = "" if first is None else f" The first task that did not end is {pair.named(first)}."
            return RecordedPair(
                pair=pair, failure=failure, first_wrong=first, reason=f"It ends with {failure.text}.{where}"
            )
        # Nothing tells what the failing build submits: its kernels are put into the reference's program.
        pair = BuildPair(failing=self._hybrid(reference, copy), reference=reference)
        return RecordedPair(
            pair=pair,
            failure=failure,
            first_wrong=None,
            reason=f"It ends with {failure.text}, as the good build's tasks do with the failing build's kernels.",
        )

    def _hybrid(self, reference: Recording, copy: WorkingCopy) -> Recording:
        path = self.folder / "failing" / "hybrid"
        WorkingCopy(path).discard()
        hybrid = WorkingCopy.of(reference.copy.path, path)
        for kernel in copy.build().kernel_config().kernels.values():
            take_kernel(kernel.name, copy, hybrid)
        return replace(reference, copy=hybrid, toolchain=self.failing_toolchain)

    def _recorder(self, build: Path, name: str) -> Recorder:
        return Recorder(
            build=build.resolve(),
            data=self.golden.directory,
            toolchain=self.failing_toolchain if name == "failing" else self.reference_toolchain,
            folder=self.folder / name,
            timeout=self.timeout,
        )


def _values(pair: BuildPair, what: str) -> RecordedPair:
    first = pair.first_wrong
    if first is None:
        reason = "No value is known to be wrong."
    elif first in pair.missing:
        reason = f"It does not submit {pair.named(first)}."
    elif first in pair.both.extra:
        reason = f"The good build does not submit {pair.named(first)}."
    elif first in pair.both.moved:
        reason = (
            f"The first task that leaves its results elsewhere than in the good build is {pair.named(first)}."
        )
    else:
        reason = f"The first task whose results differ from {what} is {pair.named(first)}."
    return RecordedPair(pair=pair, failure=WrongValues(pair), first_wrong=first, reason=reason)
