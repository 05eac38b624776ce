"""One bisection and its effects: the store, the private clones, the golden data, the view.

`DrivenBisection` does what the engine needs; only its probes are run elsewhere. `EnvironmentWatch` notices that a host
changed between two probes. `judge_for_store` judges a run anew by what the failing end shows. The functions after it
translate between the store's rows and the engine's values.
"""

from __future__ import annotations

import itertools
import time
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field, replace
from pathlib import Path

from ...runner.case.case import (
    FrozenGolden,
    RunOptions,
    freeze,
    load_frozen,
    load_reader,
)
from ...runner.errors import UserError
from ...runner.probe.judge import describe_failure
from ...runner.probe.probe import ProbeRequest, ProbeResult
from ...runner.verdict.rules import CompilerError, error_size
from ...runner.verdict.symptoms import Family, Symptoms
from ...runner.workspace.environment import description_changes, fingerprint
from ...runner.workspace.home import Home
from ...runner.workspace.slot import Workspace
from ...store.bisections import BisectionJournal, ProbeOutcome, ProbeStart
from ...store.durable_files import entries_below
from ...store.tables import ProbeRow
from ...store.vocabulary import (
    Commit,
    Evidence,
    Judgement,
    Phase,
    Verdict,
    VerdictSource,
    duration,
    plural,
)
from ..ask.earlier_runs import build_in_slot, finished_probe, reusable_probes, sort_by_end
from ..ask.ends import content_and_revisions
from ..ask.question import BisectRequest, engine_question
from ..engine.answer import Conclusion
from ..engine.bisection import (
    Bisection,
    DataFrozen,
    ProbeFinished,
    ProbesCancelled,
    ProbeStarted,
    QuestionAnswered,
)
from ..engine.failures import passing_symptoms
from ..engine.range_search import Context
from ..engine.runs import (
    ConfirmationProgress,
    FinishedProbe,
    GivenData,
    GoodEnd,
    Needs,
    Note,
    Notice,
    ProbeLog,
    RunningProbe,
    SavedData,
    SearchProgress,
    WantedProbe,
)
from ..engine.trouble import unjudgeable_runs
from ..history.loader import HistoryReader, record_range
from ..history.questions import AskRange, HistoryQuestion
from ..history.range import LoadedRange, SlotBuild, Target
from .loop import ProbeInFlight
from .progress import Progress, StartedProbe, represented_end, rerun_reason

_MAX_EARLIER_BISECTIONS = 8
"""Build times are learned from this many earlier bisections. Only the newest count, because machines and compilers
change."""


@dataclass(kw_only=True, eq=False)
class DrivenBisection:
    """A bisection that is being driven. The caller runs its probes.

    Each event is written to the store before the bisection hears of it.
    """

    request: BisectRequest
    journal: BisectionJournal
    workspace: Workspace
    history: HistoryReader
    directory: Path
    """The folder of the bisection, which has one folder for each probe."""
    golden_store: Path
    progress: Progress
    resources: ExitStack
    """The caller closes this when the bisection is no longer driven."""
    environments: EnvironmentWatch
    golden: FrozenGolden | None
    """The data that all probes share, once they are frozen."""
    bisection: Bisection
    resumed_stages: frozenset[int]
    """The stages that already had runs when this bisection was opened. A stage is the store's row of a range."""
    run_numbers: defaultdict[str, set[int]]
    """The numbers of the finished and running runs of each content."""
    _running: dict[int, ProbeStart] = field(default_factory=dict[int, ProbeStart], init=False)
    """The store's description of each running probe, by the probe's number."""
    _stages: dict[int, int] = field(default_factory=dict[int, int], init=False)
    """The stage of each range, by the range's ordinal."""

    @classmethod
    def open(
        cls,
        *,
        request: BisectRequest,
        journal: BisectionJournal,
        workspace: Workspace,
        home: Home,
        directory: Path,
        progress: Progress,
        resources: ExitStack,
        planned: LoadedRange | None = None,
    ) -> DrivenBisection:
        """Return the bisection with the runs that the store has of it.

        `planned` is the range of the request, if it was loaded before. Raises `UserError` where the golden data of an
        earlier start are gone or changed.
        """
        content, revisions = content_and_revisions(request, workspace)
        stored = journal.probes.finished_probes()
        run_numbers = defaultdict[str, set[int]](set)
        for row in stored:
            run_numbers[row.content].add(row.run)
        digest = journal.row().golden
        golden = None if digest is None else load_frozen(digest, home.golden)
        picks = [pick.commit for pick in request.cherry_picks]
        journal.commits.add(request.repository, workspace.clones[request.repository].read_commits(picks))
        return cls(
            request=request,
            journal=journal,
            workspace=workspace,
            history=HistoryReader(
                request, workspace=workspace, content=content, revisions=revisions, planned=planned
            ),
            directory=directory,
            golden_store=home.golden,
            progress=progress,
            resources=resources,
            environments=EnvironmentWatch(
                (row.host, row.environment.details) for row in sort_by_end(stored) if row.environment
            ),
            golden=golden,
            bisection=Bisection.start(
                engine_question(request), log=_log_of_rows(stored, directory), frozen=golden is not None
            ),
            resumed_stages=frozenset(row.stage_id for row in stored),
            run_numbers=run_numbers,
        )

    def settle(self, context: Context) -> Needs | Conclusion:
        """Go on until probes have to be started, cancelled or awaited, or until the conclusion.

        Raises:
            EndsError: the ends do not differ.
            UserError: an end cannot be judged, or a history does not hold what is needed.
        """
        while True:
            self.bisection, needs = self.bisection.next(context)
            if isinstance(needs, Conclusion):
                self._describe_commits(needs)
                return needs
            if not needs.load and needs.freeze is None:
                return needs
            self.record_round(self.bisection, needs, ())
            for question in needs.load:
                self._answer(question)
            if needs.freeze is not None:
                self._freeze(needs.freeze)

    def _describe_commits(self, conclusion: Conclusion) -> None:
        """Store what git says of the commits that an answer names."""
        named: dict[str, list[str]] = {}
        for each in (*conclusion.culprits, *conclusion.suspects, conclusion.through, conclusion.lost):
            if each is not None:
                named.setdefault(each.repository, []).append(each.commit)
        for repository, shas in named.items():
            self.journal.commits.add(repository, self.workspace.clones[repository].read_commits(shas))

    def record_start(self, wanted: WantedProbe) -> ProbeInFlight:
        """Record in the store that a probe starts. Return it with the request for a worker."""
        target = wanted.target
        revisions = self.history.revisions_of(target)
        start = ProbeStart(
            stage=self._stage(wanted),
            phase=wanted.phase,
            repository=target.repository,
            commit=target.commit,
            revisions=revisions,
            content=target.content,
            run=self._take_run_number(target.content),
        )
        number = self.journal.probes.start(start, self._commit_of(wanted))
        self._running[number] = start
        if wanted.save_golden:
            self.resources.callback(load_reader().join)
        request = self._request(wanted, number, revisions)
        running = RunningProbe(number=number, wanted=wanted)
        self.bisection = self.bisection.apply_event(ProbeStarted(running))
        return ProbeInFlight(running=running, request=request)

    def _commit_of(self, wanted: WantedProbe) -> Commit:
        return self.workspace.clones[wanted.target.repository].commit(wanted.target.commit)

    def record_round(self, bisection: Bisection, needs: Needs, started: Sequence[ProbeInFlight]) -> None:
        """Show a round, and keep its notices and its good end in the store.

        `bisection` is the bisection before the round, and `started` are the probes that were started for its needs.
        """
        self.progress.show_state(bisection)
        self._handle_notes(needs.notes)
        for probe in started:
            self._show_start(probe.running)

    def _show_start(self, running: RunningProbe) -> None:
        wanted, commit = running.wanted, self._commit_of(running.wanted)
        self.progress.probe_started(
            StartedProbe(
                ordinal=running.number,
                phase=wanted.phase,
                repository=wanted.target.repository,
                commit=wanted.target.commit,
                subject=commit.subject,
                date=None if commit.is_generated else commit.date,
                rerun_reason=rerun_reason(self.bisection.known, wanted),
                stands_for=represented_end(self.bisection.state.search, wanted),
            )
        )
        self.progress.show_state(self.bisection)

    def _take_run_number(self, content: str) -> int:
        """Return the smallest free number of a run of some content. It is no longer free."""
        taken = self.run_numbers[content]
        number = next(number for number in itertools.count(1) if number not in taken)
        taken.add(number)
        return number

    def _request(self, wanted: WantedProbe, number: int, revisions: Mapping[str, str]) -> ProbeRequest:
        request, golden = self.request, self.golden
        return ProbeRequest(
            revisions=revisions,
            case=request.script,
            platform=request.platform,
            device=request.device,
            golden=golden,
            judging_rule=request.judging_rule,
            options=RunOptions(
                golden_data=golden.directory if golden else None,
                save_data=wanted.save_golden,
                runtime_dir=request.frozen_runtime_dir,
            ),
            timeout=run_timeout(
                self.bisection.known.log.ended,
                asked=request.timeout,
                default=request.stack.limits.run_timeout,
            ),
            directory=probe_directory(self.directory, number),
            by_hand=request.interactive,
            avoid=wanted.avoid,
        )

    def build_request(self, probe: ProbeInFlight, target: Target) -> ProbeRequest:
        """Return a request to build a target in advance. It is based on the request of `probe`."""
        revisions = self.history.revisions_of(target)
        return replace(probe.request, revisions=revisions, golden=None, directory=self.directory / "ahead")

    def show_wait(self, why: str) -> None:
        """Show why a probe cannot begin."""
        self.progress.notice(why)

    def record_restart(self, probe: ProbeInFlight, why: str) -> None:
        """Record that a probe is started anew."""
        self.notice(f"{why}: it is made again")
        self.journal.probes.start(self._running[probe.running.number])

    def finish(self, probe: ProbeInFlight, result: ProbeResult) -> None:
        """Store the result of a probe, and report it to the bisection."""
        number, target = probe.running.number, probe.running.wanted.target
        result = judge_for_store(self.bisection, target.content, result)
        for sentence in self._result_notices(target, result):
            self.notice(sentence)
        golden_data = self.golden.directory if self.golden else None
        outcome = _probe_outcome(result, golden_data=golden_data)
        self.journal.probes.finish(number, outcome)
        del self._running[number]
        self.progress.probe_finished(number, result)
        self._count(self.journal.probes.get(number))

    def _result_notices(self, target: Target, result: ProbeResult) -> Iterator[str]:
        """Yield sentences about the host of a run, and about options that its case does not have."""
        yield from self.environments.changes(result.host, result.surroundings)
        if wrong := self.environments.wrong_clock(result.host, result.clock):
            yield wrong
        if result.toolchain is not None and result.toolchain.trouble is not None:
            yield f"builds are not shared with {result.host} now: {result.toolchain.trouble}"
        for option in result.missing_options:
            yield f"the case has no option for {option} at {target.commit[:12]}: it ran without"

    def _count(self, stored: ProbeRow) -> None:
        """Let a finished probe of the store count in the bisection."""
        self.bisection = self.bisection.apply_event(
            ProbeFinished(_finished_with_kernels(stored, self.directory))
        )

    def cancel(self, probe: ProbeInFlight) -> None:
        """Record that a probe was stopped because its result is no longer needed. It never counts."""
        number = probe.running.number
        start = self._running.pop(number)
        self.run_numbers[start.content].discard(start.run)
        self.journal.probes.cancel(number)
        self.progress.probe_cancelled(number)
        self.bisection = self.bisection.apply_event(ProbesCancelled((number,)))

    def show_activity(self, probe: ProbeInFlight, place: str, text: str) -> None:
        """Show what a worker does for a probe."""
        self.progress.show_activity(probe.running.number, place, text)

    def notice(self, text: str) -> None:
        """Keep a sentence for the report, and show it."""
        self.journal.add_notice(text)
        self.progress.notice(text)

    def _handle_notes(self, notes: Iterable[Note]) -> None:
        for note in notes:
            match note:
                case SearchProgress():
                    self.progress.show_remaining(note)
                case ConfirmationProgress():
                    self.progress.show_confirmation(note)
                case Notice():
                    self.notice(note.text)
                case GoodEnd():
                    self.journal.set_good(note.commit)

    def _answer(self, question: HistoryQuestion) -> None:
        answer = self.history.answer(question)
        if isinstance(question, AskRange) and isinstance(answer, LoadedRange):
            answer = replace(
                answer,
                earlier_skips=self._earlier_skips(answer),
                earlier_builds=self._earlier_builds(answer),
            )
            self._open_range(question, answer)
        self.bisection = self.bisection.apply_event(QuestionAnswered(question, answer))

    def _earlier_skips(self, loaded: LoadedRange) -> dict[str, tuple[CompilerError, ...]]:
        """Return the errors of the contents that other bisections could not compile."""
        contents = {*filter(None, loaded.candidate_contents)}
        stored = self.journal.probes.last_probes_in_other_bisections(contents)
        skips = {row.content: finished_probe(row).errors for row in stored}
        return {content: errors for content, errors in skips.items() if errors}

    def _earlier_builds(self, loaded: LoadedRange) -> tuple[tuple[SlotBuild, ...], ...]:
        """Return what probes of other bisections left in their slots, one row for each bisection."""
        bisections = self.journal.probes.probes_by_bisection(
            {*loaded.node_of_content}, limit=_MAX_EARLIER_BISECTIONS
        )
        return tuple(tuple(filter(None, map(build_in_slot, rows))) for rows in bisections)

    def _open_range(self, asked: AskRange, loaded: LoadedRange) -> None:
        """Store a range and its commits, and show it."""
        search_range = asked.range
        clone = self.workspace.clones[search_range.repository]
        self.journal.commits.add(
            search_range.repository, clone.read_commits([search_range.old, search_range.new])
        )
        if not asked.reads_on:
            self.progress.show_range(
                search_range.repository, commits=loaded.commit_count, candidates=loaded.candidate_count
            )
        stage = record_range(self.journal, loaded, asked.ordinal, replaces=asked.reads_on)
        self._stages[asked.ordinal] = stage
        if stage not in self.resumed_stages:
            # Runs of what was read before count already.
            known = {content for content, numbers in self.run_numbers.items() if asked.reads_on and numbers}
            self._reuse_runs(stage, loaded, without=known)

    def _reuse_runs(self, stage: int, loaded: LoadedRange, *, without: Collection[str]) -> None:
        """Count the runs of this range by bisections that asked the same, except those of some contents."""
        reusable = reusable_probes(self.request, loaded, self.journal.earlier_runs)
        probes = [probe for probe in reusable if probe.content not in without]
        if not probes:
            return
        ends = (loaded.old_content, loaded.new_content)
        phases = [
            Phase.SEARCH if probe.phase is Phase.ENDPOINT and probe.content not in ends else probe.phase
            for probe in probes
        ]
        for number in self.journal.probes.reuse(stage, zip(probes, phases, strict=True)):
            copy = self.journal.probes.get(number)
            self.run_numbers[copy.content].add(copy.run)
            self._count(copy)
        names = ", ".join(dict.fromkeys(probe.bisection.name for probe in probes))
        self.notice(
            f"{plural(len(probes), 'run')} of {names} count here, which asked the same; --fresh runs all anew"
        )

    def _stage(self, wanted: WantedProbe) -> int:
        """Return the stage of a probe. A range whose good end is still searched for is stored without candidates."""
        if wanted.range in self._stages:
            return self._stages[wanted.range]
        search_range = self.bisection.known.question.range
        return self.journal.stages.record(
            ordinal=wanted.range,
            repository=search_range.repository,
            seeks=search_range.seeks,
            old=search_range.old,
            new=search_range.new,
            held=search_range.held,
            candidates=(),
        )

    def _freeze(self, source: GivenData | SavedData) -> None:
        """Freeze the data that the user named, or those that a probe of the good end saved. Raises `UserError`."""
        if isinstance(source, GivenData):
            assert self.request.golden_data is not None
            data = self.request.golden_data
        else:
            build = probe_directory(self.directory, source.probe) / "build"
            if not build.is_dir():
                raise UserError(
                    f"good {source.commit[:12]}: expected the run to leave a build directory with data/in and "
                    "data/out, found none; name frozen data with --golden-data DIR"
                )
            data = build / "data"
        self.golden = freeze(data, self.golden_store)
        self.journal.set_golden(self.golden.digest)
        self.bisection = self.bisection.apply_event(DataFrozen())


_MIN_TIMEOUT = 60.0
"""A run has at least this many seconds. The ends of a short case say little about a busy machine."""
_RUN_MULTIPLE = 10
"""A run may take this many times as long as the longest one before it. After that it counts as a hang."""


def run_timeout(finished: Iterable[FinishedProbe], *, asked: float | None, default: float) -> float:
    """Return the seconds for the next run.

    They are `asked` where the user gave them. Otherwise they are ten times the seconds of the longest run that counts.
    Without such a run they are `default`.

    1. A run that was stopped at its limit does not count, because each such run would raise the limit tenfold.
    2. Each other run of an end of the range counts.
    3. A run of another commit counts if it was judged and did not end early. The ends may have cached builds.
    """
    if asked is not None:
        return asked
    ended = [
        probe.times.run_seconds
        for probe in finished
        if (probe.phase is Phase.ENDPOINT and probe.verdict is not Verdict.TIMEOUT)
        or (probe.judgement is not Judgement.SKIP and not probe.verdict.traits.ends_early)
    ]
    return max(_MIN_TIMEOUT, _RUN_MULTIPLE * max(ended)) if any(ended) else default


_MAX_CLOCK_DIFFERENCE = 600.0
"""Clocks may differ by this many seconds. A smaller difference may be the time that a result took to arrive."""


class EnvironmentWatch:
    """Remembers the last environment of each host, to notice that it changed."""

    def __init__(self, earlier: Iterable[tuple[str | None, Mapping[str, str]]] = ()) -> None:
        """`earlier` gives host and environment of the probes of earlier starts, in the order in which they ended."""
        self._last: dict[str | None, Mapping[str, str]] = {}
        self._hosts_with_wrong_clock: set[str | None] = set()
        for host, environment in earlier:
            self._last[host] = environment

    def wrong_clock(self, host: str | None, clock: float) -> str | None:
        """Return a sentence, once for each host, if its clock differs from this machine's.

        `clock` is the host's time at the end of a run, as of `time.time`.
        """
        ahead = clock - time.time()
        if abs(ahead) < _MAX_CLOCK_DIFFERENCE or host in self._hosts_with_wrong_clock:
            return None
        self._hosts_with_wrong_clock.add(host)
        side = "ahead of" if ahead > 0 else "behind"
        return (
            f"the clock of {host} is {duration(abs(ahead))} {side} this machine's: set it, because builds compare "
            "the times of files"
        )

    def changes(self, host: str | None, environment: Mapping[str, str]) -> list[str]:
        """Return a sentence for each thing that has changed on a host since its last probe."""
        before = self._last.get(host, environment)
        self._last[host] = environment
        return [
            f"the environment moved within the bisection: {change}"
            for change in description_changes(before, environment)
        ]


def judge_for_store(bisection: Bisection, content: str, result: ProbeResult) -> ProbeResult:
    """Return the result, judged by what the failing end shows.

    1. A command that fails otherwise is a skip. It is good where the failing test of the end passes.
    2. A command that passes is a skip where it may have left out the failing test.
    3. A mismatch of another size than at the failing end is a skip.

    The engine judges a command's run again by its likeness once it knows more of the end.
    """
    by_likeness = bisection.known.question.compares_failures
    if result.judgement is Judgement.BAD and by_likeness:
        return _judge_command_failure(bisection, content, result)
    if result.judgement is Judgement.BAD:
        return _check_error_size(bisection, content, result)
    if result.judgement is Judgement.GOOD and by_likeness:
        return _check_tests_ran(bisection, result)
    return result


def _judge_command_failure(bisection: Bisection, content: str, result: ProbeResult) -> ProbeResult:
    """Return the result, judged by the likeness of its failure to that of the failing end."""
    symptoms = result.symptoms
    if symptoms is None or (symptoms.is_crash and bisection.known.question.crash_is_bad):
        return result
    passing = passing_symptoms(bisection.known.log)
    distinct = symptoms.subtract_usual(passing)
    signature = describe_failure(distinct)
    result = replace(result, classification=replace(result.classification, signature=signature))
    known = bisection.end_failure()
    if known is None or content == known[1]:
        return result
    failure, _ = known
    likeness = failure.likeness(symptoms)
    result = replace(result, likeness=likeness)
    judgement = failure.judge(symptoms, likeness)
    if judgement is Judgement.BAD:
        return result
    shown_at_end = (describe_failure(each.subtract_usual(passing)) for each in failure.end_symptoms)
    at_end = " or ".join(dict.fromkeys(shown_at_end))
    why = (
        f"the test of the failing end passes: there it is {at_end}"
        if judgement is Judgement.GOOD
        else f"another failure: at the failing end it is {at_end}"
    )
    other = replace(result, classification=replace(result.classification, verdict=_verdict_of(distinct)))
    return _judge_otherwise(other, judgement, shown=signature, why=why, signature=signature)


_VERDICTS = {
    **dict.fromkeys((Family.COMPILE, Family.SYNTAX, Family.LINK), Verdict.COMPILE_ERROR),
    **dict.fromkeys((Family.BUILD, Family.IMPORT, Family.COLLECTION), Verdict.BUILD_ERROR),
    Family.SIGNAL: Verdict.CRASH,
    Family.TIMEOUT: Verdict.TIMEOUT,
}


def _verdict_of(symptoms: Symptoms) -> Verdict:
    """Return the verdict on a run that shows another failure, by the first error whose kind has a verdict."""
    return next(
        (_VERDICTS[each.family] for each in symptoms.causes if each.family in _VERDICTS), Verdict.UNKNOWN
    )


def _check_tests_ran(bisection: Bisection, result: ProbeResult) -> ProbeResult:
    """Return a skip in place of a pass that may have left out the failing test."""
    known, symptoms = bisection.end_failure(), result.symptoms
    if known is None or symptoms is None or not known[0].may_leave_out_test(symptoms):
        return result
    if symptoms.ran_no_test:
        signature = "no test ran, or each was skipped"
    elif symptoms.tests is not None:
        skipped = plural(symptoms.skipped_tests, "test")
        signature = f"it passes, but ran {plural(symptoms.tests, 'test')} and skipped {skipped}"
    else:
        signature = f"it passes, but says: {' / '.join(symptoms.last_lines[-2:])}"
    classification = replace(
        result.classification,
        verdict=Verdict.NOT_VALIDATED,
        signature=signature,
        source=VerdictSource.OUTPUT,
    )
    return replace(result, classification=classification, judgement=Judgement.SKIP)


def _check_error_size(bisection: Bisection, content: str, result: ProbeResult) -> ProbeResult:
    """Return a skip where the error has another size than at the failing end."""
    known = bisection.error_scale()
    if known is None or content == known[1]:
        return result
    scale, _ = known
    classification = result.classification
    size = error_size(classification.metrics, scale.measure)
    if size is None or not scale.is_other(classification.metrics):
        return result
    signature = f"{classification.signature or 'mismatch'}, {size}"
    why = f"another failure: at the failing end it is {scale}"
    return _judge_otherwise(result, Judgement.SKIP, shown=str(size), why=why, signature=signature)


def _judge_otherwise(
    result: ProbeResult, judgement: Judgement, *, shown: str, why: str, signature: str | None
) -> ProbeResult:
    """Return the result with another judgement. The first line of its evidence says why."""
    evidence = Evidence(stream="ending", line=0, text=shown, why=why)
    classification = result.classification
    other = replace(classification, signature=signature, evidence=(evidence, *classification.evidence))
    return replace(result, classification=other, judgement=judgement)


def probe_directory(directory: Path, number: int) -> Path:
    """Return the folder of a probe below that of its bisection."""
    return directory / "probes" / f"{number:04d}"


def _log_of_rows(stored: Iterable[ProbeRow], directory: Path) -> ProbeLog:
    """Return the probes of earlier starts that count now, in the order in which they ended."""
    ended = [(row, _finished_with_kernels(row, directory)) for row in sort_by_end(stored)]
    # The cause that ended an earlier start may be fixed by now.
    unjudgeable = {probe.number for probe in unjudgeable_runs([probe for _, probe in ended])}
    return ProbeLog(
        tuple(probe for row, probe in ended if _still_counts(row) and probe.number not in unjudgeable)
    )


def _finished_with_kernels(stored: ProbeRow, directory: Path) -> FinishedProbe:
    """Return a finished probe with the names of the kernels that its build holds."""
    kernels = sorted(probe_directory(directory, stored.ordinal).glob("build/kernels/*/*.cpp"))
    return finished_probe(stored, kernels=tuple(path.stem for path in kernels))


def _still_counts(stored: ProbeRow) -> bool:
    """Return whether a probe of an earlier start counts. A resumed bisection runs any other again.

    A run that the environment prevented does not count. An end that could not be judged does not count either, because
    the bisection cannot go on without its judgement.
    """
    assert stored.verdict is not None
    is_unjudged_end = stored.phase is Phase.ENDPOINT and stored.judgement is Judgement.SKIP
    return stored.verdict.traits.judges_commit and not is_unjudged_end


def _probe_outcome(result: ProbeResult, *, golden_data: Path | None) -> ProbeOutcome:
    """Return the result of a probe as the store keeps it. `golden_data` is the folder of its frozen data.

    A probe that runs nothing writes no log, for example where the case is missing.
    """
    classification, toolchain = result.classification, result.toolchain
    artifacts = {"log": result.log, "build_directory": result.build_directory, "golden_data": golden_data}
    return ProbeOutcome(
        verdict=classification.verdict,
        verdict_source=classification.source,
        judgement=result.judgement,
        signature=classification.signature,
        metrics=classification.metrics,
        exit_code=result.ending.code,
        evidence=classification.evidence,
        symptoms=None if result.symptoms is None else result.symptoms.to_json(),
        likeness=result.likeness,
        build_key=toolchain.key if toolchain else None,
        build_source=result.build_source,
        build_seconds=result.build_seconds,
        build_steps=toolchain.step_seconds if toolchain else {},
        run_seconds=result.run_seconds,
        fingerprint=fingerprint(result.surroundings),
        environment=result.surroundings,
        slot=result.slot,
        host=result.host,
        command=result.command,
        artifacts={
            kind: (str(path), _bytes(path))
            for kind, path in artifacts.items()
            if path is not None and path.exists()
        },
    )


def _bytes(path: Path) -> int:
    """Return the size of a file, or of the files below a folder as far as they can be read."""
    if path.is_file():
        return path.stat().st_size
    total = 0
    with suppress(OSError):
        for file in entries_below(path):
            total += file.stat().st_size if file.is_file() else 0
    return total
