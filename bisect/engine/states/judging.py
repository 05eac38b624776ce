"""Whether a single target is bad: asked of the ends and of counterfactuals, outside of a search."""

import math
from collections.abc import Sequence

from ....runner.errors import EndsError, UserError
from ....runner.probe.judgement import BY_PERSON
from ....store.vocabulary import Judgement, Phase, Verdict
from ....store.words import plural, verdict_words
from ..history import AskTarget
from ..known import Known
from ..log import ProbeLog
from ..needs import Needs
from ..probes import FinishedProbe, Target, WantedProbe
from ..range_search import RangeSearch
from .state import Wait, load_all

_SURE = 0.99
_LONGER = 4
"""What is proposed where an end is given up: so many times as many runs."""
HANGING = "if to hang is the failure, -- timeout SECONDS COMMAND ends it with exit code 124, which is bad"
"""How a command is asked about that does not end."""
_COME_AND_GO = frozenset({Verdict.CRASH, Verdict.DEVICE_ERROR})
_RUNS_LOST = 3
"""So many more runs of an end than could be judged may be lost to what comes and goes, before it is given up."""
_MISSED_FAILURE = 0.002
"""Chance, at most, that a bad commit of a failure that comes and goes is taken for a good one."""


def passes_needed(log: ProbeLog, *, least: int = 1) -> int:
    """How many passes make a target good: `least` where bad targets have failed in every run so far; where they fail
    now and then, as many as make a missed failure unlikely."""
    failures, runs = log.failures_where_bad()
    if failures == runs:
        return least
    misses = 1 - (failures + 0.5) / (runs + 1)
    return max(least, math.ceil(math.log(_MISSED_FAILURE) / math.log(misses)))


def judged(log: ProbeLog, target: Target, *, passes: int = 1) -> Judgement | None:
    """What a target is; None where one more run has to tell. One failure makes it bad, at least `passes` passes make
    it good (`passes_needed`). A run that tells neither makes it a skip."""
    tally = log.tally(target.content)
    if tally[Judgement.BAD]:
        return Judgement.BAD
    if tally[Judgement.GOOD] >= passes_needed(log, least=passes):
        return Judgement.GOOD
    return Judgement.SKIP if tally[Judgement.SKIP] else None


def one_probe(known: Known, wanted: WantedProbe) -> Wait:
    """Wait for one more probe of a target, which is started where none of it is running."""
    running = known.log.is_running(wanted.target.content)
    return Wait(Needs() if running else Needs(start=(wanted,)))


def counterfactuals(
    known: Known, asked: Sequence[AskTarget], search: RangeSearch
) -> tuple[Judgement, ...] | Wait:
    """What targets are that no commit of the history need be, a skip where one cannot be had, or fails otherwise than
    what is searched for; or what has to happen before that is known."""
    if wait := load_all(known, *asked):
        return wait
    judgements: list[Judgement] = []
    for question in asked:
        target = known.answer(question)
        judgement = Judgement.SKIP if target is None else judged(search.log(known), target)
        if judgement is None and target is not None:
            return one_probe(
                known, WantedProbe(target=target, phase=Phase.COUNTERFACTUAL, range=search.ordinal)
            )
        judgements.append(judgement or Judgement.SKIP)
    return tuple(judgements)


def highest_rate(runs: int) -> float:
    """The rate of what none of so many runs showed, at most: 1 - 0.01^(1 / n) with 99 % (Clopper and Pearson, 1934).

    >>> round(highest_rate(1), 2), round(highest_rate(24), 3)
    (0.99, 0.175)
    """
    return 1 - (1 - _SURE) ** (1 / runs)


def runs_excluding(rate: float) -> int:
    """How many runs in a row must not show what happens at this rate, to exclude it with 99 %.

    >>> runs_excluding(0.5), runs_excluding(0.05)
    (7, 90)
    """
    return math.ceil(math.log(1 - _SURE) / math.log(1 - rate))


def never_shown(end: Target, wanted: Judgement, runs: int) -> EndsError:
    """The error of an end that showed the other side in so many runs, with the rate that these cannot exclude."""
    shown, verb = ("failure", "passes") if wanted is Judgement.GOOD else ("pass", "fails")
    longer = _LONGER * runs
    return EndsError(
        f"{wanted.value} {end.commit[:12]}: expected a commit where the case {verb}, "
        f"found {plural(runs, shown)} in a row, of which one would have been otherwise if it {verb} in "
        f"{highest_rate(runs):.0%} of its runs or more (99 %); if it {verb} more seldom, --end-runs {longer} runs each "
        f"end so often, which shows what happens in {highest_rate(longer):.0%} of them"
    )


def judged_runs(log: ProbeLog, target: Target) -> list[FinishedProbe]:
    """Those that could be judged."""
    return [probe for probe in log.of(target.content) if probe.judgement is not Judgement.SKIP]


def require_pass(probes: Sequence[FinishedProbe], good: Target, *, by_exit_code: bool) -> None:
    """Raises `UserError` where probes of the good end could not be judged, and one more is not worth it. by_exit_code:
    a command's says what is bad."""
    for probe in probes:
        if probe.verdict is Verdict.NOT_VALIDATED:
            raise UserError(
                f"good {good.commit[:12]}: expected a validated pass, found {described(probe)}: nothing was "
                "compared, so it proves nothing; give the case a golden_fn, or --golden-data DIR"
            )
    if lost := _given_up(probes):
        advice = "mend that first, then resume, or name another good commit"
        if lost[-1].signature == BY_PERSON or (by_exit_code and lost[-1].verdict is Verdict.TIMEOUT):
            advice = _mending(lost[-1], by_exit_code=by_exit_code)
        raise UserError(
            f"good {good.commit[:12]}: expected a validated pass, found {_described_all(lost)}; {advice}"
        )


def require_judged(probes: Sequence[FinishedProbe], bad: Target, *, by_exit_code: bool) -> None:
    """Raises `UserError` where probes of the bad end are skips, and one more is not worth it. by_exit_code: a command's
    says what is bad."""
    if lost := _given_up(probes):
        raise UserError(
            f"bad {bad.commit[:12]}: expected a run that passes or fails as asked, found {_described_all(lost)}; "
            f"{_mending(lost[-1], by_exit_code=by_exit_code)}"
        )


def _given_up(probes: Sequence[FinishedProbe]) -> Sequence[FinishedProbe]:
    """The probes of an end that could not be judged, where another run of it would be no better; empty where one may
    be: a crash or an error of the device comes and goes."""
    lost = [probe for probe in probes if probe.judgement is Judgement.SKIP]
    for_good = [probe for probe in lost if probe.verdict not in _COME_AND_GO]
    too_many = len(lost) >= _RUNS_LOST + len(probes) - len(lost)
    return for_good or (lost if too_many else ())


def _described_all(lost: Sequence[FinishedProbe]) -> str:
    """The last of them, and how many there are."""
    return described(lost[-1]) + (
        f", {plural(len(lost), 'run')} could not be judged" if len(lost) > 1 else ""
    )


def _mending(probe: FinishedProbe, *, by_exit_code: bool) -> str:
    """What to do about an end that cannot be judged."""
    verdict = probe.verdict
    if verdict is Verdict.ENVIRONMENT_ERROR:
        return "mend the environment, then resume: what could not be judged is run again"
    if probe.signature == BY_PERSON:
        return "resume to be asked again, or name another end"
    if by_exit_code and verdict is Verdict.TIMEOUT:
        return f"{HANGING}; or give it longer: --timeout"
    if by_exit_code or verdict is Verdict.UNKNOWN:
        return "mend it and resume, or name another end"
    return f"say what is bad with --bad-when (for instance --bad-when {verdict}), or mend it and resume"


def described(probe: FinishedProbe) -> str:
    """A verdict with its signature and the line that says most, where that says more."""
    words = verdict_words(probe.verdict, probe.signature)
    return words + "".join(f": {text[:300]}" for text in probe.evidence if text not in words)
