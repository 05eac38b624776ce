"""One bisection with its effects: the store, the private clones, the golden data, the view.

`DrivenBisection` executes what the engine needs, except that it does not run probes. The functions before it translate
between the store's probes and the engine's. `judge_failure` makes a run a skip where it shows another failure than the
one that is searched for. `EnvironmentWatch` reports when the environment of a host changes during a bisection.
"""

import itertools
import time
from collections.abc import Iterable, Mapping
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path

from ...runner.case.case import (
    FrozenGolden,
    RunOptions,
    freeze,
    load_frozen,
    load_reader,
    missing_requirements,
    perturbation_key,
)
from ...runner.errors import UserError
from ...runner.probe.judge import describe_failure
from ...runner.probe.probe import ProbeRequest, ProbeResult, place_name
from ...runner.verdict.rules import CompilerError, compiler_errors, error_size
from ...runner.verdict.symptoms import Family, Symptoms
from ...runner.workspace.environment import description_changes, fingerprint
from ...runner.workspace.home import Home
from ...runner.workspace.slot import Workspace
from ...store.bisections import BisectionJournal, ProbeOutcome, ProbeStart
from ...store.tables import ProbeRow
from ...store.vocabulary import (
    BuildSource,
    Evidence,
    Judgement,
    Phase,
    Verdict,
    VerdictSource,
    duration,
    plural,
)
from ..ask.earlier_runs import reusable_probes
from ..ask.ends import content_and_revisions
from ..ask.question import BisectRequest
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
    BisectionQuestion,
    ConfirmationProgress,
    FinishedProbe,
    GivenData,
    GoodEnd,
    Needs,
    Note,
    Notice,
    ProbeLog,
    ProbeTimes,
    RunningProbe,
    SavedData,
    SearchProgress,
    WantedProbe,
    slot_build,
)
from ..engine.trouble import unjudgeable_runs
from ..history.loader import HistoryReader, record_range
from ..history.questions import AskRange, HistoryQuestion, OfferedPerturbation
from ..history.range import LoadedRange, SlotBuild, Target
from .loop import ProbeInFlight
from .progress import Progress, StartedProbe, represented_end, rerun_reason

_MAX_CLOCK_DIFFERENCE = 600.0
"""Clocks may differ by this many seconds. A smaller difference may be the time that a result took to arrive."""


class EnvironmentWatch:
    """Remembers the last environment of each host."""

    def __init__(self, earlier: Iterable[tuple[str | None, Mapping[str, str]]] = ()) -> None:
        """`earlier` gives host and environment of the probes of earlier starts, in order."""
        self._last: dict[str | None, Mapping[str, str]] = {}
        self._told_clocks: set[str | None] = set()
        for host, surroundings in earlier:
            self._last.setdefault(host, surroundings)

    def wrong_clock(self, host: str | None, clock: float) -> str | None:
        """Return a sentence, once for each host, if its clock at the end of a run differed from this machine's."""
        ahead = clock - time.time()
        if abs(ahead) < _MAX_CLOCK_DIFFERENCE or host in self._told_clocks:
            return None
        self._told_clocks.add(host)
        side = "ahead of" if ahead > 0 else "behind"
        return (
            f"the clock of {host} is {duration(abs(ahead))} {side} this machine's: set it, for tools may mind"
        )

    def changes(self, host: str | None, surroundings: Mapping[str, str]) -> list[str]:
        """Return a sentence for each thing that has changed on a host since its last probe."""
        before = self._last.get(host, surroundings)
        self._last[host] = surroundings
        return [
            f"the environment moved within the bisection: {change}"
            for change in description_changes(before, surroundings)
        ]


_LEAST_TIMEOUT = 60.0
"""A run has at least this many seconds. The ends of a short case say little about a busy machine."""
_END_MULTIPLE = 10
"""A run may take this many times as long as the longest run at an end. After that it counts as a hang."""


def judge_failure(
    bisection: Bisection, content: str, result: ProbeResult
) -> tuple[ProbeResult, float | None]:
    """Return the result, which becomes a skip where it shows another failure than the failing end.

    The second value is, for a command, the chance that the run shows that end's failure. The engine uses it to judge
    the run again once it knows more of the end. It is None where likeness does not decide.
    """
    by_likeness = bisection.known.question.by_likeness
    if result.judgement is Judgement.GOOD and by_likeness:
        return _judge_pass(bisection, result), None
    if result.judgement is not Judgement.BAD:
        return result, None
    if not by_likeness:
        return _check_error_size(bisection, content, result), None
    symptoms = result.symptoms
    if symptoms is None or (symptoms.is_crash and bisection.known.question.crash_is_bad):
        return result, None
    passing = passing_symptoms(bisection.known.log)
    distinct = symptoms.subtract_usual(passing)
    own = describe_failure(distinct)
    result = replace(result, classification=replace(result.classification, signature=own))
    known = bisection.end_failure()
    if known is None or content == known[1]:
        return result, None
    failure = known[0]
    alike = failure.likeness(symptoms)
    judgement = failure.judge(symptoms, alike)
    if judgement is Judgement.BAD:
        return result, alike
    other = replace(result, classification=replace(result.classification, verdict=_verdict_of(distinct)))
    at_end = " or ".join(
        dict.fromkeys(describe_failure(each.subtract_usual(passing)) for each in failure.at_end)
    )
    why = (
        f"the test of the failing end passes: there it is {at_end}"
        if judgement is Judgement.GOOD
        else f"another failure: at the failing end it is {at_end}"
    )
    return _judge_otherwise(other, judgement, shown=own, why=why, signature=own), alike


_VERDICTS = {
    **dict.fromkeys((Family.COMPILE, Family.SYNTAX, Family.LINK), Verdict.COMPILE_ERROR),
    **dict.fromkeys((Family.BUILD, Family.IMPORT, Family.COLLECTION), Verdict.BUILD_ERROR),
    Family.SIGNAL: Verdict.CRASH,
    Family.TIMEOUT: Verdict.TIMEOUT,
}


def _verdict_of(symptoms: Symptoms) -> Verdict:
    """Return the verdict on a run that shows another failure, by the first error whose kind has a verdict."""
    named = (_VERDICTS[each.family] for each in symptoms.causes if each.family in _VERDICTS)
    return next(named, Verdict.UNKNOWN)


def _judge_pass(bisection: Bisection, result: ProbeResult) -> ProbeResult:
    """Return a skip in place of a pass that may have left out the failing test."""
    known, symptoms = bisection.end_failure(), result.symptoms
    if known is None or symptoms is None or not known[0].may_leave_out_test(symptoms):
        return result
    if symptoms.ran_no_test:
        said = "no test ran, or each was skipped"
    elif symptoms.tests is not None:
        skipped = plural(symptoms.skipped_tests, "test")
        said = f"it passes, but ran {plural(symptoms.tests, 'test')} and skipped {skipped}"
    else:
        said = f"it passes, but says: {' / '.join(symptoms.last_lines[-2:])}"
    classification = replace(
        result.classification,
        verdict=Verdict.NOT_VALIDATED,
        signature=said,
        source=VerdictSource.OUTPUT,
    )
    return replace(result, classification=classification, judgement=Judgement.SKIP)


def _check_error_size(bisection: Bisection, content: str, result: ProbeResult) -> ProbeResult:
    """Return a skip where the error has another size than at the failing end."""
    known = bisection.error_scale()
    if known is None or content == known[1]:
        return result
    scale = known[0]
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
    evidence = Evidence(stream="ending", line=0, text=shown, why=why)
    classification = result.classification
    other = replace(classification, signature=signature, evidence=(evidence, *classification.evidence))
    return replace(result, classification=other, judgement=judgement)


def run_timeout(finished: Iterable[FinishedProbe], *, asked: float | None, at_most: float) -> float:
    """Return the seconds for the next run.

    They are `asked` where the user gave them, else ten times the longest run at an end, else `at_most`.
    """
    if asked is not None:
        return asked
    ends = [probe.times.run_seconds for probe in finished if probe.phase is Phase.ENDPOINT]
    return max(_LEAST_TIMEOUT, _END_MULTIPLE * max(ends)) if any(ends) else at_most


def earlier_golden(digest: str | None, store: Path) -> FrozenGolden | None:
    """Return the data that an earlier start froze. Raises `UserError` where they are gone or changed."""
    return None if digest is None else load_frozen(digest, store)


def freeze_golden(
    source: GivenData | SavedData, *, given: Path | None, probes: Path, store: Path
) -> FrozenGolden:
    """Freeze what the user named, or what a probe of the good end saved below `probes`. Raises `UserError`."""
    if isinstance(source, GivenData):
        assert given is not None
        return freeze(given, store)
    build = probes / f"{source.probe:04d}" / "build"
    if not build.is_dir():
        raise UserError(
            f"good {source.commit[:12]}: expected the run to leave a build directory with data/in and data/out, "
            "found none; name frozen data with --golden-data DIR"
        )
    return freeze(build / "data", store)


def finished_probe(stored: ProbeRow, *, kernels: tuple[str, ...] = ()) -> FinishedProbe:
    """Return a finished probe of the store as the engine has it.

    `kernels` are the names of the kernels in its build, where they matter.
    """
    assert stored.verdict is not None
    judgement = stored.judgement or Judgement.SKIP
    symptoms = None if stored.symptoms is None else Symptoms.from_plain(stored.symptoms)
    blames_commit = judgement is Judgement.SKIP and stored.verdict.traits.judges_commit
    return FinishedProbe(
        number=stored.ordinal,
        content=stored.content,
        phase=stored.phase,
        judgement=judgement if stored.likeness is None else Judgement.BAD,
        verdict=stored.verdict,
        verdict_source=stored.verdict_source,
        signature=stored.signature,
        evidence=_summary_evidence(stored),
        metrics=stored.metrics or {},
        place=place_of_row(stored),
        kernels=kernels,
        errors=compiler_errors(line.text for line in stored.evidence) if blames_commit else (),
        symptoms=symptoms,
        times=_times(stored),
    )


def place_of_row(stored: ProbeRow) -> str | None:
    """Return the place where a stored probe was made. It is None where the place is unknown."""
    return None if stored.slot is None else place_name(stored.host, stored.slot)


def _times(stored: ProbeRow) -> ProbeTimes:
    return ProbeTimes(
        build_source=stored.build_source or BuildSource.NONE,
        build_seconds=stored.build_seconds or 0.0,
        run_seconds=stored.run_seconds or 0.0,
    )


def build_in_slot(stored: ProbeRow) -> SlotBuild | None:
    """Return what a finished probe of the store left in its slot. It is None where nothing was built."""
    return slot_build(stored.content, place_of_row(stored), _times(stored))


def _summary_evidence(stored: ProbeRow) -> tuple[str, ...]:
    first = stored.evidence[:1]
    if first and first[0].stream == "ending" and len(stored.evidence) > 1:
        # How a run ended says little, so its last printed line is added.
        first = [first[0], stored.evidence[-1]]
    return tuple(line.text for line in first)


def list_kernel_names(directory: Path) -> tuple[str, ...]:
    """Return the names of the kernels in the build that a probe left in its directory."""
    return tuple(path.stem for path in sorted(directory.glob("build/kernels/*/*.cpp")))


def sort_by_end(stored: Iterable[ProbeRow]) -> list[ProbeRow]:
    """Return finished probes in the order in which they ended. With several workers they may have started in another
    order."""
    return sorted(stored, key=lambda probe: probe.finished or probe.started)


def still_counts(stored: ProbeRow) -> bool:
    """Return whether a probe of an earlier start counts.

    Runs that the environment prevented do not count, so a resumed bisection runs them again. The same holds for an end
    that could not be judged, because the bisection cannot go on without it.
    """
    assert stored.verdict is not None
    is_end_without_answer = stored.phase is Phase.ENDPOINT and stored.judgement is Judgement.SKIP
    return stored.verdict.traits.judges_commit and not is_end_without_answer


def probe_outcome(
    result: ProbeResult, *, golden_data: Path | None, likeness: float | None = None
) -> ProbeOutcome:
    """Return what came of a probe as the store keeps it, with the folder of the frozen data that it ran on.

    `likeness` is the chance that it shows the failing end's failure, where likeness decided.
    """
    classification, ending = result.classification, result.ending
    artifacts = {"log": result.log, "build_directory": result.build_directory, "golden_data": golden_data}
    return ProbeOutcome(
        verdict=classification.verdict,
        verdict_source=classification.source,
        judgement=result.judgement,
        signature=classification.signature,
        metrics=classification.metrics,
        exit_code=ending.code,
        evidence=classification.evidence,
        symptoms=None if result.symptoms is None else result.symptoms.plain(),
        likeness=likeness,
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


_MAX_EARLIER_BISECTIONS = 8
"""Build times are learned from this many earlier bisections. Only the newest count, because machines and compilers
change."""


class DrivenBisection:
    """Executes what one bisection needs. Its probes are run by the caller.

    Each event is written to the store before the bisection hears of it.
    """

    def __init__(
        self,
        *,
        request: BisectRequest,
        journal: BisectionJournal,
        workspace: Workspace,
        home: Home,
        directory: Path,
        progress: Progress,
        held: ExitStack,
        planned: LoadedRange | None = None,
    ) -> None:
        """The caller closes `held` when the bisection is no longer driven.

        `planned` is the range of the request, where it was loaded before.
        """
        content, revisions = content_and_revisions(request, workspace)
        self._request = request
        self._journal = journal
        self._workspace = workspace
        self._golden_store = home.golden
        self._probes = directory / "probes"
        self._ahead = directory / "ahead"
        self._progress = progress
        self._held = held
        self._history = HistoryReader(
            request, workspace=workspace, content=content, revisions=revisions, planned=planned
        )
        self._bad_when = request.judging_rule
        self._keys: dict[int, ProbeStart] = {}
        """The store's key of each running probe, by the probe's number."""
        self._stages: dict[int, int] = {}
        """The store's number of each range, by the range's ordinal."""
        stored = journal.probes.finished_probes()
        self._begun = {probe.stage_id for probe in stored}
        """The ranges, by the store's numbers, in which earlier starts ran something."""
        self._taken: dict[str, set[int]] = {}
        """The numbers of the finished and running runs of each content."""
        for probe in stored:
            self._taken.setdefault(probe.content, set()).add(probe.run)
        self._environment = EnvironmentWatch(
            (probe.host, probe.environment.details) for probe in stored if probe.environment
        )
        self._golden: FrozenGolden | None = earlier_golden(journal.row().golden, home.golden)
        ended = [(probe, self._finished_probe(probe)) for probe in sort_by_end(stored)]
        # The cause that ended an earlier start may be fixed by now.
        unjudged = {probe.number for probe in unjudgeable_runs([probe for _, probe in ended])}
        self.bisection = Bisection.start(
            question_of(request),
            log=ProbeLog(
                tuple(probe for row, probe in ended if still_counts(row) and probe.number not in unjudged)
            ),
            frozen=self._golden is not None,
        )
        self._store_picked_commits()

    def _store_picked_commits(self) -> None:
        clone = self._workspace.clones[self._request.repository]
        picked = [clone.commit(pick.commit) for pick in self._request.cherry_picks]
        self._journal.commits.add(self._request.repository, picked)

    def settle(self, context: Context) -> Needs | Conclusion:
        """Go on until probes have to be started, cancelled or awaited, or until the conclusion.

        Raises `EndsError` where the ends do not differ. Raises `UserError` where an end cannot be judged, or a history
        does not hold what is needed.
        """
        while True:
            self.bisection, needs = self.bisection.next(context)
            if isinstance(needs, Conclusion):
                return needs
            self._progress.show_state(self.bisection)
            self._handle_notes(needs.notes)
            for question in needs.load:
                self._answer(question)
            if needs.freeze is not None:
                self._freeze(needs.freeze)
            if not needs.load and needs.freeze is None:
                return needs

    def record_start(self, wanted: WantedProbe) -> ProbeInFlight:
        """Record in the store that a probe starts."""
        target = wanted.target
        revisions = self._history.revisions_of(target)
        taken = self._taken.setdefault(target.content, set())
        key = ProbeStart(
            stage=self._stage(wanted),
            phase=wanted.phase,
            repository=target.repository,
            commit=target.commit,
            revisions=revisions,
            content=target.content,
            run=next(run for run in itertools.count(1) if run not in taken),
        )
        taken.add(key.run)
        ordinal = self._journal.probes.start(key)
        if wanted.save_golden:
            self._held.callback(load_reader().join)
        request = ProbeRequest(
            revisions=revisions,
            case=self._request.script,
            platform=self._request.platform,
            device=self._request.device,
            golden=self._golden,
            bad_when=self._bad_when,
            options=RunOptions(
                golden_data=self._golden.directory if self._golden else None,
                save_data=wanted.save_golden,
                runtime_dir=self._request.frozen_runtime_dir,
            ),
            timeout=run_timeout(
                self.bisection.known.log.ended,
                asked=self._request.timeout,
                at_most=self._request.stack.limits.run_timeout,
            ),
            directory=self._directory(ordinal),
            by_hand=self._request.interactive,
            avoid=wanted.avoid,
        )
        self._keys[ordinal] = key
        running = RunningProbe(number=ordinal, wanted=wanted)
        known = self.bisection.known
        self.bisection = self.bisection.apply_event(ProbeStarted(running))
        commit = self._workspace.clones[target.repository].commit(target.commit)
        self._progress.probe_started(
            StartedProbe(
                ordinal=ordinal,
                phase=wanted.phase,
                repository=target.repository,
                commit=target.commit,
                subject=commit.subject,
                date=None if commit.is_generated else commit.date,
                rerun_reason=rerun_reason(known, wanted),
                stands_for=represented_end(self.bisection.state.search, wanted),
            )
        )
        self._progress.show_state(self.bisection)
        return ProbeInFlight(running=running, request=request)

    def build_request(self, probe: ProbeInFlight, target: Target) -> ProbeRequest:
        """Return a request to build a target in advance. It is based on the request of `probe`."""
        revisions = self._history.revisions_of(target)
        return replace(probe.request, revisions=revisions, golden=None, directory=self._ahead)

    def show_wait(self, why: str) -> None:
        """Show why a probe cannot begin."""
        self._progress.notice(why)

    def record_restart(self, probe: ProbeInFlight, why: str) -> None:
        """Record that a probe is started anew."""
        self.notice(f"{why}: it is made again")
        self._journal.probes.start(self._keys[probe.running.number])

    def finish(self, probe: ProbeInFlight, result: ProbeResult) -> None:
        """Store the result of a probe, and report it to the bisection."""
        number, target = probe.running.number, probe.running.wanted.target
        result, alike = judge_failure(self.bisection, target.content, result)
        for sentence in self._environment.changes(result.host, result.surroundings):
            self.notice(sentence)
        if wrong := self._environment.wrong_clock(result.host, result.clock):
            self.notice(wrong)
        if result.toolchain is not None and result.toolchain.trouble is not None:
            self.notice(f"builds are not shared with {result.host} now: {result.toolchain.trouble}")
        for option in result.missing_options:
            self.notice(f"the case has no option for {option} at {target.commit[:12]}: it ran without")
        self._journal.probes.finish(
            number,
            probe_outcome(
                result, golden_data=self._golden.directory if self._golden else None, likeness=alike
            ),
        )
        del self._keys[number]
        self._progress.probe_finished(number, result)
        finished = self._finished_probe(self._journal.probes.get(number))
        self.bisection = self.bisection.apply_event(ProbeFinished(finished))

    def cancel(self, probe: ProbeInFlight) -> None:
        """Record that a probe was stopped because its result is no longer needed. It never counts."""
        number = probe.running.number
        key = self._keys.pop(number)
        self._taken[key.content].discard(key.run)
        self._journal.probes.cancel(number)
        self._progress.probe_cancelled(number)
        self.bisection = self.bisection.apply_event(ProbesCancelled((number,)))

    def show_activity(self, probe: ProbeInFlight, where: str, text: str) -> None:
        """Show what a worker does for a probe."""
        self._progress.show_activity(probe.running.number, where, text)

    def notice(self, text: str) -> None:
        """Keep a sentence for the report, and show it."""
        self._journal.add_notice(text)
        self._progress.notice(text)

    def _handle_notes(self, notes: Iterable[Note]) -> None:
        for note in notes:
            match note:
                case SearchProgress():
                    self._progress.show_remaining(note)
                case ConfirmationProgress():
                    self._progress.show_confirmation(note)
                case Notice():
                    self.notice(note.text)
                case GoodEnd():
                    self._journal.set_good(note.commit)

    def _answer(self, question: HistoryQuestion) -> None:
        answer = self._history.answer(question)
        if isinstance(question, AskRange) and isinstance(answer, LoadedRange):
            answer = replace(
                answer,
                earlier_skips=self._earlier_skips(answer),
                earlier_builds=self._earlier_builds(answer),
            )
            self._open(question, answer)
        self.bisection = self.bisection.apply_event(QuestionAnswered(question, answer))

    def _earlier_skips(self, loaded: LoadedRange) -> dict[str, tuple[CompilerError, ...]]:
        contents = {*filter(None, loaded.candidate_contents)}
        stored = self._journal.probes.last_in_other_bisections(contents)
        skips = {probe.content: finished_probe(probe).errors for probe in stored}
        return {content: errors for content, errors in skips.items() if errors}

    def _earlier_builds(self, loaded: LoadedRange) -> tuple[tuple[SlotBuild, ...], ...]:
        built = self._journal.probes.probes_of_bisections_that_built(
            {*loaded.node_of_content}, limit=_MAX_EARLIER_BISECTIONS
        )
        return tuple(
            tuple(build for row in rows if (build := build_in_slot(row)) is not None) for rows in built
        )

    def _open(self, asked: AskRange, loaded: LoadedRange) -> None:
        """Store a range and its commits, and show it."""
        where = asked.range
        clone = self._workspace.clones[where.repository]
        ends = [clone.commit(sha) for sha in (where.old, where.new)]
        self._journal.commits.add(where.repository, ends)
        self._progress.show_range(
            where.repository, commits=len(loaded.commits), candidates=len(loaded.collapsed.nodes)
        )
        self._stages[asked.ordinal] = stage = record_range(self._journal, loaded, asked.ordinal)
        if stage not in self._begun:
            self._reuse(stage, loaded)

    def _reuse(self, stage: int, loaded: LoadedRange) -> None:
        """Count the runs of this range by bisections that asked the same."""
        probes = reusable_probes(self._request, loaded, self._journal.earlier_runs)
        if not probes:
            return
        ends = (loaded.old_content, loaded.new_content)
        reasons = [
            Phase.SEARCH if probe.phase is Phase.ENDPOINT and probe.content not in ends else probe.phase
            for probe in probes
        ]
        for ordinal in self._journal.probes.reuse(stage, zip(probes, reasons, strict=True)):
            copy = self._journal.probes.get(ordinal)
            self._taken.setdefault(copy.content, set()).add(copy.run)
            self.bisection = self.bisection.apply_event(ProbeFinished(self._finished_probe(copy)))
        names = ", ".join(dict.fromkeys(probe.bisection.name for probe in probes))
        self.notice(
            f"{plural(len(probes), 'run')} of {names} count here, which asked the same; --fresh runs all anew"
        )

    def _stage(self, wanted: WantedProbe) -> int:
        """Return the store's number of a range.

        A range whose good end is still searched for is stored without candidates.
        """
        if wanted.range not in self._stages:
            where, target = self.bisection.known.question.range, wanted.target
            clone = self._workspace.clones[target.repository]
            self._journal.commits.add(target.repository, [clone.commit(target.commit)])
            return self._journal.stages.record(
                ordinal=wanted.range,
                repository=where.repository,
                seeks=where.seeks,
                old=where.old,
                new=where.new,
                held=where.held,
                candidates=(),
            )
        return self._stages[wanted.range]

    def _freeze(self, source: GivenData | SavedData) -> None:
        golden = freeze_golden(
            source, given=self._request.golden_data, probes=self._probes, store=self._golden_store
        )
        self._journal.set_golden(golden.digest)
        self._golden = golden
        self.bisection = self.bisection.apply_event(DataFrozen())

    def _finished_probe(self, stored: ProbeRow) -> FinishedProbe:
        return finished_probe(stored, kernels=list_kernel_names(self._directory(stored.ordinal)))

    def _directory(self, ordinal: int) -> Path:
        return self._probes / f"{ordinal:04d}"


def offered_perturbations(request: BisectRequest) -> tuple[OfferedPerturbation, ...]:
    """Return the perturbations of a request's stack whose requirements this machine meets.

    There are none where a person runs the case.
    """
    if request.interactive:
        return ()
    return tuple(
        OfferedPerturbation(name=name, key=perturbation_key(each), description=each.description)
        for name, each in request.stack.perturbations.items()
        if not missing_requirements(each)
    )


def question_of(request: BisectRequest) -> BisectionQuestion:
    """Return what the engine has to know of a request."""
    golden = "given" if request.golden_data is not None else "captured" if request.captures_golden else "none"
    return BisectionQuestion(
        range=request.range,
        confidence=request.confidence,
        gallop=request.gallop,
        golden=golden,
        repositories=frozenset(request.stack.repositories),
        patched=bool(request.cherry_picks),
        measured_in=request.stack.case.repository if request.case and request.stack.case.yardstick else None,
        case=request.case,
        mismatch=request.judging_rule.bad is not None
        and request.judging_rule.bad.verdict is Verdict.MISMATCH,
        by_command=request.bad_when is None or request.is_command,
        by_likeness=request.is_command and request.judging_rule.compares_failures,
        crash_is_bad=request.crash == "bad",
        rates=request.rates,
        perturbations=offered_perturbations(request),
        parted=bool(request.parted),
    )
