"""What a bisection knows, and what it needs before it can go on.

A probe is a build and a run of the case at one commit. It is wanted, running, and finished. `ProbeLog` holds the probes
of a bisection, and `RangeEvidence` says what they tell of the candidates of one range. `BisectionKnowledge` is the
question, the probes, and what git answered. `Needs` is what has to happen next.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Literal, TypeAlias, cast, overload

from ...runner.verdict.rules import CompilerError
from ...runner.verdict.symptoms import Symptoms
from ...store.vocabulary import BuildSource, Judgement, Phase, Seeks, Verdict, VerdictSource
from ..history.questions import (
    AskApplies,
    AskBlamedFile,
    AskCheckChange,
    AskFirstParents,
    AskMergeBase,
    AskMovedPins,
    AskPatches,
    AskPins,
    AskRange,
    AskSameChange,
    AskTarget,
    AskUndone,
    CheckChange,
    FirstParents,
    HistoryAnswer,
    HistoryQuestion,
    MovedPin,
    OfferedPerturbation,
    PinRecord,
)
from ..history.range import LoadedRange, Range, SlotBuild, Target, search_outcome
from ..search.belief import Observation, Outcome
from ..search.graph import CommitGraph
from ..search.hypotheses import GOOD_END
from ..search.rates import Rates
from ..search.testability import BlamedFile, Cause, RepeatedError


@dataclass(frozen=True, kw_only=True)
class WantedProbe:
    """One more run of a target, and why it is made."""

    target: Target
    phase: Phase
    range: int
    """The ordinal of the range for which it is made, from 1."""
    node: int | None = None
    """The candidate of that range that is probed, or its good end. None where the target is neither."""
    save_golden: bool = False
    """Whether it saves the data that it makes."""
    avoid: frozenset[str] = frozenset()
    """The places where it is not made as long as there is another."""


@dataclass(frozen=True, kw_only=True)
class RunningProbe:
    """A probe that was started, and has neither finished nor been cancelled. Its driver chose the number."""

    number: int
    wanted: WantedProbe


@dataclass(frozen=True, kw_only=True)
class ProbeTimes:
    """What a probe took, in seconds of wall time, and where its build came from."""

    build_source: BuildSource
    build_seconds: float
    run_seconds: float

    @property
    def was_built(self) -> bool:
        """Return whether the probe got as far as a build."""
        return self.build_source is not BuildSource.NONE


@dataclass(frozen=True, kw_only=True)
class FinishedProbe:
    """The result of a probe."""

    number: int
    """Its place in the order of the starts."""
    content: str
    phase: Phase
    judgement: Judgement
    verdict: Verdict
    verdict_source: VerdictSource = VerdictSource.OUTPUT
    signature: str | None = None
    evidence: tuple[str, ...] = ()
    """The lines that say most of the result."""
    metrics: Mapping[str, Mapping[str, float]]
    place: str | None = None
    """The host and its slot, which stand for a worktree, a virtual environment and a board. None where unknown."""
    kernels: tuple[str, ...] = ()
    """The names of the kernels in its build directory."""
    errors: tuple[CompilerError, ...] = ()
    """The errors of a compiler that made it a skip."""
    symptoms: Symptoms | None = None
    """What a command printed, and how it ended. None where a run is not judged by that."""
    likeness: float = 1.0
    """The chance that a failed probe shows the failure of the failing end."""
    times: ProbeTimes

    @property
    def may_be_machine(self) -> bool:
        """Return whether the machine may have failed, so that the probe says nothing of its commit."""
        judges_commit = self.verdict.traits.judges_commit
        return not judges_commit or (self.symptoms is not None and self.symptoms.may_be_machine)


def slot_build(content: str, place: str | None, times: ProbeTimes) -> SlotBuild | None:
    """Return what a probe left in its slot. Return None where it built nothing, or where its place is unknown."""
    if place is None or not times.was_built:
        return None
    is_new = times.build_source is BuildSource.BUILT and times.build_seconds > 0
    return SlotBuild(content, place, times.build_seconds if is_new else None)


@dataclass(frozen=True)
class ProbeLog:
    """All probes of one bisection."""

    ended: tuple[FinishedProbe, ...] = ()
    """The finished probes in the order in which they ended. With several workers, their starts had another order."""
    running: tuple[RunningProbe, ...] = ()
    """The running probes in the order of their starts."""

    def with_started(self, probe: RunningProbe) -> "ProbeLog":
        """Return the log with a probe that has just been started."""
        return replace(self, running=(*self.running, probe))

    def with_finished(self, probe: FinishedProbe) -> "ProbeLog":
        """Return the log with a result. Raises `ValueError` where the probe has one already."""
        if any(known.number == probe.number for known in self.ended):
            raise ValueError(f"probe {probe.number}: expected one result, found a second one")
        return ProbeLog((*self.ended, probe), self._running_except({probe.number}))

    def with_cancelled(self, numbers: Iterable[int]) -> "ProbeLog":
        """Return the log without running probes that were stopped."""
        return replace(self, running=self._running_except({*numbers}))

    def _running_except(self, numbers: set[int]) -> tuple[RunningProbe, ...]:
        return tuple(probe for probe in self.running if probe.number not in numbers)

    @cached_property
    def _probes_of_content(self) -> dict[str, list[FinishedProbe]]:
        contents: dict[str, list[FinishedProbe]] = {}
        for probe in sorted(self.ended, key=lambda probe: probe.number):
            contents.setdefault(probe.content, []).append(probe)
        return contents

    def probes_for(self, content: str) -> list[FinishedProbe]:
        """Return the finished probes of some content, in the order of their starts."""
        return self._probes_of_content.get(content, [])

    def is_running(self, content: str) -> bool:
        """Return whether a probe of some content is running."""
        return any(probe.wanted.target.content == content for probe in self.running)

    def tally(self, content: str) -> Counter[Judgement]:
        """Return how often some content was good, bad, and could not be judged."""
        return Counter(probe.judgement for probe in self.probes_for(content))

    def failures_where_bad(self) -> tuple[int, int]:
        """Return failures and judged runs, over all contents that failed at least once.

        Their ratio is the rate at which a bad commit fails. Runs under a perturbation have another rate and do not
        count.
        """
        tallies = [
            self.tally(content)
            for content, probes in self._probes_of_content.items()
            if probes[0].phase is not Phase.PERTURBED
        ]
        bad = [tally for tally in tallies if tally[Judgement.BAD]]
        failures = sum(tally[Judgement.BAD] for tally in bad)
        return failures, failures + sum(tally[Judgement.GOOD] for tally in bad)


_OPPOSITE = {Outcome.GOOD: Outcome.BAD, Outcome.BAD: Outcome.GOOD, Outcome.SKIP: Outcome.SKIP}


@dataclass(frozen=True, kw_only=True)
class RangeEvidence:
    """The candidates of a range, to turn probes into observations of them."""

    graph: CommitGraph
    contents: Sequence[str | None]
    """The content of each candidate. None where it pins nothing that can be had."""
    old_content: str
    """The content of the old end."""
    seeks: Seeks
    inherited: tuple[Observation, ...] = ()
    """Observations of the ends of this range, by probes of an outer range."""

    @classmethod
    def from_range(cls, loaded: LoadedRange, *, inherited: tuple[Observation, ...] = ()) -> "RangeEvidence":
        """Return the evidence for a loaded range."""
        return cls(
            graph=loaded.graph,
            contents=loaded.candidate_contents,
            old_content=loaded.old_content,
            seeks=loaded.range.seeks,
            inherited=inherited,
        )

    @cached_property
    def _nodes(self) -> Mapping[str, tuple[int, ...]]:
        nodes: dict[str, tuple[int, ...]] = {self.old_content: (GOOD_END,)}
        for index, content in enumerate(self.contents):
            if content is not None:
                nodes[content] = (*nodes.get(content, ()), index)
        return nodes

    @cached_property
    def _unpinned_skips(self) -> tuple[Observation, ...]:
        """Return a skip for each candidate that pins nothing that can be had, so that it cannot be tested."""
        return tuple(
            Observation(node, Outcome.SKIP) for node, content in enumerate(self.contents) if content is None
        )

    def nodes_of(self, content: str) -> tuple[int, ...]:
        """Return the candidates with some content. The good end is among them where it has this content."""
        return self._nodes.get(content, ())

    def observations(
        self, log: ProbeLog, blamed: Mapping[str, tuple[BlamedFile, ...]] | None = None
    ) -> list[Observation]:
        """Return all observations of this range, in the order in which the probes ended.

        `blamed` are the files that the errors of untestable contents name.
        """
        seen = [*self.inherited, *self._unpinned_skips]
        for probe in log.ended:
            causes: tuple[Cause, ...] = (blamed or {}).get(probe.content, ())
            error = str(probe.symptoms) if probe.symptoms and probe.judgement is Judgement.SKIP else ""
            if error and not causes:
                causes = (RepeatedError(error),)
            seen += [replace(each, blamed=causes) for each in self.probe_observations(probe)]
        return seen

    def probe_observations(self, probe: FinishedProbe) -> Iterable[Observation]:
        """Yield an observation of each candidate that has the content of a probe."""
        nodes = self.nodes_of(probe.content)
        for node in nodes:
            yield Observation(
                node, search_outcome(probe.judgement, self.seeks), probe.place, commit_count=len(nodes)
            )

    def inherit(
        self,
        outer: "RangeEvidence",
        log: ProbeLog,
        *,
        culprit: int,
        ends: Mapping[bool, int | None],
        flipped: bool,
    ) -> "RangeEvidence":
        """Return the evidence with observations of this range's ends, from an outer range's probes.

        A commit from the outer `culprit` on has the new pin, any other the old one. `ends` gives the end of this range
        that the new pin (True) and the old one (False) stand for, or None. `flipped` says that this range seeks the
        opposite of the outer one.
        """
        inherited: list[Observation] = []
        for probe in sorted(log.ended, key=lambda probe: probe.number):
            for seen in outer.probe_observations(probe):
                has_new_pin = seen.commit != GOOD_END and bool(outer.graph.ancestors(seen.commit)[culprit])
                contradicts = seen.outcome is Outcome.BAD and not has_new_pin
                end = ends[has_new_pin]
                if probe.content not in self._nodes and not contradicts and end is not None:
                    outcome = _OPPOSITE[seen.outcome] if flipped else seen.outcome
                    inherited.append(replace(seen, commit=end, outcome=outcome))
        return replace(self, inherited=tuple(inherited))


def find_target(loaded: LoadedRange, node: int) -> Target:
    """Return the target of a candidate of a range, or of its good end. Raises `ValueError` where it pins nothing."""
    if node == GOOD_END:
        return old_end(loaded)
    search_range = loaded.range
    commit = loaded.commit_range.nodes[node].commit.sha
    content = loaded.contents[commit]
    if content is None:
        raise ValueError(
            f"{commit}: expected a commit that can be built, found one that pins nothing that can be had"
        )
    return Target(repository=search_range.repository, commit=commit, held=search_range.held, content=content)


def old_end(loaded: LoadedRange) -> Target:
    """Return the old end of a range. It is good where a regression is sought."""
    return _end(loaded, loaded.range.old, loaded.old_content)


def new_end(loaded: LoadedRange) -> Target:
    """Return the new end of a range."""
    return _end(loaded, loaded.range.new, loaded.new_content)


def _end(loaded: LoadedRange, commit: str, content: str) -> Target:
    where = loaded.range
    return Target(repository=where.repository, commit=commit, held=where.held, content=content)


def passing_end(loaded: LoadedRange) -> Target:
    """Return the end at which the case passes."""
    return old_end(loaded) if loaded.range.seeks is Seeks.REGRESSION else new_end(loaded)


def failing_end(loaded: LoadedRange) -> Target:
    """Return the end at which the case fails."""
    return new_end(loaded) if loaded.range.seeks is Seeks.REGRESSION else old_end(loaded)


def earlier_failures(evidence: RangeEvidence, log: ProbeLog, *, culprit: int | None) -> tuple[int, ...]:
    """Return the candidates, in ascending order, that broke and were fixed before the culprit.

    Such a candidate failed more often than it passed, and a descendant of it passed more often than it failed. The
    culprit is not among its ancestors. A candidate that inherits the failure of an ancestor is left out.
    """
    graph = evidence.graph
    balance: dict[int, int] = {}
    for seen in evidence.observations(log):
        if seen.commit != GOOD_END and seen.outcome is not Outcome.SKIP:
            balance[seen.commit] = balance.get(seen.commit, 0) + (1 if seen.outcome is Outcome.BAD else -1)
    passing = [commit for commit, fails in balance.items() if fails < 0]
    failing = [commit for commit, fails in sorted(balance.items()) if fails > 0]

    def inherits(commit: int, first: int) -> bool:
        """Return whether a commit builds on a failing one, and no passing one lies between them."""
        before = graph.ancestors(commit)
        return bool(before[first]) and not any(
            before[between] and graph.ancestors(between)[first] for between in passing
        )

    return tuple(
        commit
        for commit in failing
        if (culprit is None or not graph.ancestors(commit)[culprit])
        and any(graph.ancestors(later)[commit] for later in passing)
        and not any(inherits(commit, first) for first in failing if first != commit)
    )


_UNKNOWN_RATES = Rates.unknown()


@dataclass(frozen=True, kw_only=True)
class BisectionQuestion:
    """Holds what the engine has to know of a question."""

    range: Range
    """Where the change lies. With `gallop`, its old end is the root, before which nothing is looked for."""
    confidence: float
    gallop: bool = False
    """Whether the good end has to be found first."""
    golden: Literal["none", "given", "captured"] = "none"
    """Whether probes share frozen data, and where these come from."""
    repositories: frozenset[str]
    """The names of the stack's repositories. A pin of one of them can be searched. Any other pin is a version."""
    has_patches: bool = False
    """Whether commits of the range are tested with patches."""
    measured_in: str | None = None
    """The repository of the case, where the stack file says how a case's script measures."""
    case: str | None = None
    """The name of the case. None where the stack's command is the whole case."""
    mismatch: bool = True
    """Whether only a mismatch counts as bad, so that errors have a size."""
    has_command: bool = False
    """Whether a command or a person judges."""
    compares_failures: bool = False
    """Whether a command's failure is bad only if it is like the failing end's."""
    crash_is_bad: bool = False
    """Whether a command that a signal ends is bad, whatever the failing end shows."""
    rates: Rates = _UNKNOWN_RATES
    """The fail rates that are expected before any run."""
    perturbations: tuple[OfferedPerturbation, ...] = ()
    """The perturbations that may make a flaky failure certain, in the order in which they are tried."""
    starts_at_merge_base: bool = False
    """Whether the older end is the merge base of the two ends, because these are on two branches."""


@dataclass(frozen=True, kw_only=True)
class BisectionKnowledge:
    """All that a bisection knows. It only grows."""

    question: BisectionQuestion
    log: ProbeLog = field(default_factory=ProbeLog)
    frozen: bool = False
    """Whether the golden data are frozen. Each probe that is started then gets them."""
    answers: tuple[tuple[HistoryQuestion, HistoryAnswer], ...] = ()
    """Each question that git has answered, with its answer."""

    def with_answer(self, question: HistoryQuestion, answer: HistoryAnswer) -> "BisectionKnowledge":
        """Return the knowledge with one more answer."""
        return replace(self, answers=(*self.answers, (question, answer)))

    def has_answer(self, question: HistoryQuestion) -> bool:
        """Return whether a question was answered."""
        return any(answered == question for answered, _ in self.answers)

    @overload
    def answer(self, question: AskRange) -> LoadedRange | None: ...
    @overload
    def answer(self, question: AskUndone) -> bool: ...
    @overload
    def answer(self, question: AskBlamedFile) -> BlamedFile | None: ...
    @overload
    def answer(self, question: AskTarget) -> Target | None: ...
    @overload
    def answer(self, question: AskFirstParents) -> FirstParents: ...
    @overload
    def answer(self, question: AskMovedPins) -> tuple[MovedPin, ...]: ...
    @overload
    def answer(self, question: AskCheckChange) -> CheckChange | None: ...
    @overload
    def answer(self, question: AskMergeBase) -> str | None: ...
    @overload
    def answer(self, question: AskPatches) -> tuple[str, ...]: ...
    @overload
    def answer(self, question: AskApplies) -> tuple[str, ...] | None: ...
    @overload
    def answer(self, question: AskSameChange) -> tuple[str, ...]: ...
    @overload
    def answer(self, question: AskPins) -> tuple[PinRecord, ...]: ...
    def answer(self, question: HistoryQuestion) -> object:
        """Return the answer to a question. Raises `LookupError` where there is none."""
        for answered, answer in self.answers:
            if answered == question:
                return cast(object, answer)
        raise LookupError(f"expected an answer to {question}, found none")


@dataclass(frozen=True)
class GivenData:
    """Freeze the golden data that the user named."""


@dataclass(frozen=True)
class SavedData:
    """Freeze the golden data that a finished probe of the good end saved."""

    probe: int
    commit: str


@dataclass(frozen=True)
class SearchProgress:
    """How much of a search is left."""

    candidates: int
    expected_steps: float | None
    """The number of further steps, one after the other. None where it is unknown."""
    runs: tuple[int, int] | None = None
    """The least and the most runs after which most such searches end. Set only where runs contradict each other."""


@dataclass(frozen=True, kw_only=True)
class ConfirmationProgress:
    """How sure the search is of the one commit that is left. It ends at the `wanted` confidence."""

    commit: str
    confidence: float
    wanted: float
    runs: tuple[int, int] | None = None
    """As of `SearchProgress`."""


@dataclass(frozen=True)
class Notice:
    """A sentence for the report."""

    text: str


@dataclass(frozen=True)
class GoodEnd:
    """The good end that was looked for."""

    commit: str


Note: TypeAlias = SearchProgress | ConfirmationProgress | Notice | GoodEnd
"""A message to show, or to keep. A bisection does not depend on it."""


@dataclass(frozen=True, kw_only=True)
class Needs:
    """Says what has to happen before the bisection goes on. Without any need, it waits for the running probes."""

    start: tuple[WantedProbe, ...] = ()
    """The probes to start."""
    cancel: tuple[int, ...] = ()
    """The numbers of the running probes to stop."""
    load: tuple[HistoryQuestion, ...] = ()
    """The questions that git has to answer."""
    freeze: GivenData | SavedData | None = None
    """The golden data to freeze."""
    notes: tuple[Note, ...] = ()
