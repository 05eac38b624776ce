"""What a bisection will still run, and for how long.

`estimate_rest` takes the runs and builds to come from the remaining entropy. `DryRun` continues a bisection on
simulated results. `next_build` takes from it what to build in advance, and `wait_limit` how long an end is run again.
All assume that no run is flaky. `describe_estimate` and its like say it in words.
"""

import math
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from statistics import fmean

import numpy as np

from ...runner.errors import EndsError, UserError
from ...store.vocabulary import BuildSource, Judgement, Phase, Seeks, Verdict, duration, percent, plural
from ..history.questions import AskRange
from ..history.range import LoadedRange, Target
from ..search.graph import Floats
from ..search.halving import expected_steps
from ..search.hypotheses import GOOD_END
from ..search.posterior import Posterior
from .answer import Conclusion
from .bisection import (
    Bisection,
    DataFrozen,
    ProbeFinished,
    ProbesCancelled,
    ProbeStarted,
    QuestionAnswered,
)
from .failures import highest_rate, runs_excluding
from .range_search import (
    Context,
    RangeSearch,
    Timings,
    available_builds,
)
from .runs import (
    BisectionQuestion,
    ConfirmationProgress,
    FinishedProbe,
    Needs,
    ProbeTimes,
    RunningProbe,
    SearchProgress,
    WantedProbe,
    failing_end,
    passing_end,
)

_MAX_STEPS = 400
"""A dry run ends after this many steps. A search that never settles must not keep the user waiting."""
_SINGLE_WORKER = Context()
_PHASES_TO_CULPRIT = (Phase.ENDPOINT, Phase.SEARCH, Phase.CONFIRM)


@dataclass(kw_only=True)
class DryRun:
    """Continues a bisection on one worker and simulated results. `fails` says whether a content fails."""

    bisection: Bisection
    fails: Callable[[str], bool]

    def run_to_culprit(self) -> None:
        """Continue until the culprit is confirmed, or until git would have to be asked.

        Raises `UserError` where the bisection would.
        """
        self._finish_running()
        for _ in range(_MAX_STEPS):
            self.bisection, needs = self.bisection.next(_SINGLE_WORKER)
            if isinstance(needs, Conclusion) or needs.load:
                return
            if any(wanted.phase not in _PHASES_TO_CULPRIT for wanted in needs.start):
                return
            self._satisfy(needs)

    def next_wanted_probe(self, context: Context) -> WantedProbe | None:
        """Return the first probe that the bisection wants once its running probes have ended.

        Return None where it has ended, or where git has to answer first. Raises `UserError` where the bisection would.
        """
        self._finish_running()
        self.bisection, needs = self.bisection.next(context)
        if isinstance(needs, Needs) and needs.freeze is not None:
            self.bisection, needs = self.bisection.apply_event(DataFrozen()).next(context)
        return needs.start[0] if isinstance(needs, Needs) and needs.start else None

    def _finish_running(self) -> None:
        for probe in self.bisection.known.log.running:
            self._finish(probe)

    def _satisfy(self, needs: Needs) -> None:
        if needs.freeze is not None:
            self.bisection = self.bisection.apply_event(DataFrozen())
        if needs.cancel:
            self.bisection = self.bisection.apply_event(ProbesCancelled(needs.cancel))
        for wanted in needs.start:
            number = 1 + max((probe.number for probe in self.bisection.known.log.ended), default=0)
            running = RunningProbe(number=number, wanted=wanted)
            self.bisection = self.bisection.apply_event(ProbeStarted(running))
            self._finish(running)

    def _finish(self, running: RunningProbe) -> None:
        content, phase = running.wanted.target.content, running.wanted.phase
        fails = self.fails(content)
        finished = FinishedProbe(
            number=running.number,
            content=content,
            phase=phase,
            judgement=Judgement.BAD if fails else Judgement.GOOD,
            verdict=Verdict.MISMATCH if fails else Verdict.PASS,
            metrics={},
            times=ProbeTimes(build_source=BuildSource.NONE, build_seconds=0.0, run_seconds=0.0),
        )
        self.bisection = self.bisection.apply_event(ProbeFinished(finished))


def wait_limit(bisection: Bisection, wanted: Judgement) -> int | None:
    """Return after how many runs of an end the bisection gives up, if none has the judgement `wanted` of that end.

    The other end is assumed to behave as the user said. Return None where the range is not open, or where the
    bisection would not give up.
    """
    search = bisection.state.search
    if search is None:
        return None
    good, bad = passing_end(search.loaded), failing_end(search.loaded)
    if wanted is Judgement.GOOD:
        end, failing = good, {good.content, bad.content}
    else:
        end, failing = bad, set[str]()
    dry_run = DryRun(bisection=bisection, fails=lambda content: content in failing)
    try:
        dry_run.run_to_culprit()
    except EndsError:
        return len(dry_run.bisection.known.log.probes_for(end.content))
    return None


@dataclass(frozen=True, kw_only=True)
class Estimate:
    """The runs and builds that are left if no run is flaky.

    `seconds` is the time they take. It is None where nothing was timed yet.
    """

    ends: int
    search: int
    confirm: int
    builds: int
    seconds: float | None

    @property
    def runs(self) -> int:
        """Return the number of all runs together."""
        return self.ends + self.search + self.confirm


_DOUBT_AFTER_SEARCH = 1 / 8
"""A search whose runs agree ends with about this doubt about the last suspect, whatever the length of its range."""


def estimate_rest(bisection: Bisection, *, builds: bool = True) -> Estimate | None:
    """Return the runs and builds that are left until the culprit is confirmed.

    Return None before the range is open, where runs contradict each other, or under a perturbation. Without `builds`,
    the stack has no build steps.
    """
    search = bisection.state.search
    if search is None or search.unperturbed_search is not None:
        return None
    posterior = search.posterior(bisection.known, _SINGLE_WORKER)
    if posterior.certain is None:
        return None
    estimate = _estimate_by_entropy(
        bisection,
        search,
        suspects=search.loaded.count_candidates(posterior.certain.suspects),
        likeliest=float(posterior.belief.commits.max()),
    )
    return estimate if builds else replace(estimate, builds=0)


def next_build(bisection: Bisection, context: Context) -> Target | None:
    """Return the target that will probably be built next, once the running probes have ended.

    Return None where it is built already, or where it cannot be predicted.
    """
    search = bisection.state.search
    if search is None:
        return None
    dry_run = DryRun(bisection=bisection, fails=_middle_culprit_fails(bisection, search))
    try:
        wanted = dry_run.next_wanted_probe(context)
    except UserError:
        return None
    if wanted is None:
        return None
    log = bisection.known.log
    running = (probe.wanted.target.content for probe in log.running)
    available = available_builds(search.loaded, log, (*context.built, *running))
    return None if search.loaded.build_of(wanted.target.content) in available else wanted.target


def initial_bisection(question: BisectionQuestion, loaded: LoadedRange) -> Bisection | None:
    """Return the bisection of a loaded range before its first run. Return None where it ends before that."""
    bisection = Bisection.start(question).apply_event(
        QuestionAnswered(AskRange(ordinal=1, range=question.range), loaded)
    )
    try:
        bisection, needs = bisection.next(_SINGLE_WORKER)
        if isinstance(needs, Needs) and needs.freeze is not None:
            bisection, _ = bisection.apply_event(DataFrozen()).next(_SINGLE_WORKER)
    except UserError:
        return None
    return bisection


def _estimate_by_entropy(
    bisection: Bisection, search: RangeSearch, *, suspects: int, likeliest: float
) -> Estimate:
    """Return the estimate for a number of suspects, of which the likeliest has the probability `likeliest`.

    The search halves the suspects. Each confirming run then halves the doubt about the last of them. Builds are as
    likely to be there already as those of all candidates.
    """
    known, loaded = bisection.known, search.loaded
    ends = {loaded.old_content, loaded.new_content} - {probe.content for probe in known.log.ended}
    doubt = min(1 - likeliest, _DOUBT_AFTER_SEARCH) / (1 - known.question.confidence)
    runs = Counter(
        {
            Phase.ENDPOINT: len(ends),
            Phase.SEARCH: math.ceil(expected_steps(suspects)),
            Phase.CONFIRM: math.ceil(math.log2(max(1.0, doubt))),
        }
    )
    all_builds = loaded.unread + loaded.count_builds(without=())
    unbuilt = loaded.unread + loaded.count_builds(without=available_builds(loaded, known.log))
    builds = min(unbuilt, math.ceil((runs[Phase.ENDPOINT] + runs[Phase.SEARCH]) * unbuilt / all_builds))
    return _make_estimate(bisection, search, runs, builds=builds)


def _make_estimate(
    bisection: Bisection, search: RangeSearch, runs: Mapping[Phase, int], *, builds: int
) -> Estimate:
    """Return the estimate of some runs and builds, with the seconds that they take.

    The seconds follow from the runs so far, and from the build times of earlier bisections.
    """
    ended = bisection.known.log.ended
    if any(probe.times.run_seconds and not probe.times.was_built for probe in ended):
        builds = 0  # the stack has nothing to build
    timings = Timings.from_probes((probe.times for probe in ended), earlier=search.loaded.earlier_seconds)
    run_seconds = [probe.times.run_seconds for probe in ended if probe.times.run_seconds]
    count, seconds = sum(runs.values()), None
    if timings is not None:
        seconds = count * timings.run + builds * max(timings.full_build, timings.rebuild)
    elif run_seconds:
        seconds = count * fmean(run_seconds)
    return Estimate(
        ends=runs[Phase.ENDPOINT],
        search=runs[Phase.SEARCH],
        confirm=runs[Phase.CONFIRM],
        builds=builds,
        seconds=seconds,
    )


def _middle_culprit_fails(bisection: Bisection, search: RangeSearch) -> Callable[[str], bool]:
    """Return a function that says which contents fail if the candidate in the middle of the belief is the culprit.

    Such an estimate assumes neither good luck nor bad luck.
    """
    belief = _nameable_belief(search.posterior(bisection.known, _SINGLE_WORKER))
    middle = int(np.argmax(np.cumsum(belief) >= belief.sum() / 2))
    culprit = min(middle, len(belief) - 1)
    evidence = search.evidence

    def fails(content: str) -> bool:
        nodes = [node for node in evidence.nodes_of(content) if node != GOOD_END]
        changed = bool(nodes) and bool(evidence.graph.ancestors(nodes[0])[culprit])
        return changed == (search.loaded.range.seeks is Seeks.REGRESSION)

    return fails


def _nameable_belief(posterior: Posterior) -> Floats:
    """Return the belief in each candidate that can still be named. Shape [n].

    The belief is 0 where a run excludes a candidate. It is also 0 for a skipped commit and its children, because none
    of these can be named alone.
    """
    belief = posterior.belief.commits
    if posterior.certain is not None:
        belief = np.where(posterior.certain.suspects, belief, 0.0)
    separable = belief.copy()
    separable[[*posterior.graph.with_children(posterior.skipped_commits)]] = 0.0
    return separable if separable.any() else belief


def describe_remaining(left: SearchProgress, estimate: Estimate | None = None) -> str:
    """Return how many commits are left, and how many runs or steps that takes."""
    if estimate is not None:
        rest = f", {describe_estimate(estimate)}"
    elif left.expected_steps is not None:
        rest = f", about {plural(math.ceil(left.expected_steps), 'step')}"
    else:
        rest = ""
    return f"{plural(left.candidates, 'commit')} left{rest}{_more_runs(left.runs)}"


def describe_confidence(left: ConfirmationProgress, estimate: Estimate | None = None) -> str:
    """Return how sure the search is of the one commit that is left, how sure it has to be, and what that takes."""
    sure = f"confidence {percent(left.confidence)} ({percent(left.wanted)} is asked)"
    rest = _more_runs(left.runs) if estimate is None else f", {describe_estimate(estimate)}"
    return f"1 commit left, {sure}{rest}"


def _more_runs(runs: tuple[int, int] | None) -> str:
    """Return a phrase for the number of further runs, from the least to the most. It is empty without `runs`."""
    if runs is None:
        return ""
    least, most = runs
    return f", probably {plural(most, 'more run') if least == most else f'{least} to {most} more runs'}"


def describe_estimate(estimate: Estimate) -> str:
    """Return what is still to be run, and for how long."""
    kinds = ((estimate.ends, "of the ends"), (estimate.search, "to search"), (estimate.confirm, "to confirm"))
    if not estimate.runs:
        return "no more runs to come"
    parts = ", ".join(f"{count} {what}" for count, what in kinds if count)
    built = f", {plural(estimate.builds, 'build')}" if estimate.builds else ""
    left = "" if estimate.seconds is None else f": {duration(estimate.seconds)}"
    return f"about {plural(estimate.runs, 'run')} to come ({parts}){built}{left}"


_REPORTED_RATE = 0.5
"""The notice about an unexpected end says how many runs show that it behaves as expected more seldom than this."""


def describe_wait(bisection: Bisection, wanted: Judgement) -> str | None:
    """Return how often an end is run that never shows `wanted`, and what that many runs exclude.

    Return None where it is not run again.
    """
    most = wait_limit(bisection, wanted)
    if most is None:
        return None
    verb, shown = ("passes", "failures") if wanted is Judgement.GOOD else ("fails", "passes")
    runs, rate, rarer = most, highest_rate(most), ""
    if (few := runs_excluding(_REPORTED_RATE)) <= most:
        runs, rate, rarer = few, _REPORTED_RATE, f", {most} in fewer than {round(100 * highest_rate(most))} %"
    times = f"{plural(most, 'time')}{_wait_condition(bisection, wanted)}"
    return (
        f"is run until it {verb}, at most {times}: {runs} {shown} in a row show "
        f"that it {verb} in fewer than {round(100 * rate)} % of its runs{rarer} (99 %)"
    )


def _wait_condition(bisection: Bisection, wanted: Judgement) -> str:
    """Return the condition of a wait, where the other end has not run yet. Two ends that behave alike end the
    bisection."""
    search = bisection.state.search
    assert search is not None
    other, does = (
        (failing_end(search.loaded), "the bad end fails")
        if wanted is Judgement.GOOD
        else (passing_end(search.loaded), "the good end passes")
    )
    return "" if bisection.known.log.probes_for(other.content) else f", if {does}"


def describe_waits(bisection: Bisection) -> str | None:
    """Return how often either end is run if it behaves unexpectedly. Return None where that is unknown."""
    good, bad = (wait_limit(bisection, wanted) for wanted in (Judgement.GOOD, Judgement.BAD))
    if good is None or bad is None:
        return None
    return f"a good end that fails is run up to {plural(good, 'time')}, a bad one that passes {bad}"
