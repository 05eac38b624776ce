"""The search for a good end that nobody named.

`GoodEndSearch` goes back from the bad end along first parents, 1, 2, 4, ... commits at a time, until the case passes.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from typing_extensions import override

from ...runner.errors import EndsError
from ...store.vocabulary import Judgement, Phase, plural
from ..history.questions import AskFirstParents, AskTarget, FirstParents
from ..search.belief import Observation, Outcome
from ..search.decision import worth_waiting
from ..search.graph import CommitGraph
from ..search.halving import GallopTo, NothingPasses, Passes, gallop
from ..search.hypotheses import GOOD_END
from ..search.posterior import Posterior
from .answer import Advance, BisectionState, Move, Wait, load_all
from .costs import Context
from .opening import RangeOpening, await_frozen_data
from .probes import Target, WantedProbe
from .runs import BisectionKnowledge, GoodEnd, Needs, Notice
from .target_judgement import await_probe, judge_target, judged_runs, never_shown_error, require_judged

_OUTCOMES: Mapping[Judgement, Outcome] = {
    Judgement.GOOD: Outcome.GOOD,
    Judgement.BAD: Outcome.BAD,
    Judgement.SKIP: Outcome.SKIP,
}


@dataclass(frozen=True)
class GoodEndSearch(BisectionState):
    """Nobody named a good end. It is looked for along the first parents of the bad one."""

    @override
    def failing_end(self, known: BisectionKnowledge) -> Target | None:
        asked = self._target_question(known, known.question.range.new)
        bad = known.answer(asked) if known.has_answer(asked) else None
        return bad if bad is not None and known.log.tally(bad.content)[Judgement.BAD] else None

    @override
    def advance(self, known: BisectionKnowledge, context: Context) -> Advance:
        question = known.question
        line_asked = AskFirstParents(repository=question.range.repository, commit=question.range.new)
        bad_asked = self._target_question(known, question.range.new)
        if wait := load_all(known, line_asked, bad_asked):
            return wait
        if wait := await_frozen_data(known, None, ordinal=1):
            return wait
        bad = known.answer(bad_asked)
        if bad is None:
            raise EndsError(
                f"bad {question.range.new[:12]}: expected a commit that can be built, found one that pins nothing"
            )
        if not known.log.tally(bad.content)[Judgement.BAD]:
            _require_worth_waiting(known, bad)
            return self._run(known, bad)
        return self._gallop(known, known.answer(line_asked), bad)

    def _gallop(self, known: BisectionKnowledge, line: FirstParents, bad: Target) -> Advance:
        """Test one commit after another, as far as their outcomes are known."""
        outcomes: dict[int, Outcome] = {}
        while True:
            step = gallop(len(line.commits), outcomes)
            match step:
                case NothingPasses():
                    raise EndsError(_no_pass_message(line))
                case Passes(commit=place):
                    return _open_from_good_end(line, place)
                case GallopTo(commit=place):
                    outcome = self._test(known, line.commits[place], bad)
                    if isinstance(outcome, Wait):
                        return outcome
                    outcomes[place] = outcome

    def _test(self, known: BisectionKnowledge, commit: str, bad: Target) -> Outcome | Wait:
        """Return the outcome of a commit, or what has to happen before it is known."""
        asked = self._target_question(known, commit)
        if wait := load_all(known, asked):
            return wait
        target = known.answer(asked)
        if target is None:
            return Outcome.SKIP
        tally = known.log.tally(target.content)
        if not tally:
            return self._run(known, target)
        if not tally[Judgement.GOOD]:
            judgement = judge_target(known.log, target)
            return self._run(known, target) if judgement is None else _OUTCOMES[judgement]
        if wait := await_frozen_data(known, target, ordinal=1):
            text = f"the data are frozen as {commit[:12]} had them; the runs before its own made data of their own"
            return Wait(Needs(start=wait.needs.start, freeze=wait.needs.freeze, notes=(Notice(text),)))
        # Where the failure is flaky, one pass proves nothing.
        judgement = judge_target(known.log, target)
        return self._run(known, target) if judgement is None else _OUTCOMES[judgement]

    def _run(self, known: BisectionKnowledge, target: Target) -> Wait:
        saves = not known.frozen and known.question.golden == "captured"
        wanted = WantedProbe(target=target, phase=Phase.ENDPOINT, range=1, save_golden=saves)
        return await_probe(known, wanted)

    def _target_question(self, known: BisectionKnowledge, commit: str) -> AskTarget:
        where = known.question.range
        return AskTarget(repository=where.repository, commit=commit, held=where.held)


def _require_worth_waiting(known: BisectionKnowledge, bad: Target) -> None:
    """Raise `EndsError` where one more run of a bad end that never failed is not worth it.

    The posterior of a range that holds only this commit decides.
    """
    require_judged(known.log.probes_for(bad.content), bad, by_command=known.question.by_command)
    probes = judged_runs(known.log, bad)
    passes = [Observation(GOOD_END, Outcome.GOOD), *[Observation(0, Outcome.GOOD)] * len(probes)]
    posterior = Posterior.start(CommitGraph([[]]), known.question.rates, observations=passes)
    if probes and not worth_waiting(posterior, bad=True, for_failure=True):
        raise never_shown_error(bad, Judgement.BAD, len(probes))


def _open_from_good_end(line: FirstParents, place: int) -> Move:
    commit = line.commits[place]
    text = f"good end: {commit[:12]} passes, {plural(place, 'commit')} before the bad one"
    return Move(RangeOpening(good=commit), (GoodEnd(commit), Notice(text)))


def _no_pass_message(line: FirstParents) -> str:
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
