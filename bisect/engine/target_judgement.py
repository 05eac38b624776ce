"""The judgement of one target by its runs, outside a search.

`judge_target` and `passes_needed` say what the runs of a commit make it. `require_pass` and `require_judged` raise the
error of an end that cannot be judged. `never_shown_error` is the error of an end that does not show what it stands for.

"""

import math
from collections.abc import Sequence

from ...runner.errors import EndsError, UserError
from ...store.vocabulary import Judgement, Verdict, VerdictSource, plural, verdict_words
from .answer import Wait
from .probes import FinishedProbe, Target, WantedProbe
from .runs import BisectionKnowledge, Needs, ProbeLog

_SURE = 0.99
"""An event is excluded with this confidence, the same that a culprit needs by default."""
HANG_ADVICE = "if to hang is the failure, -- timeout SECONDS COMMAND ends it with exit code 124, which is bad"
"""This advice says how to ask about a command that does not end."""
_MAX_LOST_RUNS = 3
"""An end is given up once its lost runs exceed its judged runs by this many. Until then what is flaky may have lost
them."""
_MISSED_FAILURE = 0.002
"""The chance, at most, to take a bad commit for a good one because its failure is flaky."""


def judge_target(log: ProbeLog, target: Target, *, passes: int = 1) -> Judgement | None:
    """Return the judgement of a target, or None where one more run has to tell.

    One failure makes it bad, and at least `passes` passes make it good (`passes_needed`). A run that neither passes nor
    fails makes it a skip.
    """
    tally = log.tally(target.content)
    if tally[Judgement.BAD]:
        return Judgement.BAD
    if tally[Judgement.GOOD] >= passes_needed(log, least=passes):
        return Judgement.GOOD
    return Judgement.SKIP if tally[Judgement.SKIP] else None


def passes_needed(log: ProbeLog, *, least: int = 1) -> int:
    """Return how many passes make a target good.

    That is `least` where bad targets have failed in every run so far. Where they fail now and then, it is as many as
    make a missed failure unlikely.
    """
    failures, runs = log.failures_where_bad()
    if failures == runs:
        return least
    misses = 1 - (failures + 0.5) / (runs + 1)
    return max(least, math.ceil(math.log(_MISSED_FAILURE) / math.log(misses)))


def await_probe(known: BisectionKnowledge, wanted: WantedProbe) -> Wait:
    """Wait for one more probe of a target. The probe is started unless one of the target is running."""
    running = known.log.is_running(wanted.target.content)
    return Wait(Needs() if running else Needs(start=(wanted,)))


def judged_runs(log: ProbeLog, target: Target) -> list[FinishedProbe]:
    """Return the finished probes of a target that could be judged."""
    return [probe for probe in log.probes_for(target.content) if probe.judgement is not Judgement.SKIP]


def require_pass(probes: Sequence[FinishedProbe], good: Target, *, by_command: bool) -> None:
    """Raise `UserError` where probes of the good end could not be judged, and one more is not worth it.

    by_command: whether a command says what is bad.
    """
    for probe in probes:
        if probe.verdict is Verdict.NOT_VALIDATED:
            raise UserError(
                f"good {good.commit[:12]}: expected a validated pass, found {describe_probe(probe)}: nothing was "
                "compared, so it proves nothing; give the case a golden_fn, or --golden-data DIR"
            )
    if lost := _lost_probes(probes):
        advice = "mend that first, then resume, or name another good commit"
        if lost[-1].verdict_source is VerdictSource.PERSON or (
            by_command and lost[-1].verdict is Verdict.TIMEOUT
        ):
            advice = _end_advice(lost[-1], by_command=by_command)
        raise UserError(
            f"good {good.commit[:12]}: expected a validated pass, found {_describe_lost(lost)}; {advice}"
        )


def require_judged(probes: Sequence[FinishedProbe], bad: Target, *, by_command: bool) -> None:
    """Raise `UserError` where probes of the bad end are skips, and one more is not worth it.

    by_command: whether a command says what is bad.
    """
    if lost := _lost_probes(probes):
        raise UserError(
            f"bad {bad.commit[:12]}: expected a run that passes or fails as asked, found {_describe_lost(lost)}; "
            f"{_end_advice(lost[-1], by_command=by_command)}"
        )


def never_shown_error(end: Target, wanted: Judgement, runs: int) -> EndsError:
    """Return the error of an end that showed the other side in so many runs. It names the rate that these cannot
    exclude."""
    shown, verb = ("failure", "passes") if wanted is Judgement.GOOD else ("pass", "fails")
    return EndsError(
        f"{wanted.value} {end.commit[:12]}: expected a commit where the case {verb}, "
        f"found {plural(runs, shown)} in a row, of which one would have been otherwise if it {verb} in "
        f"{highest_rate(runs):.0%} of its runs or more (99 %); if it {verb} more seldom, have each run repeat the "
        "case, by a command behind --"
    )


def highest_rate(runs: int) -> float:
    """Return the highest rate of an event that none of so many runs showed, with 99 % confidence.

    It is 1 - 0.01^(1 / n) (Clopper and Pearson, 1934).

    >>> round(highest_rate(1), 2), round(highest_rate(24), 3)
    (0.99, 0.175)
    """
    return 1 - (1 - _SURE) ** (1 / runs)


def runs_excluding(rate: float) -> int:
    """Return how many runs in a row must not show an event of this rate, to exclude it with 99 %.

    >>> runs_excluding(0.5), runs_excluding(0.05)
    (7, 90)
    """
    return math.ceil(math.log(1 - _SURE) / math.log(1 - rate))


def describe_probe(probe: FinishedProbe) -> str:
    """Return a verdict with its signature, and the evidence that these do not repeat."""
    words = verdict_words(probe.verdict, probe.signature, probe.verdict_source)
    return words + "".join(f": {text[:300]}" for text in probe.evidence if text not in words)


def _lost_probes(probes: Sequence[FinishedProbe]) -> Sequence[FinishedProbe]:
    """Return the unjudged probes of an end if another run would not help; otherwise nothing.

    Another run may help after a crash, a device error, or a failure other than the searched one.
    """
    lost = [probe for probe in probes if probe.judgement is Judgement.SKIP]
    permanent = [probe for probe in lost if not _is_flaky(probe)]
    too_many = len(lost) >= _MAX_LOST_RUNS + len(probes) - len(lost)
    return permanent or (lost if too_many else ())


def _is_flaky(probe: FinishedProbe) -> bool:
    """Return whether another run may be judged although this one was not.

    The run crashed, its device failed, or it showed another failure.
    """
    return probe.verdict.traits.is_intermittent or probe.likeness < 1


def _describe_lost(lost: Sequence[FinishedProbe]) -> str:
    """Return a description of the last lost run, and how many there are."""
    return describe_probe(lost[-1]) + (
        f", {plural(len(lost), 'run')} could not be judged" if len(lost) > 1 else ""
    )


def _end_advice(probe: FinishedProbe, *, by_command: bool) -> str:
    """Return what to do about an end that cannot be judged."""
    verdict = probe.verdict
    if not verdict.traits.judges_commit:
        return "mend the environment, then resume: what could not be judged is run again"
    if probe.verdict_source is VerdictSource.PERSON:
        return "resume to be asked again, or name another end"
    if by_command and verdict is Verdict.TIMEOUT:
        return f"{HANG_ADVICE}; or give it longer: --timeout"
    if by_command or not verdict.traits.can_be_bad:
        return "mend it and resume, or name another end"
    return f"say what is bad with --bad-when (for instance --bad-when {verdict}), or mend it and resume"
