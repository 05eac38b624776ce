"""The passing end passed at first and has failed ever since: something besides the commits changed."""

from itertools import takewhile

from .....store.vocabulary import Judgement, Seeks
from .....store.words import plural
from ....commits.range import LoadedRange
from ...evidence import passing_end
from ...log import ProbeLog
from ...probes import FinishedProbe

_ENOUGH = 12
"""So many failures in a row are no chance. With no pass of anything since, no further run tells who is to blame."""


def told_of_turned_end(loaded: LoadedRange, log: ProbeLog) -> str:
    """That the end at which the case passes does not any more; empty where that is not so."""
    passed, failed = _runs(loaded, log)
    if len(failed) < _ENOUGH or not passed:
        return ""
    word = "good end" if loaded.range.seeks is Seeks.REGRESSION else "newer end"
    runs = ", ".join(str(probe.number) for probe in passed)
    return (
        f"the {word} {passing_end(loaded).commit[:12]} passed in run {runs} and failed in all "
        f"{plural(len(failed), 'run')} since: something besides the commits changed; "
    )


def is_turned_for_good(loaded: LoadedRange, log: ProbeLog, *, workers: int) -> bool:
    """Whether the search can end for that. Where there are several places, one broken place is no reason."""
    passed, failed = _runs(loaded, log)
    if not passed or len(failed) < _ENOUGH:
        return False
    last = max(probe.number for probe in passed)
    is_one_place = workers > 1 and len({probe.place for probe in failed}) == 1
    return not is_one_place and not any(
        probe.judgement is Judgement.GOOD for probe in log.ended if probe.number > last
    )


def _runs(loaded: LoadedRange, log: ProbeLog) -> tuple[list[FinishedProbe], list[FinishedProbe]]:
    """The passes of the end, and the failures behind them; none where it failed before it passed, too."""
    judged = [probe for probe in log.of(passing_end(loaded).content) if probe.judgement is not Judgement.SKIP]
    passed = [*takewhile(lambda probe: probe.judgement is Judgement.GOOD, judged)]
    failed = judged[len(passed) :]
    return ([], []) if any(probe.judgement is Judgement.GOOD for probe in failed) else (passed, failed)
