"""One bisection beside its effects: the store, the private clones, the golden data, the view."""

import itertools
from collections.abc import Iterable
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path

from ...runner.case.case import RunOptions
from ...runner.case.golden import FrozenGolden, load_reader
from ...runner.probe.bad_when import BadWhen
from ...runner.probe.records import ProbeRequest, ProbeResult
from ...runner.verdict.compiler_errors import CompilerError
from ...runner.workspace.home import Home
from ...runner.workspace.perturbations import key_of, lacking
from ...runner.workspace.workspace import Workspace
from ...store.journals.bisections import BisectionJournal
from ...store.journals.probes import ProbeKey
from ...store.tables.bisections import ProbeRow
from ...store.vocabulary import Verdict
from ..commits.load import note_range
from ..commits.perturbed import OfferedPerturbation
from ..commits.range import LoadedRange
from ..commits.recompiled import SlotBuild
from ..engine.bisection import (
    Bisection,
    DataFrozen,
    ProbeFinished,
    ProbesCancelled,
    ProbeStarted,
    QuestionAnswered,
)
from ..engine.history import AskRange, HistoryQuestion
from ..engine.known import BisectionQuestion
from ..engine.log import ProbeLog
from ..engine.needs import Confirming, GivenData, GoodEnd, Narrowed, Needs, Note, Notice, SavedData
from ..engine.priority.circumstances import Circumstances
from ..engine.probes import FinishedProbe, RunningProbe, Target, WantedProbe
from ..engine.states.answer.judged_no_more import judged_no_more
from ..plan.question import views
from ..plan.request import BisectRequest
from ..result import Conclusion
from .environment_watch import EnvironmentWatch
from .failure_policy import run_timeout, told_apart
from .golden import earlier_golden, freeze_golden
from .history import HistoryReader
from .loop import PlannedProbe
from .records import build_in_slot, finished_probe, in_order_of_ends, kernels_in, still_counts, stored_result
from .view.progress import Progress, StartedProbe
from .view.words import end_stood_for, why_again

_EARLIER = 8
"""Bisections from whose builds one learns what builds take: the newest, of machines and compilers as they are now."""


class DrivenBisection:
    """Executes what one bisection needs, but for its probes, which are made by whoever drives it. What has happened is
    written to the store before the bisection is told."""

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
    ) -> None:
        """`held` is closed by the caller once nothing is driven any more."""
        content, revisions = views(request, workspace)
        self._request = request
        self._journal = journal
        self._workspace = workspace
        self._golden_store = home.golden
        self._probes = directory / "probes"
        self._ahead = directory / "ahead"
        self._progress = progress
        self._held = held
        self._history = HistoryReader(request, workspace=workspace, content=content, revisions=revisions)
        self._bad_when = None if request.bad_when is None else BadWhen.parse(request.bad_when)
        self._keys: dict[int, ProbeKey] = {}
        """What the store calls each running probe, by its number."""
        self._stages: dict[int, int] = {}
        """The store's number of each range, by its ordinal."""
        stored = journal.probes.finished()
        self._taken: dict[str, set[int]] = {}
        """The numbers of the runs of each content that are finished or running."""
        for probe in stored:
            self._taken.setdefault(probe.content, set()).add(probe.run)
        self._environment = EnvironmentWatch(
            (probe.host, probe.environment.details) for probe in stored if probe.environment
        )
        self._golden: FrozenGolden | None = earlier_golden(journal.row().golden, home.golden)
        ended = [(probe, self._finished(probe)) for probe in in_order_of_ends(stored)]
        # What ended an earlier start may be mended.
        unjudged = {probe.number for probe in judged_no_more([probe for _, probe in ended])}
        self.bisection = Bisection.start(
            question_of(request),
            log=ProbeLog(
                tuple(probe for row, probe in ended if still_counts(row) and probe.number not in unjudged)
            ),
            frozen=self._golden is not None,
        )
        self._note_picked_commits()

    def _note_picked_commits(self) -> None:
        clone = self._workspace.clones[self._request.repository]
        picked = [clone.commit(pick.commit) for pick in self._request.cherry_picks]
        self._journal.commits.add(self._request.repository, picked)

    def settle(self, around: Circumstances) -> Needs | Conclusion:
        """Go on until probes have to be started or cancelled, or awaited, or to the conclusion.

        Raises `EndsError` where the ends do not differ, `UserError` where an end cannot be judged, or a history does
        not hold what is needed.
        """
        while True:
            self.bisection, needs = self.bisection.next(around)
            if isinstance(needs, Conclusion):
                return needs
            self._progress.standing(self.bisection)
            self._tell(needs.notes)
            for question in needs.load:
                self._answer(question)
            if needs.freeze is not None:
                self._freeze(needs.freeze)
            if not needs.load and needs.freeze is None:
                return needs

    def plan(self, wanted: WantedProbe) -> PlannedProbe:
        """Note in the store that a probe starts."""
        target = wanted.target
        revisions = self._history.revisions_of(target)
        taken = self._taken.setdefault(target.content, set())
        key = ProbeKey(
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
        self.bisection = self.bisection.after(ProbeStarted(running))
        commit = self._workspace.clones[target.repository].commit(target.commit)
        self._progress.probe_started(
            StartedProbe(
                ordinal=ordinal,
                phase=wanted.phase,
                repository=target.repository,
                commit=target.commit,
                subject=commit.subject,
                date=None if commit.is_made_here else commit.date,
                again=why_again(known, wanted),
                stands_for=end_stood_for(self.bisection.state.search, wanted),
            )
        )
        self._progress.standing(self.bisection)
        return PlannedProbe(running=running, request=request)

    def ahead(self, planned: PlannedProbe, target: Target) -> ProbeRequest:
        """What a worker is asked who builds a target ahead of its run, as it is asked for another probe."""
        revisions = self._history.revisions_of(target)
        return replace(planned.request, revisions=revisions, golden=None, directory=self._ahead)

    def waits(self, why: str) -> None:
        """Show why a probe cannot begin."""
        self._progress.notice(why)

    def again(self, planned: PlannedProbe, why: str) -> None:
        """Note that a probe is started anew."""
        self.notice(f"{why}: it is made again")
        self._journal.probes.start(self._keys[planned.running.number])

    def finish(self, planned: PlannedProbe, result: ProbeResult) -> None:
        """Keep what came of a probe, and tell the bisection."""
        number, target = planned.running.number, planned.running.wanted.target
        result = told_apart(self.bisection, target.content, result, is_predicate=self._bad_when is None)
        for sentence in self._environment.changes(result.host, result.surroundings):
            self.notice(sentence)
        if result.toolchain is not None and result.toolchain.trouble is not None:
            self.notice(f"builds are not shared with {result.host} now: {result.toolchain.trouble}")
        for option in result.missing_options:
            self.notice(f"the case has no option for {option} at {target.commit[:12]}: it ran without")
        self._journal.probes.finish(
            number, stored_result(result, golden_data=self._golden.directory if self._golden else None)
        )
        del self._keys[number]
        self._progress.probe_finished(number, result)
        finished = self._finished(self._journal.probes.get(number))
        self.bisection = self.bisection.after(ProbeFinished(finished))

    def cancel(self, planned: PlannedProbe) -> None:
        """Note that a probe was stopped, for it had lost its value. It never counts."""
        number = planned.running.number
        key = self._keys.pop(number)
        self._taken[key.content].discard(key.run)
        self._journal.probes.cancel(number)
        self._progress.probe_cancelled(number)
        self.bisection = self.bisection.after(ProbesCancelled((number,)))

    def activity(self, planned: PlannedProbe, where: str, text: str) -> None:
        """Show what a worker does for a probe."""
        self._progress.activity(planned.running.number, where, text)

    def notice(self, text: str) -> None:
        """Keep a sentence for the report, and show it."""
        self._journal.add_notice(text)
        self._progress.notice(text)

    def _tell(self, notes: Iterable[Note]) -> None:
        for note in notes:
            match note:
                case Narrowed():
                    self._progress.remaining(note)
                case Confirming():
                    self._progress.confirming(note)
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
        self.bisection = self.bisection.after(QuestionAnswered(question, answer))

    def _earlier_skips(self, loaded: LoadedRange) -> dict[str, tuple[CompilerError, ...]]:
        contents = {*filter(None, loaded.candidate_contents)}
        stored = self._journal.probes.last_elsewhere(contents)
        skips = {probe.content: finished_probe(probe).errors for probe in stored}
        return {content: errors for content, errors in skips.items() if errors}

    def _earlier_builds(self, loaded: LoadedRange) -> tuple[tuple[SlotBuild, ...], ...]:
        built = self._journal.probes.of_bisections_that_built({*loaded.node_of_content}, most=_EARLIER)
        return tuple(
            tuple(build for row in rows if (build := build_in_slot(row)) is not None) for rows in built
        )

    def _open(self, asked: AskRange, loaded: LoadedRange) -> None:
        """Keep a range and its commits, and show it."""
        where = asked.range
        clone = self._workspace.clones[where.repository]
        ends = [clone.commit(sha) for sha in (where.old, where.new)]
        self._journal.commits.add(where.repository, ends)
        self._progress.stage(
            where.repository, commits=len(loaded.commits), candidates=len(loaded.collapsed.nodes)
        )
        self._stages[asked.ordinal] = note_range(self._journal, loaded, asked.ordinal)

    def _stage(self, wanted: WantedProbe) -> int:
        """The store's number of a range; one whose good end is still looked for has no candidates yet."""
        if wanted.range not in self._stages:
            where, target = self.bisection.known.question.range, wanted.target
            clone = self._workspace.clones[target.repository]
            self._journal.commits.add(target.repository, [clone.commit(target.commit)])
            return self._journal.stages.note(
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
        self.bisection = self.bisection.after(DataFrozen())

    def _finished(self, stored: ProbeRow) -> FinishedProbe:
        return finished_probe(stored, kernels=kernels_in(self._directory(stored.ordinal)))

    def _directory(self, ordinal: int) -> Path:
        return self._probes / f"{ordinal:04d}"


def offered_perturbations(request: BisectRequest) -> tuple[OfferedPerturbation, ...]:
    """The perturbations of a request's stack that this machine has what they need for; none where a person runs the
    case."""
    if request.interactive:
        return ()
    return tuple(
        OfferedPerturbation(name=name, key=key_of(each), told=each.told)
        for name, each in request.stack.perturbations.items()
        if not lacking(each)
    )


def question_of(request: BisectRequest) -> BisectionQuestion:
    """What the engine has to know of a request."""
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
        mismatch=request.bad_when is not None and BadWhen.parse(request.bad_when).verdict is Verdict.MISMATCH,
        by_exit_code=request.bad_when is None,
        rates=request.rates,
        perturbations=offered_perturbations(request),
        end_runs=request.end_runs,
        parted=bool(request.parted),
    )
