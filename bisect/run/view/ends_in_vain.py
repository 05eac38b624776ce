"""How long an end is waited for that does otherwise than it was said to, by the engine itself."""

from ....runner.errors import EndsError
from ....store.vocabulary import Judgement
from ....store.words import plural
from ...engine.bisection import Bisection
from ...engine.evidence import failing_end, passing_end
from ...engine.states.judging import highest_rate, runs_excluding
from .rehearsal import Rehearsal

_RATE_TOLD = 0.5


def runs_in_vain(bisection: Bisection, wanted: Judgement) -> int | None:
    """How often the end that should show `wanted` is run in all, where it never does and the other end is as it was
    said to be, until the bisection ends. None where the range is not open, or the bisection would go on."""
    search = bisection.state.search
    if search is None:
        return None
    good, bad = passing_end(search.loaded), failing_end(search.loaded)
    end = good if wanted is Judgement.GOOD else bad
    always_fails = wanted is Judgement.GOOD
    rehearsal = Rehearsal(
        bisection, lambda content: always_fails if content == end.content else content == bad.content
    )
    try:
        rehearsal.go_on()
    except EndsError:
        return len(rehearsal.bisection.known.log.of(end.content))
    return None


def describe_wait(bisection: Bisection, wanted: Judgement) -> str | None:
    """How often an end that did otherwise is run again, what that many runs exclude, and the option that decides
    otherwise; None where it is not run again."""
    most = runs_in_vain(bisection, wanted)
    if most is None or most < 2:
        return None
    verb, shown = ("passes", "failures") if wanted is Judgement.GOOD else ("fails", "passes")
    first, *further = [
        (runs, rate)
        for runs, rate in [(runs_excluding(_RATE_TOLD), _RATE_TOLD), (most, highest_rate(most))]
        if runs <= most
    ]
    decide = "" if bisection.known.question.end_runs else " (--end-runs N: at most N)"
    rarer = "".join(f", {runs} in fewer than {rate:.0%}" for runs, rate in further)
    times = f"{plural(most, 'time')}{_condition(bisection, wanted)}{decide}"
    return (
        f"is run until it {verb}, at most {times}: {first[0]} {shown} in a row show "
        f"that it {verb} in fewer than {first[1]:.0%} of its runs{rarer} (99 %)"
    )


def _condition(bisection: Bisection, wanted: Judgement) -> str:
    """That the other end must be as it was said to be, where it has not run yet: two ends that do the same end it."""
    search = bisection.state.search
    assert search is not None
    other, does = (
        (failing_end(search.loaded), "the bad end fails")
        if wanted is Judgement.GOOD
        else (passing_end(search.loaded), "the good end passes")
    )
    return "" if bisection.known.log.of(other.content) else f", if {does}"


def describe_waits(bisection: Bisection) -> str | None:
    """How often either end is run that does otherwise than it was said to; None where that cannot be said."""
    good, bad = (runs_in_vain(bisection, wanted) for wanted in (Judgement.GOOD, Judgement.BAD))
    if good is None or bad is None:
        return None
    return (
        f"a good end that fails is run up to {plural(good, 'time')}, a bad one that passes {bad} (--end-runs)"
    )
