"""The conclusion is drawn, and completed by what the pins of the stack say at both ends."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import takewhile
from typing import Literal

import numpy as np
from typing_extensions import override

from .....store.vocabulary import BisectionOutcome, Judgement, Seeks
from .....store.words import percent, plural
from ....commits.range import LoadedRange
from ....result import Conclusion, EndRate, NoCommit
from ....search.choose.decision import EnvironmentMoved, NoCulprit, Undecided
from ....search.choose.planner import OnlySkipped
from ....search.evidence.belief import Belief
from ....search.evidence.knowledge import Observation, Outcome
from ....search.evidence.posterior import Posterior
from ...failures.exit_codes import Failures
from ...history import AskPins
from ...known import Known
from ...log import ProbeLog
from ...priority.circumstances import Circumstances
from ...probes import Target
from ..state import Advance, Finish, OfRange, load_all
from .enclosing import Enclosing
from .naming import named_commit
from .turned_end import told_of_turned_end


@dataclass(frozen=True)
class Concluding(OfRange):
    """The innermost range, the one of this state, has its answer."""

    inner: Conclusion
    enclosing: Enclosing

    @override
    def advance(self, known: Known, around: Circumstances) -> Advance:
        asked = AskPins(good=self.enclosing.good, bad=self.enclosing.bad)
        if wait := load_all(known, asked):
            return wait
        conclusion = self.enclosing.around(self.inner)
        return Finish(
            conclusion.model_copy(
                update={
                    "rates": (
                        _rate(known.log, "good", self.enclosing.good),
                        _rate(known.log, "bad", self.enclosing.bad),
                    ),
                    "pins": known.answer(asked),
                    "failures": tuple(sorted(self.range_search.failures or ())),
                }
            )
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
_MANY_ALIKE = 20
"""So many runs in a row with one outcome are told of, where no commit is named."""
_HOW_TO_TEST = "; --cherry-pick, --overlay and --adapt make commits testable"
_HALF = 0.5
_WHY = {
    "nothing tells": "no further run tells them apart for what it costs",
    "bound": "as many runs were made as the search may take",
}


def without_culprit(
    loaded: LoadedRange,
    decision: OnlySkipped | Undecided | NoCulprit | EnvironmentMoved,
    earlier_failures: tuple[str, ...],
    *,
    posterior: Posterior,
    log: ProbeLog,
    wall: str = "",
) -> Conclusion:
    """What is said where no commit is named. `wall` says why suspects cannot be tested."""
    lately = _lately(posterior.observations, log)
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
            why = f"; --skip leaves out {left_out} of them" if left_out and not wall else wall or _HOW_TO_TEST
            named_ends = [loaded.candidates[node][:_SHORT] for node in (suspects[0], suspects[-1])]
            among = f"{_among(loaded, suspects)}, {' to '.join(named_ends)}, of which too few could be tested"
            if len(suspects) == 1:
                among = f"{_among(loaded, suspects)}, which could not be tested"
            message = f"the {what} is {among}{why}"
        case Undecided(suspects=suspects, why=why):
            outcome = BisectionOutcome.SUSPECT
            no_commit = _no_commit(posterior.belief, suspects)
            among = _among(loaded, suspects)
            probably = f"the {what} is probably {among}"
            if no_commit is not None:
                share = percent(float(chances[[*suspects]].sum()))
                probably = f"{_not_known(no_commit, repository)}, with {share} it is {among}"
            message = f"{probably}: {_WHY[why]}{lately}"
    named = tuple(named_commit(loaded, node, float(chances[node])) for node in suspects)
    suspected = {each.commit for each in named}
    return Conclusion(
        outcome=outcome,
        message=told_of_turned_end(loaded, log) + message,
        suspects=named,
        no_commit=no_commit,
        earlier_failures=tuple(each for each in earlier_failures if each not in suspected),
    )


def _among(loaded: LoadedRange, suspects: Sequence[int]) -> str:
    """Among which commits the culprit is."""
    if len(suspects) == 1:
        return f"{loaded.range.repository} {loaded.candidates[suspects[0]][:_SHORT]}"
    return f"one of {plural(len(suspects), 'commit')} of {loaded.range.repository}"


def _no_commit(belief: Belief, suspects: Sequence[int]) -> NoCommit | None:
    """How probable it is that no commit is to blame; None where the suspects have at least half."""
    if float(belief.commits[[*suspects]].sum()) >= _HALF:
        return None
    return NoCommit(chance=belief.no_culprit, environment=belief.environment)


def _not_known(no_commit: NoCommit, repository: str) -> str:
    """What is said where the suspects have together less than half."""
    return (
        f"it is not known whether a commit is to blame at all: with {percent(no_commit.chance)} none of {repository} "
        f"is, with {percent(no_commit.environment)} the environment moved"
    )


def of_other_codes(
    loaded: LoadedRange,
    node: int,
    confidence: float,
    *,
    found: Failures,
    at_end: Failures,
    earlier: tuple[str, ...],
) -> Conclusion:
    """What is said of a commit since which the case fails, where it and the failing end share no exit code."""
    named = named_commit(loaded, node, confidence)
    codes = (" or ".join(sorted(failures)) for failures in (found, at_end))
    return Conclusion(
        outcome=BisectionOutcome.SUSPECT,
        message=(
            "commits fail with three exit codes, each in a stretch of its own, which may be one failure or three: "
            "since {} it fails, there with {}, at the failing end with {}; if all are one, let the command exit with "
            "one code for them, else with 125 for the others"
        ).format(named.commit[:12], *codes),
        suspects=(named,),
        earlier_failures=earlier,
    )


def _lately(observations: Sequence[Observation], log: ProbeLog) -> str:
    """What the last runs have in common, where they are many: what was seen before may not show any more. Of failures
    also what the newest one printed last, which may tell what became of the environment."""
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


def budget_spent(loaded: LoadedRange, posterior: Posterior, *, confidence: float, why: str) -> Conclusion:
    """What is known where no probe may start any more: the fewest candidates that hold the culprit with the asked
    confidence."""
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
        message += f"; {_not_known(no_commit, loaded.range.repository)}"
    return Conclusion(
        outcome=BisectionOutcome.BUDGET,
        message=f"{message}: {why}",
        suspects=suspects,
        no_commit=no_commit,
    )
