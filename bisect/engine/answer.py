"""The conclusion of a bisection, the states that lead to it, and how it is drawn.

`Conclusion` is what the store keeps and reports print.

A state is frozen. Its `advance` returns what it waits for, the next state, a range to search, or the end. A search may
lie inside outer ranges: `EnclosingRanges` holds these and completes the conclusion of the inner one. `FinalState` is
the last state. It adds what the pins of the stack say at both ends, and how often each end failed. The functions at the
end write the conclusions that name no confirmed culprit.
"""

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import takewhile
from typing import Literal, TypeAlias

import numpy as np
from typing_extensions import override

from ...runner.commit_diff import CommitDiff
from ...runner.localization import Localization
from ...runner.probe.judge import distinguishing_condition
from ...runner.stack import Model
from ...store.durable_files import Document
from ...store.vocabulary import BisectionOutcome, Commit, Judgement, Seeks, percent, plural
from ..history.questions import AskPins, HistoryQuestion, MovedPin, PinRecord
from ..history.range import LoadedRange, Target
from ..search.belief import Belief, Observation, Outcome
from ..search.decision import EnvironmentMoved, NoCulprit, Undecided
from ..search.graph import Floats
from ..search.halving import OnlySkipped
from ..search.posterior import Posterior
from .failures import Reading, fails_otherwise
from .range_search import Context, ExpectedGain, RangeSearch, early_failing_end
from .runs import BisectionKnowledge, FinishedProbe, Needs, Note, ProbeLog, WantedProbe, failing_end
from .trouble import changed_end_notice

Blame = Literal["submodule", "version", "superproject", "interaction", "either", "unknown"]


class NamedCommit(Model):
    """A commit that is named. `confidence` is the posterior probability that it made the change, after confirmation."""

    repository: str
    commit: str
    parent: str | None
    """Its first parent, which was run beside it."""
    confidence: float | None
    merge: bool
    """Whether it has several parents. None of these fails by itself: what it merges interacts."""
    version: str | None = None
    """The release that it stands for."""
    under: str | None = None
    """The perturbation under which it was found. Under it the commit fails in every run."""


class Counterfactual(Model):
    """Whether a pin that the culprit moves is to blame, by the 2 x 2 of the pin and the commit that holds it.

    `repository` is the pinned repository of the stack. For another pin, it is the pin's own name. The blame for such a
    pin is "version", because it has no history to search.
    """

    pin: str
    repository: str
    old: str
    new: str
    new_holder_old_target: Judgement
    old_holder_new_target: Judgement
    blame: Blame
    told: tuple[str, str] | None = None
    """The old and the new version as people know them, where the two stand for releases."""

    @property
    def move(self) -> str:
        """Return the move of the pin, from the old value to the new one."""
        old, new = self.told or (self.old[:12], self.new[:12])
        return f"from {old} to {new}"


YardstickBlame = Literal["yardstick", "other change", "both together", "either", "unknown"]


class YardstickTest(Model):
    """Whether the culprit's change of how its case measures is to blame.

    The culprit is run as its parent measures, and the parent as the culprit measures.
    """

    changes: tuple[str, ...]
    """Each difference as one phrase, with file and line."""
    new_with_old: Judgement
    old_with_new: Judgement
    blame: YardstickBlame


class LayerCell(Model):
    """The judgement of the case with some layers new and the others old."""

    new: tuple[str, ...]
    judgement: Judgement


class MovedLayers(Model):
    """The layers that a commit moves at once, which are its own change and several pins, and their joint effect.

    `least` are the smallest sets of layers that made the difference when only they were new. If it is not `proven`,
    some cells were not run, because they most likely cannot be built. These may show other sets.
    """

    layers: tuple[str, ...]
    """The repository of the commit comes first and stands for its own change. What the pins hold follows."""
    cells: tuple[LayerCell, ...]
    """The cells that were run, without the two ends: all old (the parent) and all new (the commit)."""
    least: tuple[tuple[str, ...], ...]
    proven: bool


class NoCommit(Model):
    """The probabilities that no commit of the range is to blame.

    chance: all commits fail at one rate. environment: something outside of the commits changed.
    """

    chance: float
    environment: float


class EndRate(Model):
    """How often an end failed in its `runs` judged runs."""

    end: Literal["good", "bad"]
    commit: str
    runs: int
    failures: int


class Conclusion(Document):
    """The answer of a bisection. `culprits` are confirmed. `suspects` are left if nothing could be confirmed."""

    schema_version: Literal[1] = 1
    outcome: BisectionOutcome
    message: str
    """One line that says the answer."""
    culprits: tuple[NamedCommit, ...] = ()
    through: NamedCommit | None = None
    """The superproject's commit that brought the culprit in, where the culprit lies in a submodule."""
    lost: NamedCommit | None = None
    """The fix that the culprit removed by moving a pin back, or to another line. If a fix was sought, it is the fault.
    The commit that moves the pin is the culprit."""
    suspects: tuple[NamedCommit, ...] = ()
    no_commit: NoCommit | None = None
    """Set where the suspects have less than half together: it is not known whether a commit is to blame."""
    earlier_failures: tuple[str, ...] = ()
    """Commits that failed before a later one passed: the range broke, was fixed, and broke again. Where a fix is
    sought, these are commits that passed before a later one failed."""
    failures: tuple[str, ...] = ()
    """The failures of the failing end, if failures were told apart. Other failures did not count as bad."""
    fail_otherwise: tuple[int, ...] = ()
    """The numbers of the runs that failed in another way, or may have."""
    broken_places: tuple[str, ...] = ()
    """The slots of machines whose runs ended alike, whatever commit ran there. Those runs count for nothing."""
    counterfactuals: tuple[Counterfactual, ...] = ()
    layers: tuple[MovedLayers, ...] = ()
    """One entry for each commit that moves several pins at once, in place of counterfactuals."""
    yardstick: YardstickTest | None = None
    """Set where the culprit changes how its case measures."""
    diffs: tuple[CommitDiff, ...] = ()
    """What the culprits change. A commit that git could not read has no entry, and stores of earlier versions
    have none."""
    rates: tuple[EndRate, ...] = ()
    pins: tuple[PinRecord, ...] = ()
    localization: Localization | None = None
    """Says where in the culprit's build the failure begins. None where that was not requested, or there is no
    culprit."""


@dataclass(frozen=True, kw_only=True)
class IntroducingPinMove:
    """A culprit of an outer range. Its pin brought in what the inner range found."""

    named: NamedCommit
    counterfactuals: tuple[Counterfactual, ...]
    layers: tuple[MovedLayers, ...]
    earlier_failures: tuple[str, ...]

    def outer_conclusion(self, inner: Conclusion) -> Conclusion:
        """Return the conclusion of the outer range."""
        return _add_tests(inner.model_copy(update={"through": inner.through or self.named}), self)


@dataclass(frozen=True, kw_only=True)
class RemovingPinMove:
    """A culprit of an outer range. Its pin moved back, or to another line, and took away what the inner range found.
    Nothing in the pinned repository did that."""

    named: NamedCommit
    counterfactuals: tuple[Counterfactual, ...]
    layers: tuple[MovedLayers, ...]
    earlier_failures: tuple[str, ...]
    moved: MovedPin
    seeks: Seeks
    diverged: bool

    def outer_conclusion(self, inner: Conclusion) -> Conclusion:
        """Return the conclusion of the outer range."""
        how = "to another line" if self.diverged else "back"
        what = "fix" if self.seeks is Seeks.REGRESSION else "fault"
        moved = self.moved
        move = f"by moving {moved.held_name} {how}, {moved.move}"
        lost = next(iter(inner.culprits), None)
        which = f"the {what} {lost.repository} {lost.commit}" if lost else f"a {what} that could not be named"
        conclusion = Conclusion(
            outcome=BisectionOutcome.CULPRIT,
            message=f"{describe_change(self.named, self.seeks)} {move}, which takes away {which}",
            culprits=(self.named,),
            lost=lost,
            counterfactuals=inner.counterfactuals,
            layers=inner.layers,
        )
        return _add_tests(conclusion, self)


def _add_tests(conclusion: Conclusion, outer: IntroducingPinMove | RemovingPinMove) -> Conclusion:
    """Return the conclusion with the pins that were tested in the outer range, and its earlier failures."""
    return conclusion.model_copy(
        update={
            "counterfactuals": (*outer.counterfactuals, *conclusion.counterfactuals),
            "layers": (*outer.layers, *conclusion.layers),
            "earlier_failures": (*conclusion.earlier_failures, *outer.earlier_failures),
        }
    )


OuterRange: TypeAlias = IntroducingPinMove | RemovingPinMove


@dataclass(frozen=True, kw_only=True)
class EnclosingRanges:
    """The ends of the whole bisection, and the ranges around the one that is searched, the innermost first."""

    good: Target
    bad: Target
    outer: tuple[OuterRange, ...] = field(default=())

    def add_outer(self, outer: OuterRange) -> "EnclosingRanges":
        """Return what encloses a range that lies inside the searched one."""
        return EnclosingRanges(good=self.good, bad=self.bad, outer=(outer, *self.outer))

    def complete(self, inner: Conclusion) -> Conclusion:
        """Return the conclusion of the whole bisection, without how often its ends failed and without its pins."""
        for outer in self.outer:
            inner = outer.outer_conclusion(inner)
        return inner


def describe_change(named: NamedCommit, seeks: Seeks) -> str:
    """Return a sentence that says what the named commit did."""
    verb = "introduced" if seeks is Seeks.REGRESSION else "fixed"
    return f"{named.repository} {named.version or named.commit} {verb} it"


@dataclass(frozen=True, kw_only=True)
class ConfirmedCulprit:
    """A candidate of a range that was confirmed. node: the candidate. tested: the pin that it moves. layers: the pins,
    where it moves several."""

    search: RangeSearch
    enclosing: EnclosingRanges
    node: int
    named: NamedCommit
    earlier_failures: tuple[str, ...]
    tested: tuple[Counterfactual, ...] = field(default=())
    layers: tuple[MovedLayers, ...] = field(default=())


def named_commit(loaded: LoadedRange, node: int, confidence: float | None) -> NamedCommit:
    """Return a candidate as it is reported."""
    return report_commit(loaded, loaded.collapsed.nodes[node].commit, confidence)


def report_commit(loaded: LoadedRange, commit: Commit, confidence: float | None) -> NamedCommit:
    """Return a commit of the range as it is reported. It need not be a candidate."""
    return NamedCommit(
        repository=loaded.range.repository,
        commit=commit.sha,
        parent=commit.parents[0] if commit.parents else None,
        confidence=confidence,
        merge=len(commit.parents) > 1,
        version=loaded.versions.get(commit.sha),
    )


class BisectionState(ABC):
    """A stage of a bisection. It is frozen: what it needs follows from what is known and from the circumstances."""

    @abstractmethod
    def advance(self, known: BisectionKnowledge, context: Context) -> "Advance":
        """Return what is needed now, or what comes next.

        Raises `EndsError` where the ends do not differ, `UserError` where an end cannot be judged.
        """

    def expected_gain(self, known: BisectionKnowledge, context: Context) -> ExpectedGain | None:
        """Return what a further probe promises, for a state that can wait while other bisections promise more. A state
        that goes on at once returns None."""
        return None

    @property
    def search(self) -> RangeSearch | None:
        """Return the innermost range that is known so far."""
        return None

    def failing_end(self, known: BisectionKnowledge) -> Target | None:
        """Return the end whose failures show how large the searched error is. Return None before it was measured."""
        return None if self.search is None else self.search.failing_target


@dataclass(frozen=True)
class RangeState(BisectionState):
    """A state that belongs to an opened range."""

    range_search: RangeSearch

    @property
    @override
    def search(self) -> RangeSearch:
        return self.range_search


@dataclass(frozen=True)
class UnmeasuredRangeState(RangeState):
    """A state of a range whose ends are not measured yet."""

    @override
    def failing_end(self, known: BisectionKnowledge) -> Target | None:
        return early_failing_end(known, self.range_search)


@dataclass(frozen=True)
class CulpritState(BisectionState):
    """A state that examines a confirmed culprit."""

    culprit: ConfirmedCulprit

    @property
    @override
    def search(self) -> RangeSearch:
        return self.culprit.search


@dataclass(frozen=True)
class Wait:
    """The state goes on once its needs are met."""

    needs: Needs


@dataclass(frozen=True)
class Move:
    """The next state."""

    state: BisectionState
    notes: tuple[Note, ...] = ()


@dataclass(frozen=True)
class Enter:
    """The search of a range begins. The range is the bisection's own once its ends are measured, or one inside it."""

    search: RangeSearch
    enclosing: EnclosingRanges
    notes: tuple[Note, ...] = ()


@dataclass(frozen=True)
class Finish:
    """The bisection is over."""

    conclusion: Conclusion
    notes: tuple[Note, ...] = ()


Advance: TypeAlias = Wait | Move | Enter | Finish


def await_probe(known: BisectionKnowledge, wanted: WantedProbe) -> Wait:
    """Wait for one more probe of a target. The probe is started unless one of the target is running."""
    running = known.log.is_running(wanted.target.content)
    return Wait(Needs() if running else Needs(start=(wanted,)))


def load_all(known: BisectionKnowledge, *questions: HistoryQuestion) -> Wait | None:
    """Return a wait for the answers that are missing. Return None once all are there."""
    missing = tuple(question for question in questions if not known.has_answer(question))
    return Wait(Needs(load=missing)) if missing else None


@dataclass(frozen=True)
class FinalState(RangeState):
    """The last state: the innermost range, which this state holds, has its answer."""

    inner: Conclusion
    enclosing: EnclosingRanges

    @override
    def advance(self, known: BisectionKnowledge, context: Context) -> Advance:
        asked = AskPins(good=self.enclosing.good, bad=self.enclosing.bad)
        if wait := load_all(known, asked):
            return wait
        conclusion = self.enclosing.complete(self.inner)
        return Finish(
            conclusion.model_copy(
                update={
                    "rates": (
                        _rate(known.log, "good", self.enclosing.good),
                        _rate(known.log, "bad", self.enclosing.bad),
                    ),
                    "pins": known.answer(asked),
                    **self._failures(known),
                }
            )
        )

    def _failures(self, known: BisectionKnowledge) -> dict[str, object]:
        """Return how the failing end fails, and which runs failed in another way. Return nothing where no run did."""
        search = self.range_search
        otherwise = fails_otherwise(known.log, search.reading)
        if not otherwise:
            return {}
        end = failing_end(search.loaded).content
        shown = {probe.signature for probe in known.log.probes_for(end) if probe.judgement is Judgement.BAD}
        return {"failures": tuple(sorted(filter(None, shown))), "fail_otherwise": otherwise}


def _rate(log: ProbeLog, end: Literal["good", "bad"], target: Target) -> EndRate:
    tally = log.tally(target.content)
    return EndRate(
        end=end,
        commit=target.commit,
        runs=tally[Judgement.GOOD] + tally[Judgement.BAD],
        failures=tally[Judgement.BAD],
    )


_SHORT = 12
"""Messages show this many digits of a commit's id. They are unique in any real repository."""
_MANY_ALIKE = 20
"""A message that names no commit mentions a row of equal outcomes from this length on. A shorter row is nothing
unusual."""

_TEST_ADVICE = "; --cherry-pick, --overlay and --adapt make commits testable"
_LIKELY_SHARE = 0.5
"""The answer says how likely no commit is to blame where the suspects together have less than this probability."""
_WHY = {
    "nothing tells": "no further run tells them apart for what it costs",
    "bound": "as many runs were made as the search may take",
}


def conclusion_without_culprit(
    loaded: LoadedRange,
    decision: OnlySkipped | Undecided | NoCulprit | EnvironmentMoved,
    earlier_failures: tuple[str, ...],
    *,
    posterior: Posterior,
    log: ProbeLog,
    wall: str = "",
) -> Conclusion:
    """Return the conclusion that names no culprit. `wall` says why suspects cannot be tested."""
    lately = _recent_runs_phrase(posterior.observations, log)
    repository = loaded.range.repository
    what = "culprit" if loaded.range.seeks is Seeks.REGRESSION else "fix"
    chances = posterior.belief.commits
    suspects: tuple[int, ...] = ()
    no_commit: NoCommit | None = None
    match decision:
        case EnvironmentMoved():
            outcome = BisectionOutcome.NO_CULPRIT
            message = "the environment moved while it was searched: no commit explains the runs" + lately
        case NoCulprit():
            outcome = BisectionOutcome.NO_CULPRIT
            message = f"no commit of {repository} in the range explains the runs{lately}"
        case OnlySkipped(candidates=suspects):
            outcome = BisectionOutcome.ONLY_SKIPPED
            left_out = sum(loaded.candidates[node] in loaded.range.skip for node in suspects)
            why = f"; --skip leaves out {left_out} of them" if left_out and not wall else wall or _TEST_ADVICE
            named_ends = [loaded.candidates[node][:_SHORT] for node in (suspects[0], suspects[-1])]
            among = (
                f"{_suspects_phrase(loaded, suspects)}, {' to '.join(named_ends)}, whose runs do not tell "
                "them apart"
            )
            if len(suspects) == 1:
                among = f"{_suspects_phrase(loaded, suspects)}, which could not be tested"
            message = f"the {what} is {among}{why}"
        case Undecided(suspects=suspects, why=why):
            outcome = BisectionOutcome.SUSPECT
            no_commit = _no_commit(posterior.belief, suspects)
            among = _suspects_phrase(loaded, suspects)
            probably = f"the {what} is probably {among}"
            if no_commit is not None:
                share = percent(float(chances[[*suspects]].sum()))
                probably = f"{_no_commit_phrase(no_commit, repository)}, with {share} it is {among}"
            message = f"{probably}: {_WHY[why]}{lately}"
    named = tuple(named_commit(loaded, node, float(chances[node])) for node in suspects)
    suspected = {each.commit for each in named}
    return Conclusion(
        outcome=outcome,
        message=changed_end_notice(loaded, log) + message,
        suspects=named,
        no_commit=no_commit,
        earlier_failures=tuple(each for each in earlier_failures if each not in suspected),
    )


def _suspects_phrase(loaded: LoadedRange, suspects: Sequence[int]) -> str:
    """Return a phrase that says among which commits the culprit is."""
    if len(suspects) == 1:
        return f"{loaded.range.repository} {loaded.candidates[suspects[0]][:_SHORT]}"
    return f"one of {plural(len(suspects), 'commit')} of {loaded.range.repository}"


def _no_commit(belief: Belief, suspects: Sequence[int]) -> NoCommit | None:
    """Return how probable it is that no commit is to blame. Return None where the suspects have at least half."""
    if float(belief.commits[[*suspects]].sum()) >= _LIKELY_SHARE:
        return None
    return NoCommit(chance=belief.no_culprit, environment=belief.environment)


def _no_commit_phrase(no_commit: NoCommit, repository: str) -> str:
    """Return the phrase for suspects that have less than half together."""
    return (
        f"it is not known whether a commit is to blame at all: with {percent(no_commit.chance)} none of {repository} "
        f"is, with {percent(no_commit.environment)} the environment moved"
    )


def mix_readings(
    conclusion: Conclusion,
    loaded: LoadedRange,
    beliefs: Mapping[Reading, Floats],
    shares: Mapping[Reading, float],
    *,
    unsure: FinishedProbe,
    at_end: FinishedProbe | None,
) -> Conclusion:
    """Return a conclusion without a culprit, with the chances of its suspects over all readings of the failures.

    unsure: a run whose failure may be the end's or another one. at_end: a run of the failing end.
    """
    chances = np.sum([shares[reading] * commits for reading, commits in beliefs.items()], axis=0)
    suspects = {
        loaded.candidates.index(each.commit)
        for each in conclusion.suspects
        if each.commit in loaded.candidates
    }
    likeliest = int(np.argmax(beliefs[Reading.ANY]))
    named = sorted(suspects | {likeliest})
    message = (
        f"{conclusion.message}; run {unsure.number} may show another failure ({unsure.signature}): with "
        f"{percent(shares[Reading.ANY])} it is the end's, and then {loaded.candidates[likeliest][:_SHORT]} is likeliest"
    )
    if at_end is not None and at_end.symptoms is not None and unsure.symptoms is not None:
        asked = distinguishing_condition(at_end.symptoms, but_not=unsure.symptoms)
        message += "" if asked is None else f"; if it is another, ask with --bad-when '{asked}'"
    return conclusion.model_copy(
        update={
            "message": message,
            "suspects": tuple(named_commit(loaded, node, float(chances[node])) for node in named),
        }
    )


def _recent_runs_phrase(observations: Sequence[Observation], log: ProbeLog) -> str:
    """Return a phrase about the last runs, where many of them had one outcome: what was seen before may not show any
    more.

    Where they failed, the phrase quotes the last line that the newest run printed. It may tell what became of the
    environment.
    """
    judged = [seen for seen in observations if seen.outcome is not Outcome.SKIP]
    alike = [*takewhile(lambda seen: seen.outcome is judged[-1].outcome, reversed(judged))]
    if len(alike) < _MANY_ALIKE or len(alike) == len(judged):
        return ""
    of = plural(len({seen.commit for seen in alike}), "commit")
    newest = next(probe for probe in reversed(log.ended) if probe.judgement is not Judgement.SKIP)
    if newest.judgement is Judgement.GOOD:
        return f"; the last {len(alike)} runs all passed, of {of}"
    said = f'; the newest one says "{newest.evidence[-1]}"' if newest.evidence else ""
    return f"; the last {len(alike)} runs all failed, of {of}{said}"


def budget_conclusion(
    loaded: LoadedRange, posterior: Posterior, *, confidence: float, why: str
) -> Conclusion:
    """Return what is known where no probe may start any more.

    The suspects are the fewest candidates that hold the culprit with the requested confidence.
    """
    chances = posterior.belief.commits
    order = np.argsort(-chances, kind="stable")
    reached = np.cumsum(chances[order]) >= confidence
    credible = order[: int(np.argmax(reached)) + 1] if reached.any() else order
    suspects = tuple(named_commit(loaded, int(node), float(chances[node])) for node in credible)
    certain = posterior.certain
    left = len(suspects) if certain is None else int(certain.suspects.sum())
    message = f"{plural(left, 'commit')} of {loaded.range.repository} {'is' if left == 1 else 'are'} left"
    if left < len(suspects):
        message += f" if no run was by chance, {len(suspects)} hold the change with {confidence:.0%}"
    if (no_commit := _no_commit(posterior.belief, credible.tolist())) is not None:
        message += f"; {_no_commit_phrase(no_commit, loaded.range.repository)}"
    return Conclusion(
        outcome=BisectionOutcome.BUDGET,
        message=f"{message}: {why}",
        suspects=suspects,
        no_commit=no_commit,
    )
