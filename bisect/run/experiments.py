"""Probes through the journal: what is finished is read back, what is missing is run, nothing is run twice."""

import itertools
import time
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from ...runner.case.case import RunOptions
from ...runner.case.golden import FrozenGolden
from ...runner.git.revisions import Revisions
from ...runner.probe.records import ProbeRequest, ProbeResult
from ...runner.probe.workers.pool import Lost
from ...runner.probe.workers.worker import Activity, Done
from ...runner.verdict.bad_when import BadWhen
from ...runner.workspace.content import StackContent
from ...runner.workspace.environment import fingerprint, moved
from ...store.journal import Journal, ProbeKey, ProbeOutcome
from ...store.tables.bisections import ProbeRow
from ...store.vocabulary import Evidence, Judgement, Phase, Verdict
from ..plan.request import BisectRequest
from .company import BudgetSpentError, Company, Workers
from .costs import was_built
from .error_scale import ErrorScale, error_size
from .progress import Progress

_LEAST_TIMEOUT = 60.0
_TIMES_THE_ENDS = 10


@dataclass(frozen=True, kw_only=True)
class Experiment:
    """One commit of the searched repository, with the revisions that go with it. Equal `content` is one experiment."""

    stage: int
    repository: str
    commit: str
    revisions: Mapping[str, str]
    content: str


@dataclass(frozen=True, kw_only=True)
class Flight:
    """A run that a worker is at, or that waits for one."""

    ordinal: int
    experiment: Experiment
    key: ProbeKey
    request: ProbeRequest


class Experiments:
    """All runs of one bisection, finished and to come."""

    def __init__(
        self,
        *,
        request: BisectRequest,
        journal: Journal,
        crew: Workers,
        revisions: Revisions,
        content: StackContent,
        directory: Path,
        progress: Progress,
        deadline: float | None,
        company: Company,
    ) -> None:
        """`deadline` is a time of `time.monotonic`, after which no probe starts or goes on."""
        self.company = company
        self._request = request
        self._journal = journal
        self._crew = crew
        self._revisions = revisions
        self._content = content
        self._directory = directory
        self._progress = progress
        self._case = request.script
        self._bad_when = BadWhen.parse(request.bad_when) if request.bad_when is not None else None
        self._golden: FrozenGolden | None = None
        self._scale: ErrorScale | None = None
        self._failing_content: str | None = None
        self._finished: dict[str, list[ProbeRow]] = {}
        self._in_flight: dict[int, Flight] = {}
        """By the crew's number."""
        self._deadline = deadline
        self._surroundings: dict[str | None, Mapping[str, str]] = {}
        """The last seen, by host."""
        for probe in journal.probes():
            self._keep(probe)

    @property
    def case(self) -> str | None:
        """The failing case's name; None where the stack's command is the whole case."""
        return self._request.case

    def use_golden(self, golden: FrozenGolden) -> None:
        """Every run from now on gets this data."""
        self._golden = golden

    def use_error_scale(self, failing: Experiment) -> None:
        """From now on a mismatch whose error has not the size of those at the failing end is not taken for bad."""
        if self._bad_when is None or self._bad_when.verdict is not Verdict.MISMATCH:
            return
        runs = (probe for probe in self.finished(failing.content) if probe.phase is Phase.ENDPOINT)
        self._scale = ErrorScale.of(
            [probe.metrics or {} for probe in runs if probe.judgement is Judgement.BAD]
        )
        self._failing_content = failing.content

    def _told_apart(self, experiment: Experiment, result: ProbeResult) -> ProbeResult:
        """The result; a skip with a signature of its own where it is another failure than the failing end's."""
        found, scale = result.classification, self._scale
        if (
            scale is None
            or result.judgement is not Judgement.BAD
            or experiment.content == self._failing_content
        ):
            return result
        size = error_size(found.metrics, scale.measure)
        if size is None or not scale.is_other(found.metrics):
            return result
        why = f"another failure: at the failing end it is {scale}"
        evidence = Evidence(stream="ending", line=0, text=str(size), why=why)
        other = replace(
            found, signature=f"{found.signature or 'mismatch'}, {size}", evidence=(evidence, *found.evidence)
        )
        return replace(result, classification=other, judgement=Judgement.SKIP)

    def at(self, stage: int, repository: str, commit: str, held: Mapping[str, str]) -> Experiment:
        """The experiment at a commit, with the repositories in `held` kept where they are.

        Raises `NoPinError` where the commit pins no submodule.
        """
        revisions = self._revisions.complete({**held, repository: commit})
        return Experiment(
            stage=stage,
            repository=repository,
            commit=commit,
            revisions=revisions,
            content=self._content.of_revisions(revisions),
        )

    def finished(self, content: str) -> list[ProbeRow]:
        """The runs of some content, in order."""
        return self._finished.get(content, [])

    def in_order(self) -> list[ProbeRow]:
        """All finished runs, as they were started."""
        return sorted(
            (probe for probes in self._finished.values() for probe in probes), key=lambda probe: probe.ordinal
        )

    def tally(self, content: str) -> Counter[Judgement]:
        """How often some content was good, bad, and could not be judged."""
        return Counter(probe.judgement for probe in self.finished(content) if probe.judgement is not None)

    def failures_where_bad(self) -> tuple[int, int]:
        """Failures and judged runs, over all that failed at least once: how surely a bad commit fails."""
        tallies = [self.tally(content) for content in self._finished]
        bad = [tally for tally in tallies if tally[Judgement.BAD]]
        failures = sum(tally[Judgement.BAD] for tally in bad)
        return failures, failures + sum(tally[Judgement.GOOD] for tally in bad)

    def build_directory(self, probe: ProbeRow) -> Path | None:
        """The build directory that a run left, if it is still there."""
        path = self._probe_directory(probe.ordinal) / "build"
        return path if path.is_dir() else None

    def ensure(
        self, experiment: Experiment, phase: Phase, *, runs: int, save_golden: bool = False
    ) -> list[ProbeRow]:
        """The first `runs` runs of an experiment; those that are not finished are made now."""
        while len(self.finished(experiment.content)) < runs:
            self.run(experiment, phase, save_golden=save_golden)
        return self.finished(experiment.content)[:runs]

    def run(self, experiment: Experiment, phase: Phase, *, save_golden: bool = False) -> ProbeRow:
        """Make the next run of an experiment, and wait for it. Raises `BudgetSpentError`."""
        flight = self.begin(experiment, phase, save_golden=save_golden)
        while True:
            probe = self.wait()
            if probe.ordinal == flight.ordinal:
                return probe

    def begin(self, experiment: Experiment, phase: Phase, *, save_golden: bool = False) -> Flight:
        """Start the next run of an experiment. Raises `BudgetSpentError`."""
        self._check_budget()
        try:
            self.company.permit()
        except BudgetSpentError:
            self._cancel_all()
            raise
        taken = {probe.run for probe in self.finished(experiment.content)}
        taken |= {each.key.run for each in self.in_flight() if each.key.content == experiment.content}
        key = ProbeKey(
            stage=experiment.stage,
            phase=phase,
            repository=experiment.repository,
            commit=experiment.commit,
            revisions=experiment.revisions,
            content=experiment.content,
            run=next(run for run in itertools.count(1) if run not in taken),
        )
        ordinal = self._journal.start_probe(key)
        request = ProbeRequest(
            revisions=experiment.revisions,
            case=self._case,
            platform=self._request.platform,
            device=self._request.device,
            golden=self._golden,
            bad_when=self._bad_when,
            options=RunOptions(
                golden_data=self._golden.directory if self._golden else None,
                save_data=save_golden,
                runtime_dir=self._request.frozen_runtime_dir,
            ),
            timeout=self._timeout(),
            directory=self._probe_directory(ordinal),
        )
        flight = Flight(ordinal=ordinal, experiment=experiment, key=key, request=request)
        self._progress.probe_started(ordinal, phase, experiment.repository, experiment.commit)
        self._in_flight[self._crew.begin(request)] = flight
        return flight

    @property
    def workers(self) -> int:
        """How many runs can be under way at once."""
        return self._crew.jobs

    def in_flight(self) -> list[Flight]:
        """The runs that were begun and have neither finished nor been cancelled, in the order of their start."""
        return list(self._in_flight.values())

    def cancel(self, flight: Flight) -> None:
        """Kill a run that has lost its value. It never counts."""
        (number,) = [number for number, each in self._in_flight.items() if each is flight]
        del self._in_flight[number]
        self._crew.cancel(number)
        self._journal.cancel_probe(flight.ordinal)
        self._progress.probe_cancelled(flight.ordinal)

    def wait(self) -> ProbeRow:
        """Wait until a run of those in flight is finished, and stored. Raises `BudgetSpentError`."""
        while True:
            self._check_budget()
            left = None if self._deadline is None else max(0.0, self._deadline - time.monotonic())
            match self._crew.next_event(timeout=left):
                case Done(number=number, result=result) if result is not None:
                    return self._finish(self._in_flight.pop(number), result)
                case Lost(number=number):
                    flight = self._in_flight.pop(number)
                    self._notice(f"a worker was killed in run {flight.ordinal}: it is made again")
                    self._journal.start_probe(flight.key)
                    self._in_flight[self._crew.begin(flight.request)] = flight
                case Activity(number=number, slot=slot, text=text):
                    self._progress.activity(self._in_flight[number].ordinal, slot, text)
                case _:
                    pass

    def _check_budget(self) -> None:
        if self._deadline is not None and time.monotonic() >= self._deadline:
            self._cancel_all()
            raise BudgetSpentError("its budget is spent; --resume goes on")

    def _cancel_all(self) -> None:
        for flight in self.in_flight():
            self.cancel(flight)

    def _finish(self, flight: Flight, result: ProbeResult) -> ProbeRow:
        experiment = flight.experiment
        result = self._told_apart(experiment, result)
        self._watch_environment(result)
        for option in result.missing_options:
            self._notice(f"the case has no option for {option} at {experiment.commit[:12]}: it ran without")
        self._journal.finish_probe(flight.ordinal, _row(result))
        self._progress.probe_finished(flight.ordinal, result)
        probe = self._journal.probe(flight.ordinal)
        self._keep(probe)
        return probe

    def _keep(self, probe: ProbeRow) -> None:
        self._finished.setdefault(probe.content, []).append(probe)
        if was_built(probe):
            self.company.built.add(probe.content)

    def _probe_directory(self, ordinal: int) -> Path:
        return self._directory / "probes" / f"{ordinal:04d}"

    def _timeout(self) -> float:
        """Ten times the longest run at an end, unless the user said."""
        if self._request.timeout is not None:
            return self._request.timeout
        ends = [
            probe.run_seconds
            for probes in self._finished.values()
            for probe in probes
            if probe.phase is Phase.ENDPOINT and probe.run_seconds
        ]
        if not ends:
            return self._request.stack.limits.run_timeout
        return max(_LEAST_TIMEOUT, _TIMES_THE_ENDS * max(ends))

    def _watch_environment(self, result: ProbeResult) -> None:
        if result.host not in self._surroundings:
            known = next(
                (
                    probe.environment.details
                    for probe in self.in_order()
                    if probe.environment and probe.host == result.host
                ),
                result.surroundings,
            )
            self._surroundings[result.host] = known
        for change in moved(self._surroundings[result.host], result.surroundings):
            self._notice(f"the environment moved within the bisection: {change}")
        self._surroundings[result.host] = result.surroundings

    def _notice(self, text: str) -> None:
        self._journal.add_notice(text)
        self._progress.notice(text)


def _row(result: ProbeResult) -> ProbeOutcome:
    found = result.classification
    artifacts = {"log": result.log, "build_directory": result.build_directory}
    ending = result.ending
    return ProbeOutcome(
        verdict=found.verdict,
        judgement=result.judgement,
        signature=found.signature,
        metrics=found.metrics,
        exit_code=ending.exit_code if ending.signal is None else -ending.signal,
        evidence=[
            Evidence(stream=line.stream, line=line.line, text=line.text, why=line.why)
            for line in found.evidence
        ],
        build_key=result.toolchain.key if result.toolchain else None,
        build_source=result.build_source,
        build_seconds=result.build_seconds,
        build_steps=result.toolchain.step_seconds if result.toolchain else {},
        run_seconds=result.run_seconds,
        fingerprint=fingerprint(result.surroundings),
        environment=result.surroundings,
        slot=result.slot,
        host=result.host,
        command=result.command,
        artifacts={kind: (str(path), _bytes(path)) for kind, path in artifacts.items() if path is not None},
    )


def _bytes(path: Path) -> int:
    if path.is_file():
        return path.stat().st_size
    return sum(file.stat().st_size for file in path.rglob("*") if file.is_file())
