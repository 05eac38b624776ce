"""The parents of a culprit are run that lie outside of the range, or were taken to do as another commit does.

A line that was forked before the range began may lack a fix that the good end has: then its first commit fails without
being to blame.
"""

import math
from collections import Counter
from dataclasses import dataclass, replace

import numpy as np
from typing_extensions import override

from ....runner.errors import EndsError
from ....store.vocabulary import BisectionOutcome, Judgement, Phase, Seeks
from ....store.words import plural
from ...commits.lines import candidates_on_line, without_candidates
from ...commits.range import outcome_of
from ...result import Conclusion
from ...search.evidence.knowledge import Outcome
from ...search.model.rates import Rates, fit
from ..evidence import RangeEvidence, failing_end, passing_end
from ..history import AskTarget
from ..known import Known
from ..log import ProbeLog
from ..needs import Notice
from ..priority.circumstances import Circumstances
from ..probes import Target, WantedProbe
from ..range_search import RangeSearch
from .answer.concluding import Concluding
from .culprit import TestingPins
from .judging import one_probe
from .state import Advance, Enter, Move, OfCulprit, Wait, load_all

_ODDS = 99.0
"""At which a parent counts as passing or failing."""
_MOST_RUNS = 24
_LEAST_RATE = 0.01
"""No rate is surely 0 or 1."""


@dataclass(frozen=True)
class CheckingParents(OfCulprit):
    """A culprit is confirmed, as far as commits of the range go."""

    @override
    def advance(self, known: Known, around: Circumstances) -> Advance:
        where = self.search.loaded.range
        asked = [
            AskTarget(repository=where.repository, commit=parent, held=where.held)
            for parent in self._outside_parents()
        ]
        if wait := load_all(known, *asked):
            return wait
        for question in asked:
            target = known.answer(question)
            outcome = Outcome.SKIP if target is None else self._outcome(known, target)
            if outcome is None and target is not None:
                return self._run(known, target)
            if outcome is Outcome.BAD:
                elsewhere = question.commit in self.search.loaded.elsewhere
                return (self._elsewhere if elsewhere else self._without_line)(question.commit)
            if outcome is not Outcome.GOOD:
                return self._suspect(question.commit)
        return Move(TestingPins(self.culprit))

    def _outside_parents(self) -> list[str]:
        """The parents of the culprit that are neither commits of the range that runs tell of nor its old end."""
        loaded = self.search.loaded
        inside = {commit.sha for commit in loaded.commits} - loaded.elsewhere | {loaded.range.old}
        commit = loaded.collapsed.nodes[self.culprit.node].commit
        parents = commit.parents[:1] if loaded.range.first_parent else commit.parents
        return [parent for parent in parents if parent not in inside]

    def _outcome(self, known: Known, parent: Target) -> Outcome | None:
        """What a parent is; None where one more run has to tell."""
        loaded = self.search.loaded
        if parent.content == loaded.old_content:
            return Outcome.GOOD
        ends = passing_end(loaded).content, failing_end(loaded).content
        judgement = like_an_end(self.search.log(known), parent.content, good=ends[0], bad=ends[1])
        return None if judgement is None else outcome_of(judgement, loaded.range.seeks)

    def _run(self, known: Known, parent: Target) -> Wait:
        wanted = WantedProbe(target=parent, phase=Phase.CONFIRM, range=self.search.ordinal)
        return one_probe(known, wanted)

    def _without_line(self, parent: str) -> Advance:
        """Go on without the line of the culprit, which does the same before its first commit."""
        search, named = self.search, self.culprit.named
        line = candidates_on_line(search.loaded.graph, self.culprit.node)
        if search.loaded.graph.bad in line:
            # In a pinned repository the commit that moves the pin stays named; and of a parent on a line that was left
            # out the good end does not descend.
            if search.ordinal > 1 or parent in search.loaded.left_out:
                return self._suspect(parent)
            raise self._mended_before(parent)
        loaded = without_candidates(search.loaded, line)
        text = (
            f"{named.commit[:12]} is not to blame: its parent {parent[:12]}, from before the range, does the same. "
            f"Its line lacks what the good end has; {plural(len(line), 'commit')} of it left out"
        )
        bad = {search.loaded.graph.bad: loaded.graph.bad}
        inherited = (
            replace(seen, commit=bad.get(seen.commit, seen.commit)) for seen in search.evidence.inherited
        )
        evidence = RangeEvidence.of(loaded, inherited=tuple(inherited))
        narrower = RangeSearch(
            ordinal=search.ordinal,
            loaded=loaded,
            evidence=evidence,
            confidence=search.confidence,
            case=search.case,
            failures=search.failures,
        )
        return Enter(narrower, self.culprit.enclosing, (Notice(text),))

    def _mended_before(self, parent: str) -> EndsError:
        """That what the newer end does came before the range, and was undone on the way to the older end."""
        where = self.search.loaded.range
        regression = where.seeks is Seeks.REGRESSION
        other = next(iter(where.also_old), where.old)
        old, new, does, what = (
            ("good", "bad", "fails", "fixed") if regression else ("bad", "good", "passes", "introduced")
        )
        ends = f"--find-fix --bad {parent} --good {other}" if regression else f"--good {parent} --bad {other}"
        return EndsError(
            f"{parent[:12]}, which both {old} {other[:12]} and {new} {where.new[:12]} build on, {does} too: it was "
            f"{what} on the way to {other[:12]}, and {new} {where.new[:12]} has no commit that does so; to find by "
            f"which commit, ask with {ends}"
        )

    def _elsewhere(self, parent: str) -> Advance:
        """The change lies in commits that touch none of the paths that the search was limited to."""
        loaded, named = self.search.loaded, self.culprit.named
        nodes = loaded.collapsed.nodes
        node = next((node for node in nodes if any(each.sha == parent for each in node.members)), None)
        before = loaded.range.old if node is None else node.commit.sha
        conclusion = Conclusion(
            outcome=BisectionOutcome.NO_CULPRIT,
            message=(
                f"no commit of {named.repository} that touches --path {' or '.join(loaded.range.paths)} explains the "
                f"runs: the change lies between {before[:12]} and {parent[:12]}, which touch none of it; ask there "
                "without --path"
            ),
            earlier_failures=self.culprit.earlier_failures,
        )
        return Move(Concluding(self.search, conclusion, self.culprit.enclosing))

    def _suspect(self, parent: str) -> Advance:
        """The parent tells nothing, so that nothing is proven."""
        named = self.culprit.named
        conclusion = Conclusion(
            outcome=BisectionOutcome.SUSPECT,
            message=(
                f"{named.repository} {named.commit} is the suspect: its parent {parent[:12]} could not be told "
                "from it"
            ),
            suspects=(named.model_copy(update={"confidence": None}),),
            earlier_failures=self.culprit.earlier_failures,
        )
        return Move(Concluding(self.search, conclusion, self.culprit.enclosing))


def like_an_end(log: ProbeLog, content: str, *, good: str, bad: str) -> Judgement | None:
    """Whether a content fails as often as the bad end's or as the good one's; None where one more run has to tell.

    Wald's sequential probability ratio test (Sequential Analysis, 1947) between the rates of both ends, at odds of 99.
    A skip where a run cannot be judged, or too many runs told nothing.
    """
    tally = log.tally(content)
    fails, passes = tally[Judgement.BAD], tally[Judgement.GOOD]
    rates = _fail_rates(log.tally(good), log.tally(bad))
    evidence = fails * math.log(rates[1] / rates[0]) + passes * math.log((1 - rates[1]) / (1 - rates[0]))
    if evidence >= math.log(_ODDS):
        return Judgement.BAD
    if evidence <= -math.log(_ODDS):
        return Judgement.GOOD
    return Judgement.SKIP if tally[Judgement.SKIP] or fails + passes >= _MOST_RUNS else None


def _fail_rates(good: Counter[Judgement], bad: Counter[Judgement]) -> tuple[float, float]:
    """The expected fail rates of the ends, as the search takes them to be; neither is surely 0 or 1."""
    fitted = fit(
        Rates.unknown(),
        good_fails=np.array([float(good[Judgement.BAD])]),
        good_passes=np.array([float(good[Judgement.GOOD])]),
        bad_fails=np.array([float(bad[Judgement.BAD])]),
        bad_passes=np.array([float(bad[Judgement.GOOD])]),
    )
    return max(_LEAST_RATE, float(fitted.good[0])), min(1 - _LEAST_RATE, float(fitted.bad[0]))
