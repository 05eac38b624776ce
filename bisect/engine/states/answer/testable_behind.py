"""What makes suspects testable where no error says why: the first commit behind them that can be tested."""

from collections.abc import Sequence

import numpy as np

from .....store.vocabulary import Judgement
from ...known import Known
from ...range_search import RangeSearch
from .mending import Mending, advice_of, mending_of, node_behind

_SHORT = 12


def told_by_runs(search: RangeSearch, known: Known, suspects: Sequence[int]) -> str:
    """The first commit that can be tested behind the suspects, and how to test them with its change; empty where runs
    do not tell, or the change applies to none of them."""
    mending = mending_by_runs(search, known, suspects)
    if mending is None or (applies := known.answer(mending.trial)) == ():
        return ""
    return (
        f"; the first that can be tested behind them is {mending.commit.sha[:_SHORT]}"
        f"{advice_of(mending, '', applies)}; --overlay and --adapt make commits testable too"
    )


def mending_by_runs(search: RangeSearch, known: Known, suspects: Sequence[int]) -> Mending | None:
    """The commit that mends the suspects as far as runs tell: it could be tested, and what it builds on could not, for
    what none of the others could be. None where they do not tell, or the asker skips some of them."""
    loaded, log = search.loaded, search.log(known)
    judgements = {
        node: [] if content is None else [probe.judgement for probe in log.of(content)]
        for node, content in enumerate(loaded.candidate_contents)
    }
    judged = {node for node, found in judgements.items() if {*found} - {Judgement.SKIP}}
    skipped = {node for node, found in judgements.items() if found} - judged
    inside = [node for node in suspects if node not in judged]
    reasons = {
        probe.signature
        for node in skipped & {*inside}
        for probe in log.of(loaded.candidate_contents[node] or "")
    }
    if len(reasons) != 1 or any(loaded.candidates[node] in loaded.range.skip for node in inside):
        return None
    fails = np.zeros(len(loaded.graph), dtype=np.bool_)
    fails[inside] = True
    behind = node_behind(loaded, fails, inside)
    if behind not in judged or not {*loaded.graph.parents[behind]} <= skipped:
        return None
    return mending_of(loaded, fails, inside)
