"""What any number of workers run next, which runs in flight are worth no more, or the answer."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TypeAlias

from ..evidence.belief import credible_set
from ..evidence.one_place import compared_in_one_place, next_to_compare
from ..evidence.posterior import Posterior
from ..graph.graph import Floats
from ..graph.window import Window
from .batch import lost_their_value, next_runs, runs_ahead
from .bound import runs_left
from .decision import (
    Decision,
    EnvironmentMoved,
    NoCulprit,
    ToShow,
    Undecided,
    next_run,
)
from .planner import Found, OnlySkipped, Probe, next_step
from .windows import sidestep, sidestep_beside, undoing

_LIKELY = 0.9
"""From here on runs confirm a culprit."""


@dataclass(frozen=True, kw_only=True)
class Round:
    """Start runs of the commits in `start`, and cancel those at the places `cancel` of the runs in flight.

    confirming: the culprit that the runs confirm; None while it is searched. expected_steps: about how many
    tests the search still takes, one after the other. least_runs: as of `planner.Probe`.
    """

    start: tuple[int, ...]
    cancel: tuple[int, ...] = ()
    confirming: int | None = None
    expected_steps: float | None = None
    least_runs: float | None = None


Answer: TypeAlias = Found | OnlySkipped | NoCulprit | EnvironmentMoved | Undecided


def next_round(
    posterior: Posterior,
    *,
    in_flight: Sequence[int] = (),
    workers: int = 1,
    confidence: float = 0.99,
    costs: Floats | None = None,
    windows: Sequence[Window] = (),
    ahead: bool = True,
) -> Round | Answer:
    """The next runs, or the answer, a culprit only once it and its parents were run, and compared in one place.

    in_flight: the commits whose runs are not finished; with none, at least one run is started.
    costs: as of `decision.next_run`. windows: what the certain search steps around.
    ahead: workers that the search has no use for run what will confirm its answer; nobody else waits for them.
    """
    decision = next_run(posterior, confidence=confidence, costs=costs)
    undone = _untried_undoing(posterior, decision, windows)
    if undone is not None and runs_left(posterior, confidence=confidence) > 0:
        kept, lost = _split(in_flight, {undone})
        return Round(start=() if kept else (undone,), cancel=lost, expected_steps=1.0)
    if isinstance(decision, Probe):
        searched = _search(posterior, decision, in_flight, workers, costs, windows)
        return _filled(searched, posterior, in_flight, workers, costs) if ahead else searched
    if not isinstance(decision, ToShow | Found):
        return decision
    kept, lost = _split(in_flight, {decision.culprit, *posterior.compared_with(decision.culprit)})
    if isinstance(decision, ToShow):
        missing = [commit for commit in decision.missing if commit not in kept]
        start = tuple(missing[: max(0, workers - len(kept))])
        return Round(start=start, cancel=lost, confirming=decision.culprit)
    if compared_in_one_place(posterior, decision.culprit):
        return decision
    if runs_left(posterior, confidence=confidence) < 1:
        return Undecided(credible_set(posterior.belief, confidence), "bound")
    compare = next_to_compare(posterior, decision.culprit, in_flight=kept, count=max(0, workers - len(kept)))
    if compare is None:
        return Undecided(credible_set(posterior.belief, confidence))
    return Round(start=tuple(compare), cancel=lost, confirming=decision.culprit)


def _untried_undoing(posterior: Posterior, decision: Decision, windows: Sequence[Window]) -> int | None:
    """What undoes the only suspect, before any run is spent on its confirmation, or the culprit that has the
    confidence."""
    culprit = None
    if isinstance(decision, ToShow | Found):
        culprit = decision.culprit
    elif isinstance(decision, Probe) and posterior.certain is not None:
        alone = next_step(posterior.certain)
        culprit = alone.culprit if isinstance(alone, Found) else None
    if culprit is None:
        return None
    return undoing(windows, {seen.commit for seen in posterior.counted}, culprit)


def _search(
    posterior: Posterior,
    step: Probe,
    in_flight: Sequence[int],
    workers: int,
    costs: Floats | None,
    windows: Sequence[Window],
) -> Round:
    lost = lost_their_value(posterior, in_flight)
    kept = [commit for place, commit in enumerate(in_flight) if place not in lost]
    start = [step.commit]
    if workers > 1:
        start = next_runs(posterior, count=max(0, workers - len(kept)), in_flight=kept, costs=costs)
        # A batch leaves out what tells nothing beside the runs in flight; without any, one is run.
        start = start or ([] if kept else [step.commit])
    certain = posterior.certain
    alone = None if certain is None else next_step(certain)
    if certain is not None and isinstance(alone, Probe):
        start = (
            [sidestep(certain, step.commit, windows)]
            if workers == 1
            else sidestep_beside(certain, start, windows, in_flight=kept)
        )
    return Round(
        start=tuple(start),
        cancel=tuple(lost),
        confirming=alone.culprit if isinstance(alone, Found) else _likely(posterior),
        expected_steps=step.expected_steps,
        least_runs=step.least_runs,
    )


def _filled(
    searched: Round, posterior: Posterior, in_flight: Sequence[int], workers: int, costs: Floats | None
) -> Round:
    """With runs for those workers, too, whom a search that takes its runs for certain leaves idle."""
    kept = [commit for place, commit in enumerate(in_flight) if place not in searched.cancel]
    spare = workers - len(kept) - len(searched.start)
    if spare <= 0 or posterior.certain is None or searched.confirming is not None:
        return searched
    lost = {in_flight[place]: place for place in searched.cancel}
    beside = [*kept, *searched.start]
    ahead = runs_ahead(posterior, count=spare, in_flight=beside, under_way=lost, costs=costs)
    still = {lost[commit] for commit in ahead if commit in lost}
    return replace(
        searched,
        start=(*searched.start, *(commit for commit in ahead if commit not in lost)),
        cancel=tuple(place for place in searched.cancel if place not in still),
    )


def _likely(posterior: Posterior) -> int | None:
    """A commit that is probably to blame, though runs contradicted each other."""
    likeliest = int(posterior.belief.commits.argmax())
    return likeliest if posterior.belief.commits[likeliest] >= _LIKELY else None


def _split(in_flight: Sequence[int], wanted: set[int]) -> tuple[list[int], tuple[int, ...]]:
    """The commits in flight that are wanted, and the places of the others."""
    kept = [commit for commit in in_flight if commit in wanted]
    return kept, tuple(place for place, commit in enumerate(in_flight) if commit not in wanted)
