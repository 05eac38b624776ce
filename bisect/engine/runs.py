"""What a bisection knows, and what it needs before it can go on.

A probe is a build and a run of the case at one commit: wanted, running, and finished. `ProbeLog` holds the probes:
finished ones count, running ones are known, and nothing is made twice. `RangeEvidence` says what probes tell of the
candidates of one range. `BisectionKnowledge` is all the knowledge of a bisection: the question, the probes, and what
git answered. `Needs` is what has to happen next. `earlier_failures` finds commits that failed before the culprit and
were fixed: the range broke, was fixed, and broke again.
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
    """One more run of a target, and why it is made.

    range: the ordinal of the range for which it is made, from 1. node: the candidate of that range, or its good end,
    that is probed; None where the target is neither. save_golden: whether it saves the data that it makes. avoid: the
    places where it is not made as long as there is another.
    """

    target: Target
    phase: Phase
    range: int
    node: int | None = None
    save_golden: bool = False
    avoid: frozenset[str] = frozenset()


@dataclass(frozen=True, kw_only=True)
class RunningProbe:
    """A probe that was started, by the number that its driver gave it, and has neither finished nor been cancelled."""

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
    """The result of a probe.

    number: in the order of the starts. evidence: the lines that say most of it. place: the host and the slot on it
    where it was made, and so the worktree, the virtual environment and the board behind it. It is None where that is
    not known. kernels: the names of the kernels that its build directory holds. errors: those of a compiler that made
    it a skip.
    """

    number: int
    content: str
    phase: Phase
    judgement: Judgement
    verdict: Verdict
    verdict_source: VerdictSource = VerdictSource.OUTPUT
    signature: str | None = None
    evidence: tuple[str, ...] = ()
    metrics: Mapping[str, Mapping[str, float]]
    place: str | None = None
    kernels: tuple[str, ...] = ()
    errors: tuple[CompilerError, ...] = ()
    symptoms: Symptoms | None = None
    """What a command showed of its failure. None where it is not judged by that."""
    likeness: float = 1.0
    """The chance that a failed probe shows the failure of the failing end."""
    times: ProbeTimes

    @property
    def may_be_machine(self) -> bool:
        """Return whether the probe says nothing of its commit, because the machine may have failed."""
        judges_commit = self.verdict.traits.judges_commit
        return not judges_commit or (self.symptoms is not None and self.symptoms.may_be_machine)


def slot_build(content: str, place: str | None, times: ProbeTimes) -> SlotBuild | None:
    """Return what stands in a slot after a probe. Return None where it was not built, or where its place is not
    known."""
    if place is None or not times.was_built:
        return None
    is_new = times.build_source is BuildSource.BUILT and times.build_seconds > 0
    return SlotBuild(content, place, times.build_seconds if is_new else None)


@dataclass(frozen=True)
class ProbeLog:
    """All probes of one bisection.

    `ended` are the finished ones in the order in which they ended. With several workers this is not the order of their
    starts. `running` are in the order of their starts.
    """

    ended: tuple[FinishedProbe, ...] = ()
    running: tuple[RunningProbe, ...] = field(default=())

    def with_started(self, probe: RunningProbe) -> "ProbeLog":
        """Return the log with a probe that has just been started."""
        return replace(self, running=(*self.running, probe))

    def with_finished(self, probe: FinishedProbe) -> "ProbeLog":
        """Return the log with a result. Raises `ValueError` where the probe counts already."""
        if any(known.number == probe.number for known in self.ended):
            raise ValueError(f"probe {probe.number}: expected one result, found a second one")
        return ProbeLog((*self.ended, probe), self._other_running({probe.number}))

    def with_cancelled(self, numbers: Iterable[int]) -> "ProbeLog":
        """Return the log without some running probes, which were stopped. They never count."""
        return replace(self, running=self._other_running({*numbers}))

    def _other_running(self, numbers: set[int]) -> tuple[RunningProbe, ...]:
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

        They say how surely a bad commit fails. Runs under a perturbation do not count, as they tell nothing of that.
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
    """A range, and how probes speak for its candidates.

    graph: its candidates. contents: the content of each; None where it pins nothing that can be had. old_content: that
    of the old end. inherited: what probes of an outer range tell of this one's ends.
    """

    graph: CommitGraph
    contents: Sequence[str | None]
    old_content: str
    seeks: Seeks
    inherited: tuple[Observation, ...] = ()

    @classmethod
    def from_range(cls, loaded: LoadedRange, *, inherited: tuple[Observation, ...] = ()) -> "RangeEvidence":
        """Return the evidence for a loaded range. `inherited` speaks of its ends alone, by their numbers in it."""
        return cls(
            graph=loaded.graph,
            contents=loaded.candidate_contents,
            old_content=loaded.old_content,
            seeks=loaded.range.seeks,
            inherited=inherited,
        )

    @cached_property
    def _nodes(self) -> Mapping[str, tuple[int, ...]]:
        """Return the candidates, or the good end, that have each content."""
        nodes: dict[str, tuple[int, ...]] = {self.old_content: (GOOD_END,)}
        for index, content in enumerate(self.contents):
            if content is not None:
                nodes[content] = (*nodes.get(content, ()), index)
        return nodes

    @cached_property
    def _unpinned_skips(self) -> tuple[Observation, ...]:
        """Return the candidates that cannot be tested, because they pin nothing that can be had."""
        return tuple(
            Observation(node, Outcome.SKIP) for node, content in enumerate(self.contents) if content is None
        )

    def nodes_of(self, content: str) -> tuple[int, ...]:
        """Return the candidates, or the good end, for which a probe of some content speaks."""
        return self._nodes.get(content, ())

    def observations(
        self, log: ProbeLog, blamed: Mapping[str, tuple[BlamedFile, ...]] | None = None
    ) -> list[Observation]:
        """Return all that tells something of this range, in the order in which the probes ended.

        `blamed` are the files that the errors of untestable contents name.
        """
        seen = [*self.inherited, *self._unpinned_skips]
        for probe in log.ended:
            causes: tuple[Cause, ...] = (blamed or {}).get(probe.content, ())
            if (
                not causes
                and probe.judgement is Judgement.SKIP
                and probe.symptoms
                and (error := str(probe.symptoms))
            ):
                causes = (RepeatedError(error),)
            seen += [replace(each, blamed=causes) for each in self.probe_observations(probe)]
        return seen

    def probe_observations(self, probe: FinishedProbe) -> Iterable[Observation]:
        """Yield what a probe tells of this range: one observation of each candidate that has its content."""
        nodes = self.nodes_of(probe.content)
        for node in nodes:
            yield Observation(
                node, search_outcome(probe.judgement, self.seeks), probe.place, alike=len(nodes)
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
        """Return the evidence with what an outer range's probes tell of this one's ends, now that the outer culprit is
        known.

        Commits from the culprit on do as with its new pin, the others as with its old one. ends: the end of this range
        that the new pin (True) and the old one (False) is; None where it is neither. flipped: whether this range seeks
        the opposite of what the outer one does.
        """
        inherited: list[Observation] = []
        for probe in sorted(log.ended, key=lambda probe: probe.number):
            for seen in outer.probe_observations(probe):
                changed = seen.commit != GOOD_END and bool(outer.graph.ancestors(seen.commit)[culprit])
                contradicts = seen.outcome is Outcome.BAD and not changed
                end = ends[changed]
                if probe.content not in self._nodes and not contradicts and end is not None:
                    outcome = _OPPOSITE[seen.outcome] if flipped else seen.outcome
                    inherited.append(replace(seen, commit=end, outcome=outcome))
        return replace(self, inherited=tuple(inherited))


def find_target(loaded: LoadedRange, node: int) -> Target:
    """Return what is built for a candidate of a range, or for its good end. Raises `ValueError` where it pins
    nothing."""
    if node == GOOD_END:
        return old_end(loaded)
    where = loaded.range
    commit = loaded.collapsed.nodes[node].commit.sha
    content = loaded.contents[commit]
    if content is None:
        raise ValueError(
            f"{commit}: expected a commit that can be built, found one that pins nothing that can be had"
        )
    return Target(repository=where.repository, commit=commit, held=where.held, content=content)


def old_end(loaded: LoadedRange) -> Target:
    """Return the old end of a range. It is good where a regression is sought."""
    where = loaded.range
    return Target(repository=where.repository, commit=where.old, held=where.held, content=loaded.old_content)


def new_end(loaded: LoadedRange) -> Target:
    """Return the new end of a range."""
    where = loaded.range
    return Target(repository=where.repository, commit=where.new, held=where.held, content=loaded.new_content)


def passing_end(loaded: LoadedRange) -> Target:
    """Return the end at which the case passes."""
    return old_end(loaded) if loaded.range.seeks is Seeks.REGRESSION else new_end(loaded)


def failing_end(loaded: LoadedRange) -> Target:
    """Return the end at which the case fails."""
    return new_end(loaded) if loaded.range.seeks is Seeks.REGRESSION else old_end(loaded)


def earlier_failures(evidence: RangeEvidence, log: ProbeLog, *, culprit: int | None) -> tuple[int, ...]:
    """Return the candidates, ascending, that broke and were fixed before the culprit.

    Each failed more often than it passed, and the culprit is not among its ancestors. A descendant of it passed more
    often than it failed.
    """
    graph = evidence.graph
    balance: dict[int, int] = {}
    for seen in evidence.observations(log):
        if seen.commit != GOOD_END and seen.outcome is not Outcome.SKIP:
            balance[seen.commit] = balance.get(seen.commit, 0) + (1 if seen.outcome is Outcome.BAD else -1)
    passing = [commit for commit, fails in balance.items() if fails < 0]
    return tuple(
        commit
        for commit, fails in sorted(balance.items())
        if fails > 0
        and (culprit is None or not graph.ancestors(commit)[culprit])
        and any(graph.ancestors(later)[commit] for later in passing)
    )


_UNKNOWN_RATES = Rates.unknown()


@dataclass(frozen=True, kw_only=True)
class BisectionQuestion:
    """The question of a bisection.

    range: where the change lies. Where the good end has to be found first (`gallop`), its old end is the root, and
    nothing before that is looked at. golden: whether probes share frozen data, and where these come from. repositories:
    the names of those of the stack; a pin of one of them can be searched, any other is a version. patched: whether
    commits of the range are tested with patches. case: how the case is named; None where the stack's command is the
    whole case.
    """

    range: Range
    confidence: float
    gallop: bool = False
    golden: Literal["none", "given", "captured"] = "none"
    repositories: frozenset[str]
    patched: bool = False
    measured_in: str | None = None
    """The repository of the case, where the stack file says how a case's script measures."""
    case: str | None = None
    mismatch: bool = True
    """Whether a mismatch is what counts as bad, so that errors have a size."""
    by_command: bool = False
    """Whether a command is judged, or a person judges."""
    by_likeness: bool = False
    """Whether a failure of the command is bad only if it is like the failing end's."""
    crash_is_bad: bool = False
    """Whether a command that a signal ends is bad, whatever the failing end shows."""
    rates: Rates = _UNKNOWN_RATES
    """What is known of the fail rates before anything was run."""
    perturbations: tuple[OfferedPerturbation, ...] = ()
    """What may make a flaky failure certain, in the order in which it is tried."""
    parted: bool = False
    """Whether the older end stands for one on another branch: it is the merge base of the two ends."""


@dataclass(frozen=True, kw_only=True)
class BisectionKnowledge:
    """All that a bisection knows. It only grows."""

    question: BisectionQuestion
    log: ProbeLog = field(default_factory=ProbeLog)
    frozen: bool = False
    """Whether the golden data are there. All probes from then on get them."""
    answers: tuple[tuple[HistoryQuestion, HistoryAnswer], ...] = ()

    def with_answer(self, question: HistoryQuestion, answer: HistoryAnswer) -> "BisectionKnowledge":
        """Return the knowledge with an answer."""
        return replace(self, answers=(*self.answers, (question, answer)))

    def has_answer(self, question: HistoryQuestion) -> bool:
        """Return whether a question was answered."""
        return any(asked == question for asked, _ in self.answers)

    @overload
    def answer(self, question: AskRange) -> LoadedRange | None: ...
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
        """Return the answer to a question. Raises `LookupError` where it was not answered."""
        for asked, answer in self.answers:
            if asked == question:
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
    """How many candidates are left. The search takes about `expected_steps` more steps, one after the other.

    expected_steps: None where that cannot be told. runs: the least and the most runs after which such a search mostly
    ends, where runs contradict each other.
    """

    candidates: int
    expected_steps: float | None
    runs: tuple[int, int] | None = None


@dataclass(frozen=True, kw_only=True)
class ConfirmationProgress:
    """One commit is left. It is confirmed until the wanted confidence is reached. `runs` as of `SearchProgress`."""

    commit: str
    confidence: float
    wanted: float
    runs: tuple[int, int] | None = None


@dataclass(frozen=True)
class Notice:
    """A sentence for the report."""

    text: str


@dataclass(frozen=True)
class GoodEnd:
    """The good end that was looked for."""

    commit: str


Note: TypeAlias = SearchProgress | ConfirmationProgress | Notice | GoodEnd
"""A message to show, or to keep. It changes nothing."""


@dataclass(frozen=True, kw_only=True)
class Needs:
    """What has to happen: start and cancel these probes, answer these questions, freeze this golden data.

    Where all are empty, the bisection waits for the running probes. `cancel` gives the numbers of running probes.
    """

    start: tuple[WantedProbe, ...] = ()
    cancel: tuple[int, ...] = ()
    load: tuple[HistoryQuestion, ...] = ()
    freeze: GivenData | SavedData | None = None
    notes: tuple[Note, ...] = ()
