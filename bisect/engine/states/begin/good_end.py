"""A good end is looked for behind the bad one, along first parents, until the case passes."""

from collections.abc import Mapping
from dataclasses import dataclass

from typing_extensions import override

from .....runner.errors import EndsError
from .....store.vocabulary import Judgement, Phase
from .....store.words import plural
from ....search.choose.bound import worth_waiting
from ....search.choose.gallop import GallopTo, NothingPasses, Passes, gallop
from ....search.evidence.knowledge import Observation, Outcome
from ....search.evidence.posterior import Posterior
from ....search.graph.graph import CommitGraph
from ....search.model.groups import GOOD_END
from ...history import AskFirstParents, AskTarget, FirstParents
from ...known import Known
from ...needs import GoodEnd, Needs, Notice
from ...priority.circumstances import Circumstances
from ...probes import Target, WantedProbe
from ..data import frozen_data
from ..judging import judged, judged_runs, never_shown, one_probe, require_judged
from ..state import Advance, BisectionState, Move, Wait, load_all
from .opening import OpeningRange

_OUTCOMES: Mapping[Judgement, Outcome] = {
    Judgement.GOOD: Outcome.GOOD,
    Judgement.BAD: Outcome.BAD,
    Judgement.SKIP: Outcome.SKIP,
}


@dataclass(frozen=True)
class FindingGoodEnd(BisectionState):
    """Nobody named a good end."""

    @override
    def failing_end(self, known: Known) -> Target | None:
        asked = self._at(known, known.question.range.new)
        bad = known.answer(asked) if known.has(asked) else None
        return bad if bad is not None and known.log.tally(bad.content)[Judgement.BAD] else None

    @override
    def advance(self, known: Known, around: Circumstances) -> Advance:
        question = known.question
        assert question.gallop is not None
        line_asked = AskFirstParents(
            repository=question.range.repository, commit=question.range.new, unit=question.gallop
        )
        bad_asked = self._at(known, question.range.new)
        if wait := load_all(known, line_asked, bad_asked):
            return wait
        if wait := frozen_data(known, None, ordinal=1):
            return wait
        bad = known.answer(bad_asked)
        if bad is None:
            raise EndsError(
                f"bad {question.range.new[:12]}: expected a commit that can be built, found one that pins nothing"
            )
        if not known.log.tally(bad.content)[Judgement.BAD]:
            _require_worth(known, bad)
            return self._run(known, bad)
        return self._gallop(known, known.answer(line_asked), bad)

    def _gallop(self, known: Known, line: FirstParents, bad: Target) -> Advance:
        """Test commit after commit as far as they are known."""
        outcomes: dict[int, Outcome] = {}
        while True:
            step = gallop(line.distances, outcomes)
            match step:
                case NothingPasses():
                    raise EndsError(_nothing_passes(line))
                case Passes(commit=place):
                    return _found(line, place)
                case GallopTo(commit=place):
                    outcome = self._test(known, line.commits[place], bad)
                    if isinstance(outcome, Wait):
                        return outcome
                    outcomes[place] = outcome

    def _test(self, known: Known, commit: str, bad: Target) -> Outcome | Wait:
        """What a commit is, or what has to happen before that is known."""
        asked = self._at(known, commit)
        if wait := load_all(known, asked):
            return wait
        target = known.answer(asked)
        if target is None:
            return Outcome.SKIP
        tally = known.log.tally(target.content)
        if not tally:
            return self._run(known, target)
        if not tally[Judgement.GOOD]:
            judgement = judged(known.log, target)
            return self._run(known, target) if judgement is None else _OUTCOMES[judgement]
        if wait := frozen_data(known, target, ordinal=1):
            told = f"the data are frozen as {commit[:12]} had them; the runs before its own made data of their own"
            return Wait(Needs(start=wait.needs.start, freeze=wait.needs.freeze, notes=(Notice(told),)))
        # Where the failure comes and goes, one pass proves nothing.
        judgement = judged(known.log, target)
        return self._run(known, target) if judgement is None else _OUTCOMES[judgement]

    def _run(self, known: Known, target: Target) -> Wait:
        saves = not known.frozen and known.question.golden == "captured"
        wanted = WantedProbe(target=target, phase=Phase.ENDPOINT, range=1, save_golden=saves)
        return one_probe(known, wanted)

    def _at(self, known: Known, commit: str) -> AskTarget:
        where = known.question.range
        return AskTarget(repository=where.repository, commit=commit, held=where.held)


def _require_worth(known: Known, bad: Target) -> None:
    """Raises `EndsError` where one more run of a bad end that never failed is not worth it: the posterior of a range of
    that one commit gives it up."""
    require_judged(known.log.of(bad.content), bad, by_exit_code=known.question.by_exit_code)
    probes = judged_runs(known.log, bad)
    passes = [Observation(GOOD_END, Outcome.GOOD), *[Observation(0, Outcome.GOOD)] * len(probes)]
    posterior = Posterior.start(CommitGraph([[]]), known.question.rates, observations=passes)
    if probes and not worth_waiting(posterior, bad=True, for_failure=True):
        raise never_shown(bad, Judgement.BAD, len(probes))


def _found(line: FirstParents, place: int) -> Move:
    commit = line.commits[place]
    text = f"good end: {commit[:12]} passes, {plural(place, 'commit')} before the bad one"
    return Move(OpeningRange(good=commit), (GoodEnd(commit), Notice(text)))


def _nothing_passes(line: FirstParents) -> str:
    end, advice = (
        (
            "the root",
            "it may never have passed; name a commit of another branch with --good, or check the case",
        )
        if line.is_whole
        else (
            "the end of a shallow clone,",
            "ask again after git fetch --deepen=200, or --unshallow, in the checkout",
        )
    )
    return (
        f"expected a pass of the case somewhere before bad {line.commits[0][:12]}, found none back to {end} "
        f"{line.commits[-1][:12]} ({plural(len(line.commits) - 1, 'commit')} along first parents, "
        f"1, 2, 4, ... of them run): {advice}"
    )
