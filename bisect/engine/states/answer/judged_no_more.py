"""Nothing can be judged any more, not even what was judged before: something besides the commits changed."""

from collections.abc import Sequence
from itertools import takewhile

from .....store.vocabulary import Judgement, Phase
from .....store.words import plural, verdict_words
from ...log import ProbeLog
from ...probes import FinishedProbe

_MANY, _SOME = 6, 2
"""After so many runs in a row that could not be judged, commits that cannot be tested are told from a place where
nothing can: the end that passed is run again. Before suspects are told that could not be tested, fewer are reason
enough."""
_ENOUGH, _AGAIN = 4, 2
"""So many are enough where some are of what was judged before; as many tell it where some are of an end."""
_CHANCE = 0.01
"""A commit may come and go with its crashes, and a board with its errors: the end's runs are not lost by chance unless
such a one explains them."""


def may_judge_no_more(log: ProbeLog, *, is_answer: bool = False) -> bool:
    """Whether it is time to run again what was judged before, in a search or before untestable suspects are told."""
    before, unjudged = _unjudged(log.ended)
    known = _judged(before)
    again = sum(probe.content in known for probe in unjudged)
    least = _SOME if is_answer else _ENOUGH if again >= _AGAIN else _MANY
    return len(unjudged) >= least


def judged_no_more(ended: Sequence[FinishedProbe]) -> Sequence[FinishedProbe]:
    """The last runs in order of their starts, none of which could be judged, where those of an end among them are too
    many to be lost by chance; empty where that is not so.

    By chance k runs of what can be judged are lost with probability ((l + 1) / (m + 2))^k, where l of m such runs were
    lost before (Laplace's rule of succession).
    """
    before, unjudged = _unjudged(ended)
    known = _judged(before)
    of_ends = sum(probe.content in known and probe.phase is Phase.ENDPOINT for probe in unjudged)
    runs = [probe for probe in before if probe.content in known]
    lost = sum(probe.judgement is Judgement.SKIP for probe in runs)
    by_chance = ((lost + 1) / (len(runs) + 2)) ** of_ends
    told = len(unjudged) >= _ENOUGH and of_ends >= _AGAIN and by_chance < _CHANCE
    return unjudged if told else ()


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


def _judged(runs: Sequence[FinishedProbe]) -> set[str]:
    """The contents of which some run could be judged."""
    return {probe.content for probe in runs if probe.judgement is not Judgement.SKIP}


def _unjudged(ended: Sequence[FinishedProbe]) -> tuple[Sequence[FinishedProbe], Sequence[FinishedProbe]]:
    """The runs, in order of their starts, up to the last one that could be judged, and those behind it."""
    runs = sorted(ended, key=lambda probe: probe.number)
    count = len([*takewhile(lambda probe: probe.judgement is Judgement.SKIP, reversed(runs))])
    return runs[: len(runs) - count], runs[len(runs) - count :]
