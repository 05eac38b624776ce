"""The conclusion of a bisection, the states that lead to it, and how it is drawn.

`Conclusion` is what the store keeps and reports print. A `BisectionState` is one stage of a bisection: its `advance`
says what the stage waits for or what comes next. `EnclosingRanges` completes the conclusion of a range that lies inside
others. `FinalState` is the last stage. The functions at the end draw the conclusions that name no confirmed culprit.
"""

import shlex
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
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
from ..search.belief import Belief
from ..search.decision import EnvironmentMoved, NoCulprit, Undecided
from ..search.graph import Floats
from ..search.halving import OnlySkipped
from ..search.posterior import Posterior
from .failures import Reading, uncounted_failures
from .range_search import Context, ExpectedGain, RangeSearch, early_failing_end
from .runs import BisectionKnowledge, FinishedProbe, Needs, Note, ProbeLog, WantedProbe, failing_end
from .trouble import changed_end_notice

Blame = Literal["submodule", "version", "superproject", "interaction", "either", "unknown"]
"""What makes a culprit fail that moves a pin. The words are those of submodules, and stand for each kind of pin.

- `submodule`: the new value of the pin.
- `version`: the new value of a pin that pins no repository of the stack.
- `superproject`: the commit's other changes.
- `interaction`: both together. Neither does it alone.
- `either`: each does it alone.
- `unknown`: a test was neither good nor bad.
"""


class NamedCommit(Model):
    """A commit that a conclusion names, as culprit or suspect."""

    repository: str
    commit: str
    parent: str | None
    """Its first parent. The parent of a culprit was run too."""
    confidence: float | None
    """The posterior probability that it made the change. None where it was not computed."""
    merge: bool
    """Whether it has several parents."""
    version: str | None = None
    """The release that it stands for."""
    under: str | None = None
    """The perturbation under which it was found. It makes the commit fail in every run."""


class Counterfactual(Model):
    """Says whether a pin that the culprit moves is to blame, by the 2 x 2 of the pin and the commit that holds it.

    `repository` is the pinned repository of the stack, or the name of a pin that pins none of these. Such a pin has no
    history to search, and its blame is "version".
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
    """Says whether the culprit's change of how its case measures is to blame.

    `new_with_old` is the judgement of the culprit when it measures as its parent does, and `old_with_new` the reverse.
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
    """The layers that a commit moves at once, and their joint effect.

    `least` are the smallest sets of layers that make the difference when only they are new. They are `proven` if all
    cells were run. A cell that most likely cannot be built is not run, and may show other sets.
    """

    layers: tuple[str, ...]
    """The repository of the commit, which stands for its own change, and then what its moved pins hold."""
    cells: tuple[LayerCell, ...]
    """The cells that were run. The two ends are left out: all old is the parent, and all new the commit."""
    least: tuple[tuple[str, ...], ...]
    proven: bool


class NoCommit(Model):
    """The probabilities that no commit of the range is to blame.

    `chance` is the probability that all commits fail at one rate. `environment` is the probability that something
    outside of the commits changed.
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
    """The answer of a bisection."""

    schema_version: Literal[1] = 1
    outcome: BisectionOutcome
    message: str
    """The answer in one line."""
    culprits: tuple[NamedCommit, ...] = ()
    """The confirmed commits."""
    through: NamedCommit | None = None
    """The commit that moved a pin, where the culprit lies in the pinned repository."""
    lost: NamedCommit | None = None
    """The fix that the culprit removed by moving a pin back, or to another line. It is a fault if a fix was sought."""
    suspects: tuple[NamedCommit, ...] = ()
    """The commits that may be to blame, where none could be confirmed."""
    no_commit: NoCommit | None = None
    """Set where the suspects have less than half of the probability together."""
    earlier_failures: tuple[str, ...] = ()
    """The first commits that failed, though a later one passed before the culprit. If a fix was sought, they passed,
    though a later one failed."""
    failures: tuple[str, ...] = ()
    """The failures of the failing end, if some runs failed in another way."""
    fail_otherwise: tuple[int, ...] = ()
    """The numbers of the runs that failed in another way, or may have. They did not count as bad."""
    broken_places: tuple[str, ...] = ()
    """The slots whose runs all ended the same, whatever commit ran there. Their runs do not count."""
    counterfactuals: tuple[Counterfactual, ...] = ()
    layers: tuple[MovedLayers, ...] = ()
    """One entry for each commit that moves several pins at once, in place of counterfactuals."""
    yardstick: YardstickTest | None = None
    """Set where the culprit changes how its case measures."""
    diffs: tuple[CommitDiff, ...] = ()
    """What the culprits change. A commit that git could not read has no entry. Stores of earlier versions have none."""
    rates: tuple[EndRate, ...] = ()
    """How often each end failed in all of its runs that are judged."""
    pins: tuple[PinRecord, ...] = ()
    localization: Localization | None = None
    """Where in the culprit's build the failure begins. None where that was not requested, or there is no culprit."""
    caveats: tuple[str, ...] = ()
    """What speaks against the answer, as the last report says it. The lists of bisections read it here."""


@dataclass(frozen=True, kw_only=True)
class _PinMove(ABC):
    """A culprit of an outer range that moves a pin. An inner range lies in the pinned repository."""

    named: NamedCommit
    counterfactuals: tuple[Counterfactual, ...]
    layers: tuple[MovedLayers, ...]
    earlier_failures: tuple[str, ...]

    def outer_conclusion(self, inner: Conclusion) -> Conclusion:
        """Return the conclusion of the outer range from that of the inner one."""
        conclusion = self._explain(inner)
        return conclusion.model_copy(
            update={
                "counterfactuals": (*self.counterfactuals, *conclusion.counterfactuals),
                "layers": (*self.layers, *conclusion.layers),
                "earlier_failures": (*conclusion.earlier_failures, *self.earlier_failures),
            }
        )

    @abstractmethod
    def _explain(self, inner: Conclusion) -> Conclusion:
        """Return the conclusion of the outer range, without what was tested there."""


@dataclass(frozen=True, kw_only=True)
class IntroducingPinMove(_PinMove):
    """The pin brought in what the inner range found."""

    @override
    def _explain(self, inner: Conclusion) -> Conclusion:
        return inner.model_copy(update={"through": inner.through or self.named})


@dataclass(frozen=True, kw_only=True)
class RemovingPinMove(_PinMove):
    """The pin moved back, or to another line, and so took away what the inner range found.

    No commit of the pinned repository made the change.
    """

    moved: MovedPin
    seeks: Seeks
    is_divergent: bool

    @override
    def _explain(self, inner: Conclusion) -> Conclusion:
        how = "to another line" if self.is_divergent else "back"
        what = "fix" if self.seeks is Seeks.REGRESSION else "fault"
        moved = self.moved
        move = f"by moving {moved.held_name} {how}, {moved.move}"
        if inner.outcome is BisectionOutcome.BUDGET:
            message = (
                f"{describe_change(self.named, self.seeks)} {move}; which {what} that takes away is not known yet: "
                f"{inner.message}"
            )
            # The suspects of the inner range are commits that the move may have taken away.
            suspects = (self.named,)
            return inner.model_copy(update={"message": message, "suspects": suspects, "no_commit": None})
        lost = next(iter(inner.culprits), None)
        which = f"the {what} {lost.repository} {lost.commit}" if lost else f"a {what} that could not be named"
        return Conclusion(
            outcome=BisectionOutcome.CULPRIT,
            message=f"{describe_change(self.named, self.seeks)} {move}, which takes away {which}",
            culprits=(self.named,),
            lost=lost,
            counterfactuals=inner.counterfactuals,
            layers=inner.layers,
        )


OuterRange: TypeAlias = IntroducingPinMove | RemovingPinMove


@dataclass(frozen=True, kw_only=True)
class EnclosingRanges:
    """Holds what lies around the searched range: the ends of the whole bisection, and its outer ranges."""

    good: Target
    bad: Target
    outer: tuple[OuterRange, ...] = ()
    """The innermost comes first."""

    def add_outer(self, outer: OuterRange) -> "EnclosingRanges":
        """Return the enclosing ranges of a range that lies inside the searched one."""
        return EnclosingRanges(good=self.good, bad=self.bad, outer=(outer, *self.outer))

    def complete(self, inner: Conclusion) -> Conclusion:
        """Return the conclusion of the whole bisection, from that of the innermost range.

        Its `rates` and `pins` are not set yet.
        """
        for outer in self.outer:
            inner = outer.outer_conclusion(inner)
        return inner


def describe_change(named: NamedCommit, seeks: Seeks) -> str:
    """Return the sentence that the commit introduced the failure, or fixed it."""
    verb = "introduced" if seeks is Seeks.REGRESSION else "fixed"
    return f"{named.repository} {named.version or named.commit} {verb} it"


@dataclass(frozen=True, kw_only=True)
class ConfirmedCulprit:
    """A candidate that was confirmed, and what was tested of its pins so far."""

    search: RangeSearch
    enclosing: EnclosingRanges
    node: int
    """The candidate."""
    named: NamedCommit
    """The candidate as it is reported."""
    earlier_failures: tuple[str, ...]
    pin_tests: tuple[Counterfactual, ...] = ()
    """The test of its pin, where it moves one."""
    layers: tuple[MovedLayers, ...] = ()
    """The test of its pins, where it moves several."""


def named_commit(loaded: LoadedRange, node: int, confidence: float | None) -> NamedCommit:
    """Return a candidate as it is reported."""
    return report_commit(loaded, loaded.commit_range.nodes[node].commit, confidence)


def report_commit(loaded: LoadedRange, commit: Commit, confidence: float | None) -> NamedCommit:
    """Return any commit of the range as it is reported."""
    return NamedCommit(
        repository=loaded.range.repository,
        commit=commit.sha,
        parent=commit.parents[0] if commit.parents else None,
        confidence=confidence,
        merge=len(commit.parents) > 1,
        version=loaded.versions.get(commit.sha),
    )


class BisectionState(ABC):
    """A stage of a bisection. It is frozen: what it needs follows from what is known and from the context."""

    @abstractmethod
    def advance(self, known: BisectionKnowledge, context: Context) -> "Advance":
        """Return what the stage waits for, or what comes next.

        Raises `EndsError` where the ends do not differ, and `UserError` where an end cannot be judged.
        """

    def expected_gain(self, known: BisectionKnowledge, context: Context) -> ExpectedGain | None:
        """Return the gain of a further probe, by which other bisections may go first.

        Return None where the bisection goes on at once.
        """
        return None

    @property
    def search(self) -> RangeSearch | None:
        """Return the innermost range that is known so far."""
        return None

    def failing_end(self, known: BisectionKnowledge) -> Target | None:
        """Return the end that shows the searched failure. Return None before it was measured."""
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
    """The search of a range begins, once its ends are measured."""

    search: RangeSearch
    enclosing: EnclosingRanges
    notes: tuple[Note, ...] = ()


Advance: TypeAlias = Wait | Move | Enter | Conclusion
"""What a state waits for, or what comes next. A conclusion ends the bisection."""


def await_probe(known: BisectionKnowledge, wanted: WantedProbe) -> Wait:
    """Return a wait for one more probe of a target. It starts the probe unless one of this content is running."""
    running = known.log.is_running(wanted.target.content)
    return Wait(Needs() if running else Needs(start=(wanted,)))


def load_all(known: BisectionKnowledge, *questions: HistoryQuestion) -> Wait | None:
    """Return a wait for the answers that are missing. Return None once all are there."""
    missing = tuple(question for question in questions if not known.has_answer(question))
    return Wait(Needs(load=missing)) if missing else None


@dataclass(frozen=True)
class FinalState(RangeState):
    """The last state: the innermost range has its answer."""

    inner: Conclusion
    """The conclusion of the innermost range."""
    enclosing: EnclosingRanges

    @override
    def advance(self, known: BisectionKnowledge, context: Context) -> Advance:
        question = AskPins(good=self.enclosing.good, bad=self.enclosing.bad)
        if wait := load_all(known, question):
            return wait
        rates = (
            _rate(known.log, "good", self.enclosing.good),
            _rate(known.log, "bad", self.enclosing.bad),
        )
        conclusion = self.enclosing.complete(self.inner).model_copy(
            update={"rates": rates, "pins": known.answer(question)}
        )
        return add_failures(conclusion, self.range_search, known)


def add_failures(conclusion: Conclusion, search: RangeSearch, known: BisectionKnowledge) -> Conclusion:
    """Return the conclusion with the runs that failed in another way, and how the failing end fails."""
    other = uncounted_failures(known.log, search.reading)
    if not other:
        return conclusion
    end = failing_end(search.loaded).content
    shown = {probe.signature for probe in known.log.probes_for(end) if probe.judgement is Judgement.BAD}
    return conclusion.model_copy(
        update={"failures": tuple(sorted(filter(None, shown))), "fail_otherwise": other}
    )


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
_LONG_ROW = 20
"""A message that names no commit mentions a row of this many equal judgements or more. A shorter one is not unusual."""

_TEST_ADVICE = "; --cherry-pick, --overlay and --adapt make commits testable"
_LIKELY_SHARE = 0.5
"""Where the suspects have less probability together, the answer says how likely no commit is to blame."""
_WHY = {
    "nothing tells": "no further run tells them apart for what it costs",
    "bound": "as many runs were made as the search may take",
}


def conclusion_without_culprit(
    search: RangeSearch,
    decision: OnlySkipped | Undecided | NoCulprit | EnvironmentMoved,
    earlier_failures: tuple[str, ...],
    *,
    posterior: Posterior,
    known: BisectionKnowledge,
    advice: str | None = None,
) -> Conclusion:
    """Return the conclusion that names no culprit.

    `advice` says why suspects cannot be tested, and how they can be. It is None where that is unknown.
    """
    loaded, recently = search.loaded, _recent_runs_phrase(search, known)
    repository = loaded.range.repository
    what = "culprit" if loaded.range.seeks is Seeks.REGRESSION else "fix"
    chances = posterior.belief.commits
    suspects: tuple[int, ...] = ()
    no_commit: NoCommit | None = None
    match decision:
        case EnvironmentMoved():
            outcome = BisectionOutcome.NO_CULPRIT
            message = "the environment moved while it was searched: no commit explains the runs" + recently
        case NoCulprit():
            outcome = BisectionOutcome.NO_CULPRIT
            message = f"no commit of {repository} in the range explains the runs{recently}"
        case OnlySkipped(candidates=suspects):
            outcome = BisectionOutcome.ONLY_SKIPPED
            message = f"the {what} is {_untestable_phrase(loaded, suspects, advice)}"
        case Undecided(suspects=suspects, why=why):
            outcome = BisectionOutcome.SUSPECT
            no_commit = _no_commit(posterior.belief, suspects)
            among = _suspects_phrase(loaded, suspects)
            probably = f"the {what} is probably {among}"
            if no_commit is not None:
                share = percent(float(chances[[*suspects]].sum()))
                probably = f"{_no_commit_phrase(no_commit, repository)}, with {share} it is {among}"
            message = f"{probably}: {_WHY[why]}{recently}"
    named = tuple(named_commit(loaded, node, float(chances[node])) for node in suspects)
    suspected = {each.commit for each in named}
    return Conclusion(
        outcome=outcome,
        message=changed_end_notice(loaded, known.log) + message,
        suspects=named,
        no_commit=no_commit,
        earlier_failures=tuple(each for each in earlier_failures if each not in suspected),
    )


def _untestable_phrase(loaded: LoadedRange, suspects: Sequence[int], advice: str | None) -> str:
    """Return a phrase for suspects that could not be tested, with advice."""
    left_out = sum(loaded.candidates[node] in loaded.range.skip for node in suspects)
    why = _TEST_ADVICE if advice is None else advice
    if left_out and not advice:
        why = f"; --skip leaves out {'it' if len(suspects) == 1 else f'{left_out} of them'}"
    phrase = _suspects_phrase(loaded, suspects)
    if len(suspects) == 1:
        return f"{phrase}, which could not be tested{why}"
    first, last = (loaded.candidates[node][:_SHORT] for node in (suspects[0], suspects[-1]))
    return f"{phrase}, {first} to {last}, whose runs do not tell them apart{why}"


def _suspects_phrase(loaded: LoadedRange, suspects: Sequence[int]) -> str:
    """Return a phrase for the commits among which the culprit is."""
    if len(suspects) == 1:
        return f"{loaded.range.repository} {loaded.candidates[suspects[0]][:_SHORT]}"
    return f"one of {plural(len(suspects), 'commit')} of {loaded.range.repository}"


def _no_commit(belief: Belief, suspects: Sequence[int]) -> NoCommit | None:
    """Return the probabilities that no commit is to blame. Return None where the suspects have at least half."""
    if float(belief.commits[[*suspects]].sum()) >= _LIKELY_SHARE:
        return None
    return NoCommit(chance=belief.no_culprit, environment=belief.environment)


def _no_commit_phrase(no_commit: NoCommit, repository: str) -> str:
    """Return the phrase that possibly no commit is to blame."""
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

    `beliefs` is the belief in each candidate by reading, of shape [n]. `shares` is the probability of each reading.
    `unsure` is a run that may show another failure. `at_end` is a run of the failing end.
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
        f"{conclusion.message}; if run {unsure.number} ({unsure.signature}) shows the same failure "
        f"({percent(shares[Reading.ANY])}), it is {loaded.candidates[likeliest][:_SHORT]}"
    )
    if at_end is not None and at_end.symptoms is not None and unsure.symptoms is not None:
        condition = distinguishing_condition(at_end.symptoms, but_not=unsure.symptoms)
        message += "" if condition is None else f"; if not, ask with --bad-when {shlex.quote(condition)}"
    return conclusion.model_copy(
        update={
            "message": f"{message}; see docs/how-to/two-failures.md",
            "suspects": tuple(named_commit(loaded, node, float(chances[node])) for node in named),
        }
    )


def _recent_runs_phrase(search: RangeSearch, known: BisectionKnowledge) -> str:
    """Return a phrase about the last runs, where many of them had one judgement. Return an empty text elsewhere.

    A sudden row of equal judgements may mean that the environment changed. Where the runs failed, the phrase quotes the
    last line of the newest one.
    """
    judged = [
        probe
        for probe in search.log(known).ended
        if probe.judgement is not Judgement.SKIP and search.evidence.nodes_of(probe.content)
    ]
    row = [*takewhile(lambda probe: probe.judgement is judged[-1].judgement, reversed(judged))]
    if len(row) < _LONG_ROW or len(row) == len(judged):
        return ""
    commits, newest = plural(len({probe.content for probe in row}), "commit"), judged[-1]
    if newest.judgement is Judgement.GOOD:
        return f"; the last {len(row)} runs all passed, of {commits}"
    said = f'; the newest one says "{newest.evidence[-1]}"' if newest.evidence else ""
    return f"; the last {len(row)} runs all failed, of {commits}{said}"


def budget_conclusion(
    loaded: LoadedRange, posterior: Posterior, *, confidence: float, why: str
) -> Conclusion:
    """Return the conclusion where no probe may start any more. `why` says so.

    The suspects are the fewest candidates that hold the culprit with the requested confidence.
    """
    chances = posterior.belief.commits
    order = np.argsort(-chances, kind="stable")
    reached = np.cumsum(chances[order]) >= confidence
    credible = order[: int(np.argmax(reached)) + 1] if reached.any() else order
    suspects = tuple(named_commit(loaded, int(node), float(chances[node])) for node in credible)
    is_credible = np.zeros(len(chances), dtype=np.bool_)
    is_credible[credible] = True
    certain, held = posterior.certain, loaded.count_candidates(is_credible)
    left = held if certain is None else loaded.count_candidates(certain.suspects)
    message = f"{plural(left, 'commit')} of {loaded.range.repository} {'is' if left == 1 else 'are'} left"
    if left < held:
        message += f" if no run was by chance, {held} hold the change with {percent(confidence)}"
    for node in np.flatnonzero(is_credible & (loaded.unread_counts > 0)).tolist():
        unread = plural(int(loaded.unread_counts[node]), "commit")
        message += f"; {loaded.candidates[node][:_SHORT]} stands for itself and the {unread} before it"
    if (no_commit := _no_commit(posterior.belief, credible.tolist())) is not None:
        message += f"; {_no_commit_phrase(no_commit, loaded.range.repository)}"
    return Conclusion(
        outcome=BisectionOutcome.BUDGET,
        message=f"{message}: {why}",
        suspects=suspects,
        no_commit=no_commit,
    )
