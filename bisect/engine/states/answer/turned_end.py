"""An end showed at first what it stands for, and the other ever since: something besides the commits changed."""

from itertools import takewhile
from math import comb, prod

from .....store.vocabulary import Judgement, Seeks
from .....store.words import plural
from ....commits.range import LoadedRange
from ...evidence import failing_end, passing_end
from ...log import ProbeLog
from ...probes import FinishedProbe, Target

_ENOUGH = 12
"""So many failures of the passing end in a row are no chance. With no pass of anything since, no further run tells who
is to blame."""
_CHANCE = 0.001
"""So seldom, at most, are all failures among the first runs of what fails as often at any time."""


def told_of_turned_end(loaded: LoadedRange, log: ProbeLog) -> str:
    """That an end does not show any more what it stands for; empty where that is not so."""
    passed, failed = _runs(loaded, log)
    if passed and len(failed) >= _ENOUGH:
        return _told(loaded, passing_end(loaded), "passed", passed, "failed", failed)
    failed, passed = _failed_at_first(loaded, log)
    if failed and passed and _chance_of_failing_first(log) < _CHANCE:
        return _told(loaded, failing_end(loaded), "failed", failed, "passed", passed)
    return ""


def is_turned_for_good(loaded: LoadedRange, log: ProbeLog, *, workers: int) -> bool:
    """Whether the search can end for that. Where there are several places, one that changed is no reason."""
    passed, failed = _runs(loaded, log)
    since = [probe for probe in failed if probe.number > _last(log, Judgement.GOOD)]
    if passed and len(since) >= _ENOUGH:
        return _in_more_places(since, workers)
    failed, passed = _failed_at_first(loaded, log)
    is_healed = bool(failed and passed) and _chance_of_failing_first(log) < _CHANCE
    return is_healed and _in_more_places(passed, workers)


def _told(
    loaded: LoadedRange,
    end: Target,
    was: str,
    first: list[FinishedProbe],
    now: str,
    since: list[FinishedProbe],
) -> str:
    regression, passes = loaded.range.seeks is Seeks.REGRESSION, was == "passed"
    word = ("good end" if passes else "bad end") if regression else ("newer end" if passes else "older end")
    runs = ", ".join(str(probe.number) for probe in first)
    return (
        f"the {word} {end.commit[:12]} {was} in run {runs} and {now} in all {plural(len(since), 'run')} since: "
        "something besides the commits changed; "
    )


def _runs(loaded: LoadedRange, log: ProbeLog) -> tuple[list[FinishedProbe], list[FinishedProbe]]:
    """The passes of the passing end, and the failures behind them; none where it failed before it passed, too."""
    judged = _judged(log, passing_end(loaded).content)
    passed = [*takewhile(lambda probe: probe.judgement is Judgement.GOOD, judged)]
    failed = judged[len(passed) :]
    return ([], []) if any(probe.judgement is Judgement.GOOD for probe in failed) else (passed, failed)


def _failed_at_first(loaded: LoadedRange, log: ProbeLog) -> tuple[list[FinishedProbe], list[FinishedProbe]]:
    """The failures of the failing end, and its passes since anything failed."""
    judged, last = _judged(log, failing_end(loaded).content), _last(log, Judgement.BAD)
    return (
        [probe for probe in judged if probe.judgement is Judgement.BAD],
        [probe for probe in judged if probe.number > last],
    )


def _chance_of_failing_first(log: ProbeLog) -> float:
    """How likely no run since the last failure fails, of commits that each fail as often at any time: of each, all ways
    to place its failures among its runs are alike (Fisher's exact test, by commit)."""
    last = _last(log, Judgement.BAD)
    return prod(
        comb(sum(probe.number <= last for probe in runs), failures) / comb(len(runs), failures)
        for content in {probe.content for probe in log.ended}
        if (runs := _judged(log, content))
        and (failures := sum(probe.judgement is Judgement.BAD for probe in runs))
    )


def _judged(log: ProbeLog, content: str) -> list[FinishedProbe]:
    return [probe for probe in log.of(content) if probe.judgement is not Judgement.SKIP]


def _last(log: ProbeLog, judgement: Judgement) -> int:
    """The number of the last run that showed this, 0 without one."""
    return max((probe.number for probe in log.ended if probe.judgement is judgement), default=0)


def _in_more_places(probes: list[FinishedProbe], workers: int) -> bool:
    return workers == 1 or len({probe.place for probe in probes}) > 1
