"""One state of a bisection by itself: what it wants, by what is known."""

from collections.abc import Callable, Sequence
from dataclasses import replace

from precision_bisect.bisect.engine.answer import (
    Advance,
    BisectionState,
    ConfirmedCulprit,
    EnclosingRanges,
    Wait,
    named_commit,
)
from precision_bisect.bisect.engine.range_search import Context, RangeSearch
from precision_bisect.bisect.engine.runs import (
    BisectionKnowledge,
    BisectionQuestion,
    RangeEvidence,
    RunningProbe,
    WantedProbe,
    failing_end,
    passing_end,
)
from precision_bisect.bisect.history.questions import HistoryAnswer, HistoryQuestion
from precision_bisect.bisect.history.range import LoadedRange
from precision_bisect.store.vocabulary import Judgement, Phase, Verdict
from tests.bisect.engine.planted import PlantedStack, question
from tests.bisect.engine.simulated import equal_times, simulated_probe

G, B, S = Judgement.GOOD, Judgement.BAD, Judgement.SKIP


def about(loaded: LoadedRange) -> BisectionKnowledge:
    """A question about a range, of which nothing is known yet."""
    return BisectionKnowledge(
        question=BisectionQuestion(range=loaded.range, confidence=0.99, repositories=frozenset({"line"}))
    )


def about_stack(stack: PlantedStack, **changes: object) -> BisectionKnowledge:
    """A question about the whole line of a stack, of which nothing is known yet."""
    return BisectionKnowledge(question=question(stack, **changes))


def shown(
    known: BisectionKnowledge, content: str, *judgements: Judgement, phase: Phase = Phase.SEARCH
) -> BisectionKnowledge:
    """With further finished probes of some content."""
    for judgement in judgements:
        probe = simulated_probe(_next_number(known), content, phase, judgement, times=equal_times(content))
        known = replace(known, log=known.log.with_finished(probe))
    return known


def lost(known: BisectionKnowledge, content: str, *verdicts: Verdict) -> BisectionKnowledge:
    """With further runs of an end that could not be judged."""
    for verdict in verdicts:
        probe = simulated_probe(
            _next_number(known), content, Phase.ENDPOINT, Judgement.SKIP, times=equal_times(content)
        )
        known = replace(known, log=known.log.with_finished(replace(probe, verdict=verdict)))
    return known


def shown_at(
    known: BisectionKnowledge, content: str, *judgements: Judgement, place: str
) -> BisectionKnowledge:
    """With further finished probes of some content at an end, all made in one place."""
    for judgement in judgements:
        probe = simulated_probe(
            _next_number(known), content, Phase.ENDPOINT, judgement, times=equal_times(content)
        )
        known = replace(known, log=known.log.with_finished(replace(probe, place=place)))
    return known


def running(known: BisectionKnowledge, *wanted: WantedProbe) -> BisectionKnowledge:
    """With probes that were started."""
    for probe in wanted:
        started_probe = RunningProbe(number=_next_number(known), wanted=probe)
        known = replace(known, log=known.log.with_started(started_probe))
    return known


def _next_number(known: BisectionKnowledge) -> int:
    probes = (*known.log.ended, *known.log.running)
    return 1 + max((probe.number for probe in probes), default=0)


def search_of(loaded: LoadedRange | None) -> RangeSearch:
    """The search of a range."""
    assert loaded is not None
    return RangeSearch(
        ordinal=1, loaded=loaded, evidence=RangeEvidence.from_range(loaded), confidence=0.99, case=None
    )


def enclosing(loaded: LoadedRange) -> EnclosingRanges:
    """A range with no other around it."""
    return EnclosingRanges(good=passing_end(loaded), bad=failing_end(loaded))


def confirmed(loaded: LoadedRange | None, node: int) -> ConfirmedCulprit:
    """A candidate of a range as its confirmed culprit."""
    search = search_of(loaded)
    return ConfirmedCulprit(
        search=search,
        enclosing=enclosing(search.loaded),
        node=node,
        named=named_commit(search.loaded, node, 0.999),
        earlier_failures=(),
    )


def step(
    state: BisectionState,
    known: BisectionKnowledge,
    answer: Callable[[HistoryQuestion], HistoryAnswer],
    *,
    workers: int = 1,
) -> tuple[BisectionKnowledge, Advance]:
    """What a state wants once every question of it was answered, and what is known then."""
    while True:
        advance = state.advance(known, Context(workers=workers))
        if not isinstance(advance, Wait) or not advance.needs.load:
            return known, advance
        for asked in advance.needs.load:
            known = known.with_answer(asked, answer(asked))


def answers_of(stack: PlantedStack) -> Callable[[HistoryQuestion], HistoryAnswer]:
    """What the histories of a stack say."""
    return lambda asked: stack.answers[type(asked)](asked)


def started(advance: Advance) -> Sequence[WantedProbe]:
    """The probes that a waiting state wants."""
    assert isinstance(advance, Wait), advance
    return advance.needs.start
