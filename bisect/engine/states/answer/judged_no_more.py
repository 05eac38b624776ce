"""Nothing can be judged any more, not even what was judged before: something besides the commits changed."""

from collections.abc import Sequence
from itertools import takewhile

from .....store.vocabulary import Judgement
from .....store.words import plural, verdict_words
from ...log import ProbeLog
from ...probes import FinishedProbe

_MANY, _SOME = 6, 2
"""After so many runs in a row that could not be judged, commits that cannot be tested are told from a place where
nothing can: what passed is run again. Before suspects are told that could not be tested, fewer are reason enough."""
_ENOUGH, _AGAIN = 4, 2
"""Runs in a row that tell it, and those of them that are of what was judged before: one may have met trouble."""


def may_judge_no_more(log: ProbeLog, *, is_answer: bool = False) -> bool:
    """Whether it is time to run again what was judged before, in a search or before untestable suspects are told."""
    return len(_unjudged(log.ended)[1]) >= (_SOME if is_answer else _MANY)


def judged_no_more(ended: Sequence[FinishedProbe]) -> Sequence[FinishedProbe]:
    """The last runs in order of their starts, none of which could be judged, where some are of what was judged before;
    empty where that is not so."""
    before, unjudged = _unjudged(ended)
    known = {probe.content for probe in before if probe.judgement is not Judgement.SKIP}
    again = sum(probe.content in known for probe in unjudged)
    return unjudged if len(unjudged) >= _ENOUGH and again >= _AGAIN else ()


def told(unjudged: Sequence[FinishedProbe]) -> str:
    """What is said of such runs, and what to do."""
    first, last = unjudged[0], unjudged[-1]
    said = "".join(f": {text[:300]}" for text in last.evidence)
    return (
        f"runs {first.number} to {last.number}: expected a run that passes or fails as asked, found "
        f"{verdict_words(last.verdict, last.signature)}{said}; none of these {plural(len(unjudged), 'run')} could be "
        "judged, though commits among them were before: something besides the commits changed; mend it, then resume: "
        "these are run again"
    )


def _unjudged(ended: Sequence[FinishedProbe]) -> tuple[Sequence[FinishedProbe], Sequence[FinishedProbe]]:
    """The runs, in order of their starts, up to the last one that could be judged, and those behind it."""
    runs = sorted(ended, key=lambda probe: probe.number)
    count = len([*takewhile(lambda probe: probe.judgement is Judgement.SKIP, reversed(runs))])
    return runs[: len(runs) - count], runs[len(runs) - count :]
